//! State of a policy as a document: its workloads, and the trial results of each.

use std::collections::BTreeMap;

use dumbwaiter_block::Nanos;
use serde::{Deserialize, Serialize};

use crate::switching::known::WORKLOADS_MAX;
use crate::switching::scores::Estimate;
use crate::switching::signature::Signature;

/// All workloads of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The workloads, in the order of their first appearance.
    pub workloads: Vec<WorkloadMemory>,
}

/// One workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadMemory {
    /// Its centre: the parts of a [`Signature`].
    pub signature: [f64; 4],
    /// Number of observations in the centre, up to a limit.
    pub weight: f64,
    /// The best candidate so far, by name.
    pub best: String,
    /// All candidates were tried.
    pub settled: bool,
    /// I/Os that a random task had outstanding, log2 by 12; none where it was not known.
    #[serde(default)]
    pub outstanding: Option<f64>,
    /// The table's proposal for it was reverted.
    pub refuted: bool,
    /// Time lost in its trials, nanoseconds.
    pub cost_ns: f64,
    /// By candidate: its score, relative to the first baseline; only those that were tried.
    pub candidates: BTreeMap<String, CandidateMemory>,
}

/// Trial results of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateMemory {
    /// Mean.
    pub mean: f64,
    /// Variance of the mean.
    pub variance: f64,
    /// Slots.
    pub samples: u32,
}

impl Memory {
    /// Checks a document from a file: the number of workloads, and the ranges of all numbers.
    pub fn is_sound(&self) -> bool {
        let sound = |workload: &WorkloadMemory| {
            let estimates = workload.candidates.values();
            workload.signature.iter().all(|part| (0.0..=2.0).contains(part))
                && (1.0..=1e9).contains(&workload.weight)
                && (0.0..=1e18).contains(&workload.cost_ns)
                && estimates.clone().all(|c| (0.0..=1e9).contains(&c.mean) && (0.0..=1e18).contains(&c.variance))
        };
        self.workloads.len() <= WORKLOADS_MAX && self.workloads.iter().all(sound)
    }
}

impl From<Estimate> for CandidateMemory {
    fn from(Estimate { mean, variance, samples }: Estimate) -> CandidateMemory {
        CandidateMemory { mean, variance, samples }
    }
}

impl From<CandidateMemory> for Estimate {
    fn from(CandidateMemory { mean, variance, samples }: CandidateMemory) -> Estimate {
        Estimate { mean, variance, samples }
    }
}

impl crate::switching::Policy {
    /// The state as a document. `names`: of the candidates, by number.
    pub fn memory(&self, names: &[String]) -> Memory {
        let name = |candidate: usize| names.get(candidate).cloned().unwrap_or_default();
        let workload = |(number, scores): (usize, &crate::switching::Scores)| {
            let (centre, weight) = self.known.centre(number)?;
            let tried = scores.estimates().iter().enumerate().filter(|(_, estimate)| estimate.samples > 0);
            Some(WorkloadMemory {
                signature: centre.parts,
                outstanding: centre.outstanding,
                weight,
                best: name(scores.baseline()),
                settled: scores.winner().is_some(),
                refuted: self.refuted[number],
                cost_ns: scores.cost_ns,
                candidates: tried.map(|(c, estimate)| (name(c), (*estimate).into())).collect(),
            })
        };
        Memory { workloads: self.scores.iter().enumerate().filter_map(workload).collect() }
    }

    /// Loads the state of another policy, before the first tick. It drops workloads whose best candidate is not in `names`; a
    /// candidate without results is tried.
    pub fn remember(&mut self, memory: &Memory, names: &[String]) {
        if !memory.is_sound() || !self.scores.is_empty() {
            return;
        }
        let number = |name: &String| names.iter().position(|known| known == name);
        for workload in &memory.workloads {
            let Some(best) = number(&workload.best) else { continue };
            let mut estimates = vec![Estimate::default(); self.candidates];
            for (name, estimate) in &workload.candidates {
                if let Some(place) = number(name).and_then(|candidate| estimates.get_mut(candidate)) {
                    *place = (*estimate).into();
                }
            }
            if estimates.get(best).is_none_or(|estimate| estimate.samples == 0) {
                continue;
            }
            let settled = workload.settled && names.iter().all(|name| workload.candidates.contains_key(name));
            self.known
                .restore(Signature { parts: workload.signature, outstanding: workload.outstanding }, workload.weight);
            self.scores.push(crate::switching::Scores::restored(estimates, best, settled, workload.cost_ns));
            self.penalty.push(Nanos::ZERO);
            self.refuted.push(workload.refuted);
            self.lasted.push(Nanos::ZERO);
        }
    }
}
