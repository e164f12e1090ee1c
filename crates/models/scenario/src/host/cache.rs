//! Settings of the page cache in a scenario file.

use dumbwaiter_block::Nanos;
use dumbwaiter_text::units::{self, Prefixes};
use dumbwaiter_workloads::generate::Scalar;
use dumbwaiter_workloads::page_cache::{Amount, CacheSpec};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Host};

/// Largest read-ahead window, KiB: 1 GiB.
const READ_AHEAD_KB_MAX: u32 = 1 << 20;

/// Longest times of write-back, 1/100 s: an hour.
const CENTISECONDS_MAX: u32 = 360_000;

/// Memory in bytes, at least a mebibyte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSize(pub u64);

impl<'de> Deserialize<'de> for CacheSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CacheSize, D::Error> {
        let text = Scalar::deserialize(deserializer)?.text();
        let bytes = units::size(&text, Prefixes::Plain).map_err(D::Error::custom)?;
        if bytes < 1 << 20 {
            return Err(D::Error::custom(format!("{text:?} is not a size of at least 1MiB")));
        }
        Ok(CacheSize(bytes))
    }
}

impl Serialize for CacheSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&units::format_size(self.0))
    }
}

impl Host {
    /// Memory of the page cache where buffered jobs need one and the scenario names none: 8 GiB.
    pub const PAGE_CACHE_DEFAULT: CacheSize = CacheSize(8 << 30);

    /// The page cache of buffered jobs.
    pub fn cache(&self) -> CacheSpec {
        let default = CacheSpec::new(self.page_cache.unwrap_or(Host::PAGE_CACHE_DEFAULT).0);
        let amount = |ratio: Option<u32>, bytes: Option<CacheSize>, default| {
            ratio.map(Amount::Percent).or(bytes.map(|size| Amount::Bytes(size.0))).unwrap_or(default)
        };
        let centiseconds = |count: Option<u32>, default| count.map_or(default, |n| Nanos::from_ms(10 * u64::from(n)));
        CacheSpec {
            read_ahead: self.read_ahead_kb.map_or(default.read_ahead, |kib| u64::from(kib) << 10),
            dirty: amount(self.dirty_ratio, self.dirty_bytes, default.dirty),
            background: amount(self.dirty_background_ratio, self.dirty_background_bytes, default.background),
            expire: centiseconds(self.dirty_expire_centisecs, default.expire),
            interval: centiseconds(self.dirty_writeback_centisecs, default.interval),
            hz: self.hz,
            ..default
        }
    }

    /// Checks the settings of the page cache.
    pub(crate) fn validate_cache(&self) -> Result<(), Error> {
        let ratios = [("dirty_ratio", self.dirty_ratio), ("dirty_background_ratio", self.dirty_background_ratio)];
        let bytes = [("dirty_bytes", self.dirty_bytes), ("dirty_background_bytes", self.dirty_background_bytes)];
        for ((key, ratio), (other, size)) in ratios.into_iter().zip(bytes) {
            if let Some(percent) = ratio.filter(|percent| !(1..=100).contains(percent)) {
                let reason = format!("{percent} is not a percentage of the page cache's memory from 1 to 100");
                return Err(Error::invalid(format!("host.{key}"), reason));
            }
            if ratio.is_some() && size.is_some() {
                let reason = format!("host.{other} sets the same threshold; give one of the two");
                return Err(Error::invalid(format!("host.{key}"), reason));
            }
            let memory = self.page_cache.unwrap_or(Host::PAGE_CACHE_DEFAULT).0;
            if let Some(CacheSize(size)) = size.filter(|size| size.0 > memory) {
                let (size, memory) = (units::format_size(size), units::format_size(memory));
                let reason = format!("{size} is more than the page cache's memory of {memory} (host.page_cache)");
                return Err(Error::invalid(format!("host.{other}"), reason));
            }
        }
        let centiseconds = [
            ("dirty_expire_centisecs", self.dirty_expire_centisecs),
            ("dirty_writeback_centisecs", self.dirty_writeback_centisecs),
        ];
        for (key, count) in centiseconds {
            if let Some(count) = count.filter(|count| *count > CENTISECONDS_MAX) {
                let reason = format!("{count} is not a number of 1/100 s from 0 to {CENTISECONDS_MAX} (an hour)");
                return Err(Error::invalid(format!("host.{key}"), reason));
            }
        }
        if let Some(kib) = self.read_ahead_kb.filter(|kib| *kib > READ_AHEAD_KB_MAX) {
            let reason = format!("{kib} is not a number of KiB from 0 to {READ_AHEAD_KB_MAX}");
            return Err(Error::invalid("host.read_ahead_kb", reason));
        }
        Ok(())
    }
}
