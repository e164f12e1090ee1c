//! The report: one self-contained HTML file.

mod figures;
mod page;
mod palette;

pub use page::{Grid, Page, PageSection, Plot, PlotLine};

use crate::applications::applications;
use crate::compare::{circumstances, headline, place};
use crate::file::{Error, write_file};
use crate::ranking_columns::{Column, columns};
use dumbwaiter_advise::{Document, Provenance, Ranking, Row};
use dumbwaiter_measure::{Difference, RunResult, latency_text};
use figures::{Figure, Group, figures};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value as Shown, context};
use palette::{Look, label, looks};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// A value in the table of a ranking.
#[derive(Serialize)]
struct ValueView {
    mean: String,
    spread: String,
    best: bool,
    tie: bool,
}

/// A row of a ranking.
#[derive(Serialize)]
struct RowView {
    rank: usize,
    scheduler: String,
    look: LookView,
    tie: bool,
    cells: Vec<ValueView>,
}

/// Line style of a scheduler, for the legend.
#[derive(Clone, Serialize)]
struct LookView {
    scheduler: String,
    colour: &'static str,
    dash: &'static str,
}

/// The nested latencies of one run.
#[derive(Serialize)]
struct NestedView {
    look: LookView,
    interval_s: f64,
    intervals: u64,
    rows: Vec<[String; 7]>,
}

/// The section of one device.
#[derive(Serialize)]
struct Section {
    id: String,
    place: String,
    headline: String,
    /// The number behind the confidence.
    certainty: String,
    circumstances: String,
    apply: Vec<String>,
    undo: Vec<String>,
    sentence: String,
    caveats: Vec<String>,
    runs_each: usize,
    /// Any figure was tested for significance.
    tested: bool,
    /// Name and unit of each column.
    columns: Vec<(String, &'static str)>,
    rows: Vec<RowView>,
    legend: Vec<LookView>,
    applications: Vec<ApplicationsView>,
    figures: Vec<FigureView>,
    nested: Vec<NestedView>,
}

/// Results of applications.
#[derive(Serialize)]
struct ApplicationsView {
    title: &'static str,
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

#[derive(Serialize)]
struct FigureView {
    id: String,
    title: &'static str,
    caption: String,
    wide: bool,
}

/// The report as text.
pub fn html(document: &Document) -> String {
    let looks = looks(document);
    let mut specs = serde_json::Map::new();
    let sections: Vec<Section> =
        document.rankings().iter().enumerate().map(|(i, r)| section(document, r, i, &looks, &mut specs)).collect();
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let template = "report.html";
    environment
        .add_template(template, include_str!("../../templates/report.html"))
        .and_then(|()| {
            environment.get_template(template)?.render(context! {
                title => if document.title.is_empty() { "Comparison of I/O schedulers" } else { &document.title },
                conditions => Shown::from(Serde(conditions(document))),
                warnings => Shown::from(Serde(&document.warnings)),
                notes => Shown::from(Serde(&document.notes)),
                sections => Shown::from(Serde(&sections)),
                scenario => scenario_text(document),
                style => Shown::from_safe_string(include_str!("../../templates/report.css").to_string()),
                script => Shown::from_safe_string(include_str!("../../templates/report.js").to_string()),
                plotly => Shown::from_safe_string(plotly_script()),
                specs => Shown::from_safe_string(in_script(&serde_json::Value::Object(specs).to_string())),
                results => Shown::from_safe_string(in_script(&document.to_json())),
            })
        })
        .expect("the template is part of the program and its context is complete")
}

/// Writes the report to a file, completely or not at all.
pub fn write_html(document: &Document, path: &Path) -> Result<(), Error> {
    write_file(path, |out| out.write_all(html(document).as_bytes()))
}

/// Plotly as a script element, without the MathJax that the crate's text also contains.
fn plotly_script() -> String {
    let all = plotly::Plot::offline_js_sources();
    let end = "</script>";
    let first = all.find(end).map_or(all.len(), |at| at + end.len());
    all[..first].to_string()
}

/// JSON that cannot end its script element.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// The scenario as written if it is text, else as JSON.
fn scenario_text(document: &Document) -> String {
    match &document.scenario {
        serde_json::Value::String(text) => text.clone(),
        other => format!("{other:#}"),
    }
}

/// Conditions of the runs: name and value.
fn conditions(document: &Document) -> Vec<(&'static str, String)> {
    let runs = &document.runs;
    let distinct = |of: &dyn Fn(&RunResult) -> String| {
        let mut seen: Vec<String> = Vec::new();
        for text in runs.iter().map(of) {
            if !text.is_empty() && !seen.contains(&text) {
                seen.push(text);
            }
        }
        seen.join(", ")
    };
    let measured = {
        let (least, most) =
            runs.iter().fold((f64::INFINITY, 0.0f64), |(a, b), r| (a.min(r.duration_s), b.max(r.duration_s)));
        match (latency_text(least * 1e6), latency_text(most * 1e6)) {
            (a, b) if a == b => a,
            (a, b) => format!("{a} to {b}"),
        }
    };
    let requests: u64 = runs.iter().map(|r| r.completed).sum();
    let mut all = vec![
        ("Devices", distinct(&|r| r.device.clone())),
        ("Schedulers", distinct(&|r| r.scheduler.clone())),
        ("Varied", distinct(&|r| r.variant.clone())),
        ("Run", distinct(&|r| if r.world == "sim" { "simulated".into() } else { r.world.clone() })),
        ("Block layer", distinct(&|r| if r.via == "sim" { String::new() } else { r.via.clone() })),
        ("Completion", distinct(&|r| r.completion.clone())),
        ("Goal", document.goal.name().to_string()),
        ("Runs", format!("{} ({requests} requests measured)", runs.len())),
        ("Measured time of a run", if runs.is_empty() { String::new() } else { measured }),
        ("Seeds", distinct(&|r| r.seed.to_string())),
    ];
    let versions: Vec<String> = document.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    all.push(("Versions", versions.join(", ")));
    all.extend(provenance(&document.provenance));
    all.retain(|(_, text)| !text.is_empty());
    all
}

/// Where the results come from: name and value.
fn provenance(of: &Provenance) -> Vec<(&'static str, String)> {
    let mut all = vec![("Command", of.command.clone()), ("Commit", of.commit.clone().unwrap_or_default())];
    if let Some(machine) = &of.machine {
        let memory = machine.memory_bytes as f64 / 1e9;
        all.push(("Kernel", machine.kernel.clone()));
        all.push(("Machine", format!("{} · {} CPUs · {memory:.1} GB", machine.cpu, machine.cpus)));
        all.push(("Load before and after", format!("{:.2}, {:.2}", machine.load_before, machine.load_after)));
    }
    if let Some(drive) = &of.drive {
        let named = [drive.model.as_str(), &drive.firmware].map(str::trim).join(" ");
        all.push(("Drive", format!("{} {} · {:.1} GB", drive.path, named.trim(), drive.bytes as f64 / 1e9)));
        let queue: Vec<String> = drive.queue.iter().map(|(name, value)| format!("{name}={value}")).collect();
        all.push(("Queue settings", queue.join(", ")));
    }
    all
}

fn view(look: &Look) -> LookView {
    LookView { scheduler: look.scheduler.clone(), colour: look.colour, dash: look.dash_svg }
}

fn section(
    document: &Document,
    ranking: &Ranking,
    number: usize,
    looks: &[Look],
    specs: &mut serde_json::Map<String, serde_json::Value>,
) -> Section {
    let here = |r: &&RunResult| r.device == ranking.device && r.variant == ranking.variant;
    let groups: Vec<Group> = looks
        .iter()
        .map(|look| Group {
            look,
            runs: document
                .runs
                .iter()
                .filter(here)
                .filter(|r| label(document, r.configuration()) == look.scheduler)
                .collect(),
        })
        .filter(|g| !g.runs.is_empty())
        .collect();
    let columns = columns(ranking, true);
    let rows = ranking.rows.iter().filter_map(|row| row_view(document, looks, &columns, row));
    let figures = figures(&groups, ranking).into_iter().enumerate().map(|(i, figure)| {
        let Figure { title, caption, wide, spec } = figure;
        let id = format!("plot-{number}-{i}");
        specs.insert(id.clone(), spec);
        FigureView { id, title, caption, wide }
    });
    let of_applications = applications(document, ranking).into_iter().map(|of| ApplicationsView {
        title: of.title,
        header: of.header.into_iter().map(|(title, _)| title).collect(),
        rows: of.rows,
    });
    // The whole document determines names better than one of its rankings.
    let told = document.recommendation.iter().find(|r| r.device == ranking.device && r.variant == ranking.variant);
    Section {
        id: format!("device-{number}"),
        place: place(ranking),
        headline: headline(&ranking.verdict),
        certainty: ranking.verdict.certainty.clone(),
        circumstances: circumstances(ranking),
        apply: ranking.verdict.apply.clone(),
        undo: ranking.verdict.undo.clone(),
        sentence: told.unwrap_or(&ranking.recommendation).sentence.clone(),
        caveats: ranking.recommendation.caveats.clone(),
        runs_each: ranking.rows.iter().map(|r| r.replicates).max().unwrap_or(0),
        tested: ranking.is_tested(),
        columns: columns
            .iter()
            .map(|c| (c.name.clone(), if c.unit_name == "us" { "µs" } else { c.unit_name }))
            .collect(),
        rows: rows.collect(),
        legend: groups.iter().map(|g| view(g.look)).collect(),
        applications: of_applications.collect(),
        figures: figures.collect(),
        nested: groups.iter().map(nested).collect(),
    }
}

/// A row of the table; `None` for one that no group has.
fn row_view(document: &Document, looks: &[Look], columns: &[Column], row: &Row) -> Option<RowView> {
    let name = label(document, (&row.scheduler, &row.via, &row.completion));
    let value = |column: &Column| {
        let estimate = row.metrics.get(column.metric.key())?;
        let (mean, spread, _) = column.parts(estimate);
        let (best, tie) = (estimate.difference == Difference::Best, estimate.difference == Difference::Tie);
        Some(ValueView { mean, spread, best, tie })
    };
    Some(RowView {
        rank: row.rank,
        look: looks.iter().find(|l| l.scheduler == name).map(view)?,
        scheduler: name,
        tie: row.difference == Difference::Tie,
        cells: columns.iter().filter_map(value).collect(),
    })
}

fn nested(group: &Group) -> NestedView {
    let table = &group.runs[0].latency_nested_us;
    let row = |r: &dumbwaiter_measure::NestedRow| {
        let [cumulative, best, p50, p90, p99, worst] =
            [r.cumulative, r.best, r.p50, r.p90, r.p99, r.worst].map(latency_text);
        [r.percentile.clone(), cumulative, best, p50, p90, p99, worst]
    };
    NestedView {
        look: view(group.look),
        interval_s: table.interval_s,
        intervals: table.intervals,
        rows: table.rows.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::document;

    #[test]
    fn the_page_is_self_contained() {
        let page = html(&document());
        let own = page.replace(&plotly_script(), "");
        assert!(!own.contains("http://") && !own.contains("https://"), "a link in our part");
        assert!(!own.contains("src="), "something is loaded");
        assert_eq!(page.matches("plotly.js v").count(), 1, "one copy of the script");
        assert!(!page.contains("tex-svg.js"), "MathJax is left out");
        assert!(page.len() < 7_000_000, "{} bytes", page.len());
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let mut d = document();
        d.title = "</script><script>alert(1)</script>".to_string();
        d.scenario = serde_json::json!({"name": "</script><b>"});
        d.runs.iter_mut().for_each(|r| r.scheduler = format!("<i>{}", r.scheduler));
        let page = html(&d);
        assert!(!page.contains("<script>alert") && !page.contains("</script><b>") && !page.contains("<i>"));
    }

    #[test]
    fn the_results_can_be_extracted_from_the_page() {
        let d = document();
        let page = html(&d);
        let start = page.find("<script type=\"application/json\" id=\"results\">").unwrap();
        let json = &page[start..][page[start..].find('>').unwrap() + 1..];
        let json = &json[..json.find("</script>").unwrap()];
        let read: Document = serde_json::from_str(json).unwrap();
        assert_eq!(read.to_json(), d.to_json());
    }

    #[test]
    fn equal_documents_give_equal_pages_and_no_runs_a_page_without_plots() {
        assert_eq!(html(&document()), html(&document()));
        let mut d = document();
        d.runs.clear();
        assert!(html(&d).contains("<title>"));
    }
}
