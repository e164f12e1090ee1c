//! Figures that were run, as text, as a page and as data.

use dumbwaiter_measure::grouped;
use dumbwaiter_report::{Align, Grid, Page, PageSection, Style, table};
use serde_json::json;

use crate::statements::counts;
use crate::{Figure, FigureResult, PAPERS, Paper, Row, Status};

/// A figure with its result.
pub type Finished = (&'static Paper, &'static Figure, FigureResult);

/// Every paper with its figures and its statements as they were last judged, as a table.
pub fn list(style: Style) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (paper, counts) in PAPERS.iter().zip(counts()) {
        let told = match counts.statements {
            0 => String::new(),
            all => format!("{all}: {} hold, {} fail, {} cannot", counts.holds, counts.fails, counts.cannot),
        };
        rows.push(vec![paper.name.to_owned(), paper.title.to_owned(), told]);
        let figure = |f: &Figure| vec![format!("  {}:{}", paper.name, f.name), f.title.to_owned(), String::new()];
        rows.extend(paper.figures.iter().map(figure));
    }
    let columns = [("name", Align::Left), ("what it shows", Align::Left), ("statements when last judged", Align::Left)];
    table(&columns, &rows, style)
}

/// The data of a page: rows, and what the figures are drawn from. `device`: the real device, where there was one.
pub fn data(quick: bool, device: Option<&str>, finished: &[Finished]) -> serde_json::Value {
    let rows: Vec<&Row> = finished.iter().flat_map(|(_, _, result)| &result.rows).collect();
    let mut papers: Vec<serde_json::Value> = Vec::new();
    for (paper, _, _) in finished {
        if papers.iter().all(|p| p["name"] != paper.name) {
            papers.push(json!({
                "name": paper.name, "title": paper.title, "calibration": paper.calibration,
                "chosen": paper.chosen.iter().map(|c| json!({"name": c.name, "what": c.what, "without": c.without})).collect::<Vec<_>>(),
            }));
        }
    }
    let figure = |(paper, figure, result): &Finished| {
        json!({
            "paper": paper.name, "figure": figure.name, "title": figure.title,
            "notes": result.notes, "plots": result.plots, "tables": result.tables,
        })
    };
    let figures: Vec<serde_json::Value> = finished.iter().map(figure).collect();
    json!({
        "schema": "dumbwaiter-reproduce/1", "version": env!("CARGO_PKG_VERSION"), "quick": quick,
        "world": if device.is_some() { "real" } else { "sim" }, "device": device,
        "papers": papers, "rows": rows, "figures": figures,
    })
}

const COLUMNS: [(&str, Align); 6] = [
    ("statement", Align::Left),
    ("metric", Align::Left),
    ("case", Align::Left),
    ("paper", Align::Right),
    ("ours", Align::Right),
    ("status", Align::Left),
];

/// Cells of a row, in the order of [`COLUMNS`].
fn cells(row: &Row) -> Vec<String> {
    let with_unit = |value: f64| format!("{} {}", number(value), row.unit).trim_end().to_owned();
    let fitted = row.calibrated || !row.fitted.is_empty();
    let status = match row.status {
        None => "",
        Some(Status::Cannot) => "cannot",
        Some(Status::Holds) if fitted => "holds (fitted)",
        Some(Status::Holds) => "holds",
        Some(Status::Fails) if fitted => "FAILS (fitted)",
        Some(Status::Fails) => "FAILS",
    };
    let id = row.statement.as_ref().map_or("", |id| id.rsplit('/').next().unwrap_or_default());
    let paper = row.paper_value.map_or("–".to_owned(), with_unit);
    let (metric, case) = (row.metric.clone(), row.case.clone());
    vec![id.to_owned(), metric, case, paper, with_unit(row.ours), status.to_owned()]
}

/// Four significant digits; whole thousands apart.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value.abs() >= 10_000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped(value.abs().round() as u64));
    }
    let digits = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 4) as usize };
    format!("{value:.digits$}")
}

/// The rows that no table of the figure shows.
fn shown(rows: &[Row]) -> Vec<Vec<String>> {
    rows.iter().filter(|r| !r.detail).map(cells).collect()
}

/// How many of the statements hold, in a sentence.
fn summary(rows: &[Row]) -> String {
    let stated = rows.iter().filter(|r| r.status.is_some());
    let count = |status: Status| stated.clone().filter(|r| r.status == Some(status)).count();
    let fitted = stated.clone().filter(|r| r.calibrated || !r.fitted.is_empty()).count();
    let [holds, fails, cannot] = [Status::Holds, Status::Fails, Status::Cannot].map(count);
    let all = format!("{} statements: {holds} hold, {fails} fail, {cannot} cannot be judged", stated.count());
    if rows.iter().any(|r| r.device.is_some()) {
        return format!("{all}; values of the paper are of another drive.");
    }
    format!("{all}; {fitted} are touched by what was chosen after the paper was seen.")
}

/// Why statements fail or cannot be judged, each reason once.
fn reasons(rows: &[Row]) -> Vec<String> {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for row in rows {
        let (what, why) = match (row.status, &row.cause, &row.reason) {
            (Some(Status::Fails), Some(cause), _) => ("fails", cause),
            (Some(Status::Cannot), _, Some(reason)) => ("cannot be judged", reason),
            _ => continue,
        };
        let id = row.statement.as_ref().map_or(row.case.as_str(), |id| id.rsplit('/').next().unwrap_or_default());
        let line = format!("{what}: {why}");
        match all.iter_mut().find(|(known, _)| *known == line) {
            Some((_, ids)) => ids.push(id),
            None => all.push((line, vec![id])),
        }
    }
    all.into_iter().map(|(line, ids)| format!("{} {line}", ids.join(", "))).collect()
}

/// What was chosen after the paper was seen, a line each.
fn chosen(paper: &Paper) -> Vec<String> {
    paper.chosen.iter().map(|c| format!("{}: {}; without it: {}", c.name, c.what, c.without)).collect()
}

/// The list of a run for `--json`: the statements; of papers that state nothing, what was measured. Of a real device, where figures are nowhere else, all rows.
pub fn listed(finished: &[Finished]) -> Vec<&Row> {
    let all = finished.iter().flat_map(|(paper, _, result)| {
        let states = !crate::statements::of(paper.name).is_empty();
        result.rows.iter().filter(move |row| row.status.is_some() || row.device.is_some() || !states)
    });
    all.collect()
}

/// Tables for a terminal.
pub fn text(device: Option<&str>, finished: &[Finished], style: Style) -> String {
    let mut text = String::new();
    let mut paper_before = "";
    for (paper, figure, result) in finished {
        if paper.name != paper_before {
            text += &match device {
                Some(device) => format!("{}\non {device}\n\n", paper.title),
                None => format!("{}\nfitted: {}\n", paper.title, paper.calibration),
            };
            if device.is_none() {
                for line in chosen(paper) {
                    text += &format!("chosen after the paper was seen: {line}\n");
                }
                text.push('\n');
            }
            paper_before = paper.name;
        }
        text += &format!("{}:{}: {}\n", paper.name, figure.name, figure.title);
        let rows = shown(&result.rows);
        if !rows.is_empty() {
            text += &table(&COLUMNS, &rows, style);
        }
        for grid in &result.tables {
            let header: Vec<(&str, Align)> = grid.header.iter().map(|h| (h.as_str(), Align::Right)).collect();
            text += &format!("\n{}\n{}", grid.title, table(&header, &grid.rows, style));
        }
        if !rows.is_empty() {
            text += &format!("{}\n", summary(&result.rows));
        }
        for line in reasons(&result.rows) {
            text += &format!("{line}\n");
        }
        for note in &result.notes {
            text += &format!("note: {note}\n");
        }
        text.push('\n');
    }
    text
}

/// A page with tables and plots.
pub fn page(device: Option<&str>, finished: &[Finished]) -> Page {
    let section = |(paper, figure, result): &Finished| {
        let about = device.map_or_else(|| format!("Fitted: {}", paper.calibration), |device| format!("On {device}"));
        let mut notes = vec![paper.title.to_owned(), about, summary(&result.rows)];
        notes.extend(reasons(&result.rows));
        if device.is_none() {
            notes.extend(chosen(paper).into_iter().map(|line| format!("chosen after the paper was seen: {line}")));
        }
        notes.extend(result.notes.iter().cloned());
        let rows = Grid {
            title: String::new(),
            header: COLUMNS.iter().map(|c| c.0.to_owned()).collect(),
            rows: shown(&result.rows),
        };
        PageSection {
            title: format!("{}: {}", paper.name, figure.title),
            notes,
            tables: std::iter::once(rows).chain(result.tables.iter().cloned()).collect(),
            plots: result.plots.clone(),
            ..PageSection::default()
        }
    };
    let title = device.map_or("Published experiments on the models", |_| "Published experiments on a real drive");
    Page { title: title.to_owned(), sections: finished.iter().map(section).collect() }
}
