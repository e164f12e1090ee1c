//! The advice for a drive as text.

use dumbwaiter_advise::completion::Methods;
use dumbwaiter_advise::{Advice, Metric, rank};

use crate::table::{Align, Style, table};

/// A load of the survey: its column of the table and its line below it.
pub struct SurveyPoint<'a> {
    /// Its name in the results.
    pub name: &'a str,
    /// A description.
    pub about: &'a str,
    /// The metric to show.
    pub metric: Metric,
}

/// The advice as text for a terminal; the first of `points` is the load that decides.
pub fn advice_text(advice: &Advice, points: &[SurveyPoint<'_>], style: Style) -> String {
    let Some((header, lines)) = survey_table(advice, points) else { return String::new() };
    let header: Vec<(&str, Align)> = header.iter().map(|(title, align)| (title.as_str(), *align)).collect();
    let mut text =
        format!("{} · current: {} · surveyed for {:.0} s\n\n", advice.device, advice.current, advice.seconds);
    text += &table(&header, &lines, style);
    for point in points {
        text += &format!("\n{}: {}", point.name, point.about);
    }
    text += &format!("\n\n{}\n", advice.sentence);
    for loss in &advice.losses {
        text += &format!("{}\n", loss.sentence(&advice.recommended));
    }
    text += &format!("Criterion: {}.\n", advice.criterion);
    if !advice.keep {
        text += "\nTo set it now and at every boot:\n";
        for command in &advice.commands {
            text += &format!("  {command}\n");
        }
    }
    text += "\n";
    if !advice.completion.measured.is_empty() {
        text += &completion_table(&advice.completion, style);
        text += "\n";
    }
    text += &format!("{}\n", advice.completion.sentence);
    for how in &advice.completion.how {
        text += &format!("  {how}\n");
    }
    for note in &advice.survey.notes[1..] {
        text += &format!("note: {note}\n");
    }
    text
}

/// Titles and their alignment, and rows.
pub(crate) type Cells = (Vec<(String, Align)>, Vec<Vec<String>>);

/// The schedulers with their figures at each load; `None` where the load that decides did not run.
pub(crate) fn survey_table(advice: &Advice, points: &[SurveyPoint<'_>]) -> Option<Cells> {
    let rankings = rank(&advice.survey.runs, advice.survey.goal);
    let mut columns = vec![
        ("shared", Metric::FocusP99, "interactive p99 us".to_owned()),
        ("shared", Metric::MbPerS, "shared MB/s".to_owned()),
    ];
    for point in &points[1..] {
        let unit = if point.metric == Metric::Iops { "IOPS" } else { "MB/s" };
        columns.push((point.name, point.metric, format!("{} {unit}", point.name)));
    }
    let mut header = vec![(String::new(), Align::Left), ("scheduler".to_owned(), Align::Left)];
    header.extend(columns.iter().map(|(.., title)| (title.clone(), Align::Right)));
    let shared = rankings.iter().find(|r| r.variant == "shared")?;
    let mut lines = Vec::new();
    for scheduler in shared.rows.iter().map(|row| &row.scheduler) {
        let mark = if *scheduler == advice.recommended { "▸" } else { "" };
        let mut line = vec![mark.to_owned(), scheduler.clone()];
        for (point, metric, _) in &columns {
            let row = rankings.iter().find(|r| r.variant == *point);
            let row = row.and_then(|r| r.rows.iter().find(|row| row.scheduler == *scheduler));
            line.push(row.map_or(String::new(), |r| match r.mean(*metric) {
                starved if starved.is_infinite() => "starved".to_owned(),
                mean => format!("{mean:.0}"),
            }));
        }
        lines.push(line);
    }
    Some((header, lines))
}

fn completion_table(methods: &Methods, style: Style) -> String {
    let (header, lines) = completion_cells(methods);
    let header: Vec<(&str, Align)> = header.iter().map(|(title, align)| (title.as_str(), *align)).collect();
    table(&header, &lines, style)
}

/// The completion methods by depth.
pub(crate) fn completion_cells(methods: &Methods) -> Cells {
    let header = [
        ("depth", Align::Right),
        ("completion", Align::Left),
        ("p50 us", Align::Right),
        ("p99 us", Align::Right),
        ("IOPS", Align::Right),
        ("CPU/IO us", Align::Right),
        ("median", Align::Left),
    ];
    let lines: Vec<Vec<String>> = methods
        .measured
        .iter()
        .map(|m| {
            let median =
                m.median.as_ref().map_or(String::new(), |g| format!("{:+.0} %, p = {:.3}", g.change * 100.0, g.p));
            vec![
                m.depth.to_string(),
                m.completion.clone(),
                format!("{:.1}", m.p50_us),
                format!("{:.1}", m.p99_us),
                format!("{:.0}", m.iops),
                format!("{:.1}", m.cpu_us_per_io),
                median,
            ]
        })
        .collect();
    (header.map(|(title, align)| (title.to_owned(), align)).to_vec(), lines)
}
