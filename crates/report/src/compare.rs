//! The text of `compare` for a terminal.

use crate::applications::applications;
use crate::table::{Align, Style, table};
use dumbwaiter_advise::Document;
use dumbwaiter_advise::{Estimate, Focus, Metric, Ranking, Row};
use dumbwaiter_measure::{Verdict, count_text};

/// Marks the recommended scheduler.
const WINNER: &str = "▸";
/// Marks a figure without significant difference from the best of its column.
const TIE: &str = "≈";
/// Marks the best figure of a column.
const BEST: &str = "*";

/// For each device: a table of schedulers, best first, and the recommendation as a sentence.
pub fn compare_text(document: &Document, style: Style) -> String {
    let mut text: String = document.warnings.iter().map(|w| wrapped(&format!("warning: {w}"), style.width) + "\n").collect();
    let rankings = document.rankings();
    for ranking in &rankings {
        text += &ranking_text(ranking, style);
        for of in applications(document, ranking) {
            text += &format!("\n{}\n{}", of.title, table(&of.header, &of.rows, style));
        }
        text.push('\n');
    }
    for note in &document.notes {
        text += &format!("note: {note}\n");
    }
    text
}

fn ranking_text(ranking: &Ranking, style: Style) -> String {
    let place = match ranking.variant.as_str() {
        "" => ranking.device.clone(),
        variant => format!("{}, {variant}", ranking.device),
    };
    let runs = ranking.rows.iter().map(|r| r.replicates).max().unwrap_or(0);
    let plural = if runs == 1 { "run" } else { "runs" };
    let heading = format!("{place} · {runs} {plural} of each · goal: {}", ranking.goal.name());
    let mut columns = columns(ranking, false);
    let mut body = body(ranking, &columns, style);
    // The least important columns are last: drop them rather than wrap lines.
    let longest = |body: &str| body.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    let width = style.width.map_or(usize::MAX, usize::from);
    while columns.len() > 2 && longest(&body) > width {
        columns.pop();
        body = self::body(ranking, &columns, style);
    }
    let body: String = body
        .lines()
        .map(|line| if line.trim_start().starts_with(WINNER) { style.bold(line) } else { line.to_string() } + "\n")
        .collect();
    let mut legend = format!("{WINNER} recommended   {BEST} best of its column");
    if ranking.is_tested() {
        legend += &format!("   {TIE} no significant difference (p > 0.05)   (95 % confidence)");
    }
    let sentence = wrapped(&ranking.recommendation.sentence, style.width);
    format!("{}\n{body}{}\n\n{sentence}\n", style.bold(&heading), style.faint(&legend))
}

fn body(ranking: &Ranking, columns: &[Column], style: Style) -> String {
    let titles: Vec<String> = columns.iter().map(Column::title).collect();
    let axes = ranking.axes();
    let mut header = vec![("", Align::Left), ("scheduler", Align::Left)];
    if axes.via {
        header.push(("via", Align::Left));
    }
    if axes.completion {
        header.push(("completion", Align::Left));
    }
    header.extend(titles.iter().map(|t| (t.as_str(), Align::Right)));
    let line = |row: &Row| {
        let mark = match (row.rank, row.verdict) {
            (1, _) => WINNER,
            (_, Verdict::Tie) => TIE,
            _ => "",
        };
        let mut line = vec![mark.to_string(), row.scheduler.clone()];
        if axes.via {
            line.push(row.via.clone());
        }
        if axes.completion {
            line.push(row.completion.clone());
        }
        line.extend(columns.iter().map(|c| row.metrics.get(c.metric.key()).map_or(String::new(), |m| c.shown(m))));
        line
    };
    let rows: Vec<Vec<String>> = ranking.rows.iter().map(line).collect();
    table(&header, &rows, Style { width: None, ..style })
}

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
            let text = if estimate.starved > 0 { "starved" } else { "–" };
            return (text.to_string(), String::new(), " ");
        };
        let number = |v: f64| {
            if self.count { count_text(v) } else { format!("{:.*}", self.decimals, v / self.unit) }
        };
        let interval = estimate.ci95.filter(|_| self.with_spread);
        let spread = interval.map_or(String::new(), |[low, high]| format!("({}–{})", number(low), number(high)));
        let mark = match estimate.verdict {
            Verdict::Best => BEST,
            Verdict::Tie => TIE,
            _ => " ",
        };
        (format!("{}{}", if estimate.at_least { "≥ " } else { "" }, number(mean)), spread, mark)
    }

    fn shown(&self, estimate: &Estimate) -> String {
        let (mean, spread, mark) = self.parts(estimate);
        format!("{mean}{}{spread} {mark}", if spread.is_empty() { "" } else { " " })
    }

    // Values end with a mark, so the title ends with as much space.
    fn title(&self) -> String {
        let gap = if self.name.is_empty() || self.unit_name.is_empty() { "" } else { " " };
        format!("{}{gap}{}  ", self.name, self.unit_name)
    }
}

/// The columns of a ranking, most important first: all of them, or those that fit a terminal.
pub(crate) fn columns(ranking: &Ranking, full: bool) -> Vec<Column> {
    let has = |metric: Metric| ranking.rows.iter().any(|r| !r.mean(metric).is_nan());
    let mut metrics = vec![Metric::MbPerS, ranking.metric, Metric::FocusP99];
    let both = has(Metric::ReadP99) && has(Metric::WriteP99);
    metrics.extend(if both { vec![Metric::ReadP99, Metric::WriteP99] } else { vec![Metric::P99] });
    if full {
        metrics.extend([Metric::P999, Metric::Mean, Metric::Pv, Metric::Jain, Metric::CpuUsPerIo, Metric::Iops]);
    } else {
        metrics.extend([Metric::Pv, Metric::CpuUsPerIo, Metric::Iops]);
    }
    if has(Metric::JPerMio) {
        metrics.extend([Metric::JPerMio, Metric::BytesPerJ, Metric::CtxPerIo]);
    }
    // The focus may equal another column.
    let same = |m: Metric| match (m, &ranking.focus) {
        (Metric::FocusP99, Focus::Reads) if both => Metric::ReadP99,
        (Metric::FocusP99, Focus::Reads | Focus::All) if !both => Metric::P99,
        (m, _) => m,
    };
    let mut chosen: Vec<Metric> = Vec::new();
    for metric in metrics.into_iter().map(same) {
        if !chosen.contains(&metric) {
            chosen.push(metric);
        }
    }
    let metrics = chosen;
    let decided = same(ranking.metric);
    metrics
        .into_iter()
        .filter(|m| has(*m))
        .map(|m| column(ranking, m, full || m == decided || m == Metric::MbPerS))
        .collect()
}

fn column(ranking: &Ranking, metric: Metric, with_spread: bool) -> Column {
    let means = || ranking.rows.iter().map(|r| r.mean(metric)).filter(|v| v.is_finite());
    let least = means().fold(f64::INFINITY, f64::min);
    let (unit_name, unit) = match metric {
        Metric::MbPerS => ("MB/s", 1.0),
        Metric::Iops => ("IOPS", 1.0),
        Metric::Pv | Metric::Jain | Metric::CtxPerIo => ("", 1.0),
        Metric::JPerMio => ("J per M I/Os", 1.0),
        Metric::BytesPerJ if least >= 1e6 => ("MB per J", 1e6),
        Metric::BytesPerJ => ("kB per J", 1e3),
        // The unit, at most a second, in which the best value has a digit before the decimal point.
        _ if least >= 1e6 => ("s", 1e6),
        _ if least >= 1e3 => ("ms", 1e3),
        _ => ("us", 1.0),
    };
    let decimals = match least / unit {
        _ if matches!(metric, Metric::Pv | Metric::Jain) => 3,
        _ if metric == Metric::CtxPerIo => 2,
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

/// Wraps text at spaces into lines of at most `width`.
fn wrapped(text: &str, width: Option<u16>) -> String {
    let width = usize::from(width.unwrap_or(u16::MAX));
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_string());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sample;
    use dumbwaiter_advise::Goal;
    use serde_json::json;

    fn of(replicates: u32) -> Document {
        let scenario = json!({"name": "sample", "duration_s": 20});
        let versions = [("dumbwaiter".to_string(), "0.0.0".to_string())].into();
        Document::new("A shared disk", scenario, versions, sample::runs(5, replicates), Goal::default())
    }

    /// Five schedulers on two devices, three runs of each.
    pub(crate) fn document() -> Document {
        of(3)
    }

    #[test]
    fn the_table_of_a_comparison() {
        insta::assert_snapshot!(compare_text(&document(), Style { width: Some(100), colour: false }), @r"
        hdd:st1000dm003 · 3 runs of each · goal: balanced
            scheduler                MB/s          desktop p99 ms    read p99 ms    write p99 ms       PV
         ▸  deadline     8.35 (8.27–8.43)        41.0 (28.7–58.5) *          129 ≈           163 ≈  5.683 ≈
         ≈  kyber        8.29 (8.12–8.47)       53.1 (24.6–114.6) ≈          154             152 ≈  5.839 ≈
         ≈  mq-deadline  8.45 (8.32–8.58)       67.8 (44.2–104.0) ≈          132 ≈           120 ≈  5.758 ≈
         ≈  none         8.49 (8.04–8.96)      151.2 (83.3–274.3) ≈          146             154 ≈  5.528 *
         ≈  sstf         8.86 (8.71–9.00) *  411.0 (158.8–1063.7) ≈          117 *           105 *  5.568 ≈
        ▸ recommended   * best of its column   ≈ no significant difference (p > 0.05)   (95 % confidence)

        On hdd:st1000dm003, use deadline: no other has a better p99 latency of desktop than its 41.0 ms by
        more than chance at 94 % of the best throughput (8.35 MB/s); but sstf moves 6 % more, at 411 ms.

        ssd:px-256m5s · 3 runs of each · goal: balanced
            scheduler             MB/s      desktop p99 ms    read p99 ms    write p99 ms       PV
         ▸  mq-deadline  336 (335–337)    1.29 (1.16–1.45) *         3.28            3.36    5.692 ≈
         ≈  deadline     332 (330–334)    1.46 (1.25–1.71) ≈         3.34            3.46    5.676 *
            kyber        330 (328–331)    2.28 (2.05–2.55)           3.49            3.46    5.693 ≈
            none         343 (342–344)    3.98 (3.78–4.19)           3.73            3.64    5.707 ≈
            sstf         357 (354–359) *  7.73 (6.85–8.73)           2.85 *          2.57 *  5.703 ≈
        ▸ recommended   * best of its column   ≈ no significant difference (p > 0.05)   (95 % confidence)

        On ssd:px-256m5s, use mq-deadline: it has the lowest p99 latency of desktop, 1.29 ms (up to 7.73 ms
        with sstf) at 94 % of the best throughput (336 MB/s); but sstf moves 6 % more, at 7.73 ms.
        ");
    }

    #[test]
    fn single_runs_are_not_tested() {
        let text = compare_text(&of(1), Style::default());
        assert!(!text.contains(TIE) && text.contains("chance is not ruled out"), "{text}");
    }

    #[test]
    fn colour_is_used_only_if_allowed() {
        assert!(!compare_text(&document(), Style::default()).contains('\x1b'));
        let text = compare_text(&document(), Style { width: None, colour: true });
        assert!(text.lines().any(|l| l.starts_with("\x1b[1m") && l.contains(WINNER)), "{text}");
    }

    #[test]
    fn every_goal_names_a_scheduler_that_ran() {
        for goal in Goal::ALL {
            let d = Document { goal, ..document() };
            for r in d.rankings() {
                assert!(r.rows.iter().any(|row| row.scheduler == r.recommendation.scheduler));
                assert!(!r.recommendation.caveats.is_empty());
            }
        }
    }
}
