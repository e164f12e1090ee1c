//! How a load may use a target.

use std::path::PathBuf;

use dumbwaiter_path::{Batching, OpenOptions};

/// How a target is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// May the load write, discard and zero? That destroys what is on the target.
    pub allow_writes: bool,
    /// With writes on a device: claim it (`O_EXCL`), so that the kernel refuses one that is mounted or part of another.
    pub exclusive: bool,
    /// Check that what is read is what was written; see [`crate::drive::verify`].
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
/// Only a scheduler that passes every request on has a use for more than one (`none`), and only where tasks do not depend on
/// each other: nothing is verified, no number of I/Os ends the run, there are no stages and no changes, and no applications or
/// page cache. Otherwise there is one, with a note in [`crate::drive::DriveRun::notes`] if more were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rings {
    /// One for each CPU that a task runs on, where that is possible.
    #[default]
    Auto,
    /// The same, explicitly: a note says where it is not possible.
    PerCore,
    /// This many, at most one for each CPU that a task runs on.
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

/// Options of `--verify`.
#[derive(Clone, Debug, Default)]
pub struct Verify {
    /// Every acknowledged write is noted in this file, for [`crate::drive::verify::check`] after a crash of the program.
    pub journal: Option<PathBuf>,
}

impl Options {
    /// The options for opening.
    pub(crate) fn open_options(&self) -> OpenOptions {
        let Options { direct, allow_writes, exclusive, max_request_bytes, .. } = *self;
        OpenOptions { direct, allow_writes, exclusive, max_request_bytes }
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
}
