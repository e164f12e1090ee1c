//! The options of a job by name: one reader and one writer for fio job files, scenario files and JSON.

use dumbwaiter_block::Nanos;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::JobSpec;
use super::value::{
    Access, BlockSize, BurstProcess, Distribution, Engine, Extent, Pattern, PerDir, RateProcess, Sequencer, Zone,
};
use crate::nearest::nearest;
use crate::units::{self, BareTime, Prefixes, UnitError};

/// Why an option cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No option of this name.
    #[error("unknown option {key:?}{}", did_you_mean(.nearest))]
    Unknown {
        /// The name.
        key: String,
        /// The name that it looks like.
        nearest: Option<&'static str>,
    },
    /// The value is not what the option takes.
    #[error("{key}: {value}")]
    Value {
        /// The option.
        key: String,
        /// The value and what was expected.
        value: UnitError,
    },
}

fn did_you_mean(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
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
            // TOML's integers have 63 bits; texts of digits read back the same.
            Scalar::Number(n) if i64::try_from(*n).is_err() => serializer.serialize_str(&n.to_string()),
            Scalar::Number(n) => serializer.serialize_u64(*n),
            Scalar::Bool(b) => serializer.serialize_bool(*b),
            Scalar::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// Reads any scalar as the text that a fio job file would hold.
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
    /// The text that a fio job file would hold.
    pub fn text(&self) -> String {
        match self {
            Scalar::Number(n) => n.to_string(),
            Scalar::Bool(b) => u8::from(*b).to_string(),
            Scalar::Text(text) => text.clone(),
        }
    }
}

type Parsed<T> = Result<T, UnitError>;

fn wrong<T>(text: &str, expected: impl Into<String>) -> Parsed<T> {
    Err(UnitError { text: text.to_string(), expected: expected.into() })
}

fn at_least_one(text: &str) -> Parsed<u32> {
    between(text, 1, u32::MAX)
}

fn between<T: TryFrom<u64> + Into<u64> + Copy>(text: &str, min: T, max: T) -> Parsed<T> {
    let ok =
        units::count(text).ok().filter(|n| (min.into()..=max.into()).contains(n)).and_then(|n| T::try_from(n).ok());
    ok.map_or_else(|| wrong(text, format!("a whole number from {} to {}", min.into(), max.into())), Ok)
}

/// 1 and 0, true and false; nothing is 1, as fio reads a bare key.
pub(crate) fn switch(text: &str) -> Parsed<bool> {
    match text.trim() {
        "1" | "true" | "" => Ok(true),
        "0" | "false" => Ok(false),
        _ => wrong(text, "true (1) or false (0)"),
    }
}

fn whole_percent(text: &str) -> Parsed<u8> {
    let number = text.trim();
    between(number.strip_suffix('%').unwrap_or(number), 0u8, 100)
        .or_else(|_| wrong(text, "a whole percentage from 0 to 100"))
}

fn number(text: &str, range: std::ops::RangeInclusive<f64>, expected: &str) -> Parsed<f64> {
    let ok = text.trim().parse::<f64>().ok().filter(|x| range.contains(x));
    ok.map_or_else(|| wrong(text, expected), Ok)
}

fn extent(text: &str, prefixes: Prefixes) -> Parsed<Extent> {
    let trimmed = text.trim();
    if trimmed.ends_with('%') {
        return units::percent(trimmed).map(Extent::Percent);
    }
    units::size(trimmed, prefixes)
        .map(Extent::Bytes)
        .or_else(|_| wrong(text, "a size such as 4k, 64KiB or 1.5GiB, or a percentage of the device such as 20%"))
}

/// One to three values with commas between, as fio reads them: a value holds also for the directions after it, unless a comma
/// follows; an empty one leaves the default.
fn per_dir<T: Clone>(text: &str, default: PerDir<T>, parse: impl Fn(&str) -> Parsed<T>) -> Parsed<PerDir<T>> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return wrong(text, "at most three values, for reads, writes and trims");
    }
    let mut values = [default.read, default.write, default.trim];
    for (i, part) in parts.iter().enumerate() {
        if part.trim().is_empty() {
            if parts.len() == 1 {
                parse(part)?;
            }
            continue;
        }
        let value = parse(part)?;
        let last = i + 1 == parts.len();
        for slot in &mut values[i..if last { 3 } else { i + 1 }] {
            *slot = value.clone();
        }
    }
    let [read, write, trim] = values;
    Ok(PerDir { read, write, trim })
}

fn pattern(text: &str, prefixes: Prefixes) -> Parsed<Pattern> {
    let (name, modifier) = text.split_once(':').map_or((text, None), |(name, m)| (name, Some(m.trim())));
    let Some((_, access, mix)) = Pattern::NAMES.into_iter().find(|(n, ..)| *n == name.trim()) else {
        return wrong(
            text,
            "one of read, write, trim, randread, randwrite, randtrim, rw, randrw, trimwrite, randtrimwrite",
        );
    };
    let modifier = match (modifier, access) {
        (None, _) => 0,
        (Some(m), Access::Random) => i64::from(between(m, 1, u32::MAX)?),
        (Some(m), Access::Sequential) => {
            let bytes = units::size(m.strip_prefix('-').unwrap_or(m), prefixes)?;
            let signed = i64::try_from(bytes).map(|n| if m.starts_with('-') { -n } else { n });
            signed.or_else(|_| wrong(text, "an offset modifier below 8 EiB"))?
        }
    };
    Ok(Pattern { access, mix, modifier })
}

/// `min-max`.
fn size_range(text: &str, prefixes: Prefixes) -> Parsed<(u64, u64)> {
    let Some((a, b)) = text.split_once('-') else {
        return wrong(text, "two sizes with a dash between, such as 4k-64k");
    };
    let (a, b) = (units::size(a, prefixes)?, units::size(b, prefixes)?);
    Ok((a.min(b), a.max(b)))
}

/// `left/percentage:left/percentage…`; percentages left out share what remains.
fn shares<T>(text: &str, most: usize, left: impl Fn(&str) -> Parsed<T>) -> Parsed<Vec<(T, f64)>> {
    let mut parts = Vec::new();
    for part in text.split(':') {
        let (value, percent) = part.split_once('/').unwrap_or((part, ""));
        let percent = if percent.trim().is_empty() { None } else { Some(units::percent(percent)?) };
        parts.push((left(value)?, percent));
    }
    if parts.len() > most {
        return wrong(text, format!("at most {most} parts"));
    }
    let given: f64 = parts.iter().filter_map(|(_, p)| *p).sum();
    let open = parts.iter().filter(|(_, p)| p.is_none()).count();
    if given > 100.0 + 1e-9 || (open == 0 && given < 100.0 - 1e-9) {
        return wrong(text, format!("a list whose percentages sum to 100 (these sum to {given})"));
    }
    let rest = (100.0 - given).max(0.0) / open.max(1) as f64;
    Ok(parts.into_iter().map(|(value, percent)| (value, percent.unwrap_or(rest))).collect())
}

/// `4k`, `4k-64k`, `4k/60:16k/40` or `32k:1.0:4k-256k` (log-normal: median, sigma, limits).
fn block_size(text: &str, prefixes: Prefixes) -> Parsed<BlockSize> {
    let size = |t: &str| units::size(t, prefixes);
    if text.contains('/') {
        let parts = shares(text, 64, size)?;
        return Ok(if parts.len() == 1 { BlockSize::Fixed(parts[0].0) } else { BlockSize::Split(parts) });
    }
    let mut parts = text.splitn(3, ':');
    match (parts.next().unwrap_or(""), parts.next(), parts.next()) {
        (median, Some(sigma), Some(range)) => {
            let sigma = number(sigma, 0.0..=10.0, "a sigma from 0 to 10")?;
            let (min, max) = size_range(range, prefixes)?;
            Ok(BlockSize::LogNormal { median: size(median)?, sigma, min, max })
        }
        (range, None, None) if range.contains('-') => {
            let (min, max) = size_range(range, prefixes)?;
            Ok(if min == max { BlockSize::Fixed(min) } else { BlockSize::Range(min, max) })
        }
        (one, None, None) => size(one).map(BlockSize::Fixed),
        _ => wrong(text, "a block size (4k), a range (4k-64k), a split (4k/60:16k/40) or median:sigma:min-max"),
    }
}

fn distribution(text: &str, prefixes: Prefixes) -> Parsed<Distribution> {
    let (name, rest) = text.split_once([':', '=']).map_or((text, None), |(name, rest)| (name, Some(rest)));
    let centred = |default: Option<f64>, range: std::ops::RangeInclusive<f64>, expected: &str| {
        let (value, centre) =
            rest.map_or((None, None), |r| r.split_once(':').map_or((Some(r), None), |(v, c)| (Some(v), Some(c))));
        let value = match (value, default) {
            (Some(value), _) => number(value, range, expected)?,
            (None, Some(default)) => default,
            (None, None) => return wrong(text, expected),
        };
        let centre = centre.map(|c| number(c, 0.0..=1.0, "a centre from 0 to 1")).transpose()?;
        Ok((value, centre))
    };
    match name.trim() {
        "random" if rest.is_none() => Ok(Distribution::Uniform),
        "zipf" => {
            let (theta, centre) = centred(Some(1.1), 1e-3..=100.0, "a Zipf theta above 0, such as zipf:1.1")?;
            Ok(Distribution::Zipf(theta, centre))
        }
        "pareto" => {
            let (h, centre) =
                centred(Some(0.2), 1e-6..=1.0 - 1e-6, "a Pareto power between 0 and 1, such as pareto:0.2")?;
            Ok(Distribution::Pareto(h, centre))
        }
        "normal" | "gauss" => {
            let (deviation, centre) = centred(None, 0.0..=100.0, "a deviation in percent, such as normal:10")?;
            Ok(Distribution::Normal(deviation, centre))
        }
        "zoned" | "zoned_abs" => {
            let absolute = name.trim() == "zoned_abs";
            zones(rest.unwrap_or(""), absolute, prefixes)
        }
        _ => wrong(
            text,
            "one of random, zipf:theta, pareto:h, normal:deviation, zoned:access/percent:…, zoned_abs:access/size:…",
        ),
    }
}

/// `accesses/length:…`, the accesses in percent. The parts after the slash of `zoned` share what remains where left out.
fn zones(text: &str, absolute: bool, prefixes: Prefixes) -> Parsed<Distribution> {
    let swapped = |part: &str| part.split_once('/').map(|(access, length)| (access.to_string(), length.to_string()));
    let Some(parts) = text.split(':').map(swapped).collect::<Option<Vec<_>>>() else {
        return wrong(text, "zones as accesses/length:…, such as 60/10:30/20:10/70");
    };
    let accesses: Vec<String> = parts.iter().map(|(access, _)| format!("-/{access}")).collect();
    let accesses = shares(&accesses.join(":"), 256, |_| Ok(()))?;
    let lengths: Vec<Extent> = if absolute {
        parts.iter().map(|(_, length)| units::size(length, prefixes).map(Extent::Bytes)).collect::<Parsed<_>>()?
    } else {
        let lengths: Vec<String> = parts.iter().map(|(_, length)| format!("-/{length}")).collect();
        shares(&lengths.join(":"), 256, |_| Ok(()))?.into_iter().map(|(_, p)| Extent::Percent(p)).collect()
    };
    let zones: Vec<Zone> =
        accesses.iter().zip(lengths).map(|((_, access), length)| Zone { access: *access, length }).collect();
    match zones.iter().any(|z| z.access > 0.0 && matches!(z.length, Extent::Percent(p) if p <= 0.0)) {
        true => wrong(text, "zones of which none with accesses is empty"),
        false => Ok(Distribution::Zoned(zones)),
    }
}

fn delay(text: &str) -> Parsed<(Nanos, Nanos)> {
    let one = |t: &str| units::time(t, BareTime::Seconds);
    match text.split_once(['-', ':']) {
        Some((a, b)) => one(a).and_then(|a| one(b).map(|b| (a.min(b), a.max(b)))),
        None => one(text).map(|t| (t, t)),
    }
}

fn niceness(text: &str) -> Parsed<i8> {
    let ok = text.trim().parse::<i8>().ok().filter(|n| (-20..=19).contains(n));
    ok.map_or_else(|| wrong(text, "a niceness from -20 to 19"), Ok)
}

impl JobSpec {
    /// Every option by the name under which it is written, and [`JobSpec::ALIASES`] beside.
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
        "thinktime_iotime",
        "rate",
        "rate_iops",
        "rate_process",
        "rate_ignore_thinktime",
        "burst_on",
        "burst_off",
        "burst_process",
        "random_distribution",
        "percentage_random",
        "norandommap",
        "randseed",
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
        ("iodepth_batch_submit", "iodepth_batch"),
        ("iodepth_batch_complete", "iodepth_batch_complete_min"),
        ("rwmixwrite", "rwmixread"),
        ("buffered", "direct"),
    ];

    /// Is this the name of an option of a job?
    pub fn is_key(key: &str) -> bool {
        JobSpec::KEYS.contains(&key) || JobSpec::ALIASES.iter().any(|(alias, _)| *alias == key)
    }

    /// Sets the option `key` from its text, as fio reads it.
    pub fn set(&mut self, key: &str, text: &str, prefixes: Prefixes) -> Result<(), OptionError> {
        if !JobSpec::is_key(key) {
            return Err(OptionError::Unknown {
                key: key.to_string(),
                nearest: nearest(key, JobSpec::KEYS.iter().copied()),
            });
        }
        self.read(key, text, prefixes).map_err(|value| OptionError::Value { key: key.to_string(), value })
    }

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
            "runtime" => self.runtime = Some(bare_s(text)?).filter(|t| *t > Nanos::ZERO),
            "startdelay" | "start_delay" => self.startdelay = delay(text)?,
            "ramp_time" => self.ramp_time = bare_s(text)?,
            "ioengine" => {
                let name = text.trim();
                self.ioengine = match Engine::named(name) {
                    Some(engine) => engine,
                    None => {
                        let names: Vec<&str> = Engine::ALL.iter().map(|e| e.name).collect();
                        return wrong(
                            text,
                            format!("an I/O engine that does block I/O; these are {}", names.join(", ")),
                        );
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

    /// The options that differ from the defaults of [`JobSpec::default`], in the order of [`JobSpec::KEYS`]. [`JobSpec::set`]
    /// reads them back to the same job.
    pub fn entries(&self) -> Vec<(&'static str, Scalar)> {
        let default = JobSpec::default();
        let differs = |key: &&str| self.scalar(key).filter(|value| default.scalar(key).as_ref() != Some(value));
        JobSpec::KEYS.iter().filter_map(|key| differs(key).map(|value| (*key, value))).collect()
    }

    /// The value of one option as it is written, or `None` where it has none.
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
            "runtime" => self.runtime.and_then(time),
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
            "thinktime_iotime" => self.thinktime_iotime.and_then(time),
            "rate" => optional(&self.rate, &units::format_size),
            "rate_iops" => optional(&self.rate_iops, &|n| n.to_string()),
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
