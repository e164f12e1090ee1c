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
