//! A comparison in other formats, CSV for spreadsheets among them.

use dumbwaiter_advise::{Diff, Document, Form, Metric, Ranking, RankingRow, Verdict};

use crate::compare::{compare_text, headline};
use crate::markdown::markdown;
use crate::table::{Align, Style, folded, table};

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for a terminal.
    #[default]
    Table,
    /// One row per scheduler, all metrics with their confidence intervals.
    Csv,
    /// Headings, sentences and tables of all columns.
    Markdown,
    /// The whole document.
    Json,
    /// The files that set what the verdicts recommend.
    Files(Form),
}

impl Format {
    /// The format of this name.
    pub fn parse(name: &str) -> Option<Format> {
        match name {
            "table" => Some(Format::Table),
            "csv" => Some(Format::Csv),
            "markdown" => Some(Format::Markdown),
            "json" => Some(Format::Json),
            _ => Form::ALL.into_iter().find(|form| form.name() == name).map(Format::Files),
        }
    }
}

/// The files of a form for all verdicts.
fn files(document: &Document, form: Form) -> String {
    let rankings = document.rankings();
    let classes = document.class_verdicts(&rankings);
    let of_class =
        |device: &String| !classes.is_empty() && document.provenance.classes.values().any(|of| of.contains(device));
    let alone = rankings.iter().filter(|ranking| !of_class(&ranking.device));
    let all = classes.iter().map(|(class, verdict)| (class.clone(), verdict));
    let all = all.chain(alone.map(|ranking| (ranking.place(), &ranking.verdict)));
    let one =
        |(place, verdict): (String, &Verdict)| form.text(&format!("{place}: {}", headline(verdict)), &verdict.apply);
    all.map(one).collect::<Vec<_>>().join("\n")
}

/// A document in a format; the style is that of a table.
pub fn document_text(document: &Document, format: Format, style: Style) -> String {
    match format {
        Format::Table => compare_text(document, style),
        Format::Csv => csv(document),
        Format::Markdown => markdown(document),
        Format::Json => document.to_json(),
        Format::Files(form) => files(document, form),
    }
}

/// A field of CSV: quoted where a reader would misread it.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn csv(document: &Document) -> String {
    let mut header: Vec<String> = [
        "device",
        "variant",
        "rank",
        "scheduler",
        "via",
        "completion",
        "can_be_set",
        "recommended",
        "confidence",
        "replicates",
    ]
    .map(str::to_owned)
    .to_vec();
    for metric in Metric::ALL {
        header.extend([metric.key().to_owned(), format!("{}_low", metric.key()), format!("{}_high", metric.key())]);
    }
    let mut text = header.join(",") + "\n";
    for ranking in &document.rankings() {
        for row in &ranking.rows {
            text += &(csv_row(ranking, row).iter().map(|cell| field(cell)).collect::<Vec<_>>().join(",") + "\n");
        }
    }
    text
}

fn csv_row(ranking: &Ranking, row: &RankingRow) -> Vec<String> {
    let verdict = &ranking.verdict;
    let recommended = row.rank == 1 && verdict.recommended.is_some();
    let mut cells = vec![
        row.device.clone(),
        row.variant.clone(),
        row.rank.to_string(),
        row.scheduler.clone(),
        row.via.clone(),
        row.completion.clone(),
        row.can_be_set.to_string(),
        recommended.to_string(),
        verdict.confidence.name().replace(' ', "-"),
        row.replicates.to_string(),
    ];
    for metric in Metric::ALL {
        let estimate = row.metrics.get(metric.key());
        let number = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
        let bound = |i: usize| number(estimate.and_then(|e| e.ci95).map(|ci| ci[i]));
        cells.extend([number(estimate.and_then(|e| e.mean)), bound(0), bound(1)]);
    }
    cells
}

/// The differences between two results as text: a sentence for each scheduler, then its other figures that changed.
pub fn diff_text(diff: &Diff, style: Style) -> String {
    let mut text = String::new();
    for sentence in &diff.summary {
        text += &format!("{}\n", folded(sentence, style.width, "  "));
    }
    let shown = diff.differences.iter().filter(|d| {
        !d.decides && matches!(d.verdict, dumbwaiter_advise::Change::Better | dumbwaiter_advise::Change::Worse)
    });
    let percent = |fraction: f64| format!("{:+.1} %", fraction * 100.0);
    let rows: Vec<Vec<String>> = shown
        .map(|d| {
            let interval = d.ci95.map_or(String::new(), |[low, high]| format!("{} to {}", percent(low), percent(high)));
            vec![
                d.device_b.clone(),
                d.scheduler.clone(),
                d.metric.clone(),
                percent(d.effect),
                interval,
                d.verdict.name().to_owned(),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let header = [
            ("device", Align::Left),
            ("scheduler", Align::Left),
            ("figure", Align::Left),
            ("effect", Align::Right),
            ("95 % confidence", Align::Right),
            ("", Align::Left),
        ];
        text += &format!("\nOther figures that changed:\n{}", table(&header, &rows, style));
    }
    for note in &diff.notes {
        text += &format!("{}\n", folded(&format!("note: {note}"), style.width, "  "));
    }
    text
}
