//! Operation, flags and priority of a request.

use std::fmt;

/// Operation of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// Read data.
    #[default]
    Read,
    /// Write data.
    Write,
    /// Empty the device's volatile cache; carries no sectors.
    Flush,
    /// Tell the device that blocks are unused (TRIM, UNMAP).
    Discard,
    /// Discard so that the data cannot be read back.
    SecureErase,
    /// Write zeroes without sending them.
    WriteZeroes,
}

/// Direction, by which some structures are split. Everything but a read or a flush is a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Dir {
    /// From the device.
    Read = 0,
    /// Towards the device.
    Write = 1,
}

impl Dir {
    /// Both directions, reads first.
    pub const BOTH: [Dir; 2] = [Dir::Read, Dir::Write];
}

impl Op {
    /// Direction of the operation (Linux: lowest bit of the operation code).
    pub fn dir(self) -> Dir {
        match self {
            Op::Read | Op::Flush => Dir::Read,
            _ => Dir::Write,
        }
    }

    /// May requests of this operation ever be merged?
    pub fn mergeable(self) -> bool {
        matches!(self, Op::Read | Op::Write | Op::Discard | Op::SecureErase)
    }

    /// Does payload cross the link to the device?
    pub fn carries_data(self) -> bool {
        matches!(self, Op::Read | Op::Write)
    }

    /// Short lower-case name, as used in scenario files and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
            Op::SecureErase => "secure-erase",
            Op::WriteZeroes => "write-zeroes",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Marks on a request; a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// No mark.
    pub const NONE: Flags = Flags(0);
    /// Makes a write synchronous: its submitter waits for it.
    pub const SYNC: Flags = Flags(1);
    /// File-system metadata.
    pub const META: Flags = Flags(1 << 1);
    /// The submitter asks for preference.
    pub const PRIO: Flags = Flags(1 << 2);
    /// Read-ahead: no task waits for it yet.
    pub const RAHEAD: Flags = Flags(1 << 3);
    /// Must be on stable media at completion.
    pub const FUA: Flags = Flags(1 << 4);
    /// The device's cache must be empty before it.
    pub const PREFLUSH: Flags = Flags(1 << 5);
    /// More I/O of this task will follow.
    pub const IDLE: Flags = Flags(1 << 6);
    /// Background writeback.
    pub const BACKGROUND: Flags = Flags(1 << 7);
    /// Never merge it.
    pub const NOMERGE: Flags = Flags(1 << 8);
    /// Completion is found by polling.
    pub const POLLED: Flags = Flags(1 << 9);
    /// Submission fails rather than sleep for a tag.
    pub const NOWAIT: Flags = Flags(1 << 10);
    /// A limit of its tenant held it back: that the tenant has nothing waiting does not mean that it needs more service.
    pub const PACED: Flags = Flags(1 << 11);
    /// Memory is waiting for it: a page goes to or comes from swap.
    pub const SWAP: Flags = Flags(1 << 12);

    /// Are all bits of `other` set?
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Is any bit of `other` set?
    pub const fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets together.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// This set without the bits of `other`.
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// Priority class of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IoClass {
    /// Not set.
    #[default]
    None = 0,
    /// Realtime: served first.
    Realtime = 1,
    /// Best effort: the usual class.
    BestEffort = 2,
    /// Served when no request of another class is queued.
    Idle = 3,
}

/// I/O priority as the kernel stores it: class in bits 13-15, hint in 3-12, level (0 best, 7 worst) in 0-2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ioprio(pub u16);

impl Ioprio {
    /// The priority of a task at nice 0: best effort, level 4.
    pub const DEFAULT: Ioprio = Ioprio(2 << 13 | 4);

    /// Priority of a class and a level; levels over 7 are cut to 7.
    pub fn new(class: IoClass, level: u8) -> Ioprio {
        Ioprio((class as u16) << 13 | u16::from(level.min(7)))
    }

    /// The class; a number that is none of the four counts as `None`.
    pub fn class(self) -> IoClass {
        match self.0 >> 13 {
            1 => IoClass::Realtime,
            2 => IoClass::BestEffort,
            3 => IoClass::Idle,
            _ => IoClass::None,
        }
    }

    /// Level within the class, 0 (best) to 7 (worst).
    pub fn level(self) -> u8 {
        (self.0 & 7) as u8
    }

    /// Reads `rt/0`, `be/4`, `idle`, `idle/7` or `none`.
    pub fn parse(text: &str) -> Option<Ioprio> {
        let (class, level) = text.split_once('/').map_or((text, None), |(c, l)| (c, Some(l)));
        let class = match class.trim() {
            "rt" | "realtime" => IoClass::Realtime,
            "be" | "best-effort" => IoClass::BestEffort,
            "idle" => IoClass::Idle,
            "none" => IoClass::None,
            _ => return None,
        };
        let level = match level {
            None if class == IoClass::None => 0,
            None if class == IoClass::Idle => 7,
            None => 4,
            Some(l) => l.trim().parse::<u8>().ok().filter(|l| *l < 8)?,
        };
        Some(Ioprio::new(class, level))
    }
}

impl fmt::Display for Ioprio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class() {
            IoClass::None => f.write_str("none"),
            IoClass::Realtime => write!(f, "rt/{}", self.level()),
            IoClass::BestEffort => write!(f, "be/{}", self.level()),
            IoClass::Idle => write!(f, "idle/{}", self.level()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ioprio_is_stored_as_the_kernel_does() {
        assert_eq!(Ioprio::DEFAULT.0, 16388);
        assert_eq!(Ioprio::parse("rt/0"), Some(Ioprio(1 << 13)));
        assert_eq!(Ioprio::parse("idle").unwrap().to_string(), "idle/7");
        assert_eq!(Ioprio::parse("be/9"), None);
        assert_eq!(Ioprio::parse("best"), None);
    }

    #[test]
    fn discards_are_writes_and_flushes_reads() {
        assert_eq!(Op::Discard.dir(), Dir::Write);
        assert_eq!(Op::WriteZeroes.dir(), Dir::Write);
        assert_eq!(Op::Flush.dir(), Dir::Read);
        assert!(!Op::WriteZeroes.mergeable());
    }
}
