//! Results of applications: start-up times of programs, dropped frames of players.

use dumbwaiter_block::Nanos;
use serde::{Deserialize, Serialize};

use crate::nan::nan;
use crate::survival::Survival;

/// Results of one application; exactly one of `start_up` and `player` is present.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ApplicationStats {
    /// Name of its task.
    pub name: String,
    /// The tenant in which it started.
    pub tenant: String,
    /// Kind of application: the name of its workload.
    pub kind: String,
    /// Start-up times, for a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_up: Option<StartUpStats>,
    /// Frames, for a player.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub player: Option<PlayerStats>,
}

impl ApplicationStats {
    /// Whether it was launched, or had a frame to play, in the measured time.
    pub fn was_active(&self) -> bool {
        self.start_up.as_ref().is_some_and(|of| of.count > 0) || self.player.as_ref().is_some_and(|of| of.frames > 0)
    }
}

/// Cold starts of a program. Times in s; NaN (`null`) without a launch, or if no launch succeeded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartUpStats {
    /// Number of launches.
    pub count: u64,
    /// Launches that completed within the time-out.
    pub started: u64,
    /// Launches that were aborted at the time-out.
    pub not_started: u64,
    /// Launches still running at the end of the run, which count as neither.
    pub cut_off: u64,
    /// The time-out, s.
    pub timeout_s: f64,
    /// Mean start-up time of all launches, s. Aborted ones count as longer than the time-out, and those cut off as longer
    /// than they had run (Kaplan-Meier estimate).
    #[serde(deserialize_with = "nan")]
    pub mean_s: f64,
    /// Whether the mean is a lower bound: a launch had run longer than any that completed.
    #[serde(default)]
    pub at_least: bool,
    /// Shortest start-up time, s.
    #[serde(deserialize_with = "nan")]
    pub min_s: f64,
    /// Longest start-up time, s.
    #[serde(deserialize_with = "nan")]
    pub max_s: f64,
    /// Each start-up time in order of launch, s.
    pub startup_s: Vec<f64>,
    /// How long each launch that was cut off had run, s.
    #[serde(default)]
    pub cut_off_s: Vec<f64>,
}

impl StartUpStats {
    /// Statistics of the start-up times `startup_s` of the completed launches, and of those that did not complete.
    pub fn new(startup_s: Vec<f64>, not_started: u64, cut_off_s: Vec<f64>, timeout_s: f64) -> StartUpStats {
        let started = startup_s.len() as u64;
        let mut waits = cut_off_s.clone();
        waits.extend((0..not_started).map(|_| timeout_s));
        let (mean_s, at_least) = mean_launch(&startup_s, &waits);
        StartUpStats {
            count: started + not_started + cut_off_s.len() as u64,
            started,
            not_started,
            cut_off: cut_off_s.len() as u64,
            timeout_s,
            mean_s,
            at_least,
            min_s: startup_s.iter().copied().fold(f64::NAN, f64::min),
            max_s: startup_s.iter().copied().fold(f64::NAN, f64::max),
            startup_s,
            cut_off_s,
        }
    }
}

/// The mean of the times `started` and of launches that took longer than `waits`, and whether it is a lower bound.
fn mean_launch(started: &[f64], waits: &[f64]) -> (f64, bool) {
    if waits.is_empty() {
        return (started.iter().sum::<f64>() / started.len() as f64, false);
    }
    let ns = |s: &f64| Nanos::from_secs_f64(*s).0;
    let mut finished: Vec<(u64, u64)> = started.iter().map(|s| (ns(s), 1)).collect();
    finished.sort_unstable();
    finished.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0 };
        same
    });
    let survival = Survival::of(finished.into_iter(), waits.iter().map(ns).collect());
    let longest = waits.iter().copied().fold(0.0, f64::max);
    let known: f64 = survival.steps.iter().map(|step| step.mass * Nanos(step.ns).as_secs_f64()).sum();
    (known + (1.0 - survival.known_to) * longest, survival.known_to < 1.0)
}

/// Frames of a player.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlayerStats {
    /// Frames that the player had, or that are late enough to be dropped.
    pub frames: u64,
    /// Of those, the dropped ones: had more than 100 ms after they were due, or not at all.
    pub missed: u64,
    /// Dropped frames, %; NaN without any frame.
    #[serde(deserialize_with = "nan")]
    pub drop_percent: f64,
    /// Median time from when a frame was due until the player had it, us: 0 where its data was there.
    #[serde(deserialize_with = "nan")]
    pub batch_p50_us: f64,
    /// 99th percentile of that time, us, by nearest rank.
    #[serde(deserialize_with = "nan")]
    pub batch_p99_us: f64,
    /// Longest such time, us.
    #[serde(deserialize_with = "nan")]
    pub batch_max_us: f64,
}

impl PlayerStats {
    /// Statistics from how late each frame was, us.
    pub fn new(frames: u64, missed: u64, mut batches_us: Vec<f64>) -> PlayerStats {
        batches_us.sort_by(f64::total_cmp);
        let rank = |q: f64| {
            let rank = (q * batches_us.len() as f64).ceil() as usize;
            batches_us.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
        };
        PlayerStats {
            frames,
            missed,
            drop_percent: missed as f64 / frames as f64 * 100.0,
            batch_p50_us: rank(0.5),
            batch_p99_us: rank(0.99),
            batch_max_us: rank(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_match_a_calculation_by_hand() {
        let s = StartUpStats::new(vec![2.0, 4.0, 3.0], 0, vec![], 60.0);
        assert_eq!((s.count, s.started, s.mean_s, s.at_least, s.min_s, s.max_s), (3, 3, 3.0, false, 2.0, 4.0));
        // One was cut off after 3.5 s: it has the half beyond 3 s with the one of 4 s, (2 + 3) / 4 + 4 / 2.
        let s = StartUpStats::new(vec![2.0, 4.0, 3.0], 0, vec![3.5], 60.0);
        assert_eq!((s.count, s.cut_off, s.mean_s, s.at_least), (4, 1, 3.25, false));
        // One was aborted: at least (2 + 3 + 4 + 60) / 4.
        let s = StartUpStats::new(vec![2.0, 4.0, 3.0], 1, vec![], 60.0);
        assert_eq!((s.not_started, s.mean_s, s.at_least, s.max_s), (1, 17.25, true, 4.0));
        let none = StartUpStats::new(Vec::new(), 2, vec![], 60.0);
        assert!(none.mean_s == 60.0 && none.at_least && none.min_s.is_nan() && none.max_s.is_nan());
        let none = StartUpStats::new(Vec::new(), 0, vec![], 60.0);
        assert!(none.mean_s.is_nan());
        let json = serde_json::to_string(&none).unwrap();
        assert!(serde_json::from_str::<StartUpStats>(&json).unwrap().mean_s.is_nan());
        let p = PlayerStats::new(200, 3, (1..=200).rev().map(f64::from).collect());
        assert_eq!((p.drop_percent, p.batch_p50_us, p.batch_p99_us, p.batch_max_us), (1.5, 100.0, 198.0, 200.0));
        assert!(PlayerStats::new(0, 0, Vec::new()).batch_p99_us.is_nan());
    }
}
