//! The advice for a drive: what to set, how sure that is, and the commands that set it.

use std::collections::BTreeMap;

use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::SchedulerSpec;
use serde::Serialize;

use crate::apply::{Commands, TargetDrive, commands};
use crate::completion::Methods;
use crate::confidence::Confidence;
use crate::race::{Decision, Gain, Loss, Race};
use crate::sentence::p_text;
use crate::{Document, Metric, Unit};

/// The recommendation for one device, for machines.
#[derive(Serialize)]
pub struct Advice {
    /// The path of the device.
    pub device: String,
    /// The goal, by its name.
    pub goal: String,
    /// The deciding criterion, in a sentence.
    pub criterion: String,
    /// The current setting.
    pub current: String,
    /// The scheduler to use.
    pub recommended: String,
    /// `true` where nothing is to be changed.
    pub keep: bool,
    /// How sure that is; inconclusive where other work kept the machine busy.
    pub confidence: Confidence,
    /// The number behind it, in a clause: `p = 0.003`.
    pub certainty: String,
    /// The recommendation in a sentence.
    pub sentence: String,
    /// The gain of the change, and its confidence; `null` where nothing changes.
    pub gain: Option<Gain>,
    /// Schedulers that do not differ significantly from the recommended one.
    pub ties: Vec<String>,
    /// Schedulers that are out because they lose throughput.
    pub losses: Vec<Loss>,
    /// Commands that set it now and at every boot, for a user with sudo.
    pub commands: Vec<String>,
    /// Commands that take that back.
    pub undo: Vec<String>,
    /// The udev rule by itself.
    pub udev_rule: String,
    /// The completion methods.
    pub completion: Methods,
    /// It was ended early.
    pub interrupted: bool,
    /// How long the survey took.
    pub seconds: f64,
    /// Every run, ranked.
    pub survey: Document,
}

/// A survey of a device: what was run, and what the race of the schedulers decided.
pub struct Survey<'a> {
    /// Its path, as it was given.
    pub path: &'a str,
    /// Name of the disk in sysfs.
    pub disk: &'a str,
    /// How a udev rule matches the disk.
    pub udev_match: &'a str,
    /// The schedulers that were tried; one of them is picked.
    pub schedulers: &'a [SchedulerSpec],
    /// Schedulers of Linux that this kernel does not offer.
    pub not_loaded: Vec<&'static str>,
    /// Load average of the machine before it began.
    pub load: f64,
    /// Its CPUs.
    pub cpus: f64,
    /// It was ended early from outside.
    pub interrupted: bool,
    /// How long it took.
    pub seconds: f64,
    /// The loads by the names of their points.
    pub scenarios: serde_json::Value,
    /// The rules, and what is set now.
    pub race: &'a Race,
    /// The outcome of the race.
    pub decision: Decision,
    /// The completion methods under the pick.
    pub methods: Methods,
    /// Remarks.
    pub notes: Vec<String>,
}

/// The recommendation from the runs of a survey.
pub fn advice(mut found: Survey<'_>, results: Vec<RunResult>) -> Advice {
    let Commands { apply, undo, udev_rule } = set_and_undo(&found);
    let (confidence, certainty, sentence) = answer(&found);
    let notes = notes(&mut found, &sentence, &results);
    let survey = Document { notes, ..document(&mut found, &sentence, results) };
    let Survey { path, race, decision, methods, interrupted, seconds, .. } = found;
    Advice {
        device: path.to_owned(),
        goal: race.goal.name().to_owned(),
        criterion: criterion(race, &decision),
        current: race.current.clone(),
        recommended: decision.pick,
        keep: decision.keep,
        confidence,
        certainty,
        sentence,
        gain: decision.gain,
        ties: decision.ties,
        losses: decision.losses,
        commands: apply,
        undo,
        udev_rule,
        completion: methods,
        interrupted,
        seconds,
        survey,
    }
}

/// Commands that set the chosen scheduler, and that take it back.
fn set_and_undo(found: &Survey<'_>) -> Commands {
    let place = TargetDrive {
        disk: found.disk.to_owned(),
        udev_match: found.udev_match.to_owned(),
        previous: found.race.current.clone(),
        previous_nr_requests: None,
    };
    match found.schedulers.iter().find(|spec| spec.to_string() == found.decision.pick) {
        Some(spec) => commands(&place, spec, None),
        None => Commands { apply: Vec::new(), undo: Vec::new(), udev_rule: String::new() },
    }
}

/// How sure the survey is, the number behind that, and the recommendation in a sentence.
fn answer(found: &Survey<'_>) -> (Confidence, String, String) {
    let sentence = sentence(&found.decision, &found.race.current, found.race.schedulers.len());
    if found.load <= found.cpus {
        let (confidence, certainty) = confidence(&found.decision);
        return (confidence, certainty, sentence);
    }
    let sentence = format!(
        "The machine was busy with other work, which can hide or feign a difference: measure again when it is quiet. \
         These runs by themselves say: {sentence}"
    );
    (Confidence::Inconclusive, format!("load {:.1} on {:.0} CPUs", found.load, found.cpus), sentence)
}

/// The notes of the survey's document, which begin with the recommendation.
fn notes(found: &mut Survey<'_>, sentence: &str, results: &[RunResult]) -> Vec<String> {
    let mut notes = vec![sentence.to_owned()];
    notes.append(&mut found.notes);
    if found.interrupted {
        notes.push("interrupted: fewer runs than planned".into());
    }
    if !found.not_loaded.is_empty() {
        let (device, names) = (found.disk, found.not_loaded.join(", "));
        notes.push(format!(
            "not tried, since this kernel does not offer it for {device}: {names} (perhaps a module that is not loaded)"
        ));
    }
    let deciding = results.iter().filter(|r| r.variant == found.race.points[0]).count();
    notes.push(format!("{} runs, {deciding} of the deciding workload", results.len()));
    notes
}

/// Every run, ranked, with the recommendation at the deciding point.
fn document(found: &mut Survey<'_>, sentence: &str, results: Vec<RunResult>) -> Document {
    let versions = BTreeMap::from([("dumbwaiter".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let title = format!("survey of {}", found.path);
    let points = &found.race.points;
    let mut survey = Document::new(&title, found.scenarios.take(), versions, results, found.race.goal);
    // A recommendation from one point's runs alone is not the survey's.
    for one in &mut survey.recommendation {
        if one.variant == points[0] {
            (one.scheduler, one.sentence) = (found.decision.pick.clone(), sentence.to_owned());
        } else if points.contains(&one.variant.as_str()) {
            one.sentence = format!("This workload only rules schedulers out. {}", one.sentence);
        }
    }
    survey
}

impl Advice {
    /// The recommendation in a few words, and how sure it is: `use kyber instead of none · clear (p = 0.003)`.
    pub fn headline(&self) -> String {
        let what = match (self.keep, self.confidence) {
            (true, _) => format!("keep {}", self.current),
            (false, Confidence::Inconclusive) => format!("keep {} for now", self.current),
            (false, _) => format!("use {} instead of {}", self.recommended, self.current),
        };
        let certainty = if self.certainty.is_empty() { String::new() } else { format!(" ({})", self.certainty) };
        format!("{what} · {}{certainty}", self.confidence.name())
    }

    /// Whether the commands are to be given: a change is recommended, and not in doubt.
    pub fn is_to_be_applied(&self) -> bool {
        !self.keep && self.confidence != Confidence::Inconclusive && self.recommended != self.current
    }
}

/// How sure a quiet machine's survey is, and the number behind that: those of the point that decides.
fn confidence(decision: &Decision) -> (Confidence, String) {
    let verdict = &decision.ranking.verdict;
    (verdict.confidence, verdict.certainty.clone())
}

fn criterion(race: &Race, decision: &Decision) -> String {
    let verdict = &decision.ranking.verdict;
    let others = if race.points.len() > 1 { ", and what is lost elsewhere counts at the same rate" } else { "" };
    format!(
        "goal {}: {} where `{}` runs{others}; the current setting is kept unless another is worth more by a useful amount",
        race.goal.name(),
        verdict.rate,
        race.points[0],
    )
}

/// The figure with its confidence: `3.03 ms in place of 4.10 ms (-26 %, -38 to -11 %, p = 0.003)`.
fn shown(gain: &Gain, whose: &str) -> String {
    let unit = Metric::of_key(&gain.metric).map_or(Unit::Us, Metric::unit);
    let [low, high] = gain.ci95.map(|c| c * 100.0);
    let ci = match (low.is_finite() && high.is_finite(), high) {
        (false, _) => String::new(),
        // Of few runs that differ much, the logarithm's interval says next to nothing, in many digits.
        (_, 1000.0..) => ", too few runs for a range".to_owned(),
        _ => format!(", with 95 % confidence {low:+.0} to {high:+.0} %"),
    };
    let p = p_text(gain.p);
    let change = match gain.change {
        change if change >= 10.0 => format!("{:.0} times as much", change + 1.0),
        change => format!("{:+.0} %", change * 100.0),
    };
    format!("{} in place of {whose}{} ({change}{ci}, {p})", unit.text(gain.then), unit.text(gain.now))
}

fn sentence(decision: &Decision, current: &str, tried: usize) -> String {
    let Decision { pick, ranking, ties, unproven, gain, .. } = decision;
    let focus = ranking.focus.name();
    let figure = |gain: &Gain| Metric::of_key(&gain.metric).unwrap_or(ranking.metric).name(&focus);
    if tried < 2 {
        return format!("Keep {current}: there is no other scheduler to choose.");
    }
    let verdict = &ranking.verdict;
    let mut text = match (gain, unproven) {
        (Some(gain), _) => {
            let also = if ties.is_empty() { String::new() } else { format!("; {} may do as well", ties.join(", ")) };
            format!("Set {pick}: {} {}{also}.", figure(gain), shown(gain, &format!("{current}'s ")))
        }
        (None, Some((name, gain))) => format!(
            "Keep {current}: nothing is shown to be better by a useful amount (nearest is {name}: {} {}).",
            figure(gain),
            shown(gain, "")
        ),
        (None, None) => format!("Keep {current}: nothing else is better here."),
    };
    if let Some(trade) = verdict.trades.first().filter(|_| gain.is_some()) {
        text += &format!(" {trade}");
    }
    if let Some(next) = &verdict.next {
        text += &format!(" The runs are too short to tell: {next}.");
    }
    // Why a p99 did not decide, and what was lost.
    for caveat in verdict.caveats.iter().filter(|c| c.contains("few for a p99") || c.contains("move less")) {
        text += &format!(" But {caveat}.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_told_with_its_confidence() {
        let gain = Gain {
            point: "shared".into(),
            metric: "focus_p99_us".into(),
            now: 4000.0,
            then: 3000.0,
            change: -0.25,
            ci95: [-0.38, -0.11],
            p: 0.003,
        };
        let told = shown(&gain, "bfq's ");
        assert_eq!(told, "3.00 ms in place of bfq's 4.00 ms (-25 %, with 95 % confidence -38 to -11 %, p = 0.003)");
        let told = shown(&Gain { ci95: [-0.99, 1063.0], p: 0.7, ..gain }, "");
        assert_eq!(told, "3.00 ms in place of 4.00 ms (-25 %, too few runs for a range, p = 0.700)");
    }
}
