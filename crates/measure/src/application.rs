//! Results of applications: start-up times of programs, dropped frames of players.

use serde::{Deserialize, Serialize};

use crate::nan::nan;

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

/// Cold starts of a program. Times in s; NaN (`null`) if no launch succeeded.
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
    /// Mean start-up time, s.
    #[serde(deserialize_with = "nan")]
    pub mean_s: f64,
    /// Shortest start-up time, s.
    #[serde(deserialize_with = "nan")]
    pub min_s: f64,
    /// Longest start-up time, s.
    #[serde(deserialize_with = "nan")]
    pub max_s: f64,
    /// Each start-up time in order of launch, s.
    pub startup_s: Vec<f64>,
}

impl StartUpStats {
    /// Statistics of the start-up times `startup_s` of the completed launches.
    pub fn new(startup_s: Vec<f64>, not_started: u64, cut_off: u64, timeout_s: f64) -> StartUpStats {
        let started = startup_s.len() as u64;
        StartUpStats {
            count: started + not_started + cut_off,
            started,
            not_started,
            cut_off,
            timeout_s,
            mean_s: startup_s.iter().sum::<f64>() / started as f64,
            min_s: startup_s.iter().copied().fold(f64::NAN, f64::min),
            max_s: startup_s.iter().copied().fold(f64::NAN, f64::max),
            startup_s,
        }
    }
}

/// Frames of a player.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlayerStats {
    /// Frames that were read or whose deadline has passed.
    pub frames: u64,
    /// Of those, frames read after their deadline or not at all.
    pub missed: u64,
    /// Missed frames, %; NaN without any frame.
    #[serde(deserialize_with = "nan")]
    pub drop_percent: f64,
    /// Median time to read a frame, us.
    #[serde(deserialize_with = "nan")]
    pub batch_p50_us: f64,
    /// 99th percentile of the time to read a frame, us, by nearest rank.
    #[serde(deserialize_with = "nan")]
    pub batch_p99_us: f64,
    /// Longest time to read a frame, us.
    #[serde(deserialize_with = "nan")]
    pub batch_max_us: f64,
}

impl PlayerStats {
    /// Statistics from the time that each frame took to read, us.
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
        let s = StartUpStats::new(vec![2.0, 4.0, 3.0], 1, 1, 60.0);
        assert_eq!((s.count, s.started, s.mean_s, s.min_s, s.max_s), (5, 3, 3.0, 2.0, 4.0));
        let none = StartUpStats::new(Vec::new(), 2, 0, 60.0);
        assert!(none.mean_s.is_nan() && none.min_s.is_nan() && none.max_s.is_nan());
        let json = serde_json::to_string(&none).unwrap();
        assert!(serde_json::from_str::<StartUpStats>(&json).unwrap().mean_s.is_nan());
        let p = PlayerStats::new(200, 3, (1..=200).rev().map(f64::from).collect());
        assert_eq!((p.drop_percent, p.batch_p50_us, p.batch_p99_us, p.batch_max_us), (1.5, 100.0, 198.0, 200.0));
        assert!(PlayerStats::new(0, 0, Vec::new()).batch_p99_us.is_nan());
    }
}
