//! Successive halving: which runs come next, and what they show.

use std::collections::BTreeMap;

use dumbwaiter_measure::{RunResult, SIGNIFICANCE, Sample};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use super::candidate::{Candidate, Space, draw};
use super::claim::Claim;
use super::plan::TunePlan;
use crate::Goal;
use crate::answer::{Losing, NEAR, Rates, USEFUL_GAIN, losses};
use crate::conditions::Conditions;
use crate::focus::Focus;
use crate::metric::Metric;
use crate::ranking::{Ranking, rank_under};
use crate::row::Worth;

/// Replicates of the search are numbered from 0; those of the claim from here.
pub const HELD_OUT_FROM: u32 = 1000;

/// What a setting that is not the default has to gain more than one that is.
const SETTING_COSTS: f64 = 0.01;
/// Bounds are divided among three alternatives, of which this is one.
const ONE_OF_THREE: f64 = 3.0;

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
    /// The one of them that is set, with which all are compared.
    incumbent: usize,
    rate: Option<f64>,
    /// A gain is tried on another drive too.
    elsewhere: bool,
    /// The candidates of each round that has begun, in the order of the round before.
    rounds: Vec<Vec<usize>>,
    /// By round, candidate and replicate. The scheduler of each is named as its candidate.
    results: BTreeMap<(usize, usize, u32), RunResult>,
    over: bool,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Choice {
    /// What is set, with which the others are compared.
    pub defaults: Candidate,
    /// The best candidate; the same as `defaults` where none is better.
    pub best: Candidate,
    /// Whether to set it.
    pub outcome: Outcome,
    /// Its gain in the held-out runs; `None` if there are none.
    pub claim: Option<Claim>,
    /// Other figures in which the held-out runs were compared.
    pub others: Vec<Claim>,
    /// What it is worth in the held-out runs.
    pub gain: Option<Worth>,
    /// What gets worse in the held-out runs.
    pub losses: Vec<Losing>,
    /// What it is worth on another drive of the class; `None` where it was not tried.
    pub elsewhere: Option<Worth>,
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
    /// A search among the candidates of these spaces, of which there is at least one, for something that is worth more than the
    /// incumbent, which is tried too; without one that is the first space's scheduler with its defaults.
    pub fn new(spaces: &[Space], incumbent: Option<Candidate>, plan: TunePlan, goal: Goal, seed: u64) -> Search {
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut candidates: Vec<Candidate> = Vec::new();
        candidates.extend(incumbent.clone());
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
        Search {
            plan,
            goal,
            candidates,
            defaults,
            incumbent: 0,
            rate: None,
            elsewhere: false,
            rounds: vec![first],
            results: BTreeMap::new(),
            over: false,
        }
    }

    /// The search at another exchange rate than the goal's.
    pub fn with_rate(self, rate: Option<f64>) -> Search {
        Search { rate, ..self }
    }

    /// The search with one round more: what it would recommend runs again on another drive, see [`Search::is_elsewhere`].
    pub fn with_another_drive(self) -> Search {
        Search { elsewhere: true, ..self }
    }

    /// Whether a trial is one for another drive of the class.
    pub fn is_elsewhere(&self, trial: &Trial) -> bool {
        trial.round > self.plan.rungs.len()
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
        let claims = if self.elsewhere { 2 } else { 1 };
        self.plan.rungs.iter().map(rung).sum::<usize>() + claims * 2 * self.plan.held_out as usize
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
            let confirmed = round == self.plan.rungs.len() && self.elsewhere;
            let better = confirmed && self.choice().is_some_and(|choice| choice.outcome == Outcome::Better);
            return better.then(|| self.rounds[round].clone());
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
    fn ranking(&self, round: usize, among: &[usize], error: f64) -> Option<Ranking> {
        let of = |candidate: &usize| self.results.range((round, *candidate, 0)..=(round, *candidate, u32::MAX));
        let runs: Vec<RunResult> = among.iter().flat_map(of).map(|(_, run)| run.clone()).collect();
        let incumbent = Some(self.candidates[self.incumbent].to_string());
        let conditions = Conditions { incumbent, rate: self.rate, error, ..Conditions::default() };
        rank_under(&runs, self.goal, &conditions).into_iter().next()
    }

    /// What the candidates of a round are worth, drawn to their mean as far as they differ by chance, less a little for each setting
    /// that is not the default. `None` for those that have not run.
    fn worth(&self, round: usize) -> Vec<(usize, f64)> {
        let candidates = &self.rounds[round];
        let Some(ranking) = self.ranking(round, candidates, SIGNIFICANCE) else { return Vec::new() };
        let gain = |candidate: usize| {
            let name = self.candidates[candidate].to_string();
            ranking.rows.iter().find(|row| row.scheduler == name)?.worth
        };
        let known: Vec<(usize, Worth)> = candidates.iter().filter_map(|c| Some((*c, gain(*c)?))).collect();
        let all = Sample::of(&known.iter().map(|(_, of)| of.gain).collect::<Vec<_>>());
        let noise = known.iter().map(|(_, of)| of.error.powi(2)).sum::<f64>() / known.len().max(1) as f64;
        let between = (all.stddev * all.stddev - noise).max(0.0);
        let one = |(candidate, of): &(usize, Worth)| {
            let own = of.error.powi(2);
            let part = if between + own > 0.0 { between / (between + own) } else { 1.0 };
            let drawn = all.mean + (of.gain - all.mean) * part;
            (*candidate, drawn - SETTING_COSTS * self.candidates[*candidate].settings() as f64)
        };
        known.iter().map(one).chain([(self.incumbent, 0.0)]).collect()
    }

    /// The candidates of a round, what is worth most first.
    fn ranked(&self, round: usize) -> Vec<usize> {
        let mut worth = self.worth(round);
        if worth.is_empty() {
            return self.rounds[round].clone();
        }
        worth.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        worth.into_iter().map(|(candidate, _)| candidate).collect()
    }

    /// Of a round, the incumbent, and the candidate that is worth most: of those that are nearly worth as much the one nearest to the
    /// defaults. The same number twice where none is worth a useful amount.
    fn leaders(&self, round: usize) -> Option<(usize, usize)> {
        let worth = self.worth(round);
        let most = worth.iter().map(|(_, worth)| *worth).reduce(f64::max)?;
        let near = worth.iter().filter(|(_, worth)| most > 0.0 && *worth >= (most - NEAR).max(0.0));
        let place = |(candidate, worth): &(usize, f64)| (self.candidates[*candidate].settings(), *candidate, *worth);
        let best = near.filter(|(candidate, _)| *candidate != self.incumbent).min_by(|a, b| {
            let (a, b) = (place(a), place(b));
            a.0.cmp(&b.0).then(b.2.total_cmp(&a.2)).then(a.1.cmp(&b.1))
        });
        Some((self.incumbent, best.map_or(self.incumbent, |(candidate, _)| *candidate)))
    }

    fn runs_of(&self, round: usize, candidate: usize) -> Vec<&RunResult> {
        self.results.range((round, candidate, 0)..=(round, candidate, u32::MAX)).map(|(_, run)| run).collect()
    }

    /// How a candidate compares with the incumbent: the figure that brings the gain, and the others that are known.
    fn claims(&self, round: usize, candidate: usize, ranking: &Ranking) -> (Claim, Vec<Claim>) {
        let (a, b) = (self.runs_of(round, self.incumbent), self.runs_of(round, candidate));
        let of = |metric: Metric| Claim::of(metric, &ranking.focus, &a, &b);
        // The figure that ranks, unless it is no more than chance, or another brings twice as much.
        let figures = [ranking.metric, Metric::FocusMean, Metric::MbPerS];
        let brings = |metric: Metric| Some(of(metric).better_by(metric)).filter(|better| *better > 0.0);
        let sure = |metric: Metric| brings(metric).filter(|_| of(metric).p.is_none_or(|p| p <= SIGNIFICANCE));
        let most =
            figures.iter().filter_map(|metric| Some((*metric, sure(*metric)?))).max_by(|a, b| a.1.total_cmp(&b.1));
        let main = match most {
            Some((_, most)) if sure(ranking.metric).is_some_and(|own| 2.0 * own >= most) => ranking.metric,
            Some((metric, _)) => metric,
            None => figures.into_iter().find(|metric| brings(*metric).is_some()).unwrap_or(ranking.metric),
        };
        let others = [
            Metric::StartUp,
            Metric::DroppedFrames,
            Metric::FocusMean,
            Metric::FocusP99,
            Metric::ShareError,
            Metric::MbPerS,
        ];
        let others = others.into_iter().filter(|metric| *metric != main);
        let others = others.map(of).filter(|claim| !claim.held_out.is_empty()).collect();
        (of(main), others)
    }

    /// The result. A search that ended early gives the best so far.
    pub fn choice(&self) -> Option<Choice> {
        let complete = |round: usize| self.is_complete(round);
        let last_rung = self.plan.rungs.len() - 1;
        let round = (0..=last_rung).rev().find(|round| self.rounds.len() > *round && complete(*round));
        // Before the first round is over, what there is of it.
        let (defaults, best) = self.leaders(round.unwrap_or(0))?;
        let ranking = round.and_then(|round| self.ranking(round, &self.rounds[round], SIGNIFICANCE));
        let mut choice = Choice {
            defaults: self.candidates[defaults].clone(),
            best: self.candidates[best].clone(),
            outcome: if round == Some(last_rung) { Outcome::DefaultsAsGood } else { Outcome::Unconfirmed },
            claim: None,
            others: Vec::new(),
            gain: None,
            losses: Vec::new(),
            elsewhere: None,
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
        // One comparison, so that nothing is divided among several.
        let Some(ranking) = self.ranking(held_out, &[defaults, best], ONE_OF_THREE * SIGNIFICANCE) else {
            return Some(choice);
        };
        let (claim, others) = self.claims(held_out, best, &ranking);
        if complete(held_out) {
            let name = self.candidates[best].to_string();
            choice.gain = ranking.rows.iter().find(|row| row.scheduler == name).and_then(|row| row.worth);
            choice.losses = losses(&self.runs_of(held_out, best), &self.runs_of(held_out, defaults));
            let better = choice.gain.is_some_and(|of| of.gain >= USEFUL_GAIN && of.at_least > 0.0);
            choice.outcome = if better { Outcome::Better } else { Outcome::DefaultsAsGood };
            choice.others = others;
            choice.elsewhere = self.worth_elsewhere(defaults, best);
        }
        choice.claim = Some(claim);
        Some(choice)
    }

    /// What the best candidate is worth on another drive, once all of its runs there are made.
    fn worth_elsewhere(&self, defaults: usize, best: usize) -> Option<Worth> {
        let round = self.plan.rungs.len() + 1;
        if self.rounds.len() <= round || !self.is_complete(round) {
            return None;
        }
        let ranking = self.ranking(round, &[defaults, best], ONE_OF_THREE * SIGNIFICANCE)?;
        let name = self.candidates[best].to_string();
        ranking.rows.iter().find(|row| row.scheduler == name)?.worth
    }

    /// The exchange rates of the search.
    pub fn rates(&self) -> Rates {
        self.rate.map_or_else(|| Rates::of(self.goal), Rates::worth)
    }

    fn is_complete(&self, round: usize) -> bool {
        let replicates = self.plan.rungs.get(round).map_or(self.plan.held_out, |rung| rung.replicates) as usize;
        self.rounds[round].iter().all(|candidate| self.runs_of(round, *candidate).len() == replicates)
    }
}

impl Choice {
    /// Whose latency counted; all requests where nothing was ranked.
    pub fn focus(&self) -> Focus {
        self.ranking.as_ref().map_or(Focus::All, |ranking| ranking.focus.clone())
    }
}
