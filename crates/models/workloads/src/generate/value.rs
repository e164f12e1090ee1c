//! Types of the options of a job.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use dumbwaiter_text::units;

/// Indices of the directions in [`PerDir::each`].
pub(super) const READ: usize = 0;
pub(super) const WRITE: usize = 1;
pub(super) const TRIM: usize = 2;

/// One value each for reads, writes and trims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerDir<T> {
    /// For reads.
    pub read: T,
    /// For writes.
    pub write: T,
    /// For trims.
    pub trim: T,
}

impl<T> PerDir<T> {
    /// The same value for all three.
    pub fn all(value: T) -> PerDir<T>
    where
        T: Clone,
    {
        PerDir { read: value.clone(), write: value.clone(), trim: value }
    }

    /// Reads, writes, trims.
    pub fn each(&self) -> [&T; 3] {
        [&self.read, &self.write, &self.trim]
    }

    /// Applies `f` to each value.
    pub fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> PerDir<U> {
        PerDir { read: f(&self.read), write: f(&self.write), trim: f(&self.trim) }
    }
}

/// One value if all are equal, else three separated by commas.
impl<T: fmt::Display + PartialEq> fmt::Display for PerDir<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.read == self.write && self.write == self.trim {
            true => write!(f, "{}", self.read),
            false => write!(f, "{},{},{}", self.read, self.write, self.trim),
        }
    }
}

/// Order of the offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// One after the other.
    #[default]
    Sequential,
    /// Drawn from the region.
    Random,
}

/// Directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mix {
    /// Reads.
    #[default]
    Read,
    /// Writes.
    Write,
    /// Discards.
    Trim,
    /// Reads and writes by `rwmixread`.
    ReadWrite,
    /// Each block is discarded, then written.
    TrimWrite,
}

/// Value of `rw`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// Order of the offsets.
    pub access: Access,
    /// Directions.
    pub mix: Mix,
    /// The modifier after the colon, by default 0. Sequential: bytes added to each offset, negative to go backwards.
    /// Random: I/Os per random offset.
    pub modifier: i64,
}

impl Pattern {
    /// The names of patterns.
    pub(crate) const NAMES: [(&'static str, Access, Mix); 11] = [
        ("read", Access::Sequential, Mix::Read),
        ("write", Access::Sequential, Mix::Write),
        ("trim", Access::Sequential, Mix::Trim),
        ("randread", Access::Random, Mix::Read),
        ("randwrite", Access::Random, Mix::Write),
        ("randtrim", Access::Random, Mix::Trim),
        ("rw", Access::Sequential, Mix::ReadWrite),
        ("readwrite", Access::Sequential, Mix::ReadWrite),
        ("randrw", Access::Random, Mix::ReadWrite),
        ("trimwrite", Access::Sequential, Mix::TrimWrite),
        ("randtrimwrite", Access::Random, Mix::TrimWrite),
    ];
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Pattern::NAMES.iter().find(|(_, access, mix)| (*access, *mix) == (self.access, self.mix));
        f.write_str(name.expect("every pair has a name").0)?;
        match (self.modifier, self.access) {
            (0, _) => Ok(()),
            (n, Access::Random) => write!(f, ":{n}"),
            (n, Access::Sequential) => {
                write!(f, ":{}{}", if n < 0 { "-" } else { "" }, units::format_size(n.unsigned_abs()))
            }
        }
    }
}

/// Effect of the modifier of a random pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sequencer {
    /// I/Os after a random offset continue sequentially.
    #[default]
    Sequential,
    /// They repeat the offset.
    Identical,
}

/// Block sizes, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockSize {
    /// One size.
    Fixed(u64),
    /// Uniform over the multiples of the minimum from the first to the second.
    Range(u64, u64),
    /// Each size with its percentage; they sum to 100.
    Split(Vec<(u64, f64)>),
    /// Log-normal, in multiples of `min`, clamped to `min..=max`.
    LogNormal {
        /// Median before clamping.
        median: u64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
}

impl BlockSize {
    /// Smallest size.
    pub fn min(&self) -> u64 {
        match self {
            BlockSize::Fixed(n) => *n,
            BlockSize::Range(min, _) | BlockSize::LogNormal { min, .. } => *min,
            BlockSize::Split(parts) => parts.iter().map(|(n, _)| *n).min().unwrap_or(0),
        }
    }

    /// Largest size.
    pub fn max(&self) -> u64 {
        match self {
            BlockSize::Fixed(n) => *n,
            BlockSize::Range(_, max) | BlockSize::LogNormal { max, .. } => *max,
            BlockSize::Split(parts) => parts.iter().map(|(n, _)| *n).max().unwrap_or(0),
        }
    }
}

/// In the syntax of `bs`: `4KiB`, `4KiB-64KiB`, `4KiB/60:16KiB/40`, `32KiB:1:4KiB-256KiB`.
impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = units::format_size;
        match self {
            BlockSize::Fixed(n) => f.write_str(&size(*n)),
            BlockSize::Range(min, max) => write!(f, "{}-{}", size(*min), size(*max)),
            BlockSize::Split(parts) => {
                for (i, (n, percent)) in parts.iter().enumerate() {
                    write!(f, "{}{}/{percent}", if i > 0 { ":" } else { "" }, size(*n))?;
                }
                Ok(())
            }
            BlockSize::LogNormal { median, sigma, min, max } => {
                write!(f, "{}:{sigma}:{}-{}", size(*median), size(*min), size(*max))
            }
        }
    }
}

/// An offset or a length on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// In bytes.
    Bytes(u64),
    /// In percent of the device.
    Percent(f64),
}

/// No bytes: fio's word for "not given".
impl Default for Extent {
    fn default() -> Extent {
        Extent::Bytes(0)
    }
}

impl Extent {
    /// In bytes, on a device of `device` bytes.
    pub(crate) fn of(self, device: u64) -> u64 {
        match self {
            Extent::Bytes(n) => n,
            Extent::Percent(p) => (device as f64 * (p / 100.0)) as u64,
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Bytes(n) => f.write_str(&units::format_size(*n)),
            Extent::Percent(p) => write!(f, "{p}%"),
        }
    }
}

/// A zone of a zoned distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    /// Percentage of the accesses in it.
    pub access: f64,
    /// Its length: percent of the region, or bytes.
    pub length: Extent,
}

/// Distribution of random offsets.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution {
    /// Uniform.
    #[default]
    Uniform,
    /// Zipf's law with this theta. The hot blocks are scattered over the region; with a centre (0 to 1) the hottest lies there.
    Zipf(f64, Option<f64>),
    /// A fraction 1 - h of the accesses goes to a fraction h of the blocks, recursively. Centre as for Zipf.
    Pareto(f64, Option<f64>),
    /// What fio calls normal: popularity falls on both sides of the hottest block, whose place is the centre; blocks are
    /// scattered as for Zipf. The value, in percent of the region, is the width of a uniform draw beside the mean of twelve.
    Normal(f64, Option<f64>),
    /// Zones of the region with their percentages.
    Zoned(Vec<Zone>),
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value, centre) = match self {
            Distribution::Uniform => return f.write_str("random"),
            Distribution::Zipf(theta, centre) => ("zipf", theta, centre),
            Distribution::Pareto(h, centre) => ("pareto", h, centre),
            Distribution::Normal(deviation, centre) => ("normal", deviation, centre),
            Distribution::Zoned(zones) => {
                let absolute = zones.iter().any(|z| matches!(z.length, Extent::Bytes(_)));
                f.write_str(if absolute { "zoned_abs" } else { "zoned" })?;
                for zone in zones {
                    match zone.length {
                        Extent::Percent(p) => write!(f, ":{}/{p}", zone.access)?,
                        Extent::Bytes(n) => write!(f, ":{}/{}", zone.access, units::format_size(n))?,
                    }
                }
                return Ok(());
            }
        };
        write!(f, "{name}:{value}")?;
        centre.map_or(Ok(()), |centre| write!(f, ":{centre}"))
    }
}

/// Arrivals under a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateProcess {
    /// Evenly spaced; late I/O is caught up.
    #[default]
    Linear,
    /// A Poisson process.
    Poisson,
}

/// The I/Os that `thinktime_blocks` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkBlocks {
    /// Those that have completed and were reaped.
    #[default]
    Complete,
    /// Those that were issued.
    Issue,
}

/// Who submits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubmitMode {
    /// The task itself: ahead of its rate it waits until everything outstanding has completed, and only then sleeps for the
    /// time that was left before. It submits in one go what became due meanwhile.
    Inline,
    /// Threads of their own: each I/O is submitted when it is due, while fewer than `iodepth` are outstanding.
    #[default]
    Offload,
}

/// Lengths of bursts and pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BurstProcess {
    /// Always the same length.
    #[default]
    Fixed,
    /// Exponential with the given means.
    Exponential,
}

/// An I/O engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Its name in fio.
    pub name: &'static str,
    /// Whether it waits for each I/O.
    pub synchronous: bool,
    /// Whether it reaches devices without the kernel's block layer.
    pub bypasses_kernel: bool,
}

impl Engine {
    /// The default of scenarios.
    pub const IO_URING: Engine = Engine { name: "io_uring", synchronous: false, bypasses_kernel: false };
    /// The default of fio.
    pub const PSYNC: Engine = Engine { name: "psync", synchronous: true, bypasses_kernel: false };

    /// Every engine that does block I/O.
    pub(crate) const ALL: [Engine; 21] = {
        const fn sync(name: &'static str) -> Engine {
            Engine { name, ..Engine::PSYNC }
        }
        const fn queued(name: &'static str) -> Engine {
            Engine { name, ..Engine::IO_URING }
        }
        const fn own(name: &'static str) -> Engine {
            Engine { name, synchronous: false, bypasses_kernel: true }
        }
        [
            Engine::IO_URING,
            Engine::PSYNC,
            sync("sync"),
            sync("vsync"),
            sync("pvsync"),
            sync("pvsync2"),
            sync("mmap"),
            sync("splice"),
            queued("libaio"),
            queued("posixaio"),
            queued("solarisaio"),
            queued("windowsaio"),
            own("io_uring_cmd"),
            own("sg"),
            own("libzbc"),
            own("nbd"),
            own("rbd"),
            own("libiscsi"),
            own("libblkio"),
            own("xnvme"),
            own("null"),
        ]
    };

    /// Whether its submitting call sleeps until there is a request for the I/O, as libaio's does.
    pub fn sleeps(&self) -> bool {
        self.synchronous || self.name == "libaio"
    }

    /// The engine of this name, if it does block I/O.
    pub fn named(name: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.name == name)
    }
}

/// A value in a scenario file.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// A number.
    Number(u64),
    /// True or false.
    Bool(bool),
    /// Text, for instance a size with its unit.
    Text(String),
}

impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // TOML integers have 63 bits; a string of digits parses to the same value.
            Scalar::Number(n) if i64::try_from(*n).is_err() => serializer.serialize_str(&n.to_string()),
            Scalar::Number(n) => serializer.serialize_u64(*n),
            Scalar::Bool(b) => serializer.serialize_bool(*b),
            Scalar::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// Reads any scalar as the text of a fio job file.
impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        struct AnyScalar;
        impl Visitor<'_> for AnyScalar {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a text, true or false")
            }
            fn visit_bool<E>(self, b: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(b))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Scalar, E> {
                Ok(Scalar::Number(n))
            }
            fn visit_i64<E>(self, n: i64) -> Result<Scalar, E> {
                Ok(u64::try_from(n).map_or_else(|_| Scalar::Text(n.to_string()), Scalar::Number))
            }
            fn visit_f64<E>(self, n: f64) -> Result<Scalar, E> {
                Ok(Scalar::Text(n.to_string()))
            }
            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_string()))
            }
        }
        deserializer.deserialize_any(AnyScalar)
    }
}

impl Scalar {
    /// The text of a fio job file.
    pub fn text(&self) -> String {
        match self {
            Scalar::Number(n) => n.to_string(),
            Scalar::Bool(b) => u8::from(*b).to_string(),
            Scalar::Text(text) => text.clone(),
        }
    }
}
