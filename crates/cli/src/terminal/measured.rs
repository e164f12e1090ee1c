//! Predictions beside measurements of real drives.

use dumbwaiter_fidelity::measured::{CaseVerdict, Errors, Group, MeasuredAgainst, MeasuredAnswers, Order, Outcome};
use dumbwaiter_measure::grouped;
use dumbwaiter_report::{Align, Style, table};

/// All rows, one line each, then [`measured_summary_text`].
pub fn measured_text(found: &MeasuredAnswers, style: Style) -> String {
    let header = [
        ("figure", Align::Left),
        ("condition", Align::Left),
        ("scheduler", Align::Left),
        ("role", Align::Left),
        ("IOPS", Align::Right),
        ("predicted", Align::Right),
        ("MB/s", Align::Right),
        ("mean us", Align::Right),
        ("predicted", Align::Right),
        ("p50", Align::Right),
        ("p95", Align::Right),
        ("p99 us", Align::Right),
        ("predicted", Align::Right),
        ("CPU/IO", Align::Right),
    ];
    let rows: Vec<Vec<String>> = found.rows.iter().map(row).collect();
    let mut text = table(&header, &rows, style);
    text += "x: predicted by measured\n";
    for note in notes(&found.rows) {
        text += &format!("{note}\n");
    }
    text.push('\n');
    text + &measured_summary_text(found, style)
}

fn row(row: &MeasuredAgainst) -> Vec<String> {
    let name = [&row.figure, &row.condition, &row.scheduler, &row.role].map(Clone::clone).to_vec();
    let figures = &row.figures;
    let measured = vec![whole(figures.iops_measured)];
    if let Some(reason) = &row.reason {
        return [name, measured, vec![format!("not run: {reason}")]].concat();
    }
    let rest = vec![
        whole(figures.iops_predicted),
        times(figures.mb_s_ratio),
        short(figures.mean_us_measured),
        short(figures.mean_us_predicted),
        bound(row.clipped.p50, figures.p50_ratio),
        bound(row.clipped.p95, figures.p95_ratio),
        short(figures.p99_us_measured),
        short(figures.p99_us_predicted),
        times(figures.cpu_ratio),
    ];
    [name, measured, rest].concat()
}

/// Remarks, each once with the number of its rows.
fn notes(rows: &[MeasuredAgainst]) -> Vec<String> {
    let mut found: Vec<(&str, usize)> = Vec::new();
    for note in rows.iter().filter_map(|row| row.note.as_deref()) {
        match found.iter_mut().find(|(own, _)| *own == note) {
            Some((_, n)) => *n += 1,
            None => found.push((note, 1)),
        }
    }
    found.into_iter().map(|(note, n)| format!("note: {n} rows: {note}")).collect()
}

/// Errors by scheduler and by kind of load, the order of schedulers, and the verdicts.
pub fn measured_summary_text(found: &MeasuredAnswers, style: Style) -> String {
    let summary = &found.summary;
    let rows = found.rows.len();
    let not_run = found.rows.iter().filter(|row| !row.was_run()).count();
    let mut text = format!("{} rows, {} not run\n", grouped(rows as u64), grouped(not_run as u64));
    text += &groups_text("scheduler", &summary.schedulers, style);
    text.push('\n');
    text += &groups_text("load", &summary.loads, style);
    text += "error: |predicted / measured - 1|\n";
    text += &order_text("IOPS", summary.order_iops);
    text += &order_text("p99", summary.order_p99);
    if !found.verdicts.is_empty() {
        text.push('\n');
        text += &verdicts_text(&found.verdicts, style);
    }
    text
}

fn groups_text(title: &str, groups: &[Group], style: Style) -> String {
    let header = [
        (title, Align::Left),
        ("figure", Align::Left),
        ("rows", Align::Right),
        ("median error", Align::Right),
        ("within 15 %", Align::Right),
        ("25 %", Align::Right),
        ("30 %", Align::Right),
        ("50 %", Align::Right),
        ("2x", Align::Right),
        ("worst", Align::Right),
        ("where", Align::Left),
    ];
    let line = |group: &Group, name: &str, e: &Errors| {
        vec![
            group.name.clone(),
            name.to_owned(),
            e.rows.to_string(),
            percent(e.median),
            percent(e.within_15),
            percent(e.within_25),
            percent(e.within_30),
            percent(e.within_50),
            percent(e.within_2x),
            times(Some(e.worst_ratio)),
            e.worst.clone(),
        ]
    };
    let lines =
        groups.iter().flat_map(|group| group.errors.iter().map(move |(name, errors)| line(group, name, errors)));
    table(&header, &lines.collect::<Vec<_>>(), style)
}

fn order_text(name: &str, order: Order) -> String {
    if order.pairs == 0 {
        return String::new();
    }
    let Order { pairs, right, ties } = order;
    format!(
        "order of schedulers by {name}, where they differ by 5 %: {right} of {pairs} pairs right, {ties} predicted equal: {}\n",
        percent(order.share())
    )
}

fn verdicts_text(verdicts: &[CaseVerdict], style: Style) -> String {
    let header = [
        ("figure", Align::Left),
        ("condition", Align::Left),
        ("decision", Align::Left),
        ("recommended", Align::Left),
        ("confidence", Align::Left),
        ("measured best", Align::Left),
        ("loss", Align::Right),
        ("that is", Align::Left),
    ];
    let line = |v: &CaseVerdict| {
        vec![
            v.figure.clone(),
            v.condition.clone(),
            v.decision.to_owned(),
            v.recommended.clone().unwrap_or_default(),
            v.confidence.name().to_owned(),
            v.best_measured.clone().unwrap_or_default(),
            v.loss.map_or_else(String::new, percent),
            outcome(v.outcome).to_owned(),
        ]
    };
    let mut text = table(&header, &verdicts.iter().map(line).collect::<Vec<_>>(), style);
    let count = |of: Outcome| verdicts.iter().filter(|v| v.outcome == of).count();
    let clear = verdicts.iter().filter(|v| v.outcome == Outcome::Wrong && v.confidence.name() == "clear").count();
    text += &format!(
        "{} verdicts: {} right, {} harmless, {} wrong ({clear} of them clear)\n",
        verdicts.len(),
        count(Outcome::Right),
        count(Outcome::Harmless),
        count(Outcome::Wrong)
    );
    text
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Right => "right",
        Outcome::Harmless => "harmless",
        Outcome::Wrong => "wrong",
        Outcome::Unknown => "unknown",
    }
}

fn percent(share: f64) -> String {
    if share.is_infinite() {
        return "starved".to_owned();
    }
    format!("{:.0} %", share * 100.0)
}

fn times(ratio: Option<f64>) -> String {
    match ratio {
        None => String::new(),
        Some(ratio) if ratio.is_finite() => format!("x{ratio:.2}"),
        Some(_) => "starved".to_owned(),
    }
}

fn bound(clipped: bool, ratio: Option<f64>) -> String {
    let mark = if clipped { ">" } else { "" };
    ratio.map_or_else(String::new, |ratio| format!("{mark}x{ratio:.2}"))
}

fn whole(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| grouped(value.round() as u64))
}

fn short(us: Option<f64>) -> String {
    us.map_or_else(String::new, |us| if us < 1000.0 { format!("{us:.1}") } else { grouped(us.round() as u64) })
}
