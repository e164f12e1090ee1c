//! Values of scenario files that are checked as they are read.

use dumbwaiter_block::{Ioprio, Nanos};
use dumbwaiter_controllers::io_max::{Rates, with_limits};
use dumbwaiter_text::units::{self, BareTime, Prefixes};
use dumbwaiter_workloads::generate::Scalar;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A time as text or a number of seconds.
pub(crate) struct Time(pub(crate) Nanos);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = Scalar::deserialize(deserializer)?.text();
        units::time(&text, BareTime::Seconds).map(Time).map_err(D::Error::custom)
    }
}

/// Limits in the words of `io.max`, of reads and of writes.
pub(crate) struct IoMax(pub(crate) [Rates; 2]);

impl<'de> Deserialize<'de> for IoMax {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IoMax, D::Error> {
        let text = String::deserialize(deserializer)?;
        io_max(&text).map(IoMax).map_err(|why| D::Error::custom(format!("io_max: {why}")))
    }
}

/// Limits as the kernel writes them, with sizes such as `2MiB` for bytes per second.
fn io_max(text: &str) -> Result<[Rates; 2], String> {
    text.split_whitespace().try_fold(Default::default(), |limits, part| match part.split_once('=') {
        Some((key @ ("rbps" | "wbps"), size)) if size != "max" => {
            let bytes = units::size(size, Prefixes::Plain).map_err(|why| format!("{key}: {why}"))?;
            with_limits(limits, &format!("{key}={bytes}"))
        }
        _ => with_limits(limits, part),
    })
}

/// A number of 64 bits; TOML integers have 63, so strings are accepted too.
pub(crate) struct Seed(pub(crate) u64);

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seed, D::Error> {
        units::count(&Scalar::deserialize(deserializer)?.text()).map(Seed).map_err(D::Error::custom)
    }
}

/// A number of bytes: a number, or text with a suffix such as `10M`.
pub(crate) struct Bytes(pub(crate) u64);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = Scalar::deserialize(deserializer)?.text();
        units::size(&text, Prefixes::Plain).map(Bytes).map_err(D::Error::custom)
    }
}

/// A tenant weight from 1 to 10000.
pub(crate) struct Weight(pub(crate) u32);

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Weight, D::Error> {
        let text = Scalar::deserialize(deserializer)?.text();
        let weight = text.parse().ok().filter(|w| (1..=10_000).contains(w));
        weight.map(Weight).ok_or_else(|| D::Error::custom(format!("{text:?} is not a weight from 1 to 10000")))
    }
}

/// An I/O priority such as `be/4`.
pub(crate) struct Priority(pub(crate) Ioprio);

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Priority, D::Error> {
        let text = String::deserialize(deserializer)?;
        let ioprio = Ioprio::parse(&text);
        let expected = || D::Error::custom(format!("{text:?} is not an I/O priority such as rt/0, be/4 or idle"));
        ioprio.map(Priority).ok_or_else(expected)
    }
}
