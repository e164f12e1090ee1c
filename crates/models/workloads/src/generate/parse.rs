//! Parses the values of options as fio does.

use dumbwaiter_block::Nanos;

use super::value::{Access, BlockSize, Distribution, Extent, Pattern, PerDir, Zone};
use dumbwaiter_text::units::{self, BareTime, Prefixes, UnitError};

pub(crate) type Parsed<T> = Result<T, UnitError>;

pub(crate) fn wrong<T>(text: &str, expected: impl Into<String>) -> Parsed<T> {
    Err(UnitError { text: text.to_string(), expected: expected.into() })
}

/// A whole number from `min` to `max`.
pub(crate) fn between<T: TryFrom<u64>>(text: &str, min: u64, max: u64) -> Parsed<T> {
    let found = units::count(text).ok().filter(|n| (min..=max).contains(n)).and_then(|n| T::try_from(n).ok());
    let most = if max == u64::MAX { String::new() } else { format!(" to {max}") };
    found.map_or_else(|| wrong(text, format!("a whole number from {min}{most}")), Ok)
}

/// 1 and 0, true and false.
pub(crate) fn switch(text: &str) -> Parsed<bool> {
    match text.trim() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => wrong(text, "true (1) or false (0)"),
    }
}

pub(crate) fn whole_percent(text: &str) -> Parsed<u8> {
    let number = text.trim();
    between(number.strip_suffix('%').unwrap_or(number), 0, 100)
        .or_else(|_| wrong(text, "a whole percentage from 0 to 100"))
}

pub(crate) fn number(text: &str, range: std::ops::RangeInclusive<f64>, expected: &str) -> Parsed<f64> {
    let ok = text.trim().parse::<f64>().ok().filter(|x| range.contains(x));
    ok.map_or_else(|| wrong(text, expected), Ok)
}

pub(crate) fn extent(text: &str, prefixes: Prefixes) -> Parsed<Extent> {
    let trimmed = text.trim();
    if trimmed.ends_with('%') {
        return units::percent(trimmed).map(Extent::Percent);
    }
    units::size(trimmed, prefixes)
        .map(Extent::Bytes)
        .or_else(|_| wrong(text, "a size such as 4k, 64KiB or 1.5GiB, or a percentage of the device such as 20%"))
}

/// One to three values separated by commas: a value also applies to the directions after it, unless a comma follows; an
/// empty one leaves the default.
pub(crate) fn per_dir<T: Clone>(
    text: &str,
    default: PerDir<T>,
    parse: impl Fn(&str) -> Parsed<T>,
) -> Parsed<PerDir<T>> {
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

pub(crate) fn pattern(text: &str, prefixes: Prefixes) -> Parsed<Pattern> {
    let (name, modifier) = text.split_once(':').map_or((text, None), |(name, m)| (name, Some(m.trim())));
    let Some((_, access, mix)) = Pattern::NAMES.into_iter().find(|(n, ..)| *n == name.trim()) else {
        return wrong(
            text,
            "one of read, write, trim, randread, randwrite, randtrim, rw, randrw, trimwrite, randtrimwrite",
        );
    };
    let modifier = match (modifier, access) {
        (None, _) => 0,
        (Some(m), Access::Random) => between(m, 1, u32::MAX.into())?,
        (Some(m), Access::Sequential) => {
            let bytes = units::size(m.strip_prefix('-').unwrap_or(m), prefixes)?;
            let signed = i64::try_from(bytes).map(|n| if m.starts_with('-') { -n } else { n });
            signed.or_else(|_| wrong(text, "an offset modifier below 8 EiB"))?
        }
    };
    Ok(Pattern { access, mix, modifier })
}

/// `min-max`.
pub(crate) fn size_range(text: &str, prefixes: Prefixes) -> Parsed<(u64, u64)> {
    let Some((a, b)) = text.split_once('-') else {
        return wrong(text, "two sizes with a dash between, such as 4k-64k");
    };
    let (a, b) = (units::size(a, prefixes)?, units::size(b, prefixes)?);
    Ok((a.min(b), a.max(b)))
}

/// Parses `left/percentage:left/percentage…`; omitted percentages share the remainder. The sum is 100.
pub(crate) fn shares<T>(text: &str, most: usize, left: impl Fn(&str) -> Parsed<T>) -> Parsed<Vec<(T, f64)>> {
    let parts = shares_given(text, most, left)?;
    let sum: f64 = parts.iter().map(|(_, percent)| percent).sum();
    match sum < 100.0 - 1e-9 {
        true => wrong(text, format!("a list whose percentages sum to 100 (these sum to {sum})")),
        false => Ok(parts),
    }
}

/// The same with a sum of at most 100.
fn shares_given<T>(text: &str, most: usize, left: impl Fn(&str) -> Parsed<T>) -> Parsed<Vec<(T, f64)>> {
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
    if given > 100.0 + 1e-9 {
        return wrong(text, format!("a list whose percentages sum to 100 (these sum to {given})"));
    }
    let rest = (100.0 - given).max(0.0) / open.max(1) as f64;
    Ok(parts.into_iter().map(|(value, percent)| (value, percent.unwrap_or(rest))).collect())
}

/// Sizes with their percentages. What lacks to 100 goes to the last of those with the largest, as in fio: it draws in the order of
/// the percentages, and the last size takes every draw that is left.
fn split<T>(mut parts: Vec<(T, f64)>) -> Vec<(T, f64)> {
    let lacks = 100.0 - parts.iter().map(|(_, percent)| percent).sum::<f64>();
    let largest = parts.iter_mut().max_by(|(_, a), (_, b)| a.total_cmp(b));
    if let Some((_, percent)) = largest.filter(|_| lacks > 1e-9) {
        *percent += lacks;
    }
    parts
}

/// `4k/60:16k/40`, `4k/60:16k` or `4k:16k`.
pub(crate) fn block_split(text: &str, prefixes: Prefixes) -> Parsed<BlockSize> {
    let parts = split(shares_given(text, 64, |t| units::size(t, prefixes))?);
    Ok(if parts.len() == 1 { BlockSize::Fixed(parts[0].0) } else { BlockSize::Split(parts) })
}

/// `4k`, `4k-64k`, `4k/60:16k/40` or `32k:1.0:4k-256k` (log-normal: median, sigma, limits).
pub(crate) fn block_size(text: &str, prefixes: Prefixes) -> Parsed<BlockSize> {
    let size = |t: &str| units::size(t, prefixes);
    if text.contains('/') {
        return block_split(text, prefixes);
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

pub(crate) fn distribution(text: &str, prefixes: Prefixes) -> Parsed<Distribution> {
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

/// Parses `accesses/length:…`, the accesses in percent. Omitted lengths of `zoned` share the remainder.
pub(crate) fn zones(text: &str, absolute: bool, prefixes: Prefixes) -> Parsed<Distribution> {
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

pub(crate) fn delay(text: &str) -> Parsed<(Nanos, Nanos)> {
    let one = |t: &str| units::time(t, BareTime::Seconds);
    match text.split_once(['-', ':']) {
        Some((a, b)) => one(a).and_then(|a| one(b).map(|b| (a.min(b), a.max(b)))),
        None => one(text).map(|t| (t, t)),
    }
}

pub(crate) fn niceness(text: &str) -> Parsed<i8> {
    let ok = text.trim().parse::<i8>().ok().filter(|n| (-20..=19).contains(n));
    ok.map_or_else(|| wrong(text, "a niceness from -20 to 19"), Ok)
}
