//! The verdict for a class of drives, from the models of it that were run.

use dumbwaiter_measure::SIGNIFICANCE;

use crate::answer::{ClassAnswer, Decision, OnModels, change_text, of_class};
use crate::confidence::Confidence;
use crate::ranking::Ranking;
use crate::row::Worth;
use crate::sentence::{list, percent, percent_down};
use crate::verdict::Verdict;

/// The verdicts for a class, one for each variant of the scenario, by the names under which they stand in a document. None of fewer than
/// two models.
pub(crate) fn verdicts(class: &str, models: &[String], rankings: &[Ranking]) -> Vec<(String, Verdict)> {
    let mut variants: Vec<&str> = Vec::new();
    for ranking in rankings.iter().filter(|ranking| models.contains(&ranking.device)) {
        if !variants.contains(&ranking.variant.as_str()) {
            variants.push(&ranking.variant);
        }
    }
    let of = |variant: &&str| {
        let here: Vec<&Ranking> =
            rankings.iter().filter(|r| models.contains(&r.device) && r.variant == **variant).collect();
        let place = if variant.is_empty() { class.to_owned() } else { format!("{class}, {variant}") };
        (here.len() > 1).then(|| (place, verdict(&here)))
    };
    variants.iter().filter_map(of).collect()
}

fn alternatives(rankings: &[&Ranking]) -> Vec<OnModels> {
    let mut names: Vec<&str> = Vec::new();
    for row in rankings.iter().flat_map(|ranking| &ranking.rows).filter(|row| row.can_be_set && row.worth.is_some()) {
        if !names.contains(&row.scheduler.as_str()) {
            names.push(&row.scheduler);
        }
    }
    names.sort_unstable();
    let of = |name: &str, ranking: &&Ranking| -> Option<Worth> {
        ranking.rows.iter().find(|row| row.scheduler == name && row.can_be_set)?.worth
    };
    let one = |name: &&str| OnModels {
        name: (*name).to_owned(),
        worth: rankings.iter().map(|ranking| of(name, ranking)).collect(),
    };
    names.iter().map(one).collect()
}

/// The verdict of the models together, with those of each in its lines.
fn verdict(rankings: &[&Ranking]) -> Verdict {
    let alternatives = alternatives(rankings);
    let alone: Vec<Decision> = rankings.iter().map(|ranking| ranking.verdict.decision).collect();
    let found = no_surer_than(rankings, of_class(&alternatives, &alone, SIGNIFICANCE));
    let pick = found.pick.map(|pick| &alternatives[pick]);
    let first = &rankings[0].verdict;
    let recommended = pick.filter(|_| found.decision == Decision::Change).map(|pick| pick.name.clone());
    let gains = || pick.iter().flat_map(|pick| pick.worth.iter().flatten()).copied().collect::<Vec<Worth>>();
    let m = gains().len().max(1) as f64;
    let mean = |of: fn(&Worth) -> f64| gains().iter().map(of).sum::<f64>() / m;
    let least = gains().iter().map(|of| of.at_least).fold(f64::INFINITY, f64::min);
    let most = rankings.iter().filter_map(|r| r.verdict.may_be_better_by).fold(0.0, f64::max);
    let headline = match (found.decision, &recommended) {
        (Decision::Change, Some(to)) => format!("change {} to {to}", first.incumbent),
        (Decision::Depends, _) => "it depends on the drive".to_owned(),
        (Decision::TooShort, _) => "too short to tell".to_owned(),
        _ => format!("keep {}", first.incumbent),
    };
    let lines: Vec<String> = rankings.iter().map(|ranking| line(ranking, pick)).collect();
    let mut caveats: Vec<String> = Vec::new();
    for caveat in rankings.iter().flat_map(|ranking| &ranking.verdict.caveats) {
        if !caveats.contains(caveat) {
            caveats.push(caveat.clone());
        }
    }
    Verdict {
        decision: found.decision,
        confidence: found.confidence,
        recommended,
        certainty: certainty(&found, rankings, &alternatives, least),
        headline,
        because: because(&found, rankings, &alternatives),
        brief: String::new(),
        trades: lines,
        next: next(&found, rankings),
        enough_s: slowest(rankings).filter(|_| found.decision == Decision::TooShort).and_then(|r| r.verdict.enough_s),
        gain: pick.map(|_| [mean(|of| of.gain), least, mean(|of| of.at_most)]),
        may_be_better_by: (found.decision != Decision::Change).then_some(most),
        more_runs_help: found.decision != Decision::Depends && rankings.iter().any(|r| r.verdict.more_runs_help),
        // Commands come with the document.
        apply: Vec::new(),
        undo: Vec::new(),
        caveats,
        ..first.clone()
    }
}

/// What is not clear on a model alone, since the simulator may be as wrong there, is not clear on all of them.
fn no_surer_than(rankings: &[&Ranking], found: ClassAnswer) -> ClassAnswer {
    let doubted = |r: &&Ranking| r.verdict.decision == found.decision && r.verdict.confidence != Confidence::Clear;
    match found.confidence {
        Confidence::Clear if rankings.iter().any(doubted) => ClassAnswer { confidence: Confidence::Likely, ..found },
        _ => found,
    }
}

fn count(n: usize, of: usize) -> String {
    format!("{n} of {of} models")
}

fn certainty(found: &ClassAnswer, rankings: &[&Ranking], alternatives: &[OnModels], least: f64) -> String {
    let models = rankings.len();
    match (found.decision, found.pick) {
        (Decision::Change, Some(pick)) => {
            let gains = |of: &&Option<Worth>| of.is_some_and(|of| of.gain > 0.0);
            let on = alternatives[pick].worth.iter().filter(gains).count();
            let worth = match least > 0.0 {
                true => format!("; at least {} lower latency on each", percent_down(-libm::expm1(-least))),
                false => String::new(),
            };
            format!("better on {}{worth}", count(on, models))
        }
        (Decision::Depends, _) => {
            let change = rankings.iter().filter(|r| r.verdict.decision == Decision::Change).count();
            format!("another is better on {}", count(change, models))
        }
        (Decision::TooShort, _) => {
            let short = rankings.iter().filter(|r| r.verdict.decision == Decision::TooShort).count();
            format!("on {}", count(short, models))
        }
        _ => format!("on {}", count(models, models)),
    }
}

fn because(found: &ClassAnswer, rankings: &[&Ranking], alternatives: &[OnModels]) -> String {
    let rate = &rankings[0].verdict.rate;
    match (found.decision, found.pick) {
        (Decision::Change, Some(pick)) => {
            let each = alternatives[pick].worth.iter().flatten();
            let of = |part: fn(&Worth) -> f64| each.clone().map(part).sum::<f64>() / rankings.len() as f64;
            format!(
                "on average latency {} and throughput {}, where {rate}",
                change_text(libm::exp(of(|of| of.latency))),
                change_text(libm::exp(of(|of| of.throughput)))
            )
        }
        (Decision::Depends, _) => {
            let of = |decision| rankings.iter().filter(move |r| r.verdict.decision == decision);
            let names = |decision| of(decision).map(|r| r.device.clone()).collect::<Vec<_>>();
            format!("a change pays on {}, where {rate}, and not on the others", list(&names(Decision::Change)))
        }
        (Decision::TooShort, _) => {
            let short = slowest(rankings);
            short.map_or(String::new(), |r| format!("{}: {}", r.device, r.verdict.because))
        }
        _ => "on none of them another is shown to be better by a useful amount".to_owned(),
    }
}

fn next(found: &ClassAnswer, rankings: &[&Ranking]) -> Option<String> {
    match found.decision {
        Decision::Depends => Some("settle it on yours: dumbwaiter compare --on /dev/sdX".to_owned()),
        // What does for all: the longest.
        Decision::TooShort => slowest(rankings).and_then(|r| r.verdict.next.clone()),
        _ => None,
    }
}

/// Of the models on which the runs are too short, the one that needs the longest.
fn slowest<'a>(rankings: &[&'a Ranking]) -> Option<&'a Ranking> {
    let short = rankings.iter().copied().filter(|r| r.verdict.decision == Decision::TooShort);
    short.max_by(|a, b| a.verdict.enough_s.unwrap_or(0.0).total_cmp(&b.verdict.enough_s.unwrap_or(0.0)))
}

/// One model in a line: what it says alone, and what the pick does there.
fn line(ranking: &Ranking, pick: Option<&OnModels>) -> String {
    let verdict = &ranking.verdict;
    let head = format!("{}: {} · {}", ranking.device, verdict.headline, verdict.confidence.name());
    let row = pick.and_then(|pick| ranking.rows.iter().find(|row| row.scheduler == pick.name));
    match row.and_then(|row| Some((row, row.worth?))) {
        Some((row, of)) => format!(
            "{head}; {}: latency {}, throughput {}, {}",
            row.scheduler,
            change_text(libm::exp(of.latency)),
            change_text(libm::exp(of.throughput)),
            match of.gain {
                gain if gain >= 0.0 => format!("worth {}", percent(-libm::expm1(-gain))),
                gain => format!("worse by {}", percent(libm::expm1(-gain))),
            }
        ),
        None => format!("{head} ({})", verdict.certainty),
    }
}
