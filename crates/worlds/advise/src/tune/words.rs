//! Words a choice.

use std::fmt::Write;

use super::candidate::Candidate;
use super::claim::Claim;
use super::search::{Choice, Outcome};
use crate::criterion::{Focus, Metric};
use crate::sentence::{named, percent, shown};

/// `p99 latency of interactive 12.1 ms in place of 18.0 ms with the defaults of bfq (-33 %, with 95 % confidence -40 % to -25 %,
/// p < 0.001, 10 held-out seeds)`.
fn worth(claim: &Claim, metric: Metric, focus: &Focus, of: &Candidate) -> String {
    let figure = named(metric, focus);
    let (tuned, defaults) = (shown(metric, claim.tuned), shown(metric, claim.defaults));
    let change = match metric {
        _ if claim.scale == "ratio" => signed(claim.change),
        Metric::DroppedFrames => format!("{:+.1} points", claim.change),
        _ => format!("{:+.3}", claim.change),
    };
    let ci95 = claim.ci95.map_or(String::new(), |[low, high]| match (claim.scale, metric) {
        ("ratio", _) => format!(", with 95 % confidence {} to {}", signed(low), signed(high)),
        (_, Metric::DroppedFrames) => format!(", with 95 % confidence {low:+.1} to {high:+.1}"),
        _ => format!(", with 95 % confidence {low:+.3} to {high:+.3}"),
    });
    let p = claim.p.map_or("one recorded load, so chance is unknown".to_owned(), |p| match p {
        p if p < 0.001 => "p < 0.001".to_owned(),
        p => format!("p = {p:.3}"),
    });
    let seeds = match claim.held_out.len() {
        0 | 1 => String::new(),
        n => format!(", {n} held-out seeds"),
    };
    format!("{figure} {tuned} in place of {defaults} with the defaults of {of} ({change}{ci95}, {p}{seeds})")
}

/// `-12 %`, `+3.1 %`.
fn signed(fraction: f64) -> String {
    let sign = if fraction < 0.0 { "-" } else { "+" };
    format!("{sign}{}", percent(fraction.abs()))
}

fn metric_of(claim: &Claim) -> Metric {
    Metric::ALL.into_iter().find(|metric| metric.key() == claim.metric).unwrap_or(Metric::FocusP99)
}

/// The choice in a sentence or two.
pub(super) fn sentence(choice: &Choice, tried: usize, ended_early: Option<&str>) -> String {
    let (best, defaults, focus) = (&choice.best, &choice.defaults, choice.focus());
    let effect = choice.claim.as_ref().map(|claim| worth(claim, metric_of(claim), &focus, defaults));
    let early = ended_early.map_or(String::new(), |why| format!("{why}: "));
    match choice.outcome {
        Outcome::Better => {
            let mut text = format!("{early}set {best}: {}.", effect.unwrap_or_default());
            capitalise(&mut text);
            text
        }
        Outcome::DefaultsAsGood => {
            let mut text = format!(
                "{early}keep {defaults}: none of {tried} candidates is better without being worse in another figure"
            );
            match effect {
                Some(effect) => {
                    _ = write!(text, "; the nearest is {best}, which the held-out runs do not confirm: {effect}.")
                }
                None => text.push('.'),
            }
            capitalise(&mut text);
            text
        }
        Outcome::Unconfirmed if best == defaults => {
            format!("{early}nothing better than the defaults of {defaults} was found so far, and nothing is confirmed.")
        }
        Outcome::Unconfirmed => {
            let so_far = effect.map_or(String::new(), |effect| format!(" (so far {effect})"));
            format!(
                "{early}the best so far is {best}; it is not confirmed by held-out seeds{so_far}. Let it run longer."
            )
        }
    }
}

fn capitalise(text: &mut String) {
    if let Some(first) = text.get(..1) {
        let first = first.to_uppercase();
        text.replace_range(..1, &first);
    }
}
