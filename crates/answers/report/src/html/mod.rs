//! The report: one self-contained HTML file.

mod conditions;
mod detail;
mod figure;
mod figures;
mod front;
mod heat_maps;
mod over_time;
mod page;
mod palette;
mod time_parts;

pub use page::{HeatMap, Page, PageSection, Plot, PlotLine};

use crate::advice::SurveyPoint;
use crate::applications::applications;
use crate::compare::{absent_note, apply_title, circumstances, headline, is_absent};
use crate::file::{Error, write_file};
use crate::grid::word_columns;
use crate::ranking_columns::{Column, columns};
use crate::suite::suite_grids;
use conditions::conditions;
use detail::Detail;
use dumbwaiter_advise::{Advice, Axes, Document, Extent, Ranking, RankingRow};
use dumbwaiter_measure::{Difference, RunResult, latency_text};
use figure::{Figure, Group};
use figures::figures;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value as Shown, context, escape_formatter};
use palette::{Look, axes, label, looks};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Pages of more devices show each of them behind a fold.
const SECTIONS_OPEN_MAX: usize = 4;

/// A value in the table of a ranking.
#[derive(Serialize)]
struct ValueView {
    mean: String,
    spread: String,
    best: bool,
    tie: bool,
    /// The mean as a number, to sort by; empty if undefined.
    order: String,
}

/// A row of a ranking.
#[derive(Serialize)]
struct RowView {
    rank: usize,
    scheduler: String,
    look: LookView,
    tie: bool,
    /// The kernel lacks it.
    absent: bool,
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
    apply_title: String,
    apply: Vec<String>,
    undo: Vec<String>,
    sentence: String,
    /// Alternatives in a line each, and where the time goes.
    trades: Vec<String>,
    why: Vec<String>,
    /// Caveats that weaken the answer, and those that say what decided.
    weakening: Vec<String>,
    caveats: Vec<String>,
    runs_each: usize,
    /// Any figure was tested for significance.
    tested: bool,
    /// Explanation of the mark of schedulers that the kernel lacks.
    absent_note: Option<String>,
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
    title: String,
    caption: String,
    wide: bool,
}

/// The page of a comparison.
pub fn html(document: &Document) -> String {
    page_of(document, None)
}

/// The page of a survey: what to set first, the runs behind a fold.
pub fn advice_html(advice: &Advice, points: &[SurveyPoint<'_>]) -> String {
    page_of(&advice.survey, Some(front::advice(advice, points)))
}

fn page_of(document: &Document, advice: Option<front::AdviceView>) -> String {
    let looks = looks(document);
    let rankings = document.rankings();
    let (sections, specs) = detail::fitting(|detail| {
        let mut specs = serde_json::Map::new();
        let sections: Vec<Section> =
            rankings.iter().enumerate().map(|(i, r)| section(document, r, i, &looks, detail, &mut specs)).collect();
        let specs = in_script(&serde_json::Value::Object(specs).to_string());
        let bytes = specs.len();
        ((sections, specs), bytes)
    });
    let title = if document.title.is_empty() { "Comparison of I/O schedulers" } else { &document.title };
    let with = |results: &str, left_out: Option<&str>| {
        render(
            "report.html",
            include_str!("../../templates/report.html"),
            context! {
                title => advice.as_ref().map_or(title, |advice| &advice.title),
                advice => Shown::from(Serde(&advice)),
                suite => Shown::from(Serde(&suite_grids(document))),
                suite_lines => Shown::from(Serde(&suite_lines(document))),
                class_lines => Shown::from(Serde(&class_lines(document, &rankings))),
                folded => advice.is_some() || sections.len() > SECTIONS_OPEN_MAX,
                conditions => Shown::from(Serde(conditions(document))),
                warnings => Shown::from(Serde(&document.warnings)),
                notes => Shown::from(Serde(&document.notes)),
                sections => Shown::from(Serde(&sections)),
                scenario => scenario_text(document),
                left_out => left_out,
                specs => Shown::from_safe_string(specs.clone()),
                results => Shown::from_safe_string(results.to_owned()),
            },
        )
    };
    // Bytes that the rest of the page leaves. `<` takes more bytes in a script than in the results.
    let room = detail::PAGE_BYTES_MAX.saturating_sub(with("", None).len() + 1000);
    let (mut results, mut left_out) = detail::results(document, room);
    if in_script(&results).len() > room {
        (results, left_out) = detail::results(document, room / 6);
    }
    with(&in_script(&results), left_out)
}

/// What several scenarios say together, then each class of drives.
fn suite_lines(document: &Document) -> Vec<String> {
    let Some(verdict) = &document.suite_verdict else { return Vec::new() };
    let first = if verdict.drive_class.is_empty() { vec![verdict.sentence.clone()] } else { Vec::new() };
    first.into_iter().chain(verdict.lines().into_iter().filter(|line| *line != verdict.sentence)).collect()
}

/// What is said of classes of drives, before their models.
fn class_lines(document: &Document, rankings: &[Ranking]) -> Vec<String> {
    let mut lines = Vec::new();
    for (class, verdict) in document.class_verdicts(rankings) {
        lines.push(format!("{class}: {} ({})", headline(&verdict), verdict.certainty));
        lines.extend(crate::compare::lines(&verdict, usize::MAX));
    }
    lines
}

/// A template with the styles and scripts that all pages have.
fn render(name: &str, template: &str, own: Shown) -> String {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    // Names may hold control characters, which a terminal would obey if the page is printed.
    environment.set_formatter(|out, state, value| match value.as_str().filter(|_| !value.is_safe()) {
        Some(text) => escape_formatter(out, state, &Shown::from(dumbwaiter_text::escape(text))),
        None => escape_formatter(out, state, value),
    });
    environment.add_filter("word_columns", |rows: Vec<Vec<String>>| word_columns(&rows));
    let all = context! {
        style => Shown::from_safe_string(include_str!("../../templates/report.css").to_string()),
        script => Shown::from_safe_string(include_str!("../../templates/report.js").to_string()),
        plotly => Shown::from_safe_string(plotly_script()),
        ..own
    };
    let tables = include_str!("../../templates/tables.html");
    environment
        .add_template("tables.html", tables)
        .and_then(|()| environment.add_template(name, template))
        .and_then(|()| environment.get_template(name)?.render(all))
        .expect("the template is part of the program and its context is complete")
}

/// Writes the report to a file, completely or not at all.
pub fn write_html(document: &Document, path: &Path) -> Result<(), Error> {
    write_file(path, |out| out.write_all(html(document).as_bytes()))
}

/// Writes the page of a survey to a file, completely or not at all.
pub fn write_advice_html(advice: &Advice, points: &[SurveyPoint<'_>], path: &Path) -> Result<(), Error> {
    write_file(path, |out| out.write_all(advice_html(advice, points).as_bytes()))
}

/// The plotting library as a script element: the build of plotly.js that has lines, bars and heat maps only.
fn plotly_script() -> String {
    format!("<script>{}</script>", include_str!("../../vendor/plotly-cartesian.min.js"))
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

fn view(look: &Look) -> LookView {
    LookView { scheduler: look.scheduler.clone(), colour: look.colour, dash: look.dash_svg }
}

fn section(
    document: &Document,
    ranking: &Ranking,
    number: usize,
    looks: &[Look],
    detail: &Detail,
    specs: &mut serde_json::Map<String, serde_json::Value>,
) -> Section {
    let here = |r: &&RunResult| r.device == ranking.device && r.variant == ranking.variant;
    let axes = axes(document);
    let mut runs: BTreeMap<String, Vec<&RunResult>> = BTreeMap::new();
    for run in document.runs.iter().filter(here) {
        runs.entry(label(axes, run.configuration())).or_default().push(run);
    }
    let groups: Vec<Group> =
        looks.iter().filter_map(|look| runs.remove(&look.scheduler).map(|runs| Group { look, runs })).collect();
    let columns = columns(ranking, Extent::Page);
    let rows = ranking.rows.iter().filter_map(|row| row_view(axes, ranking, looks, &columns, row));
    let figures = figures(&groups, ranking, detail).into_iter().enumerate().map(|(i, figure)| {
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
    let recommendation =
        document.recommendation.iter().find(|r| r.device == ranking.device && r.variant == ranking.variant);
    let weakened_by = ranking.verdict.weakened_by.min(ranking.verdict.caveats.len());
    let (weakening, caveats) = ranking.verdict.caveats.split_at(weakened_by);
    Section {
        id: format!("device-{number}"),
        place: ranking.place(),
        headline: headline(&ranking.verdict),
        certainty: ranking.verdict.certainty.clone(),
        circumstances: circumstances(ranking),
        apply_title: apply_title(&ranking.verdict.apply),
        apply: ranking.verdict.apply.clone(),
        undo: ranking.verdict.undo.clone(),
        sentence: recommendation.map_or_else(|| ranking.verdict.sentence(), |r| r.sentence.clone()),
        trades: ranking.verdict.trades.clone(),
        why: ranking.verdict.why.clone(),
        weakening: weakening.to_vec(),
        caveats: caveats.to_vec(),
        runs_each: ranking.rows.iter().map(|r| r.replicates).max().unwrap_or(0),
        tested: ranking.is_tested(),
        absent_note: absent_note(ranking),
        columns: columns
            .iter()
            .map(|c| (c.name.clone(), if c.scale.name == "us" { "µs" } else { c.scale.name }))
            .collect(),
        rows: rows.collect(),
        legend: groups.iter().map(|g| view(g.look)).collect(),
        applications: of_applications.collect(),
        figures: figures.collect(),
        nested: groups.iter().map(nested).collect(),
    }
}

/// A row of the table; `None` for one that no group has.
fn row_view(axes: Axes, ranking: &Ranking, looks: &[Look], columns: &[Column], row: &RankingRow) -> Option<RowView> {
    let name = label(axes, (&row.scheduler, &row.via, &row.completion));
    let value = |column: &Column| {
        let estimate = row.metrics.get(column.metric.key())?;
        let (mean, spread, _) = column.parts(estimate);
        let order = estimate.mean.map_or(String::new(), |mean| mean.to_string());
        let (best, tie) = (estimate.difference == Difference::Best, estimate.difference == Difference::Tie);
        Some(ValueView { mean, spread, best, tie, order })
    };
    Some(RowView {
        rank: row.rank,
        look: looks.iter().find(|l| l.scheduler == name).map(view)?,
        scheduler: name,
        tie: row.difference == Difference::Tie,
        absent: is_absent(ranking, row),
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
        assert_eq!(page.matches("* plotly.js").count(), 1, "one copy of the script");
    }

    /// Whatever the number of runs.
    #[test]
    fn a_page_has_at_most_3_mb() {
        let size = |document: &Document| html(document).len();
        let mut d = document();
        assert!(size(&d) <= 3_000_000, "{} bytes", size(&d));
        let runs = d.runs.clone();
        for device in 0..10 {
            d.runs.extend(runs.iter().cloned().map(|run| RunResult { device: format!("d{device}"), ..run }));
        }
        assert!(size(&d) <= 3_000_000, "{} bytes", size(&d));
    }

    #[test]
    fn the_page_of_several_scenarios_begins_with_their_table() {
        use dumbwaiter_advise::{Suite, SuiteCase};
        let d = document();
        let mut devices: Vec<&str> = d.runs.iter().map(|run| run.device.as_str()).collect();
        devices.dedup();
        let case = |device: &str| SuiteCase {
            scenario: format!("load of {device}"),
            device: device.to_owned(),
            variant: d.runs[0].variant.clone(),
            drive_class: String::new(),
            fill_percent: None,
        };
        let cases = devices.into_iter().map(case).collect();
        let page = html(&d.clone().with_suite(Suite::new("", cases)));
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
        assert!(at("<section id=\"suite\">") < at("<section id=\"device-0\""));
        assert!(at("load of ") < at("Over all scenarios"));
    }

    #[test]
    fn the_page_of_a_survey_begins_with_what_to_set_and_folds_the_runs() {
        let points = [SurveyPoint {
            name: "shared",
            about: "a user beside a backup",
            metric: dumbwaiter_advise::Metric::FocusP99,
        }];
        let page = advice_html(&crate::sample::advice(document()), &points);
        let body = &page[page.find("<body>").unwrap()..];
        let at = |text: &str| body.find(text).unwrap_or_else(|| panic!("no {text}"));
        let order =
            ["use mq-deadline instead of none", "echo mq-deadline |", "echo none |", "a user beside", "class=\"fold\""];
        assert!(order.windows(2).all(|w| at(w[0]) < at(w[1])));
        assert!(at("class=\"fold\"") < at("class=\"plot\""));
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
    fn control_characters_of_names_are_shown() {
        let mut d = document();
        d.scenario["name"] = "x\x1b[31m".into();
        let page = html(&d);
        assert!(!page.replace(&plotly_script(), "").contains('\x1b') && page.contains("x\\u001b[31m"));
    }

    #[test]
    fn equal_documents_give_equal_pages_and_no_runs_a_page_without_plots() {
        assert_eq!(html(&document()), html(&document()));
        let mut d = document();
        d.runs.clear();
        assert!(html(&d).contains("<title>"));
    }
}
