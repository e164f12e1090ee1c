//! The columns of a ranking: which, in which order and unit.

use dumbwaiter_advise::{Estimate, Focus, Metric, Ranking};
use dumbwaiter_measure::{Difference, count_text};

/// Marks a figure without significant difference from the best of its column.
pub(crate) const TIE: &str = "≈";
/// Marks the best figure of a column.
pub(crate) const BEST: &str = "*";

/// A column of the table, in one unit.
pub(crate) struct Column {
    pub(crate) metric: Metric,
    pub(crate) name: String,
    pub(crate) unit_name: &'static str,
    /// Divisor of the values.
    unit: f64,
    decimals: usize,
    count: bool,
    /// Whether to show the confidence interval: of throughput and the deciding metric.
    with_spread: bool,
}

impl Column {
    /// The mean, its confidence interval (empty if not shown), and a mark.
    pub(crate) fn parts(&self, estimate: &Estimate) -> (String, String, &'static str) {
        let Some(mean) = estimate.mean else {
            let text = match self.metric {
                _ if estimate.starved == 0 => "–",
                Metric::StartUp => "never",
                _ => "starved",
            };
            return (text.to_string(), String::new(), " ");
        };
        let number = |v: f64| {
            if self.count { count_text(v) } else { format!("{:.*}", self.decimals, v / self.unit) }
        };
        let interval = estimate.ci95.filter(|[low, high]| self.with_spread && !says_nothing(*low, *high));
        let spread = interval.map_or(String::new(), |[low, high]| format!("({}–{})", number(low), number(high)));
        let mark = match estimate.difference {
            Difference::Best => BEST,
            Difference::Tie => TIE,
            _ => " ",
        };
        (format!("{}{}", if estimate.at_least { "≥ " } else { "" }, number(mean)), spread, mark)
    }

    pub(crate) fn shown(&self, estimate: &Estimate) -> String {
        let (mean, spread, mark) = self.parts(estimate);
        format!("{mean}{}{spread} {mark}", if spread.is_empty() { "" } else { " " })
    }

    // Values end with a mark, so the title ends with as much space.
    pub(crate) fn title(&self) -> String {
        let gap = if self.name.is_empty() || self.unit_name.is_empty() { "" } else { " " };
        format!("{}{gap}{}  ", self.name, self.unit_name)
    }
}

/// Two runs that differ give an interval over many powers of ten, which only takes room.
fn says_nothing(low: f64, high: f64) -> bool {
    low > 0.0 && high > 1000.0 * low
}

/// How many columns to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Those of the first screen.
    FirstScreen,
    /// Those of a page: all but PV, which grows without bound where a light tenant gets little.
    Page,
    /// All of them.
    All,
}

/// The columns of a ranking, most important first.
pub(crate) fn columns(ranking: &Ranking, extent: Extent) -> Vec<Column> {
    let full = extent != Extent::FirstScreen;
    let has = |metric: Metric| ranking.rows.iter().any(|r| !r.mean(metric).is_nan());
    let both = has(Metric::ReadP99) && has(Metric::WriteP99);
    // The focus may equal another column.
    let same = |m: Metric| match (m, &ranking.focus) {
        (Metric::FocusP99, Focus::Reads) if both => Metric::ReadP99,
        (Metric::FocusP99, Focus::Reads | Focus::All) if !both => Metric::P99,
        (m, _) => m,
    };
    let decided = same(ranking.metric);
    let mut metrics =
        vec![decided, Metric::MbPerS, Metric::Rejected, Metric::StartUp, Metric::DroppedFrames, Metric::FocusP99];
    metrics.extend(if both { vec![Metric::ReadP99, Metric::WriteP99] } else { vec![Metric::P99] });
    metrics.push(Metric::ShareError);
    if full {
        metrics.extend([Metric::P999, Metric::Mean]);
        metrics.extend((extent == Extent::All).then_some(Metric::Pv));
        metrics.push(Metric::Jain);
    }
    metrics.extend([Metric::CpuUsPerIo, Metric::Iops]);
    if has(Metric::JPerMio) {
        metrics.extend([Metric::JPerMio, Metric::BytesPerJ, Metric::CtxPerIo]);
    }
    let mut chosen: Vec<Metric> = Vec::new();
    for metric in metrics.into_iter().map(same) {
        if !chosen.contains(&metric) {
            chosen.push(metric);
        }
    }
    let with_spread = |m: Metric| full || m == decided;
    chosen.into_iter().filter(|m| has(*m)).map(|m| column(ranking, m, with_spread(m))).collect()
}

fn column(ranking: &Ranking, metric: Metric, with_spread: bool) -> Column {
    let means = || ranking.rows.iter().map(|r| r.mean(metric)).filter(|v| v.is_finite());
    let least = means().fold(f64::INFINITY, f64::min);
    let (unit_name, unit) = match metric {
        Metric::MbPerS => ("MB/s", 1.0),
        Metric::Iops => ("IOPS", 1.0),
        Metric::Pv | Metric::Jain | Metric::ShareError | Metric::CtxPerIo => ("", 1.0),
        Metric::StartUp => ("s", 1.0),
        Metric::DroppedFrames | Metric::Rejected => ("%", 1.0),
        Metric::JPerMio => ("J per million I/Os", 1.0),
        Metric::BytesPerJ if least >= 1e6 => ("MB per joule", 1e6),
        Metric::BytesPerJ => ("kB per joule", 1e3),
        // The unit, at most a second, in which the best value has a digit before the decimal point.
        _ if least >= 1e6 => ("s", 1e6),
        _ if least >= 1e3 => ("ms", 1e3),
        _ => ("us", 1.0),
    };
    let decimals = match least / unit {
        _ if matches!(metric, Metric::Pv | Metric::Jain | Metric::ShareError) => 3,
        _ if matches!(metric, Metric::CtxPerIo | Metric::StartUp) => 2,
        _ if matches!(metric, Metric::DroppedFrames | Metric::Rejected) => 1,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let name = match metric {
        Metric::MbPerS | Metric::Iops | Metric::JPerMio | Metric::BytesPerJ => String::new(),
        Metric::FocusP99 => match &ranking.focus {
            Focus::Tenants(names) => format!("{} p99", names.join("+")),
            _ => "p99".to_string(),
        },
        Metric::ReadP99 => "read p99".to_string(),
        Metric::WriteP99 => "write p99".to_string(),
        Metric::P99 => "p99".to_string(),
        Metric::StartUp => "start-up".to_string(),
        Metric::DroppedFrames => "dropped".to_string(),
        Metric::Rejected => "refused".to_string(),
        Metric::ShareError => "share error".to_string(),
        Metric::Pv => "PV".to_string(),
        Metric::Jain => "Jain".to_string(),
        Metric::P999 => "p99.9".to_string(),
        Metric::Mean => "mean".to_string(),
        Metric::CpuUsPerIo => "CPU/IO".to_string(),
        Metric::P50 => "p50".to_string(),
        Metric::CtxPerIo => "ctx/IO".to_string(),
    };
    Column { metric, name, unit_name, unit, decimals, count: metric == Metric::Iops, with_spread }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_over_many_powers_of_ten_is_left_out() {
        assert!(says_nothing(0.2, 43_223_400.0));
        assert!(!says_nothing(80.0, 752.0));
        // A share may be zero.
        assert!(!says_nothing(0.0, 0.4));
    }
}
