//! The columns of a ranking: which, in which order and unit.

use dumbwaiter_advise::{Estimate, Extent, Focus, Metric, Ranking, RankingRow, Scale};
use dumbwaiter_measure::Difference;

/// Marks a figure without significant difference from the best of its column.
pub(crate) const TIE: &str = "≈";
/// Marks the best figure of a column.
pub(crate) const BEST: &str = "*";

/// A column of the table, in one unit.
pub(crate) struct Column {
    pub(crate) metric: Metric,
    pub(crate) name: String,
    pub(crate) scale: Scale,
    /// Whether to show the confidence interval: of throughput and the deciding metric.
    with_spread: bool,
}

impl Column {
    /// The mean, its confidence interval (empty if not shown), and a mark.
    pub(crate) fn parts(&self, estimate: &Estimate) -> (String, String, &'static str) {
        let Some(mean) = estimate.mean else {
            let text = if estimate.starved == 0 { "–" } else { self.metric.starved() };
            return (text.to_string(), String::new(), " ");
        };
        let number = |v: f64| self.scale.number(v);
        let interval = estimate.ci95.filter(|[low, high]| self.with_spread && !says_nothing(*low, *high));
        let spread = interval.map_or(String::new(), |[low, high]| format!("({}–{})", number(low), number(high)));
        let mark = match estimate.difference {
            Difference::Best => BEST,
            Difference::Tie => TIE,
            _ => " ",
        };
        (format!("{}{}", if estimate.at_least { "≥ " } else { "" }, number(mean)), spread, mark)
    }

    /// The cell of a scheduler.
    pub(crate) fn cell(&self, row: &RankingRow) -> String {
        let Some(estimate) = row.metrics.get(self.metric.key()) else { return String::new() };
        let (mean, spread, mark) = self.parts(estimate);
        format!("{mean}{}{spread} {mark}", if spread.is_empty() { "" } else { " " })
    }

    // Values end with a mark, so the title ends with as much space.
    pub(crate) fn title(&self) -> String {
        let gap = if self.name.is_empty() || self.scale.name.is_empty() { "" } else { " " };
        format!("{}{gap}{}  ", self.name, self.scale.name)
    }
}

/// Two runs that differ give an interval over many powers of ten, which only takes room.
fn says_nothing(low: f64, high: f64) -> bool {
    low > 0.0 && high > 1000.0 * low
}

/// The columns of a ranking, most important first.
pub(crate) fn columns(ranking: &Ranking, extent: Extent) -> Vec<Column> {
    let has = |metric: Metric| ranking.rows.iter().any(|r| !r.mean(metric).is_nan());
    let metrics = Metric::columns(extent, &has);
    // The focus may equal another column.
    let same = |m: Metric| match (m, &ranking.focus) {
        (Metric::FocusP99, Focus::Reads) if metrics.contains(&Metric::ReadP99) => Metric::ReadP99,
        (Metric::FocusP99, Focus::Reads | Focus::All) if metrics.contains(&Metric::P99) => Metric::P99,
        (m, _) => m,
    };
    let decided = same(ranking.metric);
    let mut chosen = vec![decided];
    for metric in metrics.iter().copied().map(same) {
        if !chosen.contains(&metric) {
            chosen.push(metric);
        }
    }
    let with_spread = |m: Metric| extent != Extent::FirstScreen || m == decided;
    chosen.into_iter().filter(|m| has(*m)).map(|m| column(ranking, m, with_spread(m))).collect()
}

fn column(ranking: &Ranking, metric: Metric, with_spread: bool) -> Column {
    let means = ranking.rows.iter().map(|r| r.mean(metric)).filter(|v| v.is_finite());
    let scale = metric.unit().scale(means.fold(f64::INFINITY, f64::min));
    Column { metric, name: metric.heading(&ranking.focus), scale, with_spread }
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
