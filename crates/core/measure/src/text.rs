//! Formats numbers for tables and sentences: three digits and a unit.

/// `value` with about three significant digits and no exponent.
fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// A latency given in us: `840 ns`, `12.4 us`, `3.07 ms`, `1.25 s`; `–` for NaN.
pub fn latency_text(us: f64) -> String {
    match us {
        v if v.is_nan() => "–".to_string(),
        v if v < 0.9995 => format!("{:.0} ns", v * 1e3),
        v if v < 999.5 => format!("{} us", three_digits(v)),
        v if v < 999_500.0 => format!("{} ms", three_digits(v / 1e3)),
        v => format!("{} s", three_digits(v / 1e6)),
    }
}

/// A bandwidth given in MB/s: `104 MB/s`, `3.20 GB/s`; `–` for NaN.
pub fn rate_text(mb_per_s: f64) -> String {
    match mb_per_s {
        v if v.is_nan() => "–".to_string(),
        v if v < 9_995.0 => format!("{} MB/s", three_digits(v)),
        v => format!("{} GB/s", three_digits(v / 1e3)),
    }
}

/// A large number: `812`, `14.2k`, `3.05M`, `1.20G`; `–` for NaN.
pub fn count_text(value: f64) -> String {
    match value {
        v if v.is_nan() => "–".to_string(),
        v if v < 9_999.5 => format!("{v:.0}"),
        v if v < 999_500.0 => format!("{}k", three_digits(v / 1e3)),
        v if v < 999_500_000.0 => format!("{}M", three_digits(v / 1e6)),
        v => format!("{}G", three_digits(v / 1e9)),
    }
}

/// A whole number with thousands separated: `12,345,678`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let shown = [0.84, 0.9996, 12.4, 99.96, 999.4, 999.6, 3_070.0, 999_600.0].map(latency_text);
        assert_eq!(shown, ["840 ns", "1.00 us", "12.4 us", "100 us", "999 us", "1.00 ms", "3.07 ms", "1.00 s"]);
        assert_eq!([0.0, 104.4, 12_000.0].map(rate_text), ["0.00 MB/s", "104 MB/s", "12.0 GB/s"]);
        assert_eq!([812.4, 14_200.0, 3_050_000.0].map(count_text), ["812", "14.2k", "3.05M"]);
        assert_eq!(latency_text(f64::NAN), "–");
    }
}
