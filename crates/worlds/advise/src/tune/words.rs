//! Words a choice.

use std::fmt::Write;

use super::candidate::Candidate;
use super::claim::Claim;
use super::elsewhere::{AnotherDrive, Elsewhere};
use super::search::{Choice, Outcome};
use crate::answer::Rates;
use crate::focus::Focus;
use crate::metric::{Metric, Unit};
use crate::sentence::{list, p_text, percent, percent_down, signed, with_article};

/// `p99 latency of interactive 12.1 ms in place of 18.0 ms under bfq (-33 %, with 95 % confidence -40 % to -25 %,
/// p < 0.001, 10 held-out seeds)`.
fn worth(claim: &Claim, focus: &Focus, of: &Candidate) -> String {
    let metric = Metric::of_key(&claim.metric).unwrap_or(Metric::FocusP99);
    let figure = metric.explained(focus);
    let (tuned, defaults) = (metric.shown(claim.tuned), metric.shown(claim.defaults));
    let change = match claim.scale {
        "ratio" => signed(claim.change),
        _ if metric.unit() == Unit::Percent => format!("{:+.1} points", claim.change),
        _ => format!("{:+.3}", claim.change),
    };
    let ci95 = claim.ci95.map_or(String::new(), |[low, high]| match claim.scale {
        "ratio" => format!(", with 95 % confidence {} to {}", signed(low), signed(high)),
        _ if metric.unit() == Unit::Percent => format!(", with 95 % confidence {low:+.1} to {high:+.1}"),
        _ => format!(", with 95 % confidence {low:+.3} to {high:+.3}"),
    });
    let p = claim.p.map_or("one recorded load, so chance is unknown".to_owned(), p_text);
    let seeds = match claim.held_out.len() {
        0 | 1 => String::new(),
        n => format!(", {n} held-out seeds"),
    };
    format!("{figure} {tuned} in place of {defaults} under {of} ({change}{ci95}, {p}{seeds})")
}

/// The choice in a sentence or two.
pub(super) fn sentence(choice: &Choice, tried: usize, ended_early: Option<&str>, rates: &Rates) -> String {
    let (best, defaults, focus) = (&choice.best, &choice.defaults, choice.focus());
    let effect = choice.claim.as_ref().map(|claim| worth(claim, &focus, defaults));
    let early = ended_early.map_or(String::new(), |why| format!("{why}: "));
    match choice.outcome {
        Outcome::Better => {
            // What it costs comes first.
            let price: Vec<String> = choice.losses.iter().map(crate::answer::Losing::text).collect();
            let price = if price.is_empty() { String::new() } else { format!("for {}: ", list(&price)) };
            let worth = choice.gain.map_or(String::new(), |of| {
                let lower = |gain: f64| -libm::expm1(-gain);
                let least = if of.at_least > 0.0 {
                    format!(", at least {}", percent_down(lower(of.at_least)))
                } else {
                    String::new()
                };
                format!(
                    "; all in all worth {} lower latency{least}, where {}",
                    with_article(&percent(lower(of.gain))),
                    rates.words()
                )
            });
            let mut text = format!("{early}{price}set {best}: {}{worth}.", effect.unwrap_or_default());
            capitalise(&mut text);
            text
        }
        Outcome::DefaultsAsGood => {
            let mut text = format!(
                "{early}keep {defaults}: none of {tried} candidates is worth more by a useful amount, where {}",
                rates.words()
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
            format!("{early}nothing better than {defaults} was found so far, and nothing is confirmed.")
        }
        Outcome::Unconfirmed => {
            let so_far = effect.map_or(String::new(), |effect| format!(" (so far {effect})"));
            format!(
                "{early}the best so far is {best}; it is not confirmed by held-out seeds{so_far}. Let it run longer."
            )
        }
    }
}

/// The sentence with what another drive of the class shows; where it is a loss there, that comes first.
pub(super) fn with_another(sentence: &str, another: &AnotherDrive) -> String {
    let AnotherDrive { device, worth, at_least, .. } = another;
    match another.outcome {
        Elsewhere::Better => format!(
            "{sentence} On {device}, another drive of its class, it is worth {} lower latency too (at least {}).",
            with_article(&percent(*worth)),
            percent_down(*at_least)
        ),
        Elsewhere::Worse => format!(
            "It depends on the drive: on {device}, of the same class, this loses what {} higher latency is worth. On this one: {}",
            with_article(&percent(worth.abs())),
            uncapitalised(sentence)
        ),
        Elsewhere::Open => format!("{sentence} On {device}, another drive of its class, that is not confirmed."),
    }
}

fn uncapitalised(text: &str) -> String {
    text.get(..1).map_or(String::new(), |first| first.to_lowercase() + &text[1..])
}

fn capitalise(text: &mut String) {
    if let Some(first) = text.get(..1) {
        let first = first.to_uppercase();
        text.replace_range(..1, &first);
    }
}
