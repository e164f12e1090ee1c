//! Settings to try, and how they are drawn.

use std::fmt;

use dumbwaiter_scenario::SchedulerSpec;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng;
use serde::{Deserialize, Serialize};

/// Something that a search may set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// A tunable of the scheduler.
    Tunable(String),
    /// Requests that the scheduler may hold.
    NrRequests,
    /// Commands that the drive holds at once.
    QueueDepth,
}

/// A setting and the values to try beside its default, ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The setting that varies.
    pub setting: Setting,
    /// The values.
    pub values: Vec<i128>,
}

/// The search space of one scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// The scheduler with its defaults, or with settings that stay as they are.
    pub scheduler: SchedulerSpec,
    /// The setting.
    pub ranges: Vec<Range>,
}

/// A scheduler with its settings, and limits of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The scheduler with the tunables that differ from its defaults.
    pub scheduler: SchedulerSpec,
    /// Requests that it may hold; `None`: not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<u32>,
    /// Commands that the drive holds at once; `None`: not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
}

impl Candidate {
    /// A scheduler as it is given.
    pub fn of(scheduler: SchedulerSpec) -> Candidate {
        Candidate { scheduler, nr_requests: None, queue_depth: None }
    }

    /// Settings that are not the defaults.
    pub(crate) fn settings(&self) -> usize {
        let limits = [self.nr_requests, self.queue_depth];
        self.scheduler.tunables.len() + limits.iter().flatten().count()
    }

    fn set(&mut self, setting: &Setting, value: i128) {
        match setting {
            Setting::Tunable(name) => _ = self.scheduler.tunables.insert(name.clone(), value.to_string()),
            Setting::NrRequests => self.nr_requests = u32::try_from(value).ok(),
            Setting::QueueDepth => self.queue_depth = u32::try_from(value).ok(),
        }
    }

    /// The settings of both; those of `self` where they differ. `None` for different schedulers.
    pub(crate) fn joined(&self, other: &Candidate) -> Option<Candidate> {
        let same = (&self.scheduler.name, &self.scheduler.variant) == (&other.scheduler.name, &other.scheduler.variant);
        same.then(|| {
            let mut joined = self.clone();
            for (name, value) in &other.scheduler.tunables {
                joined.scheduler.tunables.entry(name.clone()).or_insert_with(|| value.clone());
            }
            joined.nr_requests = self.nr_requests.or(other.nr_requests);
            joined.queue_depth = self.queue_depth.or(other.queue_depth);
            joined
        })
    }
}

/// As `bfq:slice_idle=0 nr_requests=64`.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.scheduler)?;
        for (name, value) in [("nr_requests", self.nr_requests), ("queue_depth", self.queue_depth)] {
            if let Some(value) = value {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

/// Settings of a combination, at most.
const COMBINED_MAX: u64 = 3;
/// Draws after which a space is taken as exhausted.
const DRAWS_MAX: usize = 50;

/// Draws up to `count` different candidates of a space: of each setting some values alone, and combinations.
pub(crate) fn draw(space: &Space, count: usize, random: &mut SplitMix64) -> Vec<Candidate> {
    let defaults = Candidate::of(space.scheduler.clone());
    let ranges: Vec<&Range> = space.ranges.iter().filter(|range| !range.values.is_empty()).collect();
    let mut singles: Vec<Candidate> = Vec::new();
    for range in &ranges {
        for value in &range.values {
            let mut candidate = defaults.clone();
            candidate.set(&range.setting, *value);
            singles.push(candidate);
        }
    }
    shuffle(&mut singles, random);
    // Where all values fit, all are tried; the rest are combinations.
    let alone = if singles.len() * 3 <= count * 2 { singles.len() } else { (count * 2).div_ceil(3) };
    let mut drawn: Vec<Candidate> = singles.into_iter().take(alone.min(count)).collect();
    let mut failed = 0;
    while drawn.len() < count && failed < DRAWS_MAX && ranges.len() > 1 {
        let mut candidate = defaults.clone();
        for _ in 0..2 + below(random, COMBINED_MAX - 1) {
            let range = ranges[below(random, ranges.len() as u64) as usize];
            let value = range.values[below(random, range.values.len() as u64) as usize];
            candidate.set(&range.setting, value);
        }
        if drawn.contains(&candidate) {
            failed += 1;
        } else {
            drawn.push(candidate);
        }
    }
    drawn
}

/// A number below `n`, which is small.
fn below(random: &mut SplitMix64, n: u64) -> u64 {
    random.next_u64() % n.max(1)
}

fn shuffle<T>(items: &mut [T], random: &mut SplitMix64) {
    for i in (1..items.len()).rev() {
        items.swap(i, below(random, i as u64 + 1) as usize);
    }
}
