//! Agreement with recordings of the kernel's schedulers.

use std::path::Path;

use dumbwaiter_fidelity::controllers::{ControllerScore, VerdictKind, controller_summary};
use dumbwaiter_fidelity::{Agreement, BOUNDS, CONTROLLER_BOUNDS, ClosedLoops, Figures, Score, summary};
use dumbwaiter_measure::grouped;
use dumbwaiter_report::{Align, Style, table};

/// The scores of replayed recordings, one row each, and a line for each scheduler.
pub fn scores_text(scored: &[Score], style: Style) -> String {
    let of_schedulers = schedulers_text(scored, style);
    let of_controllers = controllers_text(scored, style);
    [of_schedulers, of_controllers].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Empty where there is no recording of a scheduler.
fn schedulers_text(scored: &[Score], style: Style) -> String {
    let of_schedulers = scored.iter().filter(|score| score.controller.is_none());
    let rows: Vec<Vec<String>> = of_schedulers.map(score_row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let header = [
        ("recording", Align::Left),
        ("kernel", Align::Left),
        ("calls", Align::Right),
        ("same answer", Align::Right),
        ("of requests", Align::Right),
        ("of none", Align::Right),
        ("with a choice", Align::Right),
        ("of these", Align::Right),
        ("differ", Align::Right),
        ("free: same place", Align::Right),
        ("Kendall", Align::Right),
        ("displaced", Align::Right),
        ("missing", Align::Right),
        ("extra", Align::Right),
    ];
    let mut text = table(&header, &rows, style);
    text.push('\n');
    for s in summary(scored) {
        text += &format!(
            "{}: {} recordings, of all calls {}, median {}, worst {}{}\n",
            s.scheduler,
            s.files,
            percent(s.pooled),
            percent(s.median),
            percent(s.worst),
            if s.trivial { "; trivial: it has no dispatch function" } else { "" }
        );
    }
    text
}

/// The scores of recordings of controllers, one row of at most 80 columns each, and a line for each controller. Empty where there are none.
fn controllers_text(scored: &[Score], style: Style) -> String {
    let header = [
        ("recording", Align::Left),
        ("kernel", Align::Left),
        ("controller", Align::Left),
        ("verdicts", Align::Right),
        ("same", Align::Right),
        ("line", Align::Right),
    ];
    let row = |score: &Score| {
        let ControllerScore { controller, verdicts, verdict_agreement, first_difference, .. } =
            score.controller.as_ref()?;
        let release: Vec<&str> = score.kernel.split(['.', '-', '+']).take(2).collect();
        let differs = first_difference.as_ref().map_or(String::new(), |d| d.line.to_string());
        let name = stem(&score.file).to_owned();
        Some(vec![
            name,
            release.join("."),
            (*controller).to_owned(),
            grouped(*verdicts),
            percent(*verdict_agreement),
            differs,
        ])
    };
    let rows: Vec<Vec<String>> = scored.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut text = table(&header, &rows, style);
    text.push('\n');
    if scored.iter().filter_map(|score| score.controller.as_ref()).any(|own| own.first_difference.is_some()) {
        text += "line: that of the first verdict that differs\n";
    }
    for s in controller_summary(scored.iter().filter_map(|score| score.controller.as_ref())) {
        let of = |kind: &VerdictKind| format!("{} {} of {}", kind.kind, grouped(kind.agreed), grouped(kind.verdicts));
        let kinds: Vec<String> = s.kinds.iter().map(of).collect();
        let recordings = if s.files == 1 { "recording" } else { "recordings" };
        text += &format!("{}: {} {recordings}, same verdicts: {}\n", s.controller, s.files, kinds.join(", "));
    }
    text
}

fn score_row(score: &Score) -> Vec<String> {
    let name = vec![score.file.clone(), score.kernel.clone()];
    let Some(f) = score.figures.as_ref().filter(|_| !score.is_empty()) else {
        let why = if score.unsupported { "unsupported" } else { "nothing to compare" };
        return [name, vec![why.to_owned()]].concat();
    };
    let Figures { calls, choice_calls, differences, missing, extra, .. } = f;
    let figures = vec![
        grouped(*calls),
        percent(f.call_agreement),
        percent(f.dispatch_agreement),
        percent(f.none_agreement),
        if score.trivial { "trivial".to_owned() } else { grouped(*choice_calls) },
        if score.trivial { "–".to_owned() } else { percent(f.choice_agreement) },
        differences.to_string(),
        percent(f.identical_share),
        f.kendall_tau_distance.map_or("–".to_owned(), |k| format!("{k:.6}")),
        f.mean_displacement.map_or("–".to_owned(), |d| format!("{d:.2}")),
        missing.to_string(),
        extra.to_string(),
    ];
    [name, figures].concat()
}

fn percent(share: Option<f64>) -> String {
    share.map_or("–".to_owned(), |s| format!("{:.3} %", s * 100.0))
}

/// How the jobs of recordings, run by a world, agree with the kernel: a table of at most 80 columns, the recordings that
/// cannot be compared, and a summary.
pub fn closed_loops_text(found: &ClosedLoops, style: Style) -> String {
    let header = [
        ("recording", Align::Left),
        ("MB/s", Align::Right),
        ("mean", Align::Right),
        ("p95", Align::Right),
        ("share", Align::Right),
        ("agrees", Align::Left),
    ];
    let row = |a: &Agreement| {
        let ratio = |ratio: f64| format!("x{ratio:.2}");
        let agrees = if a.agrees() { "yes" } else { "no" };
        let share = format!("{:.3}", a.share_error);
        vec![
            stem(&a.file).to_owned(),
            ratio(a.mb_ratio),
            ratio(a.mean_ratio),
            a.p95_ratio.map_or_else(|| "-".to_owned(), ratio),
            share,
            agrees.to_owned(),
        ]
    };
    let mut text = String::new();
    if !found.compared.is_empty() {
        let rows: Vec<Vec<String>> = found.compared.iter().map(row).collect();
        text += &table(&header, &rows, style);
        text.push('\n');
    }
    for other in &found.not_comparable {
        text += &format!("not compared: {}: {}\n", stem(&other.file), other.reason);
    }
    if !found.not_comparable.is_empty() {
        text.push('\n');
    }
    text + &agreement_summary(&found.compared)
}

fn agreement_summary(compared: &[Agreement]) -> String {
    let worst = compared.iter().max_by(|a, b| a.share_error.total_cmp(&b.share_error));
    let Some(worst) = worst else { return "no recording was compared\n".to_owned() };
    let of_controllers = compared.iter().filter(|a| a.controller.is_some()).count();
    let agree = |of: &dyn Fn(&&Agreement) -> bool| compared.iter().filter(of).filter(|a| a.agrees()).count();
    let percent = |part: f64| part * 100.0;
    let mut text = String::new();
    if of_controllers < compared.len() {
        text += &format!(
            "{} of {} recordings of schedulers agree: MB/s within {:.0} %, mean latency\n\
             within {:.0} %, p95 within {:.0} %, shares within {}.\n",
            agree(&|a| a.controller.is_none()),
            compared.len() - of_controllers,
            percent(BOUNDS.bytes),
            percent(BOUNDS.mean),
            percent(BOUNDS.p95),
            BOUNDS.share
        );
    }
    if of_controllers > 0 {
        let bounds = &CONTROLLER_BOUNDS;
        text += &format!(
            "{} of {of_controllers} recordings of controllers agree: reads/s and MB/s written within {:.0} %,\n\
             mean latency within {:.0} %, shares within {}.\n",
            agree(&|a| a.controller.is_some()),
            percent(bounds.bytes),
            percent(bounds.mean),
            bounds.share
        );
    }
    text + &format!("Largest share error: {:.3} ({}).\n", worst.share_error, stem(&worst.file))
}

/// A recording's name without the endings of its files.
fn stem(file: &str) -> &str {
    let name = Path::new(file).file_name().and_then(|name| name.to_str()).unwrap_or(file);
    let name = name.strip_suffix(".zst").unwrap_or(name);
    name.strip_suffix(".csv").or_else(|| name.strip_suffix(".json")).unwrap_or(name)
}
