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
pub struct Plan {
    /// The rounds, the widest first.
    pub rungs: Vec<Rung>,
    /// Seeds that only the winner and the defaults run with.
    pub held_out: u32,
}

/// Candidates of the first round where no budget is given: for the first scheduler, and for each other.
const CANDIDATES: usize = 32;
const CANDIDATES_MORE: usize = 12;
/// Fewer or more make no sense.
const CANDIDATES_MIN: usize = 4;
const CANDIDATES_MAX: usize = 512;
/// Seeds of the claim.
const HELD_OUT: u32 = 10;

impl Plan {
    /// Rounds for so many candidates: all in short runs, a quarter of them in longer ones, a tenth in runs of full length.
    /// `whole_runs`: no run is shorter than the scenario's, as where it launches applications.
    pub fn of(candidates: usize, whole_runs: bool) -> Plan {
        let percent = |percent| if whole_runs { 100 } else { percent };
        let rungs = vec![
            Rung { candidates, replicates: 2, length_percent: percent(25) },
            Rung { candidates: candidates.div_ceil(4).max(4), replicates: 3, length_percent: percent(50) },
            Rung { candidates: candidates.div_ceil(10).max(3), replicates: 5, length_percent: 100 },
        ];
        Plan { rungs, held_out: HELD_OUT }
    }

    /// The plan for so many schedulers without a budget.
    pub fn default_for(schedulers: usize, whole_runs: bool) -> Plan {
        Plan::of(CANDIDATES + CANDIDATES_MORE * schedulers.saturating_sub(1), whole_runs)
    }

    /// The largest plan whose runs together are no longer than `budget_ns`, where a run of full length takes `each_ns`; `None`
    /// where even the smallest is longer, with what that needs.
    pub fn within(budget_ns: u64, each_ns: u64, schedulers: usize, whole_runs: bool) -> Result<Plan, u64> {
        let cost = |n: usize| Plan::of(n, whole_runs).cost_percent(schedulers).saturating_mul(each_ns) / 100;
        let fits = (CANDIDATES_MIN..=CANDIDATES_MAX).rev().find(|n| cost(*n) <= budget_ns);
        fits.map(|n| Plan::of(n, whole_runs)).ok_or_else(|| cost(CANDIDATES_MIN))
    }

    /// All runs together, as a percentage of one of full length. The defaults of each scheduler run in each round.
    fn cost_percent(&self, schedulers: usize) -> u64 {
        let rung = |rung: &Rung| {
            (rung.candidates + schedulers) as u64 * u64::from(rung.replicates) * u64::from(rung.length_percent)
        };
        self.rungs.iter().map(rung).sum::<u64>() + 200 * u64::from(self.held_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_bounds_the_runs_and_one_too_small_says_what_is_needed() {
        let plan = Plan::within(1_000_000, 1000, 2, false).unwrap();
        assert!(plan.cost_percent(2) * 10 <= 1_000_000, "{plan:?}");
        assert!(plan.rungs[0].candidates > CANDIDATES, "{plan:?}");
        let needed = Plan::within(100, 1000, 2, false).unwrap_err();
        assert!(Plan::within(needed, 1000, 2, false).is_ok());
    }
}
