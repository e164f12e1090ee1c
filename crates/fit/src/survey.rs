//! Carries out a plan.

use std::sync::atomic::{AtomicBool, Ordering};

use dumbwaiter_block::Nanos;
use serde::Serialize;

use crate::plan::{self, Planned, Role, names};
use crate::{Error, Facts, Limits, Load, Point, Subject};

/// Smallest device that is surveyed: on a smaller one, caches serve everything.
const MIN_SECTORS: u64 = 8 << 11;
/// Shortest time in which a survey says anything.
const MIN_TIME: Nanos = Nanos::from_secs(2);
/// I/Os of one point at most, to bound memory.
const POINT_IOS_MAX: u64 = 400_000;

/// What to survey, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Time of the whole survey at most.
    pub time: Nanos,
    /// Whether loads may write: that destroys what is on the drive.
    pub allow_writes: bool,
    /// In virtual time nothing disturbs: each load then ends after fewer I/Os.
    pub virtual_time: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { time: Nanos::from_secs(120), allow_writes: false, virtual_time: true }
    }
}

/// A load and what it measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// What ran.
    pub load: Load,
    /// Whether the fit sees it.
    pub role: Role,
    /// What it measured.
    pub point: Point,
}

/// Everything that was measured of a drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survey {
    /// What is known without measuring.
    pub facts: Facts,
    /// Whether the drive rotates, by its times.
    pub rotates: bool,
    /// Whether its loads wrote.
    pub wrote: bool,
    /// The points, in the order in which they were measured.
    pub points: Vec<Measured>,
}

impl Survey {
    /// The point of this name that the fit may see.
    pub(crate) fn point(&self, name: &str) -> Option<&Point> {
        let found = self.points.iter().find(|m| m.role == Role::Fit && m.load.name == name);
        found.map(|m| &m.point)
    }

    /// The points of this role.
    pub(crate) fn of(&self, role: Role) -> impl Iterator<Item = &Measured> {
        self.points.iter().filter(move |m| m.role == role)
    }
}

/// How far a survey is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Name of the load that begins.
    pub load: &'a str,
    /// Its number, from 1.
    pub number: usize,
    /// Loads of the plan as far as it is known.
    pub of: usize,
    /// How long it runs at most.
    pub time: Nanos,
}

/// Surveys a subject: the probe, then the plan for its kind. `observe` is called before each load.
///
/// # Errors
/// The subject is too small, the time too short, a load failed, or `stop` became true.
pub fn survey(
    subject: &mut dyn Subject,
    options: &Options,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Progress<'_>),
) -> Result<Survey, Error> {
    let facts = subject.facts();
    if facts.capacity_sectors < MIN_SECTORS {
        return Err(Error::Refused(format!(
            "{}: has {} KiB; expected at least 8 MiB, for caches serve a smaller device",
            facts.name,
            facts.capacity_sectors / 2
        )));
    }
    if options.time < MIN_TIME {
        return Err(Error::Refused(format!("{} is too short for a survey; expected at least {MIN_TIME}", options.time)));
    }
    let mut survey = Survey { rotates: false, wrote: options.allow_writes, points: Vec::new(), facts };
    let probe = plan::probe(&survey.facts);
    // The longer of the two plans: the probe's share of the time must not depend on the kind.
    let whole: f64 = probe.iter().chain(&plan::rotating(&survey.facts, options.allow_writes)).map(|p| p.weight).sum();
    let probe_time = weight(&probe) / whole;
    run(subject, options, stop, observe, &mut survey, &probe, probe_time)?;
    survey.rotates = rotates(&survey);
    let rest = match survey.rotates {
        true => plan::rotating(&survey.facts, options.allow_writes),
        false => plan::solid(&survey.facts, options.allow_writes),
    };
    run(subject, options, stop, observe, &mut survey, &rest, 1.0 - probe_time)?;
    Ok(survey)
}

fn weight(plan: &[Planned]) -> f64 {
    plan.iter().map(|p| p.weight).sum()
}

/// Runs a part of the plan in its share of the time.
fn run(
    subject: &mut dyn Subject,
    options: &Options,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Progress<'_>),
    survey: &mut Survey,
    plan: &[Planned],
    share: f64,
) -> Result<(), Error> {
    let per_weight = options.time.as_secs_f64() * share / weight(plan);
    let before = survey.points.len();
    for (i, planned) in plan.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if planned.load.max_sectors() > survey.facts.max_sectors {
            continue;
        }
        let time = Nanos::from_secs_f64(per_weight * planned.weight);
        let (time, ios) = match options.virtual_time {
            true => (Nanos::from_secs(100_000), planned.enough_ios),
            false => (time, POINT_IOS_MAX),
        };
        observe(Progress { load: &planned.load.name, number: before + i + 1, of: before + plan.len(), time });
        let point = subject.measure(&planned.load, Limits { time, ios }, stop)?;
        survey.points.push(Measured { load: planned.load.clone(), role: planned.role, point });
    }
    Ok(())
}

/// A rotating disk takes milliseconds, takes longer for far places than for near ones, and near ones still wait for the
/// rotation. What the driver says counts only where the near places come from a cache.
fn rotates(survey: &Survey) -> bool {
    let (Some(whole), Some(near)) = (survey.point(names::SINGLE), survey.point(names::NEAR)) else { return false };
    let farther_is_slower = whole.mean_us > 3_000.0 && whole.mean_us - near.mean_us > 800.0;
    let slow = whole.mean_us > 5_000.0 && survey.facts.rotational == Some(true);
    farther_is_slower && (near.p50_us > 1_000.0 || slow)
}
