//! What a suite says in one sentence: change the default of a class of drives, or not.

use std::collections::BTreeMap;

use dumbwaiter_measure::student_quantile;
use serde::{Deserialize, Serialize};

use crate::answer::{ClassAnswer, Decision, HARMFUL, OnModels, USEFUL_GAIN, change_text, of_class, rounded};
use crate::confidence::Confidence;
use crate::ranking::Ranking;
use crate::row::{RankingRow, Worth};
use crate::sentence::{list, percent};
use crate::suite::SuiteCase;

/// A loss in a case that no gain in others makes up for, as a natural logarithm.
const CASE_LOSS: f64 = 0.105;
/// A case counts for no more than this, as a natural logarithm (1.5 times the latency): one does not decide for all, and its distance
/// from the others is no doubt about them.
const CASE_COUNTS: f64 = 0.405;
/// Bounds are for this many alternatives together.
const ALTERNATIVES: f64 = 3.0;

/// An alternative against the incumbent, over the cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteAgainst {
    /// The scheduler.
    pub scheduler: String,
    /// Cases in which it is worth a change.
    pub wins: usize,
    /// Cases in which it is worse by a useful amount.
    pub losses: usize,
    /// The other cases.
    pub ties: usize,
    /// The largest loss, as a latency that is higher by this fraction; `null` where it loses nothing.
    pub worst_loss: Option<f64>,
    /// The case of that.
    pub worst_case: Option<String>,
    /// The mean gain over the cases, as a natural logarithm of latency.
    pub gain: f64,
    /// Typical change of latency and throughput, as fractions.
    pub latency_change: f64,
    /// Typical change of the throughput.
    pub throughput_change: f64,
}

/// The verdict of a suite, of all its drives or of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteVerdict {
    /// The class of the drives; empty for all.
    pub drive_class: String,
    /// Keep the default, or change it.
    pub decision: Decision,
    /// How sure that is.
    pub confidence: Confidence,
    /// The default; `null` where the classes have different ones.
    pub incumbent: Option<String>,
    /// The scheduler to set by default; `null` where nothing is to be changed.
    pub recommended: Option<String>,
    /// The verdict in a sentence.
    pub sentence: String,
    /// Loads, models of drives, and runs of each.
    pub loads: usize,
    /// Models of drives.
    pub models: usize,
    /// Runs of each scheduler under each load, with as many seeds.
    pub seeds: usize,
    /// The alternatives, what is worth most first.
    pub against: Vec<SuiteAgainst>,
    /// By class of drives; empty in each of those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_class: Vec<SuiteVerdict>,
}

/// A load on the drives of a class: it has one vote, whatever the number of its models.
struct Load<'a> {
    scenario: &'a str,
    rankings: Vec<&'a Ranking>,
}

impl Load<'_> {
    /// By scheduler, what it is worth on each model.
    fn alternatives(&self) -> Vec<OnModels> {
        let mut names: Vec<&str> = Vec::new();
        for row in self.rankings.iter().flat_map(|ranking| &ranking.rows).filter(|row| row.can_be_set) {
            if row.worth.is_some() && !names.contains(&row.scheduler.as_str()) {
                names.push(&row.scheduler);
            }
        }
        names.sort_unstable();
        let worth = |name: &str| {
            let of =
                |ranking: &&Ranking| ranking.rows.iter().find(|row| row.scheduler == name && row.can_be_set)?.worth;
            self.rankings.iter().map(of).collect()
        };
        names.into_iter().map(|name| OnModels { name: name.to_owned(), worth: worth(name) }).collect()
    }

    fn answer(&self, error: f64) -> ClassAnswer {
        let alone: Vec<Decision> = self.rankings.iter().map(|ranking| ranking.verdict.decision).collect();
        of_class(&self.alternatives(), &alone, error)
    }

    /// What an alternative is worth on average over the models, and whether that is sure on all.
    fn mean(&self, name: &str) -> Option<Worth> {
        let of = self.alternatives().into_iter().find(|of| of.name == name)?;
        let known: Vec<Worth> = of.worth.into_iter().collect::<Option<_>>()?;
        let m = known.len() as f64;
        let mean = |part: fn(&Worth) -> f64| known.iter().map(part).sum::<f64>() / m;
        Some(Worth {
            gain: mean(|of| of.gain),
            at_least: known.iter().map(|of| of.at_least).fold(f64::INFINITY, f64::min),
            at_most: known.iter().map(|of| of.at_most).fold(f64::NEG_INFINITY, f64::max),
            error: mean(|of| of.error),
            runs: known.iter().map(|of| of.runs).min().unwrap_or(0),
            latency: mean(|of| of.latency),
            throughput: mean(|of| of.throughput),
            same: known.iter().all(|of| of.same),
        })
    }
}

/// The verdict of the cases of a suite; `None` without any.
pub(crate) fn judge(cases: &[SuiteCase], rankings: &[Ranking], error: f64) -> Option<SuiteVerdict> {
    let mut classes: Vec<(String, Vec<(&SuiteCase, &Ranking)>)> = Vec::new();
    for case in cases {
        let Some(ranking) = rankings.iter().find(|r| r.device == case.device && r.variant == case.variant) else {
            continue;
        };
        let class = if case.drive_class.is_empty() { case.device.clone() } else { case.drive_class.clone() };
        match classes.iter_mut().find(|(name, _)| *name == class) {
            Some((_, of)) => of.push((case, ranking)),
            None => classes.push((class, vec![(case, ranking)])),
        }
    }
    let verdicts: Vec<SuiteVerdict> = classes.iter().map(|(class, of)| of_one(class, of, error)).collect();
    match verdicts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(of_all(several)),
    }
}

fn of_one(class: &str, cases: &[(&SuiteCase, &Ranking)], error: f64) -> SuiteVerdict {
    let mut loads: Vec<Load<'_>> = Vec::new();
    for (case, ranking) in cases {
        match loads.iter_mut().find(|load| load.scenario == case.scenario) {
            Some(load) => load.rankings.push(ranking),
            None => loads.push(Load { scenario: &case.scenario, rankings: vec![ranking] }),
        }
    }
    let mut models: Vec<&str> = cases.iter().map(|(case, _)| case.device.as_str()).collect();
    models.dedup();
    models.sort_unstable();
    models.dedup();
    let incumbent = cases.first().map(|(_, ranking)| ranking.verdict.incumbent.clone()).unwrap_or_default();
    let answers: Vec<ClassAnswer> = loads.iter().map(|load| load.answer(error)).collect();
    let mut names: Vec<String> = Vec::new();
    for of in loads.iter().flat_map(Load::alternatives) {
        if !names.contains(&of.name) && of.name != incumbent {
            names.push(of.name);
        }
    }
    let mut against: Vec<Against> = names.iter().map(|name| one_against(name, &loads, error)).collect();
    against.sort_by(|a, b| b.counts.total_cmp(&a.counts).then(a.found.scheduler.cmp(&b.found.scheduler)));
    let seeds = cases.iter().flat_map(|(_, r)| &r.rows).map(|row| row.replicates).max().unwrap_or(0);
    let gains = |of: &&Against| of.counts >= USEFUL_GAIN && of.found.wins > 0;
    let change = against.iter().find(|of| gains(of) && of.at_least > -HARMFUL && !of.clearly_loses);
    let tempting = against.iter().find(|of| gains(of) && of.clearly_loses);
    let short = answers.iter().filter(|answer| answer.decision == Decision::TooShort).count();
    let decision = match (change, tempting) {
        (Some(_), _) => Decision::Change,
        (None, Some(_)) => Decision::Depends,
        _ if 2 * short > answers.len() => Decision::TooShort,
        _ => Decision::Keep,
    };
    let model_error = cases.iter().filter_map(|(_, ranking)| ranking.verdict.model_error).fold(0.0, f64::max);
    let clear = match change {
        Some(of) => of.found.losses == 0 && models.len() > 1 && of.at_least >= HARMFUL && of.found.gain >= model_error,
        None => {
            let clear = |of: &ClassAnswer| of.decision == Decision::Keep && of.confidence == Confidence::Clear;
            answers.iter().all(clear) && cases.iter().all(|(_, r)| r.verdict.confidence == Confidence::Clear)
        }
    };
    let confidence = match decision {
        Decision::Change | Decision::Keep if clear => Confidence::Clear,
        Decision::Change => Confidence::Likely,
        Decision::Keep if answers.iter().all(|answer| answer.decision == Decision::Keep) => Confidence::Likely,
        _ => Confidence::Open,
    };
    let recommended = change.map(|of| of.found.scheduler.clone());
    let mut found = SuiteVerdict {
        drive_class: class.to_owned(),
        decision,
        confidence,
        incumbent: Some(incumbent),
        recommended,
        sentence: String::new(),
        loads: loads.len(),
        models: models.len(),
        seeds,
        against: against.into_iter().map(|of| of.found).collect(),
        by_class: Vec::new(),
    };
    let real = |row: &RankingRow| !row.via.is_empty() && row.via != "sim";
    let drives = match cases.iter().flat_map(|(_, ranking)| &ranking.rows).all(real) {
        true => "this drive".to_owned(),
        false => format!("{} {} of drive", found.models, if found.models == 1 { "model" } else { "models" }),
    };
    found.sentence = sentence(&found, &drives);
    found
}

/// The mean of what gains count for, and its lower bound.
fn counted(gains: &[f64], error: f64) -> (f64, f64) {
    let n = gains.len() as f64;
    let each = || gains.iter().map(|gain| gain.clamp(-CASE_COUNTS, CASE_COUNTS));
    let mean = each().sum::<f64>() / n.max(1.0);
    if gains.len() < 2 {
        return (mean, f64::NEG_INFINITY);
    }
    let variance = each().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, mean - student_quantile(1.0 - error / ALTERNATIVES, n - 1.0) * (variance / n).sqrt())
}

/// An alternative over the loads.
struct Against {
    found: SuiteAgainst,
    /// The mean of what its cases count for, and its bound.
    counts: f64,
    at_least: f64,
    /// It clearly loses over 10 % in one.
    clearly_loses: bool,
}

fn one_against(name: &str, loads: &[Load<'_>], error: f64) -> Against {
    let known: Vec<(&str, Worth)> = loads.iter().filter_map(|load| Some((load.scenario, load.mean(name)?))).collect();
    let n = known.len() as f64;
    let mean = |part: fn(&Worth) -> f64| known.iter().map(|(_, of)| part(of)).sum::<f64>() / n.max(1.0);
    let gain = mean(|of| of.gain);
    let (counts, mut at_least) = counted(&known.iter().map(|(_, of)| of.gain).collect::<Vec<_>>(), error);
    if let [(_, of)] = known.as_slice() {
        at_least = of.at_least;
    }
    let wins = known.iter().filter(|(_, of)| of.gain >= USEFUL_GAIN && of.at_least > -HARMFUL).count();
    let loses = |of: &Worth| of.gain <= -USEFUL_GAIN && of.at_most < HARMFUL;
    let losses = known.iter().filter(|(_, of)| loses(of)).count();
    let worst = known.iter().filter(|(_, of)| of.gain < 0.0 && !of.same);
    let worst = worst.reduce(|a, b| if b.1.gain < a.1.gain { b } else { a });
    let clearly_loses = known.iter().any(|(_, of)| of.gain < -CASE_LOSS && of.at_most < 0.0);
    let found = SuiteAgainst {
        scheduler: name.to_owned(),
        wins,
        losses,
        ties: known.len() - wins - losses,
        worst_loss: worst.map(|(_, of)| rounded(libm::expm1(-of.gain))),
        worst_case: worst.map(|(scenario, _)| (*scenario).to_owned()),
        gain: rounded(gain),
        latency_change: rounded(libm::expm1(mean(|of| of.latency))),
        throughput_change: rounded(libm::expm1(mean(|of| of.throughput))),
    };
    Against { found, counts, at_least, clearly_loses }
}

/// `on hard disks: keep mq-deadline: …`.
fn sentence(of: &SuiteVerdict, drives: &str) -> String {
    let incumbent = of.incumbent.clone().unwrap_or_default();
    let on = format!(
        "{} {}, {drives}, {} {} of each",
        of.loads,
        if of.loads == 1 { "load" } else { "loads" },
        of.seeds,
        if of.seeds == 1 { "run" } else { "runs" },
    );
    let told = |against: &SuiteAgainst| {
        let typical = format!(
            "typically latency {}, throughput {}",
            change_text(1.0 + against.latency_change),
            change_text(1.0 + against.throughput_change)
        );
        let worst = match (&against.worst_case, against.worst_loss) {
            (Some(case), Some(loss)) if loss >= 0.01 => format!("; worst loss {case}, {}", worth_text(loss)),
            _ => String::new(),
        };
        format!("{} wins {}, loses {}: {typical}{worst}", against.scheduler, against.wins, against.losses)
    };
    let head = match (of.decision, &of.recommended) {
        (Decision::Change, Some(to)) => format!("change the default from {incumbent} to {to}"),
        (Decision::Depends, _) => format!("it depends on the load whether another default than {incumbent} is better"),
        (Decision::TooShort, _) => "too short to tell".to_owned(),
        _ => format!("keep {incumbent} as the default"),
    };
    let first = of.against.first().map_or(String::new(), |against| format!("; {}", told(against)));
    format!("{head} ({}; {on}){first}", of.confidence.name())
}

fn worth_text(loss: f64) -> String {
    if loss >= 1.0 {
        format!("as bad as {:.1} times the latency", 1.0 + loss)
    } else {
        format!("as bad as {} more latency", percent(loss))
    }
}

impl SuiteVerdict {
    /// Lines for a terminal: each class in a sentence.
    pub fn lines(&self) -> Vec<String> {
        let one = |of: &SuiteVerdict| match of.drive_class.as_str() {
            "" => of.sentence.clone(),
            class => format!("{class}: {}", of.sentence),
        };
        if self.by_class.is_empty() { vec![one(self)] } else { self.by_class.iter().map(one).collect() }
    }
}

/// Several classes: what all say, else it depends on the class.
fn of_all(classes: &[SuiteVerdict]) -> SuiteVerdict {
    let first = &classes[0];
    let agree = classes.iter().all(|of| of.decision == first.decision && of.recommended == first.recommended);
    let mut names: BTreeMap<&str, Vec<&SuiteAgainst>> = BTreeMap::new();
    for against in classes.iter().flat_map(|of| &of.against) {
        names.entry(&against.scheduler).or_default().push(against);
    }
    let join = |(name, of): (&&str, &Vec<&SuiteAgainst>)| {
        let n = of.len() as f64;
        let worst = of.iter().filter(|a| a.worst_loss.is_some()).copied();
        let worst = worst.reduce(|a, b| if b.worst_loss > a.worst_loss { b } else { a });
        let mean = |part: fn(&SuiteAgainst) -> f64| of.iter().map(|a| libm::log1p(part(a))).sum::<f64>() / n;
        SuiteAgainst {
            scheduler: (*name).to_owned(),
            wins: of.iter().map(|a| a.wins).sum(),
            losses: of.iter().map(|a| a.losses).sum(),
            ties: of.iter().map(|a| a.ties).sum(),
            worst_loss: worst.and_then(|a| a.worst_loss),
            worst_case: worst.and_then(|a| a.worst_case.clone()),
            gain: rounded(of.iter().map(|a| a.gain).sum::<f64>() / n),
            latency_change: rounded(libm::expm1(mean(|a| a.latency_change))),
            throughput_change: rounded(libm::expm1(mean(|a| a.throughput_change))),
        }
    };
    let mut against: Vec<SuiteAgainst> = names.iter().map(join).collect();
    against.sort_by(|a, b| b.gain.total_cmp(&a.gain).then(a.scheduler.cmp(&b.scheduler)));
    let same_incumbent = classes.iter().all(|of| of.incumbent == first.incumbent);
    let place = |of: &Confidence| match of {
        Confidence::Clear => 0,
        Confidence::Likely => 1,
        _ => 2,
    };
    let confidence = classes.iter().map(|of| of.confidence).max_by_key(place).unwrap_or(Confidence::Open);
    let decision = if agree { first.decision } else { Decision::Depends };
    let named = |of: &SuiteVerdict| {
        let what = match (&of.recommended, of.decision) {
            (Some(to), _) => format!("change to {to}"),
            (None, decision) => decision.name().replace('-', " "),
        };
        format!("{what} on {}", of.drive_class)
    };
    let sentence = match decision {
        Decision::Depends => {
            format!("it depends on the class of drives: {}", list(&classes.iter().map(named).collect::<Vec<_>>()))
        }
        Decision::Keep => "keep the defaults on all classes of drives".to_owned(),
        Decision::Change => {
            format!("change the default to {} on all classes of drives", first.recommended.clone().unwrap_or_default())
        }
        Decision::TooShort => "too short to tell".to_owned(),
    };
    SuiteVerdict {
        drive_class: String::new(),
        decision,
        confidence: if agree { confidence } else { Confidence::Open },
        incumbent: first.incumbent.clone().filter(|_| same_incumbent),
        recommended: first.recommended.clone().filter(|_| agree),
        sentence,
        loads: classes.iter().map(|of| of.loads).max().unwrap_or(0),
        models: classes.iter().map(|of| of.models).sum(),
        seeds: classes.iter().map(|of| of.seeds).max().unwrap_or(0),
        against,
        by_class: classes.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gains of bfq on a hard disk, by load, in suites of ours.
    #[test]
    fn a_load_that_gains_far_more_is_no_doubt_about_the_others() {
        let pays = |gains: &[f64]| {
            let (counts, at_least) = counted(gains, 0.05);
            counts >= USEFUL_GAIN && at_least > -HARMFUL
        };
        assert!(pays(&[0.27, 0.85, 0.22, 3.2]));
        assert!(pays(&[0.27, 0.30, 0.22, 0.25]));
        assert!(!pays(&[0.0, 0.0, 0.01, 3.2]), "one load decides for all");
        assert!(!pays(&[1.6, 2.5, 0.0, -0.25]));
        assert!(!pays(&[0.01, -0.01, 0.02, 0.0]), "a change among equals");
        assert_eq!(counted(&[], 0.05).0, 0.0);
    }
}
