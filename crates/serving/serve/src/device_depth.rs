//! How many requests a device may hold, as a setting.

use std::fmt;
use std::str::FromStr;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most requests that a device may hold.
const LARGEST: u32 = 4096;

/// How many requests a device may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceDepth {
    /// 32, or what the device can.
    #[default]
    Default,
    /// This many, 1 to 4096, or what the device can.
    Fixed(u32),
    /// The smallest depth that moves at least 95 % of what the device can, found by trials while it serves.
    Auto,
}

impl DeviceDepth {
    /// A number of requests, checked.
    pub(crate) fn fixed(depth: u64) -> Result<DeviceDepth, String> {
        match u32::try_from(depth) {
            Ok(depth @ 1..=LARGEST) => Ok(DeviceDepth::Fixed(depth)),
            _ => Err(format!("device depth {depth}: expected 1 to {LARGEST}, or auto")),
        }
    }
}

impl FromStr for DeviceDepth {
    type Err = String;

    fn from_str(text: &str) -> Result<DeviceDepth, String> {
        match text {
            "auto" => Ok(DeviceDepth::Auto),
            "default" => Ok(DeviceDepth::Default),
            number => {
                let depth = number.parse();
                depth
                    .map_err(|_| format!("device depth `{number}`: expected 1 to {LARGEST}, or auto"))
                    .and_then(DeviceDepth::fixed)
            }
        }
    }
}

impl Serialize for DeviceDepth {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            DeviceDepth::Default => to.serialize_str("default"),
            DeviceDepth::Fixed(depth) => to.serialize_u32(*depth),
            DeviceDepth::Auto => to.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for DeviceDepth {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<DeviceDepth, D::Error> {
        from.deserialize_any(DepthVisitor)
    }
}

struct DepthVisitor;

impl Visitor<'_> for DepthVisitor {
    type Value = DeviceDepth;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a device depth from 1 to {LARGEST}, or \"auto\"")
    }

    fn visit_i64<E: serde::de::Error>(self, depth: i64) -> Result<DeviceDepth, E> {
        u64::try_from(depth)
            .map_err(|_| E::invalid_value(Unexpected::Signed(depth), &self))
            .and_then(|depth| self.visit_u64(depth))
    }

    fn visit_u64<E: serde::de::Error>(self, depth: u64) -> Result<DeviceDepth, E> {
        DeviceDepth::fixed(depth).map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<DeviceDepth, E> {
        text.parse().map_err(E::custom)
    }
}
