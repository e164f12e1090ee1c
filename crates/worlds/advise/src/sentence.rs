//! Numbers and lists in sentences.

/// `12 %`, `1.2 %`.
pub(crate) fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent.abs() < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// `-12 %`, `+3.1 %`.
pub(crate) fn signed(fraction: f64) -> String {
    let sign = if fraction < 0.0 { "-" } else { "+" };
    format!("{sign}{}", percent(fraction.abs()))
}

/// `p = 0.012`, `p < 0.001`.
pub(crate) fn p_text(p: f64) -> String {
    match p {
        p if p.is_nan() => "too few runs to rule out chance".to_owned(),
        p if p < 0.001 => "p < 0.001".to_owned(),
        p => format!("p = {p:.3}"),
    }
}

/// An upper bound: never rounded down.
pub(crate) fn percent_up(fraction: f64) -> String {
    let tenths = (fraction * 1000.0 - 1e-9).ceil().max(0.0);
    if tenths < 100.0 { format!("{:.1} %", tenths / 10.0) } else { format!("{:.0} %", (tenths / 10.0).ceil()) }
}

/// What begins with a percentage, with its article: `an 81 % lower latency`, `a 12 % …`.
pub(crate) fn with_article(number: &str) -> String {
    let whole = number.split(['.', ' ']).next().unwrap_or(number);
    let starts_with_a_vowel = whole.starts_with('8') || whole == "11" || whole == "18";
    format!("{} {number}", if starts_with_a_vowel { "an" } else { "a" })
}

/// A lower bound: never rounded up.
pub(crate) fn percent_down(fraction: f64) -> String {
    let tenths = (fraction * 1000.0 + 1e-9).floor().max(0.0);
    if tenths < 100.0 { format!("{:.1} %", tenths / 10.0) } else { format!("{:.0} %", (tenths / 10.0).floor()) }
}

/// `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_article_is_that_of_the_spoken_number() {
        let with = ["81 % less", "8.0 %", "800 %", "11 %", "18 %", "12 %", "1.8 %", "110 %", "96 %"].map(with_article);
        assert_eq!(
            with,
            ["an 81 % less", "an 8.0 %", "an 800 %", "an 11 %", "an 18 %", "a 12 %", "a 1.8 %", "a 110 %", "a 96 %"]
        );
    }
}
