//! Parses numbers from byte slices without allocation.

/// An unsigned decimal number; `None` for anything else or more than 64 bits.
pub(crate) fn unsigned(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut n = 0u64;
    if text.len() < 20 {
        for b in text {
            let d = b.wrapping_sub(b'0');
            if d > 9 {
                return None;
            }
            n = n * 10 + u64::from(d);
        }
        return Some(n);
    }
    for b in text {
        let d = b.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        n = n.checked_mul(10)?.checked_add(u64::from(d))?;
    }
    Some(n)
}

/// An unsigned number that fits 32 bits.
pub(crate) fn unsigned32(text: &[u8]) -> Option<u32> {
    unsigned(text).and_then(|n| u32::try_from(n).ok())
}

/// A hexadecimal number, with or without `0x`.
pub(crate) fn hex(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")).unwrap_or(text);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0u64, |n, b| Some(n << 4 | u64::from(char::from(*b).to_digit(16)?)))
}

/// A decimal number of units of `unit` ns, in nanoseconds modulo 2^64. Exact for plain decimals (digits below a
/// nanosecond are cut off); `1.28E+17` is parsed as a float. Negative numbers wrap.
pub(crate) fn time(text: &[u8], unit: u64) -> Option<u64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let point = digits.iter().position(|b| *b == b'.').unwrap_or(digits.len());
    let (whole, fraction) = (&digits[..point], digits.get(point + 1..).unwrap_or(&[]));
    if fraction.iter().chain(whole).any(|b| matches!(b, b'e' | b'E')) {
        return float(text, unit);
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { unsigned(whole)?.wrapping_mul(unit) };
    // Nine digits are enough for the largest unit, a second.
    let (kept, cut) = fraction.split_at(fraction.len().min(9));
    let part = if kept.is_empty() { 0 } else { unsigned(kept)? * unit / 10u64.pow(kept.len() as u32) };
    if cut.iter().any(|b| !b.is_ascii_digit()) {
        return None;
    }
    let ns = whole.wrapping_add(part);
    Some(if negative { ns.wrapping_neg() } else { ns })
}

/// Nanoseconds of a day.
pub(crate) const DAY_NS: u64 = 86_400_000_000_000;

/// Nanoseconds of a time of day, `13:59:01.25`, or since 1970 of a date and time, `2024-02-29 13:59:01.25` (with `T` between, and a
/// `Z` behind it). The flag says whether there is a date.
pub(crate) fn clock(text: &[u8]) -> Option<(u64, bool)> {
    let text = text.strip_suffix(b"Z").unwrap_or(text);
    let (date, day) = match text.iter().position(|b| matches!(b, b'T' | b' ')) {
        Some(at) => (Some(&text[..at]), &text[at + 1..]),
        None => (None, text),
    };
    let mut parts = day.splitn(3, |b| *b == b':');
    let hours = unsigned(parts.next()?).filter(|n| *n < 24)?;
    let minutes = unsigned(parts.next()?).filter(|n| *n < 60)?;
    let seconds = time(parts.next()?, 1_000_000_000).filter(|ns| *ns < 61_000_000_000)?;
    let ns = (hours * 60 + minutes) * 60_000_000_000 + seconds;
    let Some(date) = date else { return Some((ns, false)) };
    let mut parts = date.splitn(3, |b| matches!(b, b'-' | b'/'));
    let mut next = || unsigned(parts.next()?);
    let (year, month, day) = (next()?, next()?, next()?);
    if !(1970..2200).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that a leap day is the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some(((days - 719_468) * DAY_NS + ns, true))
}

fn float(text: &[u8], unit: u64) -> Option<u64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let ns = value * unit as f64;
    // Both casts are exact in range and saturate outside it.
    ns.is_finite().then_some(if ns < 0.0 { ((-ns) as u64).wrapping_neg() } else { ns as u64 })
}

/// Writes `ns` in units of `unit` ns with at least `places` decimals, and as many as the exact value needs.
pub(crate) fn write_time(out: &mut Vec<u8>, ns: u64, unit: u64, places: usize) {
    use std::io::Write;
    let (whole, mut rest) = (ns / unit, ns % unit);
    write!(out, "{whole}").expect("a Vec takes every byte");
    if places == 0 && rest == 0 {
        return;
    }
    out.push(b'.');
    let mut scale = unit;
    let mut written = 0;
    while written < places || rest > 0 {
        scale /= 10;
        out.push(b'0' + rest.checked_div(scale).unwrap_or(0) as u8);
        rest = rest.checked_rem(scale).unwrap_or(0);
        written += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(time(b"1266874889.709551616", 1_000_000_000), Some(1_266_874_889_709_551_616));
        assert_eq!(time(b"0.000020122", 1_000_000_000), Some(20_122));
        assert_eq!(time(b"223.412", 1_000_000), Some(223_412_000));
        assert_eq!(time(b"-2", 1000), Some(2000u64.wrapping_neg()));
        assert_eq!(time(b"7", 100), Some(700));
        assert_eq!(time(b".5", 100), Some(50));
        assert_eq!(time(b"3.", 1), Some(3));
        assert_eq!(time(b"1.28166E+17", 1), Some(128_166_000_000_000_000));
        for bad in [
            b"".as_slice(),
            b".",
            b"-",
            b"1x",
            b"1.x",
            b"1.0000000000000x",
            b"0x1",
            b"99999999999999999999",
            b"inf",
            b"nane",
        ] {
            assert_eq!(time(bad, 1000), None, "{}", show(bad));
        }
    }

    use super::super::error::show;

    #[test]
    fn times_of_day_and_dates() {
        assert_eq!(clock(b"13:59:01.25"), Some((50_341_250_000_000, false)));
        assert_eq!(clock(b"00:00:00"), Some((0, false)));
        assert_eq!(clock(b"1970-01-01T00:00:01Z"), Some((1_000_000_000, true)));
        assert_eq!(clock(b"2024-02-29 12:00:00.5"), Some((1_709_208_000_500_000_000, true)));
        for bad in ["", "12", "25:00:00", "12:61:00", "12:00", "2024-13-01 00:00:00", "x:y:z"] {
            assert_eq!(clock(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn integers() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(unsigned(b""), None);
        assert_eq!(hex(b"0x1F"), Some(31));
        assert_eq!(hex(b"g"), None);
    }

    proptest! {
        #[test]
        fn written_times_parse_back(ns in any::<u64>(), unit in prop::sample::select(vec![1u64, 100, 1000, 1_000_000, 1_000_000_000]), places in 0usize..10) {
            let mut out = Vec::new();
            write_time(&mut out, ns, unit, places);
            prop_assert_eq!(time(&out, unit), Some(ns));
        }
    }
}
