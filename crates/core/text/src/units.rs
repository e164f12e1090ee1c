//! Parses and formats sizes, times, rates and percentages.

use dumbwaiter_block::Nanos;

/// A value that does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct UnitError {
    /// The text given.
    pub text: String,
    /// The expected form, as a phrase ("a size such as 4k or 64MiB").
    pub expected: String,
}

/// Meaning of the prefixes k, m, g, t and p.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefixes {
    /// Scenario files and flags: `4k` and `4KiB` are 4096 bytes, `4kB` is 4000.
    #[default]
    Plain,
    /// fio's default, `kb_base=1024`: `4k` and `4kB` are 4096 bytes and, for old scripts, `4KiB` is 4000.
    Fio1024,
    /// fio with `kb_base=1000`: `4k` and `4kB` are 4000 bytes, `4KiB` is 4096.
    Fio1000,
}

impl Prefixes {
    /// Multiplier of a suffix (lower case, without `/s`); `None` if unknown.
    fn multiplier(self, suffix: &str) -> Option<u64> {
        if suffix.is_empty() || suffix == "b" {
            return Some(1);
        }
        let power = "kmgtp".find(suffix.chars().next()?)? as u32 + 1;
        let (binary, decimal) = (1u64 << (10 * power), 10u64.pow(3 * power));
        match (&suffix[1..], self) {
            ("", Prefixes::Plain) | ("i" | "ib", Prefixes::Plain | Prefixes::Fio1000) => Some(binary),
            ("b", Prefixes::Plain) | ("i" | "ib", Prefixes::Fio1024) => Some(decimal),
            ("" | "b", Prefixes::Fio1024) => Some(binary),
            ("" | "b", Prefixes::Fio1000) => Some(decimal),
            _ => None,
        }
    }
}

/// Unit of a time without a suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareTime {
    /// Microseconds (think times).
    Microseconds,
    /// Seconds (run times).
    Seconds,
    /// None: a suffix is required.
    Refused,
}

const SIZE: &str = "a size such as 4096, 4k, 64KiB or 1.5GiB";
const RATE: &str = "a rate in bytes per second such as 500k, 20MiB or 100MB/s";
const PERCENT: &str = "a percentage from 0 to 100, such as 50 or 12.5%";
const WHOLE: &str = "a whole number from 0";

fn error(text: &str, expected: &str) -> UnitError {
    UnitError { text: text.to_string(), expected: expected.to_string() }
}

/// Splits `12.5 MiB` into whole part, decimals and suffix.
fn split_number(text: &str) -> Option<(&str, &str, &str)> {
    let digits = |t: &str| t.find(|c: char| !c.is_ascii_digit()).unwrap_or(t.len());
    let (whole, rest) = text.split_at(digits(text));
    let (decimals, suffix) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (decimals, suffix) = rest.split_at(digits(rest));
            if decimals.is_empty() {
                return None;
            }
            (decimals, suffix)
        }
        None => ("", rest),
    };
    (!whole.is_empty()).then_some((whole, decimals, suffix.trim_start()))
}

/// `whole.decimals * multiplier`, rounded down.
fn scale(whole: &str, decimals: &str, multiplier: u64) -> Option<u64> {
    let mut value = whole.parse::<u64>().ok()?.checked_mul(multiplier)?;
    if !decimals.is_empty() {
        let decimals = &decimals[..decimals.len().min(18)];
        let part = u128::from(decimals.parse::<u64>().ok()?) * u128::from(multiplier);
        value = value.checked_add(u64::try_from(part / 10u128.pow(decimals.len() as u32)).ok()?)?;
    }
    Some(value)
}

/// Parses a size into bytes. Fractions (`1.5GiB`) are rounded down to a byte; `0x` begins a hexadecimal number.
pub fn size(text: &str, prefixes: Prefixes) -> Result<u64, UnitError> {
    parse_size(text.trim(), prefixes).ok_or_else(|| error(text, SIZE))
}

fn parse_size(text: &str, prefixes: Prefixes) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0x") {
        let (digits, suffix) = hex.split_at(hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len()));
        return u64::from_str_radix(digits, 16).ok()?.checked_mul(prefixes.multiplier(suffix.trim_start())?);
    }
    let (whole, decimals, suffix) = split_number(&lower)?;
    scale(whole, decimals, prefixes.multiplier(suffix)?)
}

/// Parses a rate into bytes per second: a size, with or without `/s`.
pub fn rate(text: &str, prefixes: Prefixes) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let amount = trimmed.strip_suffix("/s").unwrap_or(trimmed);
    parse_size(amount.trim_end(), prefixes).ok_or_else(|| error(text, RATE))
}

/// Parses a time with a suffix (ns, us, ms, s, m (minutes), h, d) or without one, in `bare`.
pub fn time(text: &str, bare: BareTime) -> Result<Nanos, UnitError> {
    let expected = match bare {
        BareTime::Microseconds => "a time such as 100us or 5ms (a bare number is microseconds)",
        BareTime::Seconds => "a time such as 500ms, 10s or 2m (a bare number is seconds)",
        BareTime::Refused => "a time with a unit, such as 500ms, 10s or 2m",
    };
    let parse = || -> Option<Nanos> {
        let lower = text.trim().to_lowercase();
        let (whole, decimals, suffix) = split_number(&lower)?;
        let unit = match (suffix, bare) {
            ("", BareTime::Refused) => return None,
            ("", BareTime::Microseconds) | ("us" | "usec" | "µs" | "μs", _) => 1_000,
            ("", BareTime::Seconds) | ("s" | "sec", _) => 1_000_000_000,
            ("ns" | "nsec", _) => 1,
            ("ms" | "msec", _) => 1_000_000,
            ("m" | "min", _) => 60_000_000_000,
            ("h", _) => 3_600_000_000_000,
            ("d", _) => 86_400_000_000_000,
            _ => return None,
        };
        scale(whole, decimals, unit).map(Nanos)
    };
    parse().ok_or_else(|| error(text, expected))
}

/// Parses a percentage from 0 to 100, with or without `%`.
pub fn percent(text: &str) -> Result<f64, UnitError> {
    let trimmed = text.trim();
    let number = trimmed.strip_suffix('%').unwrap_or(trimmed).trim_end();
    let plain = number.starts_with(|c: char| c.is_ascii_digit());
    match number.parse::<f64>() {
        Ok(p) if plain && (0.0..=100.0).contains(&p) => Ok(p),
        _ => Err(error(text, PERCENT)),
    }
}

/// Parses a whole number, decimal or `0x…`.
pub fn count(text: &str) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let value = match trimmed.strip_prefix("0x").or_else(|| trimmed.strip_prefix("0X")) {
        Some(hex) if hex.starts_with(|c: char| c.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None if trimmed.starts_with(|c: char| c.is_ascii_digit()) => trimmed.parse().ok(),
        None => None,
    };
    value.ok_or_else(|| error(text, WHOLE))
}

/// Formats a size so that [`size`] parses it back exactly under [`Prefixes::Plain`]: `64KiB`, `4097`.
pub fn format_size(bytes: u64) -> String {
    for (shift, suffix) in [(50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Formats a time so that [`time`] parses it back exactly: `10s`, `1500ms`, `250us`.
pub fn format_time(time: Nanos) -> String {
    for (unit, suffix) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
        if time.0.is_multiple_of(unit) {
            return format!("{}{suffix}", time.0 / unit);
        }
    }
    format!("{}ns", time.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_follow_the_three_conventions() {
        for (text, plain, fio1024, fio1000) in [
            ("4096", 4096, 4096, 4096),
            ("4k", 4096, 4096, 4000),
            ("4K", 4096, 4096, 4000),
            ("4kb", 4000, 4096, 4000),
            ("4KiB", 4096, 4000, 4096),
            ("1m", 1 << 20, 1 << 20, 1_000_000),
            ("1ti", 1 << 40, 1_000_000_000_000, 1 << 40),
            ("0x1000", 4096, 4096, 4096),
            ("512b", 512, 512, 512),
        ] {
            assert_eq!(size(text, Prefixes::Plain), Ok(plain), "{text}");
            assert_eq!(size(text, Prefixes::Fio1024), Ok(fio1024), "{text}");
            assert_eq!(size(text, Prefixes::Fio1000), Ok(fio1000), "{text}");
        }
        assert_eq!(size(" 1.5 GiB ", Prefixes::Plain), Ok(3 << 29));
        assert_eq!(rate("100MB/s", Prefixes::Plain), Ok(100_000_000));
    }

    #[test]
    fn errors_name_the_text_and_the_expected_form() {
        let message = size("4q", Prefixes::Plain).unwrap_err().to_string();
        assert_eq!(message, r#""4q" is not a size such as 4096, 4k, 64KiB or 1.5GiB"#);
        for bad in ["", "-1", "k", "1.", ".5k", "1kk", "99999999999999999999", "18014398509481984k", "0x", "1e3"] {
            assert!(size(bad, Prefixes::Plain).is_err(), "{bad:?}");
        }
        for bad in ["5", "", "5x", "-5s", "5 parsecs"] {
            assert!(time(bad, BareTime::Refused).is_err(), "{bad:?}");
        }
        for bad in ["101", "-1", "nan", "inf", "", "%", "+5"] {
            assert!(percent(bad).is_err(), "{bad:?}");
        }
        for bad in ["-1", "0x", "0x+1", "+1", "1.0", ""] {
            assert!(count(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_have_a_suffix_or_the_unit_of_their_key() {
        assert_eq!(time("100us", BareTime::Seconds), Ok(Nanos(100_000)));
        assert_eq!(time("2m", BareTime::Microseconds), Ok(Nanos::from_secs(120)));
        assert_eq!(time("0.5s", BareTime::Microseconds), Ok(Nanos::from_ms(500)));
        assert_eq!(time("7", BareTime::Seconds), Ok(Nanos::from_secs(7)));
        assert_eq!(time("5000", BareTime::Microseconds), Ok(Nanos::from_ms(5)));
        assert_eq!(percent("12.5%"), Ok(12.5));
    }

    proptest! {
        #[test]
        fn formatted_values_read_back(bytes: u64, ns: u64) {
            prop_assert_eq!(size(&format_size(bytes), Prefixes::Plain), Ok(bytes));
            prop_assert_eq!(time(&format_time(Nanos(ns)), BareTime::Refused), Ok(Nanos(ns)));
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = (size(&text, Prefixes::Plain), size(&text, Prefixes::Fio1024), rate(&text, Prefixes::Fio1000));
            let _ = (time(&text, BareTime::Seconds), percent(&text), count(&text));
        }
    }
}
