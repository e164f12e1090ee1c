//! Carries out a plan.

use std::sync::atomic::{AtomicBool, Ordering};

use dumbwaiter_block::Nanos;
use serde::Serialize;

use crate::fit::plan::{self, Planned, Role, names};
use crate::fit::{Error, Facts, Limits, Load, Point, Subject};

/// Smallest device that is surveyed: on a smaller one, caches serve everything.
const MIN_SECTORS: u64 = 8 << 11;
/// Shortest survey.
const MIN_TIME: Nanos = Nanos::from_secs(2);
/// How often each load runs on a real drive that does not rotate: another program may disturb one of the rounds.
const ROUNDS: u32 = 3;
/// I/Os of one point at most, to bound memory.
const POINT_IOS_MAX: u64 = 400_000;

/// Options of a survey.
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
    /// The load.
    pub load: Load,
    /// Whether the fit uses it.
    pub role: Role,
    /// Its figures: of several rounds the fastest, for disturbances only slow a round; of loads that write the last, for the
    /// drive's caches are full then.
    pub point: Point,
    /// By how much the slowest round was slower than the fastest, as a part of the latter; 0 where there was only one.
    pub spread: f64,
}

impl Measured {
    /// Adds a further round.
    fn add(&mut self, point: Point) {
        let (slow, fast) = (self.point.iops.min(point.iops), self.point.iops.max(point.iops));
        self.spread = (1.0 - (1.0 - self.spread).min(slow / fast)).max(0.0);
        if self.load.writes() || point.iops > self.point.iops {
            self.point = point;
        }
    }
}

/// Everything that was measured of a drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survey {
    /// Properties that need no measurement.
    pub facts: Facts,
    /// Whether the drive rotates, by its times.
    pub rotates: bool,
    /// Whether its loads wrote.
    pub wrote: bool,
    /// Part of its time for which the survey waited for a CPU, 0 to 1.
    pub cpu_wait: f64,
    /// The points, in the order in which they were measured.
    pub points: Vec<Measured>,
}

impl Survey {
    /// The point of this name, if the fit may use it.
    pub(crate) fn point(&self, name: &str) -> Option<&Point> {
        let found = self.points.iter().find(|m| m.role == Role::Fit && m.load.name == name);
        found.map(|m| &m.point)
    }

    /// The same for a point without which nothing can be fitted.
    pub(crate) fn needed(&self, name: &str) -> Result<&Point, Error> {
        self.point(name).ok_or_else(|| Error::NoFit(format!("the survey has no point '{name}'")))
    }

    /// The points of this role.
    pub(crate) fn of(&self, role: Role) -> impl Iterator<Item = &Measured> {
        self.points.iter().filter(move |m| m.role == role)
    }
}

/// Progress of a survey.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Name of the current load.
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
        return Err(Error::Refused(format!(
            "{} is too short for a survey; expected at least {MIN_TIME}",
            options.time
        )));
    }
    let mut survey = Survey { rotates: false, wrote: options.allow_writes, cpu_wait: 0.0, points: Vec::new(), facts };
    let probe = plan::probe(&survey.facts);
    // The longer of the two plans: the probe's share of the time must not depend on the kind.
    let whole: f64 = probe.iter().chain(&plan::rotating(&survey.facts, options.allow_writes)).map(|p| p.weight).sum();
    let probe_time = weight(&probe) / whole;
    let mut session = Session { subject, options, stop, observe, begun: 0, of: probe.len() };
    session.run(&mut survey, &probe, probe_time)?;
    survey.rotates = rotates(&survey);
    // A disk's own times vary more than others disturb it: one long round is better.
    let (rest, rounds) = match survey.rotates {
        true => (plan::rotating(&survey.facts, options.allow_writes), 1),
        false => (plan::solid(&survey.facts, options.allow_writes), if options.virtual_time { 1 } else { ROUNDS }),
    };
    session.of += rest.len() + (rounds - 1) as usize * (probe.len() + rest.len());
    for round in 0..rounds {
        let again = if round > 0 { &probe[..] } else { &[] };
        let loads: Vec<Planned> = again.iter().chain(&rest).cloned().collect();
        session.run(&mut survey, &loads, (1.0 - probe_time) / f64::from(rounds))?;
    }
    survey.cpu_wait = session.subject.cpu_wait();
    Ok(survey)
}

fn weight(plan: &[Planned]) -> f64 {
    plan.iter().map(|p| p.weight).sum()
}

/// State that the parts of a survey share.
struct Session<'a> {
    subject: &'a mut dyn Subject,
    options: &'a Options,
    stop: &'a AtomicBool,
    observe: &'a mut dyn FnMut(Progress<'_>),
    /// Loads begun so far, and loads in all as far as that is known.
    begun: usize,
    of: usize,
}

impl Session<'_> {
    /// Runs these loads in their share of the time.
    fn run(&mut self, survey: &mut Survey, loads: &[Planned], share: f64) -> Result<(), Error> {
        let per_weight = self.options.time.as_secs_f64() * share / weight(loads);
        for planned in loads {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            self.begun += 1;
            if planned.load.max_sectors() > survey.facts.max_sectors {
                continue;
            }
            let limits = match self.options.virtual_time {
                true => Limits { time: Nanos::from_secs(100_000), ios: planned.enough_ios },
                false => Limits { time: Nanos::from_secs_f64(per_weight * planned.weight), ios: POINT_IOS_MAX },
            };
            let step = Progress { load: &planned.load.name, number: self.begun, of: self.of, time: limits.time };
            (self.observe)(step);
            let point = self.subject.measure(&planned.load, limits, self.stop)?;
            match survey.points.iter_mut().find(|m| m.load.name == planned.load.name) {
                Some(known) => known.add(point),
                None => {
                    let (load, role) = (planned.load.clone(), planned.role);
                    survey.points.push(Measured { load, role, point, spread: 0.0 });
                }
            }
        }
        Ok(())
    }
}

/// How much longer a rotating disk takes for far places than for near ones, at least: µs, and as a part of the near ones, for the means of
/// a slow drive on a busy machine differ by some µs anyway.
const SEEK_US: f64 = 800.0;
const SEEK_SHARE: f64 = 0.2;

/// A rotating disk takes milliseconds, takes longer for far places than for near ones, and near ones still wait for the
/// rotation. What the driver says counts only where the near places come from a cache.
fn rotates(survey: &Survey) -> bool {
    let (Some(whole), Some(near)) = (survey.point(names::SINGLE), survey.point(names::NEAR)) else { return false };
    let farther_is_slower =
        whole.mean_us > 3_000.0 && whole.mean_us - near.mean_us > SEEK_US.max(SEEK_SHARE * near.mean_us);
    let slow = whole.mean_us > 5_000.0 && survey.facts.rotational == Some(true);
    farther_is_slower && (near.p50_us > 1_000.0 || slow)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a drive rotate whose single reads take so long, over the whole of it and within 64 MiB, µs?
    fn judged(whole_us: f64, near_us: f64) -> bool {
        let facts = Facts { capacity_sectors: 1 << 21, ..Facts::default() };
        let probe = plan::probe(&facts);
        let measured = probe.into_iter().zip([whole_us, near_us]).map(|(planned, us)| Measured {
            load: planned.load,
            role: planned.role,
            point: Point { mean_us: us, p50_us: us, ..Point::default() },
            spread: 0.0,
        });
        let points = measured.collect();
        rotates(&Survey { facts, rotates: false, wrote: false, cpu_wait: 0.0, points })
    }

    #[test]
    fn a_disk_seeks_and_a_slow_drive_on_a_busy_machine_does_not() {
        assert!(judged(12_700.0, 6_900.0) && judged(17_500.0, 9_000.0), "7200 and 5400 rpm");
        assert!(!judged(76_800.0, 70_300.0), "50 ms for every command, and waits for a CPU");
        assert!(!judged(90.0, 80.0) && !judged(2_010.0, 2_000.0), "flash, null_blk");
    }
}
