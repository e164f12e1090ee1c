//! The table of several scenarios: a line for each, and the schedulers over all of them.

use dumbwaiter_advise::{Axes, Decision, Document, Suite, SuiteLine, SuiteTotal};
use dumbwaiter_measure::{RunResult, grouped, latency_text};

use crate::grid::Grid;
use crate::isolation::{isolation_grids, isolation_text};
use crate::table::{Align, Cells, Header, Style, folded, table, widest};

/// A line for each scenario and drive, then geometric means, wins and losses; `None` for a single scenario. In a limited width the
/// figures of the schedulers are left out where they do not fit.
pub fn suite_text(document: &Document, style: Style) -> Option<String> {
    let suite = document.suite.as_ref()?;
    let drawn = |(header, rows): Cells| table(&header, &rows, Style { width: None, ..style });
    let of_all = drawn(lines(suite, true));
    let fits = |text: &str| style.width.is_none_or(|width| widest(text) <= width.into());
    let wide = fits(&of_all);
    let mut text = String::new();
    if let Some(verdict) = &document.suite_verdict {
        let head = if verdict.drive_class.is_empty() { verdict.sentence.clone() } else { verdict.lines().join("; ") };
        let title = &document.title;
        text += &format!("{}\n", style.bold(&folded(&format!("{title}: {head}."), style.width, "  ")));
        for of in &verdict.by_class {
            text += &format!(
                "  {}\n",
                folded(
                    &format!("{}: {}.", of.drive_class, of.sentence),
                    style.width.map(|w| w.saturating_sub(2)),
                    "  "
                )
                .replace('\n', "\n  ")
            );
        }
        text += "\n";
    }
    text += &if wide { of_all } else { drawn(lines(suite, false)) };
    let legend = match wide {
        true => {
            "+5: all in all 5 % worse than the best   (..): cannot be set   \
             effect: how much worse the worst that can be set is than the best"
        }
        false => "effect: how much worse the worst that can be set is than the best   --wide: each scheduler",
    };
    text += &format!("{}\n\n", style.faint(&folded(legend, style.width, "")));
    if suite.name.is_empty() {
        let legend = "what the named scheduler does, as a mean of its runs; p99 of all requests";
        text += &format!("{}{}\n\n", drawn(figures(document, suite)), style.faint(legend));
    }
    let with_counts = drawn(totals(suite, true));
    let wide = fits(&with_counts);
    text += &if wide { with_counts } else { drawn(totals(suite, false)) };
    let legend = match wide {
        true => "geometric mean of times worse than the best; wins/ties/losses",
        false => "geometric mean of times worse than the best (1 is the best); --wide: with wins/ties/losses",
    };
    text += &format!("{}\n\n", style.faint(&folded(legend, style.width, "")));
    text += &isolation_text(document, style);
    Some(text)
}

/// The same as tables of a page.
pub(crate) fn suite_grids(document: &Document) -> Option<Vec<Grid>> {
    let suite = document.suite.as_ref()?;
    let mut grids = isolation_grids(document);
    grids.push(Grid::of("Scenarios", lines(suite, true)));
    if suite.name.is_empty() {
        grids.push(Grid::of("What the named scheduler does", figures(document, suite)));
    }
    grids.extend([Grid::of(
        "Over all scenarios: geometric mean of times worse than the best, and wins/ties/losses",
        totals(suite, true),
    )]);
    Some(grids)
}

/// A line for each scenario and drive; `wide`: with a column for each scheduler.
pub(crate) fn lines(suite: &Suite, wide: bool) -> Cells {
    let of_suite = !suite.name.is_empty();
    let mut header: Header = vec![("drive".into(), Align::Left)];
    if of_suite {
        header.push(("full".into(), Align::Right));
    }
    header.extend([("scenario".into(), Align::Left), ("verdict".into(), Align::Left), ("effect".into(), Align::Right)]);
    let schedulers = if wide { suite.schedulers() } else { Vec::new() };
    header.extend(schedulers.iter().map(|name| ((*name).to_owned(), Align::Right)));
    let row = |line: &SuiteLine| {
        let mut row = vec![drive(&line.case.drive_class, &line.case.device)];
        if of_suite {
            row.push(line.case.fill_percent.map_or(String::new(), |fill| format!("{fill} %")));
        }
        row.push(line.case.scenario.clone());
        row.push(match (&line.recommended, line.decision) {
            (Some(name), _) => format!("change to {name}, {}", line.confidence.name()),
            (None, Decision::TooShort) => "too short".to_owned(),
            (None, _) => format!("keep {}, {}", line.incumbent, line.confidence.name()),
        });
        row.push(effect(line));
        row.extend(schedulers.iter().map(|name| worse(line, name)));
        row
    };
    (header, suite.lines.iter().map(row).collect())
}

/// The figures of each scenario under the scheduler that its verdict names.
pub(crate) fn figures(document: &Document, suite: &Suite) -> Cells {
    let right = |title: &str| (title.to_owned(), Align::Right);
    let left = |title: &str| (title.to_owned(), Align::Left);
    let header = vec![
        left("drive"),
        left("scenario"),
        left("scheduler"),
        right("IOPS"),
        right("MB/s"),
        right("mean"),
        right("p99"),
    ];
    let row = |line: &SuiteLine| {
        let named = line.recommended.as_ref().unwrap_or(&line.incumbent);
        let of_line = |run: &&RunResult| run.device == line.case.device && run.variant == line.case.variant;
        let of_case = document.runs.iter().filter(of_line);
        let axes = Axes::of(of_case.map(|run| (run.via.as_str(), run.completion.as_str())));
        let is_named = |run: &&RunResult| axes.name(&run.scheduler, &run.via, &run.completion) == *named;
        let runs: Vec<&RunResult> = document.runs.iter().filter(of_line).filter(is_named).collect();
        let mean = |of: fn(&RunResult) -> f64| runs.iter().map(|run| of(run)).sum::<f64>() / runs.len() as f64;
        vec![
            drive(&line.case.drive_class, &line.case.device),
            line.case.scenario.clone(),
            named.clone(),
            grouped(mean(|run| run.iops).round() as u64),
            format!("{:.1}", mean(|run| run.mb_per_s)),
            latency_text(mean(|run| run.latency_us.mean)),
            latency_text(mean(|run| run.latency_us.p99)),
        ]
    };
    (header, suite.lines.iter().map(row).collect())
}

/// How much the choice matters: the worst scheduler that can be set, and how much worse than the best it is.
fn effect(line: &SuiteLine) -> String {
    let Some(worst) = &line.worst else { return String::new() };
    match line.worse_by.get(worst).copied().flatten() {
        Some(by) if by < 0.005 => "0 %".to_owned(),
        Some(by) => format!("{:.0} % ({worst})", by * 100.0),
        None => format!("starved ({worst})"),
    }
}

/// `best`, `+12`, `starved`; in parentheses for a scheduler that does not compete.
fn worse(line: &SuiteLine, scheduler: &str) -> String {
    let text = match line.worse_by.get(scheduler) {
        None => return "\u{2013}".to_owned(),
        Some(None) => "starved".to_owned(),
        Some(Some(by)) if by.abs() < 0.005 => "best".to_owned(),
        Some(Some(by)) => format!("{:+.0}", by * 100.0),
    };
    if line.pool.iter().any(|name| name == scheduler) { text } else { format!("({text})") }
}

fn drive(class: &str, device: &str) -> String {
    if class.is_empty() { device.to_owned() } else { class.to_owned() }
}

/// The schedulers over all scenarios; `wide`: with wins, ties and losses.
pub(crate) fn totals(suite: &Suite, wide: bool) -> Cells {
    let schedulers = suite.schedulers();
    let mut header: Header = vec![("drive".into(), Align::Left)];
    header.extend(schedulers.iter().map(|name| ((*name).to_owned(), Align::Right)));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for of_place in suite.totals.chunks(schedulers.len().max(1)) {
        let Some(first) = of_place.first() else { continue };
        let fill = first.fill_percent.map_or(String::new(), |fill| format!(", {fill} % full"));
        let place = match first.device.as_str() {
            "" => "all".to_owned(),
            device => format!("{}{fill}", drive(&first.drive_class, device)),
        };
        rows.push(std::iter::once(place).chain(of_place.iter().map(|of| total(of, wide))).collect());
    }
    (header, rows)
}

fn total(of: &SuiteTotal, wide: bool) -> String {
    let times = of.times_worse.map_or("\u{2013}".to_owned(), |times| format!("{times:.2}"));
    if wide { format!("{times} {}/{}/{}", of.wins, of.ties, of.losses) } else { times }
}
