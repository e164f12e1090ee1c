//! Figures that were run, as text, as a page and as data.

use dumbwaiter_measure::grouped;
use dumbwaiter_report::{Align, Grid, Page, PageSection, Style, table};
use serde_json::json;

use crate::{Figure, FigureResult, PAPERS, Paper, Row};

/// A figure with its result.
pub type Finished = (&'static Paper, &'static Figure, FigureResult);

/// Every paper with its figures, as a table.
pub fn list(style: Style) -> String {
    let rows: Vec<Vec<String>> = PAPERS
        .iter()
        .flat_map(|p| {
            let title = vec![p.name.to_owned(), p.title.to_owned()];
            std::iter::once(title)
                .chain(p.figures.iter().map(|f| vec![format!("  {}:{}", p.name, f.name), f.title.to_owned()]))
        })
        .collect();
    table(&[("name", Align::Left), ("what it shows", Align::Left)], &rows, style)
}

/// The data of a page: rows, and what the figures are drawn from. `device`: the real device, where there was one.
pub fn data(quick: bool, device: Option<&str>, finished: &[Finished]) -> serde_json::Value {
    let rows: Vec<&Row> = finished.iter().flat_map(|(_, _, result)| &result.rows).collect();
    let mut papers: Vec<serde_json::Value> = Vec::new();
    for (paper, _, _) in finished {
        if papers.iter().all(|p| p["name"] != paper.name) {
            papers.push(json!({"name": paper.name, "title": paper.title, "calibration": paper.calibration}));
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
    ("metric", Align::Left),
    ("case", Align::Left),
    ("paper", Align::Right),
    ("ours", Align::Right),
    ("ordering", Align::Left),
    ("tolerance", Align::Left),
];

/// Those for rows of the models, or of a real device: no drive is within a tolerance of another.
fn columns(real: bool) -> &'static [(&'static str, Align)] {
    if real { &COLUMNS[..COLUMNS.len() - 1] } else { &COLUMNS }
}

/// Cells of a row, in the order of [`columns`].
fn cells(row: &Row) -> Vec<String> {
    let with_unit = |value: f64| format!("{} {}", number(value), row.unit).trim_end().to_owned();
    let ordering = match row.ordering_holds {
        Some(true) if !row.judged => "holds; not judged",
        Some(false) if !row.judged => "does not hold; not judged",
        Some(true) => "holds",
        Some(false) => "DOES NOT HOLD",
        None => "",
    };
    let tolerance = match row.within_tolerance {
        Some(true) if !row.judged => "within; not judged",
        Some(false) if !row.judged => "missed; not judged",
        Some(true) if row.calibrated => "within (fitted to it)",
        Some(true) => "within",
        Some(false) if row.calibrated => "MISSED (fitted to it)",
        Some(false) => "MISSED",
        None => "the paper gives no number",
    };
    let paper = row.paper_value.map_or("–".to_owned(), with_unit);
    let mut cells = vec![row.metric.clone(), row.case.clone(), paper, with_unit(row.ours), ordering.to_owned()];
    if row.device.is_none() {
        cells.push(tolerance.to_owned());
    }
    cells
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

/// How many of the judged rows hold, in a sentence.
fn summary(rows: &[Row]) -> String {
    let count = |of: &dyn Fn(&Row) -> bool| rows.iter().filter(|r| r.judged && of(r)).count();
    let orderings = count(&|r| r.ordering_holds.is_some());
    let values = count(&|r| r.within_tolerance.is_some());
    if rows.iter().any(|r| r.device.is_some()) {
        let hold = count(&|r| r.ordering_holds == Some(true));
        return format!("{hold} of {orderings} orderings hold; values of the paper are of another drive.");
    }
    format!(
        "{} of {orderings} orderings hold, {} of {values} values within tolerance ({} of these fitted).",
        count(&|r| r.ordering_holds == Some(true)),
        count(&|r| r.within_tolerance == Some(true)),
        count(&|r| r.within_tolerance == Some(true) && r.calibrated),
    )
}

/// Tables for a terminal.
pub fn text(device: Option<&str>, finished: &[Finished], style: Style) -> String {
    let mut text = String::new();
    let mut paper_before = "";
    for (paper, figure, result) in finished {
        if paper.name != paper_before {
            text += &match device {
                Some(device) => format!("{}\non {device}\n\n", paper.title),
                None => format!("{}\nfitted: {}\n\n", paper.title, paper.calibration),
            };
            paper_before = paper.name;
        }
        text += &format!("{}:{}: {}\n", paper.name, figure.name, figure.title);
        let rows = shown(&result.rows);
        if !rows.is_empty() {
            text += &table(columns(device.is_some()), &rows, style);
        }
        for grid in &result.tables {
            let header: Vec<(&str, Align)> = grid.header.iter().map(|h| (h.as_str(), Align::Right)).collect();
            text += &format!("\n{}\n{}", grid.title, table(&header, &grid.rows, style));
        }
        if !rows.is_empty() {
            text += &format!("{}\n", summary(&result.rows));
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
        notes.extend(result.notes.iter().cloned());
        let rows = Grid {
            title: String::new(),
            header: columns(device.is_some()).iter().map(|c| c.0.to_owned()).collect(),
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
