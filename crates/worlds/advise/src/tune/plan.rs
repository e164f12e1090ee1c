//! How long and how often candidates run.

use serde::{Deserialize, Serialize};

/// One round of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// Candidates that take part, beside the defaults.
    pub candidates: usize,
    /// Runs of each, with a seed of its own each.
    pub replicates: u32,
    /// Length of a run as a percentage of the scenario's.
    pub length_percent: u32,
}

/// The rounds of a search, and the runs that make the claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunePlan {
    /// The rounds, the widest first.
    pub rungs: Vec<Rung>,
    /// Seeds that only the winner and the defaults run with.
    pub held_out: u32,
}

/// Which shorter or repeated runs of a load are worth making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadKind {
    /// A shorter run would be another load, as where applications are launched.
    pub whole_runs: bool,
    /// Each run of a candidate is the same, as in the simulation of a recorded load: one is enough.
    pub repeats: bool,
}

/// The time that a run of full length takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTime {
    /// Time that a shorter run takes as well, ns: its warm-up, on a real device also its start.
    pub fixed_ns: u64,
    /// Time that a round shortens, ns.
    pub measured_ns: u64,
}

/// Candidates of the first round where no budget is given: for the first scheduler, and for each other.
const CANDIDATES: usize = 32;
const CANDIDATES_MORE: usize = 12;
/// Fewer or more make no sense.
const CANDIDATES_MIN: usize = 4;
const CANDIDATES_MAX: usize = 512;
/// Seeds of the claim.
const HELD_OUT: u32 = 10;

impl TunePlan {
    /// Rounds for this many candidates: all in short runs, a quarter of them in longer ones, a tenth in runs of full length.
    pub fn of(candidates: usize, load: LoadKind) -> TunePlan {
        let rung = |candidates, replicates, percent| Rung {
            candidates,
            replicates: if load.repeats { 1 } else { replicates },
            length_percent: if load.whole_runs { 100 } else { percent },
        };
        let rungs = vec![
            rung(candidates, 2, 25),
            rung(candidates.div_ceil(4).max(4), 3, 50),
            rung(candidates.div_ceil(10).max(3), 5, 100),
        ];
        TunePlan { rungs, held_out: if load.repeats { 1 } else { HELD_OUT } }
    }

    /// The plan for this many schedulers without a budget.
    pub fn default_for(schedulers: usize, load: LoadKind) -> TunePlan {
        TunePlan::of(CANDIDATES + CANDIDATES_MORE * schedulers.saturating_sub(1), load)
    }

    /// The largest plan whose runs together are no longer than `budget_ns`, where the claim is made on this many drives.
    ///
    /// # Errors
    /// The time of the smallest plan, in nanoseconds, where that is longer.
    pub fn within(
        budget_ns: u64,
        run: RunTime,
        schedulers: usize,
        load: LoadKind,
        drives: u64,
    ) -> Result<TunePlan, u64> {
        let cost = |n: usize| TunePlan::of(n, load).cost_ns(run, schedulers, drives);
        let fits = (CANDIDATES_MIN..=CANDIDATES_MAX).rev().find(|n| cost(*n) <= budget_ns);
        fits.map(|n| TunePlan::of(n, load)).ok_or_else(|| cost(CANDIDATES_MIN))
    }

    /// The time of all runs together. The defaults of each scheduler run in each round.
    fn cost_ns(&self, run: RunTime, schedulers: usize, drives: u64) -> u64 {
        let each = |percent: u32| run.fixed_ns.saturating_add(run.measured_ns.saturating_mul(u64::from(percent)) / 100);
        let rung = |rung: &Rung| {
            let runs = (rung.candidates + schedulers) as u64 * u64::from(rung.replicates);
            each(rung.length_percent).saturating_mul(runs)
        };
        let held_out = each(100).saturating_mul(2 * drives * u64::from(self.held_out));
        self.rungs.iter().map(rung).fold(held_out, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_bounds_the_runs_and_one_too_small_says_what_is_needed() {
        let run = RunTime { fixed_ns: 0, measured_ns: 1000 };
        let plan = TunePlan::within(1_000_000, run, 2, LoadKind::default(), 1).unwrap();
        assert!(plan.cost_ns(run, 2, 1) <= 1_000_000, "{plan:?}");
        assert!(plan.rungs[0].candidates > CANDIDATES, "{plan:?}");
        let needed = TunePlan::within(100, run, 2, LoadKind::default(), 1).unwrap_err();
        assert!(TunePlan::within(needed, run, 2, LoadKind::default(), 1).is_ok());
    }

    #[test]
    fn a_budget_counts_the_warm_up_of_short_runs_in_full() {
        let run = RunTime { fixed_ns: 500, measured_ns: 500 };
        let plan = TunePlan::within(300_000, run, 1, LoadKind::default(), 1).unwrap();
        let time = |rung: &Rung| {
            (rung.candidates as u64 + 1) * u64::from(rung.replicates) * (500 + 5 * u64::from(rung.length_percent))
        };
        let all = plan.rungs.iter().map(time).sum::<u64>() + 2 * u64::from(plan.held_out) * 1000;
        assert!(all <= 300_000 && all > 250_000, "{all} ns of runs: {plan:?}");
    }

    #[test]
    fn a_recorded_load_spends_its_budget_on_candidates_instead_of_repeats() {
        let run = RunTime { fixed_ns: 0, measured_ns: 1000 };
        let of = |repeats| TunePlan::within(200_000, run, 1, LoadKind { whole_runs: true, repeats }, 1).unwrap();
        let (recorded, other) = (of(true), of(false));
        assert!(recorded.rungs.iter().all(|rung| (rung.replicates, rung.length_percent) == (1, 100)), "{recorded:?}");
        assert_eq!(recorded.held_out, 1);
        assert!(recorded.rungs[0].candidates > 2 * other.rungs[0].candidates, "{recorded:?} {other:?}");
    }
}
