//! Access of a pilot to a disk. The kernel is one implementation; tests and replays have others.

use dumbwaiter_block::{IoTag, Nanos};
use dumbwaiter_controllers::switching::{Kind, Work};
use dumbwaiter_linux::recording::LiveEvent;

pub use dumbwaiter_linux::claim::Values;

/// Why something could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device, or its file, is missing.
    Gone(String),
    /// No permission.
    NotPermitted(String),
    /// The kernel refuses the value.
    Invalid(String),
    /// Anything else; it may pass.
    Failed(String),
}

impl Fault {
    /// The reason, in words.
    pub fn text(&self) -> &str {
        match self {
            Fault::Gone(text) | Fault::NotPermitted(text) | Fault::Invalid(text) | Fault::Failed(text) => text,
        }
    }
}

/// A disk's settings at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The kernel's unique number of this disk: another disk of the same name has another one.
    pub sequence: Option<String>,
    /// The schedulers that can be chosen.
    pub schedulers: Vec<String>,
    /// The scheduler in force, and the writable attributes that an exchange of the scheduler resets.
    pub values: Values,
}

impl Reading {
    /// The scheduler in force.
    pub fn scheduler(&self) -> &str {
        self.values.get("scheduler").map_or("", String::as_str)
    }
}

/// Counters of a disk since it appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Completed reads and writes.
    pub work: Work,
    /// Requests that are queued or in the device now.
    pub in_flight: u64,
}

/// The record for restoring settings after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The settings before the first change.
    pub original: Values,
    /// Schedulers that may be in force when the change is done or has failed.
    pub schedulers: Vec<String>,
    /// The settings in force; `None` while a change is under way.
    pub in_force: Option<Values>,
}

/// A disk, by its configured path.
pub trait Port {
    /// Finds the disk and begins to watch it, paused. Called again after it was gone.
    fn open(&mut self) -> Result<(), Fault>;

    /// The kind of device.
    fn kind(&self) -> Kind;

    /// Identity of the disk (model, serial number, size), also after a restart; empty where it reports none.
    fn identity(&self) -> String {
        String::new()
    }

    /// Why its requests cannot be watched; `None` where they can.
    fn blind(&self) -> Option<String>;

    /// The settings now.
    fn read(&mut self) -> Result<Reading, Fault>;

    /// Writes one attribute.
    fn write(&mut self, attribute: &str, value: &str) -> Result<(), Fault>;

    /// How long the last write took, during which the kernel drains the device.
    fn last_write(&self) -> Option<Nanos>;

    /// Writes to the journal what to restore after a crash. Called before each change; if it fails, no change is made.
    fn note(&mut self, note: &Note) -> Result<(), Fault>;

    /// Removes the journal entry.
    fn release(&mut self);

    /// The disk's counters.
    fn counters(&mut self) -> Result<Counters, Fault>;

    /// Resumes or pauses tracing of requests.
    fn watch(&mut self, on: bool);

    /// Reads the requests' events since the last call, in order of time, and returns how many were lost.
    fn events(&mut self, now: Nanos, into: &mut Vec<LiveEvent>) -> Result<u64, Fault>;

    /// Kind of the data that a request reads or writes: the kernel's flags tell of metadata only.
    fn tag(&self, event: &LiveEvent) -> IoTag {
        if event.meta { IoTag::META } else { IoTag::UNKNOWN }
    }
}
