//! What a pilot sees of a disk and does to it. The kernel is one implementation; tests and replays have others.

use dumbwaiter_block::Nanos;
use dumbwaiter_policy::{Kind, Work};
use dumbwaiter_recording::LiveEvent;

pub use dumbwaiter_linux::claim::Values;

/// Why something could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device, or its file, is not there.
    Gone(String),
    /// No permission.
    NotPermitted(String),
    /// The kernel refuses the value.
    Invalid(String),
    /// Anything else; it may pass.
    Failed(String),
}

impl Fault {
    /// What happened, in words.
    pub fn text(&self) -> &str {
        match self {
            Fault::Gone(text) | Fault::NotPermitted(text) | Fault::Invalid(text) | Fault::Failed(text) => text,
        }
    }
}

/// A disk's settings at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// A number that the kernel gives to one disk only, even where another has the same name later.
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

/// What a disk has done since it appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Completed reads and writes.
    pub work: Work,
    /// Requests that wait or are in the device now.
    pub in_flight: u64,
}

/// What to put back after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The settings before the first change.
    pub original: Values,
    /// Schedulers that may be in force when the change is done or has failed.
    pub schedulers: Vec<String>,
    /// What is in force; `None` while a change is under way.
    pub in_force: Option<Values>,
}

/// A disk, by its configured path.
pub trait Port {
    /// Finds the disk and begins to watch it, paused. Called again after it was gone.
    fn open(&mut self) -> Result<(), Fault>;

    /// What kind of device it is.
    fn kind(&self) -> Kind;

    /// What tells it from other disks, also after a restart; empty where it says nothing of itself.
    fn identity(&self) -> String {
        String::new()
    }

    /// Why its requests cannot be watched; `None` where they can.
    fn blind(&self) -> Option<String>;

    /// The settings now.
    fn read(&mut self) -> Result<Reading, Fault>;

    /// Writes one attribute.
    fn write(&mut self, attribute: &str, value: &str) -> Result<(), Fault>;

    /// How long the last write took: the kernel drains the device meanwhile.
    fn last_write(&self) -> Option<Nanos>;

    /// Notes in the journal what a crash must put back. Called before each change; without it nothing is changed.
    fn note(&mut self, note: &Note) -> Result<(), Fault>;

    /// Forgets the note.
    fn release(&mut self);

    /// What the disk has done.
    fn counters(&mut self) -> Result<Counters, Fault>;

    /// Resumes or pauses the watch of requests.
    fn watch(&mut self, on: bool);

    /// Takes the requests' events since the last call, in order of time, and returns how many were lost.
    fn events(&mut self, now: Nanos, into: &mut Vec<LiveEvent>) -> Result<u64, Fault>;
}
