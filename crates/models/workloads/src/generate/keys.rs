//! Options of a job by name: one parser and one formatter for fio job files, scenario files and JSON.

use dumbwaiter_block::Nanos;
use dumbwaiter_block::hint::{nearest, suggest};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::JobSpec;
use super::parse::{
    Parsed, at_least_one, between, block_size, delay, distribution, extent, niceness, pattern, per_dir, switch,
    whole_percent, wrong,
};
use super::value::{
    BlockSize, BurstProcess, Distribution, Engine, PerDir, RateProcess, Sequencer, SubmitMode, ThinkBlocks,
};
use dumbwaiter_text::units::{self, BareTime, Prefixes, UnitError};

/// Why an option could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No option of this name.
    #[error("unknown option `{key}`{}", suggest(*.nearest))]
    Unknown {
        /// The name.
        key: String,
        /// The most similar name.
        nearest: Option<&'static str>,
    },
    /// The option does not accept the value.
    #[error("{key}: {value}")]
    Value {
        /// The option.
        key: String,
        /// The value and the expected form.
        value: UnitError,
    },
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
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

impl JobSpec {
    /// The canonical name of every option; [`JobSpec::ALIASES`] has the others.
    pub const KEYS: &'static [&'static str] = &[
        "rw",
        "rw_sequencer",
        "rwmixread",
        "bs",
        "bsrange",
        "bssplit",
        "bs_unaligned",
        "blockalign",
        "offset",
        "offset_increment",
        "offset_align",
        "size",
        "io_size",
        "number_ios",
        "loops",
        "time_based",
        "runtime",
        "startdelay",
        "ramp_time",
        "ioengine",
        "direct",
        "sync",
        "hipri",
        "iodepth",
        "iodepth_low",
        "iodepth_batch",
        "iodepth_batch_complete_min",
        "thinktime",
        "thinktime_spin",
        "thinktime_blocks",
        "thinktime_blocks_type",
        "thinktime_iotime",
        "rate",
        "rate_iops",
        "io_submit_mode",
        "rate_process",
        "rate_ignore_thinktime",
        "burst_on",
        "burst_off",
        "burst_process",
        "random_distribution",
        "percentage_random",
        "norandommap",
        "randseed",
        "randrepeat",
        "allrandrepeat",
        "fio_job",
        "fsync",
        "fdatasync",
        "end_fsync",
        "prioclass",
        "prio",
        "nice",
        "cmdprio_percentage",
        "cmdprio_class",
        "cmdprio",
    ];

    /// Other names of options.
    pub const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("readwrite", "rw"),
        ("blocksize", "bs"),
        ("blocksize_range", "bsrange"),
        ("blocksize_unaligned", "bs_unaligned"),
        ("ba", "blockalign"),
        ("io_limit", "io_size"),
        ("start_delay", "startdelay"),
        ("timeout", "runtime"),
        ("iodepth_batch_submit", "iodepth_batch"),
        ("iodepth_batch_complete", "iodepth_batch_complete_min"),
        ("rwmixwrite", "rwmixread"),
        ("buffered", "direct"),
    ];

    /// Other names of options.
    const SYNONYMS: &'static [(&'static str, &'static str)] = &[
        ("block", "bs"),
        ("block_size", "bs"),
        ("iosize", "bs"),
        ("request_size", "bs"),
        ("request_bytes", "bs"),
        ("qd", "iodepth"),
        ("depth", "iodepth"),
        ("queue_depth", "iodepth"),
        ("jobs", "numjobs"),
        ("num_jobs", "numjobs"),
        ("processes", "numjobs"),
        ("threads", "numjobs"),
        ("iops", "rate_iops"),
        ("io_rate", "rate_iops"),
        ("bandwidth", "rate"),
        ("max_rate", "rate"),
        ("access", "rw"),
        ("mode", "rw"),
        ("op", "rw"),
        ("pattern", "rw"),
        ("type", "rw"),
        ("workload", "rw"),
        ("rwmix", "rwmixread"),
        ("read_percent", "rwmixread"),
        ("mix", "rwmixread"),
        ("engine", "ioengine"),
        ("think", "thinktime"),
        ("think_time", "thinktime"),
        ("delay", "startdelay"),
        ("distribution", "random_distribution"),
        ("seed", "randseed"),
        ("span", "size"),
        ("working_set", "size"),
    ];

    /// The option that people or other tools call by this name, which is no option.
    pub fn synonym(word: &str) -> Option<&'static str> {
        let word = word.to_ascii_lowercase().replace('-', "_");
        JobSpec::SYNONYMS.iter().find(|(other, _)| *other == word).map(|(_, option)| *option)
    }

    /// Whether this is the name of a job option.
    pub fn is_key(key: &str) -> bool {
        JobSpec::KEYS.contains(&key) || JobSpec::ALIASES.iter().any(|(alias, _)| *alias == key)
    }

    /// Sets the option `key` from its text, as fio reads it.
    pub fn set(&mut self, key: &str, text: &str, prefixes: Prefixes) -> Result<(), OptionError> {
        if !JobSpec::is_key(key) {
            return Err(OptionError::Unknown {
                key: key.to_string(),
                nearest: JobSpec::synonym(key).or_else(|| nearest(key, JobSpec::KEYS.iter().copied())),
            });
        }
        self.read(key, text, prefixes).map_err(|value| OptionError::Value { key: key.to_string(), value })
    }

    /// Sets the option `key`, which exists. Long because it has one arm for each option of fio.
    fn read(&mut self, key: &str, text: &str, p: Prefixes) -> Parsed<()> {
        let size = |t: &str| units::size(t, p);
        let bare_us = |t: &str| units::time(t, BareTime::Microseconds);
        let bare_s = |t: &str| units::time(t, BareTime::Seconds);
        match key {
            "rw" | "readwrite" => self.rw = pattern(text, p)?,
            "rw_sequencer" => {
                self.rw_sequencer = match text.trim() {
                    "sequential" => Sequencer::Sequential,
                    "identical" => Sequencer::Identical,
                    _ => return wrong(text, "sequential or identical"),
                }
            }
            "rwmixread" => self.rwmixread = whole_percent(text)?,
            "rwmixwrite" => self.rwmixread = 100 - whole_percent(text)?,
            "bs" | "blocksize" => self.bs = per_dir(text, PerDir::all(BlockSize::Fixed(4096)), |t| block_size(t, p))?,
            "bsrange" | "blocksize_range" => {
                let dashes = text.replace('/', ",").replace(':', "-");
                self.bs = per_dir(&dashes, self.bs.clone(), |t| block_size(t, p))?
            }
            "bssplit" => self.bs = per_dir(text, self.bs.clone(), |t| block_size(t, p))?,
            "bs_unaligned" | "blocksize_unaligned" => self.bs_unaligned = switch(text)?,
            "blockalign" | "ba" => self.blockalign = per_dir(text, PerDir::all(None), |t| size(t).map(Some))?,
            "offset" => self.offset = extent(text, p)?,
            "offset_increment" => self.offset_increment = extent(text, p)?,
            "offset_align" => self.offset_align = size(text)?,
            "size" => self.size = Some(extent(text, p)?),
            "io_size" | "io_limit" => self.io_size = Some(extent(text, p)?),
            "number_ios" => self.number_ios = Some(size(text)?),
            "loops" => self.loops = Some(at_least_one(text)?),
            "time_based" => self.time_based = Some(switch(text)?),
            "runtime" | "timeout" => self.runtime = Some(bare_s(text)?).filter(|t| *t > Nanos::ZERO),
            "startdelay" | "start_delay" => self.startdelay = delay(text)?,
            "ramp_time" => self.ramp_time = bare_s(text)?,
            "ioengine" => {
                let name = text.trim();
                self.ioengine = match Engine::named(name) {
                    Some(engine) => engine,
                    None => {
                        let known = "an I/O engine that does block I/O, such as io_uring, libaio, posixaio, sync, psync, pvsync2 or mmap";
                        return wrong(text, known);
                    }
                }
            }
            "direct" => self.direct = switch(text)?,
            "buffered" => self.direct = !switch(text)?,
            "sync" => {
                self.sync = match text.trim() {
                    "sync" | "dsync" => true,
                    "none" => false,
                    other => switch(other).or_else(|_| wrong(text, "none, sync or dsync"))?,
                }
            }
            "hipri" => self.hipri = switch(text)?,
            "iodepth" => self.iodepth = between(text, 1, 1 << 20)?,
            "iodepth_low" => self.iodepth_low = Some(between(text, 0, u32::MAX)?).filter(|n| *n > 0),
            "iodepth_batch" | "iodepth_batch_submit" => self.iodepth_batch = between(text, 0, u32::MAX)?,
            "iodepth_batch_complete_min" | "iodepth_batch_complete" => {
                self.iodepth_batch_complete_min = between(text, 0, u32::MAX)?
            }
            "thinktime" => self.thinktime = bare_us(text)?,
            "thinktime_spin" => self.thinktime_spin = bare_us(text)?,
            "thinktime_blocks" => self.thinktime_blocks = at_least_one(text)?,
            "thinktime_blocks_type" => {
                self.thinktime_blocks_type = match text.trim() {
                    "complete" => ThinkBlocks::Complete,
                    "issue" => ThinkBlocks::Issue,
                    _ => return wrong(text, "complete or issue"),
                }
            }
            "thinktime_iotime" => self.thinktime_iotime = Some(bare_s(text)?).filter(|t| *t > Nanos::ZERO),
            "rate" => {
                let parse = |t: &str| units::rate(t, p).map(|n| Some(n).filter(|n| *n > 0));
                self.rate = per_dir(text, PerDir::all(None), parse)?
            }
            "rate_iops" => {
                let parse = |t: &str| size(t).map(|n| Some(n).filter(|n| *n > 0));
                self.rate_iops = per_dir(text, PerDir::all(None), parse)
                    .or_else(|e| wrong(&e.text, "a number of I/Os per second"))?
            }
            "io_submit_mode" => {
                self.io_submit_mode = match text.trim() {
                    "inline" => SubmitMode::Inline,
                    "offload" => SubmitMode::Offload,
                    _ => return wrong(text, "inline or offload"),
                }
            }
            "rate_process" => {
                self.rate_process = match text.trim() {
                    "linear" => RateProcess::Linear,
                    "poisson" => RateProcess::Poisson,
                    _ => return wrong(text, "linear or poisson"),
                }
            }
            "rate_ignore_thinktime" => self.rate_ignore_thinktime = switch(text)?,
            "burst_on" => self.burst_on = bare_s(text)?,
            "burst_off" => self.burst_off = bare_s(text)?,
            "burst_process" => {
                self.burst_process = match text.trim() {
                    "fixed" => BurstProcess::Fixed,
                    "exponential" => BurstProcess::Exponential,
                    _ => return wrong(text, "fixed or exponential"),
                }
            }
            "random_distribution" => {
                self.random_distribution = per_dir(text, PerDir::all(Distribution::Uniform), |t| distribution(t, p))?
            }
            "percentage_random" => self.percentage_random = per_dir(text, PerDir::all(100), whole_percent)?,
            "norandommap" => self.norandommap = switch(text)?,
            "randseed" => self.randseed = Some(units::count(text)?),
            "randrepeat" => self.randrepeat = switch(text)?,
            "allrandrepeat" => self.allrandrepeat = switch(text)?,
            "fio_job" => self.fio_job = Some(between(text, 1, 1 << 20)?),
            "fsync" => self.fsync = between(text, 0, u32::MAX)?,
            "fdatasync" => self.fdatasync = between(text, 0, u32::MAX)?,
            "end_fsync" => self.end_fsync = switch(text)?,
            "prioclass" => self.prioclass = Some(between(text, 0u8, 3)?),
            "prio" => self.prio = Some(between(text, 0u8, 7)?),
            "nice" => self.nice = niceness(text)?,
            "cmdprio_percentage" => self.cmdprio_percentage = per_dir(text, PerDir::all(0), whole_percent)?,
            "cmdprio_class" => self.cmdprio_class = per_dir(text, PerDir::all(1), |t| between(t, 0u8, 3))?,
            "cmdprio" => self.cmdprio = per_dir(text, PerDir::all(0), |t| between(t, 0u8, 7))?,
            _ => unreachable!("{key:?} is in the list of keys"),
        }
        Ok(())
    }

    /// The options that differ from [`JobSpec::default`], in the order of [`JobSpec::KEYS`]. [`JobSpec::set`] parses
    /// them back to the same job.
    pub fn entries(&self) -> Vec<(&'static str, Scalar)> {
        let default = JobSpec::default();
        let differs = |key: &&str| self.scalar(key).filter(|value| default.scalar(key).as_ref() != Some(value));
        JobSpec::KEYS.iter().filter_map(|key| differs(key).map(|value| (*key, value))).collect()
    }

    /// The value of an option as it is written; `None` if it is not set. Long because it has one arm for each option of fio.
    fn scalar(&self, key: &str) -> Option<Scalar> {
        let text = |t: &dyn std::fmt::Display| Some(Scalar::Text(t.to_string()));
        let time = |t: Nanos| Some(Scalar::Text(units::format_time(t)));
        let bool = |b: bool| Some(Scalar::Bool(b));
        let number = |n: u64| Some(Scalar::Number(n));
        let some = |n: Option<u64>| n.map(Scalar::Number);
        let optional = |dirs: &PerDir<Option<u64>>, format: &dyn Fn(u64) -> String| {
            let each = dirs.map(|n| n.map_or_else(String::new, format));
            let text = match dirs.each().iter().all(|n| n.is_none()) {
                true => return None,
                false => each.to_string(),
            };
            Some(Scalar::Text(text))
        };
        match key {
            "rw" => text(&self.rw),
            "rw_sequencer" => match self.rw_sequencer {
                Sequencer::Sequential => text(&"sequential"),
                Sequencer::Identical => text(&"identical"),
            },
            "rwmixread" => number(self.rwmixread.into()),
            "bs" => text(&self.bs),
            "bs_unaligned" => bool(self.bs_unaligned),
            "blockalign" => optional(&self.blockalign, &units::format_size),
            "offset" => text(&self.offset),
            "offset_increment" => text(&self.offset_increment),
            "offset_align" => text(&units::format_size(self.offset_align)),
            "size" => self.size.and_then(|s| text(&s)),
            "io_size" => self.io_size.and_then(|s| text(&s)),
            "number_ios" => some(self.number_ios),
            "loops" => some(self.loops.map(u64::from)),
            "time_based" => self.time_based.and_then(bool),
            "runtime" | "timeout" => self.runtime.and_then(time),
            "startdelay" if self.startdelay.0 == self.startdelay.1 => time(self.startdelay.0),
            "startdelay" => {
                let (a, b) = self.startdelay;
                text(&format!("{}-{}", units::format_time(a), units::format_time(b)))
            }
            "ramp_time" => time(self.ramp_time),
            "ioengine" => text(&self.ioengine.name),
            "direct" => bool(self.direct),
            "sync" => bool(self.sync),
            "hipri" => bool(self.hipri),
            "iodepth" => number(self.iodepth.into()),
            "iodepth_low" => some(self.iodepth_low.map(u64::from)),
            "iodepth_batch" => number(self.iodepth_batch.into()),
            "iodepth_batch_complete_min" => number(self.iodepth_batch_complete_min.into()),
            "thinktime" => time(self.thinktime),
            "thinktime_spin" => time(self.thinktime_spin),
            "thinktime_blocks" => number(self.thinktime_blocks.into()),
            "thinktime_blocks_type" => match self.thinktime_blocks_type {
                ThinkBlocks::Complete => text(&"complete"),
                ThinkBlocks::Issue => text(&"issue"),
            },
            "thinktime_iotime" => self.thinktime_iotime.and_then(time),
            "rate" => optional(&self.rate, &units::format_size),
            "rate_iops" => optional(&self.rate_iops, &|n| n.to_string()),
            "io_submit_mode" => match self.io_submit_mode {
                SubmitMode::Inline => text(&"inline"),
                SubmitMode::Offload => text(&"offload"),
            },
            "rate_process" => match self.rate_process {
                RateProcess::Linear => text(&"linear"),
                RateProcess::Poisson => text(&"poisson"),
            },
            "rate_ignore_thinktime" => bool(self.rate_ignore_thinktime),
            "burst_on" => time(self.burst_on),
            "burst_off" => time(self.burst_off),
            "burst_process" => match self.burst_process {
                BurstProcess::Fixed => text(&"fixed"),
                BurstProcess::Exponential => text(&"exponential"),
            },
            "random_distribution" => text(&self.random_distribution),
            "percentage_random" => text(&self.percentage_random),
            "norandommap" => bool(self.norandommap),
            "randseed" => some(self.randseed),
            "randrepeat" => bool(self.randrepeat),
            "allrandrepeat" => bool(self.allrandrepeat),
            "fio_job" => some(self.fio_job.map(u64::from)),
            "fsync" => number(self.fsync.into()),
            "fdatasync" => number(self.fdatasync.into()),
            "end_fsync" => bool(self.end_fsync),
            "prioclass" => some(self.prioclass.map(u64::from)),
            "prio" => some(self.prio.map(u64::from)),
            "nice" => text(&self.nice),
            "cmdprio_percentage" => text(&self.cmdprio_percentage),
            "cmdprio_class" => text(&self.cmdprio_class),
            "cmdprio" => text(&self.cmdprio),
            _ => None,
        }
    }
}

impl Serialize for JobSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.entries();
        let mut map = serializer.serialize_map(Some(entries.len()))?;
        for (key, value) in entries {
            map.serialize_entry(key, &value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for JobSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JobSpec, D::Error> {
        struct Options;
        impl<'de> Visitor<'de> for Options {
            type Value = JobSpec;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the options of a job")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JobSpec, A::Error> {
                let mut spec = JobSpec::default();
                while let Some((key, value)) = map.next_entry::<String, Scalar>()? {
                    spec.set(&key, &value.text(), Prefixes::Plain).map_err(serde::de::Error::custom)?;
                }
                Ok(spec)
            }
        }
        deserializer.deserialize_map(Options)
    }
}
