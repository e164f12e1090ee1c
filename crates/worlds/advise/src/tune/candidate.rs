//! Settings to try, and how they are drawn.

use std::fmt;

use dumbwaiter_scenario::{IoCostSettings, SchedulerSpec, WbtTarget};
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
    /// KiB that the kernel reads ahead.
    ReadAheadKb,
    /// Target of write-back throttling, µs; 0 is off.
    WbtUs,
    /// io.cost, with the model that the kernel takes for such a drive; 1 is on.
    IoCost,
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
    /// KiB that the kernel reads ahead; `None`: not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_kb: Option<u32>,
}

impl Candidate {
    /// A scheduler as it is given.
    pub fn of(scheduler: SchedulerSpec) -> Candidate {
        Candidate { scheduler, nr_requests: None, queue_depth: None, read_ahead_kb: None }
    }

    /// The candidate with one setting more.
    pub fn with(mut self, setting: &Setting, value: i128) -> Candidate {
        self.set(setting, value);
        self
    }

    /// Settings that are not the defaults.
    pub(crate) fn settings(&self) -> usize {
        let limits = [self.nr_requests, self.queue_depth, self.read_ahead_kb];
        let controls = &self.scheduler.controls;
        let before = usize::from(controls.wbt.is_some()) + usize::from(controls.io_cost.is_some());
        self.scheduler.tunables.len() + limits.iter().flatten().count() + before
    }

    fn set(&mut self, setting: &Setting, value: i128) {
        match setting {
            Setting::Tunable(name) => _ = self.scheduler.tunables.insert(name.clone(), value.to_string()),
            Setting::NrRequests => self.nr_requests = u32::try_from(value).ok(),
            Setting::QueueDepth => self.queue_depth = u32::try_from(value).ok(),
            Setting::ReadAheadKb => self.read_ahead_kb = u32::try_from(value).ok(),
            Setting::WbtUs => {
                let target = u64::try_from(value).ok().filter(|us| *us > 0);
                self.scheduler.controls.wbt = Some(target.map_or(WbtTarget::Off, WbtTarget::Us));
            }
            Setting::IoCost => {
                let on = IoCostSettings { enabled: value > 0, ..IoCostSettings::default() };
                self.scheduler.controls.io_cost = Some(on);
            }
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
            joined.read_ahead_kb = self.read_ahead_kb.or(other.read_ahead_kb);
            let (own, others) = (&mut joined.scheduler.controls, &other.scheduler.controls);
            own.wbt = own.wbt.or(others.wbt);
            own.io_cost = own.io_cost.or(others.io_cost);
            joined
        })
    }
}

/// As `bfq:slice_idle=0 nr_requests=64`.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.scheduler)?;
        let limits = [("nr_requests", self.nr_requests), ("queue_depth", self.queue_depth)];
        for (name, value) in limits.into_iter().chain([("read_ahead_kb", self.read_ahead_kb)]) {
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
