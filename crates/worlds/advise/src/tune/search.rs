//! Successive halving: which runs come next, and what they show.

use std::collections::BTreeMap;

use dumbwaiter_measure::{RunResult, SIGNIFICANCE};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use super::candidate::{Candidate, Space, draw};
use super::claim::Claim;
use super::plan::TunePlan;
use crate::conditions::Conditions;
use crate::confidence::Confidence;
use crate::focus::Focus;
use crate::metric::{Metric, USEFUL};
use crate::ranking::{Ranking, rank_under};
use crate::{Axes, Goal};

/// Replicates of the search are numbered from 0; those of the claim from here.
pub const HELD_OUT_FROM: u32 = 1000;

/// One run to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Trial {
    /// The round; that after the last rung is the claim's.
    pub round: usize,
    /// The candidate, for [`Search::candidate`].
    pub candidate: usize,
    /// The replicate: the run's seed is the scenario's plus this.
    pub replicate: u32,
    /// Length of the run as a percentage of the scenario's.
    pub length_percent: u32,
}

/// A search under way. The same spaces, plan, goal, seed and results give the same trials and the same choice.
pub struct Search {
    plan: TunePlan,
    goal: Goal,
    candidates: Vec<Candidate>,
    /// Number of schedulers with their defaults; they are the first candidates.
    defaults: usize,
    /// The candidates of each round that has begun, in the order of the round before.
    rounds: Vec<Vec<usize>>,
    /// By round, candidate and replicate. The scheduler of each is named as its candidate.
    results: BTreeMap<(usize, usize, u32), RunResult>,
    over: bool,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The scheduler that is best with its defaults.
    pub defaults: Candidate,
    /// The best candidate; the same as `defaults` where none is better.
    pub best: Candidate,
    /// Whether to set it.
    pub outcome: Outcome,
    /// Its gain in the held-out runs; `None` if there are none.
    pub claim: Option<Claim>,
    /// The figures of the goal in which the held-out runs were compared as well.
    pub others: Vec<Claim>,
    /// The last round that was finished, ranked; `None` before the first.
    pub ranking: Option<Ranking>,
}

/// Whether to set the best candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The held-out runs confirm it.
    Better,
    /// No candidate is better by more than chance and by a useful amount.
    DefaultsAsGood,
    /// The search ended before the held-out runs were made.
    Unconfirmed,
}

impl Search {
    /// A search among the candidates of these spaces, of which there is at least one.
    pub fn new(spaces: &[Space], plan: TunePlan, goal: Goal, seed: u64) -> Search {
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut candidates: Vec<Candidate> = Vec::new();
        for space in spaces {
            let own = Candidate::of(space.scheduler.clone());
            if !candidates.contains(&own) {
                candidates.push(own);
            }
        }
        let defaults = candidates.len();
        let searched: Vec<&Space> = spaces.iter().filter(|space| !space.ranges.is_empty()).collect();
        let all = plan.rungs.first().map_or(0, |rung| rung.candidates);
        for (i, space) in searched.iter().enumerate() {
            // Candidates that one space does not need go to the next.
            let left = all.saturating_sub(candidates.len() - defaults);
            let drawn = draw(space, left.div_ceil(searched.len() - i), &mut random);
            // A scheduler that is searched twice, once with a setting of its own, has some candidates in both spaces.
            let new = |candidate: &Candidate| !candidates.contains(candidate);
            let new: Vec<Candidate> = drawn.into_iter().filter(new).collect();
            candidates.extend(new);
        }
        let first = (0..candidates.len()).collect();
        Search { plan, goal, candidates, defaults, rounds: vec![first], results: BTreeMap::new(), over: false }
    }

    /// A candidate by its number.
    pub fn candidate(&self, number: usize) -> &Candidate {
        &self.candidates[number]
    }

    /// Candidates that were tried so far, defaults included.
    pub fn candidates(&self) -> usize {
        self.candidates.len()
    }

    /// Runs that have a result.
    pub fn runs(&self) -> usize {
        self.results.len()
    }

    /// Runs that the whole search makes, at most.
    pub fn planned(&self) -> usize {
        let rung = |rung: &super::plan::Rung| (rung.candidates + self.defaults) * rung.replicates as usize;
        self.plan.rungs.iter().map(rung).sum::<usize>() + 2 * self.plan.held_out as usize
    }

    /// The runs to make next, in any order and at the same time; none when the search is over.
    pub fn next_trials(&mut self) -> Vec<Trial> {
        while !self.over {
            let missing = self.missing();
            if !missing.is_empty() {
                return missing;
            }
            match self.next_round() {
                Some(candidates) => self.rounds.push(candidates),
                None => self.over = true,
            }
        }
        Vec::new()
    }

    /// Stores the result of a trial.
    pub fn record(&mut self, trial: &Trial, mut run: RunResult) {
        run.scheduler = self.candidates[trial.candidate].to_string();
        run.variant.clear();
        self.results.insert((trial.round, trial.candidate, trial.replicate), run);
    }

    /// The trials of the round under way without a result.
    fn missing(&self) -> Vec<Trial> {
        let round = self.rounds.len() - 1;
        let (from, replicates, length_percent) = match self.plan.rungs.get(round) {
            Some(rung) => (0, rung.replicates, rung.length_percent),
            None => (HELD_OUT_FROM, self.plan.held_out, 100),
        };
        let all = (from..from + replicates)
            .flat_map(|replicate| self.rounds[round].iter().map(move |candidate| (*candidate, replicate)));
        all.filter(|(candidate, replicate)| !self.results.contains_key(&(round, *candidate, *replicate)))
            .map(|(candidate, replicate)| Trial { round, candidate, replicate, length_percent })
            .collect()
    }

    /// The candidates of the next round; `None` where no other follows.
    fn next_round(&mut self) -> Option<Vec<usize>> {
        let round = self.rounds.len() - 1;
        if round >= self.plan.rungs.len() {
            return None;
        }
        let Some(rung) = self.plan.rungs.get(round + 1).copied() else {
            let (defaults, best) = self.leaders(round)?;
            return (best != defaults).then(|| vec![defaults, best]);
        };
        let ranked = self.ranked(round);
        let mut kept: Vec<usize> =
            ranked.iter().copied().filter(|candidate| *candidate >= self.defaults).take(rung.candidates).collect();
        if round == 0 {
            self.combine(&mut kept);
        }
        Some((0..self.defaults).chain(kept).collect())
    }

    /// Replaces the last ones of `kept`, at most a third, by combinations of the first: settings that help alone often help together.
    fn combine(&mut self, kept: &mut [usize]) {
        let free = kept.len() / 3;
        let firm = kept.len() - free;
        let pairs = (1..firm).flat_map(|second| (0..second).map(move |first| (first, second)));
        let mut joined: Vec<Candidate> = Vec::new();
        for (first, second) in pairs {
            let both = self.candidates[kept[first]].joined(&self.candidates[kept[second]]);
            if let Some(both) = both.filter(|both| !self.candidates.contains(both) && !joined.contains(both)) {
                joined.push(both);
            }
        }
        for (place, candidate) in kept[firm..].iter_mut().rev().zip(joined) {
            *place = self.candidates.len();
            self.candidates.push(candidate);
        }
    }

    /// The ranking of a round by the results that are there.
    fn ranking(&self, round: usize, among: &[usize]) -> Option<Ranking> {
        let of = |candidate: &usize| self.results.range((round, *candidate, 0)..=(round, *candidate, u32::MAX));
        let runs: Vec<RunResult> = among.iter().flat_map(of).map(|(_, run)| run.clone()).collect();
        rank_under(&runs, self.goal, &Conditions::default()).into_iter().next()
    }

    /// The candidates of a round, best first.
    fn ranked(&self, round: usize) -> Vec<usize> {
        let candidates = &self.rounds[round];
        let Some(ranking) = self.ranking(round, candidates) else { return candidates.clone() };
        let number = |name: &String| candidates.iter().copied().find(|c| self.candidates[*c].to_string() == *name);
        ranking.rows.iter().filter_map(|row| number(&row.scheduler)).collect()
    }

    /// Of a round, the scheduler that is best with its defaults, and the first candidate that beats it in nothing worse; the same
    /// number twice where there is none.
    fn leaders(&self, round: usize) -> Option<(usize, usize)> {
        let own: Vec<usize> = (0..self.defaults).collect();
        let name = self.ranking(round, &own)?.rows.first()?.scheduler.clone();
        let defaults = own.into_iter().find(|c| self.candidates[*c].to_string() == name)?;
        for candidate in self.ranked(round) {
            if candidate == defaults {
                break;
            }
            if candidate < self.defaults {
                continue;
            }
            let Some(ranking) = self.ranking(round, &[defaults, candidate]) else { break };
            let leads = ranking.rows[0].scheduler == self.candidates[candidate].to_string();
            let loses = self.claims(round, defaults, candidate, &ranking);
            if leads && loses.iter().all(|(metric, claim)| !is_worse(*metric, claim)) {
                return Some((defaults, candidate));
            }
        }
        Some((defaults, defaults))
    }

    fn runs_of(&self, round: usize, candidate: usize) -> Vec<&RunResult> {
        self.results.range((round, candidate, 0)..=(round, candidate, u32::MAX)).map(|(_, run)| run).collect()
    }

    /// How a candidate compares with the defaults in each figure that comes before the one that decides.
    fn claims(&self, round: usize, defaults: usize, candidate: usize, ranking: &Ranking) -> Vec<(Metric, Claim)> {
        let (a, b) = (self.runs_of(round, defaults), self.runs_of(round, candidate));
        let all: Vec<&RunResult> = a.iter().chain(&b).copied().collect();
        let before = self.goal.criteria(&all).into_iter().take_while(|metric| *metric != ranking.metric);
        let of = |metric: Metric| (metric, Claim::of(metric, &ranking.focus, &a, &b));
        before.map(of).filter(|(_, claim)| !claim.held_out.is_empty()).collect()
    }

    /// The result. A search that ended early gives the best so far.
    pub fn choice(&self) -> Option<Choice> {
        let complete = |round: usize| self.is_complete(round);
        let last_rung = self.plan.rungs.len() - 1;
        let round = (0..=last_rung).rev().find(|round| self.rounds.len() > *round && complete(*round));
        // Before the first round is over, what there is of it.
        let (defaults, best) = self.leaders(round.unwrap_or(0))?;
        let ranking = round.and_then(|round| self.ranking(round, &self.rounds[round]));
        let mut choice = Choice {
            defaults: self.candidates[defaults].clone(),
            best: self.candidates[best].clone(),
            outcome: if round == Some(last_rung) { Outcome::DefaultsAsGood } else { Outcome::Unconfirmed },
            claim: None,
            others: Vec::new(),
            ranking,
        };
        if best == defaults {
            return Some(choice);
        }
        choice.outcome = Outcome::Unconfirmed;
        let held_out = last_rung + 1;
        if self.rounds.len() <= held_out {
            return Some(choice);
        }
        let Some(ranking) = self.ranking(held_out, &[defaults, best]) else { return Some(choice) };
        let claim =
            Claim::of(ranking.metric, &ranking.focus, &self.runs_of(held_out, defaults), &self.runs_of(held_out, best));
        if complete(held_out) {
            let others = self.claims(held_out, defaults, best, &ranking);
            let better = self.is_better(best, &ranking, &claim)
                && others.iter().all(|(metric, claim)| !is_worse(*metric, claim));
            choice.outcome = if better { Outcome::Better } else { Outcome::DefaultsAsGood };
            choice.others = others.into_iter().map(|(_, claim)| claim).collect();
        }
        choice.claim = Some(claim);
        Some(choice)
    }

    /// Do the held-out runs show that it is better, and by a useful amount?
    fn is_better(&self, best: usize, ranking: &Ranking, claim: &Claim) -> bool {
        let first = &ranking.rows[0];
        let leads = first.name(Axes::of_rows(&ranking.rows)) == self.candidates[best].to_string();
        let sure = matches!(ranking.verdict.confidence, Confidence::Clear | Confidence::Likely);
        // A recorded load that is simulated again is one run, of which the verdict asks more.
        let significant = claim.is_significant() || claim.held_out.len() == 1;
        leads && sure && significant && claim.better_by(ranking.metric) >= USEFUL.min(ranking.metric.useful())
    }

    fn is_complete(&self, round: usize) -> bool {
        let replicates = self.plan.rungs.get(round).map_or(self.plan.held_out, |rung| rung.replicates) as usize;
        self.rounds[round].iter().all(|candidate| self.runs_of(round, *candidate).len() == replicates)
    }
}

/// Is a candidate worse than the defaults in a figure, and not by chance?
fn is_worse(metric: Metric, claim: &Claim) -> bool {
    let by = claim.better_by(metric);
    match claim.p {
        Some(p) => by < 0.0 && p <= SIGNIFICANCE,
        None => by < -metric.useful(),
    }
}

impl Choice {
    /// Whose latency counted; all requests where nothing was ranked.
    pub fn focus(&self) -> Focus {
        self.ranking.as_ref().map_or(Focus::All, |ranking| ranking.focus.clone())
    }
}
