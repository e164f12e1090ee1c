//! OpenMetrics text.

use std::fmt::Write;

/// The content type of an exposition.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The content type of the same in the older text format of Prometheus.
pub const TEXT_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An exposition in the older text format: a counter's name has its suffix in all lines, and there are no units and no end.
pub fn text_format(openmetrics: &str) -> String {
    let mut out = String::new();
    let mut counter = "";
    for line in openmetrics.lines() {
        let mut words = line.splitn(4, ' ');
        let of = [words.next(), words.next(), words.next(), words.next()];
        match of {
            [Some("#"), Some("EOF" | "UNIT"), ..] => {}
            [Some("#"), Some("TYPE"), Some(name), Some("counter")] => {
                counter = name;
                // Writing to a string cannot fail.
                let _ = writeln!(out, "# TYPE {name}_total counter");
            }
            [Some("#"), Some("HELP"), Some(name), Some(help)] if name == counter => {
                let _ = writeln!(out, "# HELP {name}_total {help}");
            }
            _ => {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    out
}

/// A family of metrics.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name, without the suffix of a counter.
    pub name: &'static str,
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: &'static str,
    /// Its help text.
    pub help: &'static str,
}

/// A label's value with the special characters escaped.
pub fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Adds the lines before the samples of a family.
pub fn head(out: &mut String, family: &Family) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# TYPE {} {}", family.name, family.kind);
    if family.name.ends_with("_seconds") || family.name.ends_with("_bytes") {
        let unit = family.name.rsplit('_').next().unwrap_or_default();
        let _ = writeln!(out, "# UNIT {} {unit}", family.name);
    }
    let _ = writeln!(out, "# HELP {} {}", family.name, family.help);
}

/// Adds a sample; `labels` may be empty.
pub fn sample(out: &mut String, name: &str, labels: &str, value: f64) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = match value {
        f64::INFINITY => writeln!(out, "{name}{labels} +Inf"),
        f64::NEG_INFINITY => writeln!(out, "{name}{labels} -Inf"),
        value if value.is_nan() => writeln!(out, "{name}{labels} NaN"),
        value => writeln!(out, "{name}{labels} {value}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_names_counters_in_full() {
        let mut out = String::new();
        head(&mut out, &Family { name: "x_bytes", kind: "counter", help: "Bytes of x." });
        sample(&mut out, "x_bytes_total", "", 7.0);
        head(&mut out, &Family { name: "y", kind: "gauge", help: "A y." });
        sample(&mut out, "y", "", 1.0);
        out += "# EOF\n";
        let text = "# TYPE x_bytes_total counter\n# HELP x_bytes_total Bytes of x.\nx_bytes_total 7\n\
                    # TYPE y gauge\n# HELP y A y.\ny 1\n";
        assert_eq!(text_format(&out), text);
    }

    #[test]
    fn values_are_spelled_as_the_format_wants_them() {
        let mut out = String::new();
        for value in [1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            sample(&mut out, "x", &format!("a=\"{}\"", escape("q\"\\\n")), value);
        }
        let labels = r#"x{a="q\"\\\n"}"#;
        assert_eq!(out, format!("{labels} 1.5\n{labels} NaN\n{labels} +Inf\n{labels} -Inf\n"));
    }
}
