//! Settings of the page cache in a scenario file.

use dumbwaiter_block::Nanos;
use dumbwaiter_text::units::{self, BareTime, Prefixes};
use dumbwaiter_workloads::generate::Scalar;
use dumbwaiter_workloads::page_cache::CacheSpec;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Host;

/// Memory in bytes, at least a megabyte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSize(pub u64);

/// Age at which dirty pages are written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay(pub Nanos);

impl<'de> Deserialize<'de> for CacheSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CacheSize, D::Error> {
        let text = Scalar::deserialize(deserializer)?.text();
        let bytes = units::size(&text, Prefixes::Plain).map_err(D::Error::custom)?;
        if bytes < 1 << 20 {
            return Err(D::Error::custom(format!("{text:?} is not a page cache of at least 1MiB")));
        }
        Ok(CacheSize(bytes))
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Delay, D::Error> {
        let text = Scalar::deserialize(deserializer)?.text();
        units::time(&text, BareTime::Seconds).map(Delay).map_err(D::Error::custom)
    }
}

impl Serialize for CacheSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&units::format_size(self.0))
    }
}

impl Serialize for Delay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&units::format_time(self.0))
    }
}

impl Host {
    /// The page cache, if there is one.
    pub fn cache(&self) -> Option<CacheSpec> {
        let writeback_delay = self.writeback_delay.map_or(Nanos::from_secs(30), |delay| delay.0);
        let readahead = self.readahead;
        self.page_cache.map(|size| CacheSpec { bytes: size.0, readahead, writeback_delay })
    }
}
