//! How a target is used.

use std::fmt;
use std::path::PathBuf;

use dumbwaiter_block::Nanos;
use dumbwaiter_scenario::Completion as Asked;

use crate::ring::Ring;

/// How a target is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// May the load write, discard and zero? That destroys what is on the target.
    pub allow_writes: bool,
    /// With writes on a device: nobody else may have it, so that the kernel refuses one that is mounted or part of another.
    pub exclusive: bool,
    /// Check that what is read is what was written; see [`crate::verify`].
    pub verify: Option<Verify>,
    /// A kernel thread takes submissions from the ring (`IORING_SETUP_SQPOLL`), so that submitting needs no system call.
    pub sqpoll: bool,
    /// May an I/O that is not whole logical blocks be rounded out to them? Otherwise it ends the run.
    pub round_out: bool,
    /// Go on after a failed I/O; otherwise the first one ends the run, with what was finished.
    pub keep_going: bool,
    /// Completions may wait a little to be taken together; see [`Batching`].
    pub batching: Batching,
    /// How many rings; see [`Rings`].
    pub rings: Rings,
    /// Largest request that merging may make, bytes; the device's own limit if that is less. Each request that the device may hold gets a buffer of this
    /// size.
    pub max_request_bytes: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            direct: true,
            allow_writes: false,
            exclusive: true,
            verify: None,
            sqpoll: false,
            round_out: false,
            keep_going: false,
            batching: Batching::default(),
            rings: Rings::Auto,
            max_request_bytes: 512 * 1024,
        }
    }
}

/// How many rings a run has: each on a thread of its own that stays on one CPU, with a block layer and a scheduler of its own
/// for the tasks of that CPU and its part of the device's depth, as a hardware queue has.
///
/// Only a scheduler that lets everything through has a use for more than one (`none`), and only where tasks do not depend on
/// each other: nothing is verified, no number of I/Os ends the run, there are no stages and no changes, and no applications or
/// page cache. Otherwise there is one, with a remark in [`crate::Cell::notes`] if more were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rings {
    /// One for each CPU that a task runs on, where that is possible.
    #[default]
    Auto,
    /// The same, asked for.
    PerCore,
    /// So many, but not more than CPUs that tasks run on.
    Number(u32),
}

impl Rings {
    /// Reads `auto`, `per-core` or a number from 1 to 1024.
    pub fn parse(text: &str) -> Option<Rings> {
        match text {
            "auto" => Some(Rings::Auto),
            "per-core" => Some(Rings::PerCore),
            number => number.parse().ok().filter(|n| (1..=1024).contains(n)).map(Rings::Number),
        }
    }
}

/// What `--verify` needs.
#[derive(Clone, Debug, Default)]
pub struct Verify {
    /// Every acknowledged write is noted in this file, for [`crate::verify::check`] after a crash of the program.
    pub journal: Option<PathBuf>,
}

/// How long a completion may wait for others, so that one wake-up serves all of them.
///
/// The engine sleeps until an eighth of what the device holds is done, but two at least, which on a steady device takes an eighth
/// of its service time, and does nothing of the kind at a depth below 8. Where the mean service time is 1 ms or longer, one completion is enough
/// after half of it, or after this limit. On faster devices no timer is set, for it costs more than the wake-up that it
/// guards: if such a device stalls on more than seven eighths of its requests, the others are known late. Only with interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Never wait longer than this on a slow device; 0 wakes up for every completion of any.
    pub longest: Nanos,
}

impl Default for Batching {
    fn default() -> Batching {
        Batching { longest: Nanos::from_us(500) }
    }
}

/// The part of what the device holds that is waited for together: one over this.
const PART: u32 = 8;
/// With fewer than this nothing is waited for together.
const FEW: u32 = 8;
/// The part of the mean service time after which one completion is enough: one over this.
const PATIENCE: u64 = 2;
/// Devices slower than this get a timer.
const SLOW: Nanos = Nanos::from_ms(1);

/// How many completions to wait for, and after how many microseconds one is enough (0: never).
pub(crate) fn batch(ring: &Ring, under_way: u32, service: Nanos, batching: Batching) -> (u32, u32) {
    let several = (under_way / PART).max(2);
    if under_way < FEW || ring.polled() || service == Nanos::ZERO || batching.longest == Nanos::ZERO {
        (1, 0)
    } else if service < SLOW {
        (several, 0)
    } else if ring.waits_for_several() {
        (several, (Nanos(service.0 / PATIENCE).min(batching.longest).0 / 1_000).max(1) as u32)
    } else {
        (1, 0)
    }
}

/// How completions are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// The device interrupts; the engine sleeps meanwhile.
    #[default]
    Interrupt,
    /// The kernel polls the device (`IORING_SETUP_IOPOLL`); the CPU is busy meanwhile.
    Poll,
    /// Sleeps for a part of the expected time, then polls.
    Hybrid(Sleep),
}

/// How long hybrid polling sleeps first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sleep {
    /// As the kernel does (`IORING_SETUP_HYBRID_IOPOLL`, Linux 6.13) where it and the device can; else as `Learned`.
    #[default]
    Auto,
    /// Half of the mean service time of requests of that size and direction, ours.
    Learned,
    /// A fixed time, ours.
    Fixed(Nanos),
}

impl Completion {
    /// Reads `interrupt`, `poll`, `hybrid`, `hybrid-learned` or `hybrid-fixed:20us`, as scenarios have them.
    pub fn parse(text: &str) -> Option<Completion> {
        Some(match text {
            "interrupt" | "irq" => Completion::Interrupt,
            "poll" => Completion::Poll,
            "hybrid" => Completion::Hybrid(Sleep::Auto),
            "hybrid-learned" => Completion::Hybrid(Sleep::Learned),
            other => match other.parse() {
                Ok(Asked::HybridFixed(time)) => Completion::Hybrid(Sleep::Fixed(time)),
                _ => return None,
            },
        })
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Completion::Interrupt => f.write_str("interrupt"),
            Completion::Poll => f.write_str("poll"),
            Completion::Hybrid(Sleep::Auto) => f.write_str("hybrid"),
            Completion::Hybrid(Sleep::Learned) => f.write_str("hybrid-learned"),
            Completion::Hybrid(Sleep::Fixed(time)) => Asked::HybridFixed(*time).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_named_or_counted() {
        let known = [
            ("auto", Rings::Auto),
            ("per-core", Rings::PerCore),
            ("1", Rings::Number(1)),
            ("1024", Rings::Number(1024)),
        ];
        for (text, rings) in known {
            assert_eq!(Rings::parse(text), Some(rings));
        }
        for wrong in ["", "0", "-1", "1025", "many", "2.5"] {
            assert_eq!(Rings::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn completion_names_round_trip() {
        for name in ["interrupt", "poll", "hybrid", "hybrid-learned", "hybrid-fixed:20us", "hybrid-fixed:1500ns"] {
            assert_eq!(Completion::parse(name).unwrap().to_string(), name);
        }
        for wrong in ["", "polling", "hybrid-20us", "hybrid-fixed:", "hybrid-fixed:0", "hybrid-fixed:2s", "sqpoll"] {
            assert_eq!(Completion::parse(wrong), None, "{wrong}");
        }
    }
}
