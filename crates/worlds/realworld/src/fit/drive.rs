//! A real file or block device as the subject of a survey.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use dumbwaiter_block::Nanos;
use dumbwaiter_linux::target as linux;
use dumbwaiter_path::closed_loop::{self, Timed};
use dumbwaiter_path::{OpenOptions, Target};

use crate::fit::addresses::Addresses;
use crate::fit::{Error, Facts, Limits, Load, Point, Subject};

/// Seed of the first load's addresses. Each further load has another: a repeated sequence would be in the drive's cache.
const SEED: u64 = 11;

/// Fewest I/Os of a point.
const LEAST_IOS: u64 = 32;

/// How a drive is opened.
#[derive(Clone, Debug, Default)]
pub struct DriveOptions {
    /// Open it for writing too. Loads that write destroy what is on it.
    pub allow_writes: bool,
    /// The path that the user allowed to overwrite although it is in use.
    pub confirmed: Option<PathBuf>,
}

/// An opened file or block device.
pub struct Drive {
    target: Target,
    facts: Facts,
    /// Loads so far.
    loads: u64,
    /// Time that the measuring thread waited for a CPU in the loads so far, and their length, ns.
    waited_of: [u64; 2],
}

impl Drive {
    /// Opens a drive for a survey, only for reading unless the options allow writes.
    ///
    /// # Errors
    /// It does not exist, may not be opened, is no file or block device, is empty, or is in use and would be written.
    pub fn open(path: &Path, options: &DriveOptions) -> Result<Drive, Error> {
        let refused = |e: &dyn std::fmt::Display| Error::Refused(e.to_string());
        // Opening says best why a path is none that can be surveyed.
        let known =
            linux::PathFacts::of(path).map_err(|unknown| match Target::open(path, &OpenOptions::default()) {
                Err(why) => refused(&why),
                Ok(_) => refused(&unknown),
            })?;
        if options.allow_writes {
            known.check_writes(true, options.confirmed.as_deref()).map_err(|e| refused(&e))?;
        }
        let open = OpenOptions {
            allow_writes: options.allow_writes,
            exclusive: known.uses.is_empty() || options.confirmed.is_none(),
            ..OpenOptions::default()
        };
        let target = Target::open(path, &open).map_err(|e| refused(&e))?;
        let (depth, queues) = known.disk.as_deref().and_then(tags).unzip();
        let own = target.facts();
        let mut notes: Vec<String> = target.notes().iter().cloned().chain(target.note_on_holes()).collect();
        if !own.direct {
            notes.push("reads went through the page cache: this is a model of memory, not of the drive".into());
        }
        let scheduler = own.kernel_scheduler.as_str();
        if !matches!(scheduler, "" | "none") {
            notes.push(format!(
                "the kernel's {scheduler} was below the survey; with `none` the drive itself is measured"
            ));
        }
        let model = [known.model.as_deref().unwrap_or(""), known.firmware.as_deref().unwrap_or("")].join(" ");
        let facts = Facts {
            name: path.display().to_string(),
            model: model.trim().to_owned(),
            capacity_sectors: target.sectors(),
            max_sectors: own.max_request_bytes / 512,
            depth,
            queues,
            rotational: known.rotational,
            notes,
        };
        Ok(Drive { target, facts, loads: 0, waited_of: [0; 2] })
    }
}

/// Hardware tags of a disk in all queues, and its queues.
fn tags(disk: &Path) -> Option<(u32, u32)> {
    let queues: Vec<PathBuf> = std::fs::read_dir(disk.join("mq")).ok()?.flatten().map(|entry| entry.path()).collect();
    let tags = |queue: &PathBuf| std::fs::read_to_string(queue.join("nr_tags")).ok()?.trim().parse::<u32>().ok();
    let depth = queues.iter().filter_map(tags).fold(0, u32::saturating_add);
    (depth > 0).then_some((depth, queues.len() as u32))
}

/// Time that this thread has waited for a CPU, ns; 0 where the kernel does not count it.
fn waited_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|count| count.parse().ok()).unwrap_or(0)
}

impl Subject for Drive {
    fn cpu_wait(&self) -> f64 {
        let [waited, length] = self.waited_of.map(|ns| ns as f64);
        if waited > 0.0 { (waited / length).min(1.0) } else { 0.0 }
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn measure(&mut self, load: &Load, limits: Limits, stop: &AtomicBool) -> Result<Point, Error> {
        let path = self.target.path().display();
        self.loads += 1;
        let mut addresses = Addresses::new(load, SEED + self.loads);
        let mut timed: Vec<Timed> = Vec::new();
        let limits = closed_loop::Limits {
            depth: load.depth,
            max_sectors: load.max_sectors(),
            time: limits.time,
            ios: limits.ios,
            least_ios: LEAST_IOS.max(2 * u64::from(load.depth)),
            batching: None,
        };
        let before = waited_ns();
        let ended =
            closed_loop::closed_loop(&self.target, limits, Some(stop), || addresses.next(), |io| timed.push(io))
                .map_err(|e| Error::Device(format!("{path}: {}: {e}", load.name)))?;
        let length = timed.first().zip(timed.last()).map_or(Nanos::ZERO, |(a, b)| b.completed.since(a.submitted));
        self.waited_of[0] += waited_ns().saturating_sub(before);
        self.waited_of[1] += length.0;
        if let Some((access, error)) = ended.failed {
            let gone = if self.target.is_gone() { "; the device has disappeared" } else { "" };
            return Err(Error::Device(format!(
                "{path}: {} of {} sectors at sector {} failed: {error}{gone}",
                access.op, access.sectors, access.sector
            )));
        }
        if ended.stopped {
            return Err(Error::Interrupted);
        }
        Point::of(&timed, load.depth, ended.cpu).ok_or_else(|| {
            let seconds = limits.time.as_secs_f64();
            Error::Refused(format!(
                "{path}: only {} I/Os of '{}' completed in {seconds:.1} s, too few to measure; give --for more time",
                timed.len(),
                load.name
            ))
        })
    }
}
