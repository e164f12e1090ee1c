//! A disk that is present: its settings, candidates and policy.

use std::collections::{BTreeMap, VecDeque};

use dumbwaiter_block::Nanos;
use dumbwaiter_controllers::switching::{By, Policy, Settings, Work};

use crate::candidate::{Candidate, candidates};
use crate::config::DeviceConfig;
use crate::decision::{Measured, TrialScore};
use crate::ownership::Ownership;
use crate::port::{Counters, Port, Reading};
use crate::table::DeviceTable;

/// The kernel and the start time of a pilot, by which it decides whether to trust a table.
#[derive(Clone, Debug, Default)]
pub struct HostContext {
    /// Release of the kernel.
    pub kernel: String,
    /// Start of the pilot, in seconds since 1970.
    pub unix_s: u64,
    /// The same moment by the clock of its turns.
    pub began: Nanos,
}

/// Requests per second up to which all events are read; a busier disk is traced for part of each period only.
const SAMPLED_PER_S: f64 = 2048.0;
/// Shorter pauses of tracing cost more than they save: each takes two writes.
const PAUSE_MIN: Nanos = Nanos::from_ms(50);
const WINDOW_MIN: Nanos = Nanos::from_ms(10);
const HOUR: Nanos = Nanos::from_secs(3600);

/// A disk that is present.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) ownership: Ownership,
    pub(crate) candidates: Vec<Candidate>,
    /// The candidate in force, or, where the pilot only advises, the one that it advises.
    pub(crate) in_force: usize,
    pub(crate) policy: Policy,
    /// Why the pilot only advises the policy's switches; `None` where it makes them.
    pub(crate) advice_only: Option<String>,
    counters: Counters,
    since: Nanos,
    /// When paused tracing resumes, and for how long.
    watch_at: Option<(Nanos, Nanos)>,
    watching: bool,
}

impl Attached {
    pub(crate) fn new(
        now: Nanos,
        config: &DeviceConfig,
        refused: &[String],
        (port, reading): (&mut dyn Port, &Reading),
        (acts, host): (bool, &HostContext),
    ) -> Result<Attached, crate::port::Fault> {
        let counters = port.counters()?;
        let ownership = Ownership::new(reading);
        let all = candidates(reading, &config.candidates, config.tune.as_ref(), refused);
        let shipped;
        let table = match &config.table {
            Some(table) => table,
            None => {
                shipped = DeviceTable::shipped();
                &shipped
            }
        };
        let by = if acts { config.policy.by } else { By::Model };
        let distrust = table.only_advises(&host.kernel, host.unix_s);
        let advice_only = match by {
            _ if !acts => Some("the pilot was started without --act".to_owned()),
            By::Model => distrust.clone(),
            By::Trial | By::Both => None,
        };
        let settings = Settings { by, trusts_table: distrust.is_none(), ..config.policy };
        let mut policy = Policy::new(all.len(), 0, settings, table.prior(port.kind(), &all, settings.goal));
        policy.resume(now);
        port.watch(true);
        Ok(Attached {
            ownership,
            candidates: all,
            in_force: 0,
            policy,
            advice_only,
            counters,
            since: now,
            watch_at: None,
            watching: true,
        })
    }

    /// Name of a candidate.
    pub(crate) fn name(&self, candidate: usize) -> String {
        self.candidates.get(candidate).map_or_else(String::new, |c| c.name.clone())
    }

    /// The candidate with the scheduler in force; the first one if there is none.
    pub(crate) fn present(&self) -> usize {
        let in_force = self.ownership.in_force();
        let scheduler = in_force.get("scheduler");
        let fits = |c: &&(usize, &Candidate)| {
            Some(&c.1.scheduler) == scheduler && c.1.settings.iter().all(|(k, v)| in_force.get(k) == Some(v))
        };
        let fitting = self.candidates.iter().enumerate().collect::<Vec<_>>();
        fitting.iter().filter(fits).max_by_key(|c| c.1.settings.len()).map_or(0, |c| c.0)
    }

    /// The I/O completed since the last call, and the time since then.
    pub(crate) fn work(&mut self, now: Nanos, counters: Counters) -> (Work, Nanos) {
        let work = difference(self.counters.work, counters.work);
        let elapsed = now.since(self.since);
        (self.counters, self.since) = (counters, now);
        (work, elapsed)
    }

    /// Skips the time until `now`, which was not observed: the next measurement begins here.
    pub(crate) fn skip(&mut self, now: Nanos, port: &mut dyn Port) {
        if let Ok(counters) = port.counters() {
            (self.counters, self.since) = (counters, now);
        }
        self.policy.resume(now);
    }

    /// Begins the next period. A busy disk is traced only at the end of it, so that the decision uses the latest load.
    /// Returns whether some requests are not traced.
    pub(crate) fn watch(&mut self, now: Nanos, next: Nanos, iops: f64, port: &mut dyn Port) -> bool {
        let period = next.since(now);
        let window = Nanos((period.0 as f64 * (SAMPLED_PER_S / iops.max(1.0)).min(1.0)) as u64).max(WINDOW_MIN);
        let pauses = window + PAUSE_MIN < period;
        self.watch_at = pauses.then(|| (Nanos(next.0 - window.0), window));
        let missed = pauses || !self.watching;
        if self.watching == pauses {
            port.watch(!pauses);
            self.watching = !pauses;
        }
        missed
    }

    /// When paused tracing resumes.
    pub(crate) fn watch_at(&self) -> Option<Nanos> {
        self.watch_at.map(|(at, _)| at)
    }

    /// Resumes tracing, if it is time. Returns when it has run long enough: later than planned where this call is late.
    pub(crate) fn resume_watch(&mut self, now: Nanos, port: &mut dyn Port) -> Option<Nanos> {
        let (_, window) = self.watch_at.filter(|(at, _)| *at <= now)?;
        port.watch(true);
        (self.watching, self.watch_at) = (true, None);
        Some(now + window)
    }

    /// Scores of the candidates in trials of a workload.
    pub(crate) fn trials(&self, workload: Option<usize>) -> BTreeMap<String, TrialScore> {
        let Some(scores) = workload.and_then(|workload| self.policy.scores().get(workload)) else {
            return BTreeMap::new();
        };
        let tried = scores.estimates().iter().enumerate().filter(|(_, estimate)| estimate.samples > 0);
        let score = |(candidate, e): (usize, &dumbwaiter_controllers::switching::Estimate)| {
            let score = TrialScore { mean: e.mean, standard_error: e.variance.sqrt(), samples: e.samples };
            (self.name(candidate), score)
        };
        tried.map(score).collect()
    }
}

/// Exchanges of the last hour.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchanges(VecDeque<Nanos>);

impl Exchanges {
    pub(crate) fn add(&mut self, now: Nanos) {
        self.0.push_back(now);
    }

    /// Whether another exchange is allowed. The last one of `limit` is reserved for reverting, so that a candidate on trial does
    /// not stay in force for the rest of the hour.
    pub(crate) fn has_room(&mut self, now: Nanos, limit: u32, is_way_back: bool) -> bool {
        let needed = if is_way_back { 1 } else { 2 };
        self.count(now) + needed <= limit as usize
    }

    /// Their number in the hour before `now`.
    pub(crate) fn count(&mut self, now: Nanos) -> usize {
        while self.0.front().is_some_and(|at| now.since(*at) >= HOUR) {
            self.0.pop_front();
        }
        self.0.len()
    }
}

/// The I/O between two reads of the counters. The kernel's milliseconds have 32 bits: with 32 requests outstanding they wrap every 37
/// hours. If all counters fell, the disk was reset.
fn difference(old: Work, new: Work) -> Work {
    const AROUND: Nanos = Nanos::from_ms(1 << 32);
    if new.ios < old.ios || new.bytes < old.bytes {
        return Work::default();
    }
    let latency = if new.latency >= old.latency { new.latency } else { new.latency + AROUND };
    Work { ios: new.ios - old.ios, bytes: new.bytes - old.bytes, latency: latency.since(old.latency) }
}

/// Rates of the work of a period.
pub(crate) fn measured(work: Work, elapsed: Nanos) -> Measured {
    let seconds = elapsed.as_secs_f64().max(1e-9);
    Measured {
        iops: work.ios as f64 / seconds,
        mb_per_s: work.bytes as f64 / 1e6 / seconds,
        latency_ms: (work.ios > 0).then(|| work.latency.0 as f64 / 1e6 / work.ios as f64),
        ..Measured::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(ios: u64, ms: u64) -> Work {
        Work { ios, bytes: 4096 * ios, latency: Nanos::from_ms(ms) }
    }

    #[test]
    fn milliseconds_that_begin_anew_are_no_requests_without_latency() {
        let last = (1 << 32) - 100;
        assert_eq!(difference(work(1000, last), work(1100, 300)), work(100, 400));
        assert_eq!(difference(work(1000, 5000), work(1100, 5400)), work(100, 400));
        assert_eq!(difference(work(1000, 5000), work(10, 20)), Work::default(), "a disk that began anew");
    }

    #[test]
    fn the_last_exchange_of_an_hour_is_a_way_back() {
        let mut exchanges = Exchanges::default();
        exchanges.add(Nanos::ZERO);
        assert!(exchanges.has_room(Nanos::ZERO, 3, false));
        exchanges.add(Nanos::ZERO);
        assert_eq!([false, true].map(|back| exchanges.has_room(Nanos::ZERO, 3, back)), [false, true]);
        exchanges.add(Nanos::ZERO);
        assert!(!exchanges.has_room(Nanos::ZERO, 3, true) && exchanges.has_room(HOUR, 3, false));
    }
}
