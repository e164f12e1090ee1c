//! Ownership of settings: those found, those in force, and changes between them that leave settings of other users
//! alone.

use crate::candidate::in_order;
use crate::port::{Fault, Note, Port, Reading, Values};

/// Retries of reading back a written value.
const READ_BACK_TRIES: u32 = 5;

/// A setting that another user changed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ForeignChange {
    /// The attribute.
    pub attribute: String,
    /// The value that the pilot left.
    pub expected: String,
    /// The value now.
    pub found: String,
}

/// Why a change was not made, or only in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotSet {
    /// Another user changed a setting: the pilot wrote nothing more.
    Foreign(ForeignChange),
    /// The device is gone, or is another one.
    Gone(String),
    /// No permission.
    NotPermitted(String),
    /// The kernel rejects these settings. The settings in force are known.
    Refused(String),
    /// It failed and may succeed later. The settings in force are known.
    Failed(String),
}

/// The settings of one disk.
#[derive(Clone, Debug)]
pub(crate) struct Ownership {
    sequence: Option<String>,
    original: Values,
    in_force: Values,
    /// A write that could not be read back.
    unread: Option<(String, String)>,
}

impl Ownership {
    pub(crate) fn new(reading: &Reading) -> Ownership {
        Ownership {
            sequence: reading.sequence.clone(),
            original: reading.values.clone(),
            in_force: reading.values.clone(),
            unread: None,
        }
    }

    pub(crate) fn original(&self) -> &Values {
        &self.original
    }

    pub(crate) fn in_force(&self) -> &Values {
        &self.in_force
    }

    fn scheduler(&self) -> &str {
        self.in_force.get("scheduler").map_or("", String::as_str)
    }

    /// Whether any setting differs from the one found.
    pub(crate) fn has_changed(&self) -> bool {
        self.unread.is_some() || self.in_force != self.original
    }

    /// Takes a write that could not be read back as ours if it is in force now, and adds it to the journal.
    pub(crate) fn settle(&mut self, reading: &Reading, port: &mut dyn Port) {
        if !self.is_same_disk(reading) {
            return;
        }
        let Some((attribute, value)) = self.unread.take() else { return };
        if reading.values.get(&attribute) == Some(&value) {
            if attribute == "scheduler" {
                // The kernel resets the others with it.
                self.in_force.clone_from(&reading.values);
            } else {
                self.in_force.insert(attribute, value);
            }
        }
        self.renew_note(port);
    }

    /// Writes the settings in force to the journal.
    fn renew_note(&self, port: &mut dyn Port) {
        if !self.has_changed() {
            port.release();
        } else if self.unread.is_none() {
            let note = self.note(vec![self.scheduler().to_owned()], Some(self.in_force.clone()));
            // The entry from before the change remains, which restores with fewer conditions.
            let _ = port.note(&note);
        }
    }

    /// Whether this is still the disk that was found.
    pub(crate) fn is_same_disk(&self, reading: &Reading) -> bool {
        self.sequence == reading.sequence
    }

    /// The first setting that differs from the value that the pilot left. A file that cannot be read is no change.
    pub(crate) fn foreign(&self, reading: &Reading) -> Option<ForeignChange> {
        let differs = self.in_force.iter().find_map(|(name, expected)| {
            let found = reading.values.get(name)?;
            (found != expected).then(|| (name.clone(), expected.clone(), found.clone()))
        });
        differs.map(|(attribute, expected, found)| ForeignChange { attribute, expected, found })
    }

    /// Reads the settings, and checks that it is the same disk and that no other program has changed them.
    fn checked(&mut self, port: &mut dyn Port) -> Result<Reading, NotSet> {
        let reading = port.read().map_err(not_set)?;
        self.settle(&reading, port);
        if !self.is_same_disk(&reading) {
            return Err(NotSet::Gone("another disk has this name now".into()));
        }
        match self.foreign(&reading) {
            Some(change) => Err(NotSet::Foreign(change)),
            None => Ok(reading),
        }
    }

    /// Sets a scheduler, then attributes in their order. Every write is journaled before and read back after. Attributes that
    /// the kernel rejects are skipped; the error names the first one.
    pub(crate) fn apply(
        &mut self,
        port: &mut dyn Port,
        scheduler: &str,
        settings: &[(String, String)],
    ) -> Result<(), NotSet> {
        let done = self.checked(port).and_then(|reading| self.write_all(port, &reading, scheduler, settings));
        match &done {
            // Another user has set it, or it is gone.
            Err(NotSet::Foreign(_) | NotSet::Gone(_)) => port.release(),
            _ => self.renew_note(port),
        }
        done
    }

    fn note(&self, schedulers: Vec<String>, in_force: Option<Values>) -> Note {
        Note { original: self.original.clone(), schedulers, in_force }
    }

    fn write_all(
        &mut self,
        port: &mut dyn Port,
        reading: &Reading,
        scheduler: &str,
        settings: &[(String, String)],
    ) -> Result<(), NotSet> {
        let before = self.scheduler().to_owned();
        let mut schedulers = vec![before.clone()];
        if before != scheduler {
            if !reading.schedulers.iter().any(|name| name == scheduler) {
                return Err(NotSet::Refused(format!("the kernel does not list {scheduler}")));
            }
            schedulers.push(scheduler.to_owned());
        }
        port.note(&self.note(schedulers, None)).map_err(not_set)?;
        // The journal is flushed, which takes its time: another program may have set something meanwhile.
        self.checked(port)?;
        if before != scheduler {
            self.write_one(port, "scheduler", scheduler)?;
        }
        let mut first_problem = None;
        for (attribute, value) in settings {
            match self.in_force.get(attribute) {
                Some(now) if now == value => {}
                // An attribute of another scheduler or kernel.
                None => {
                    first_problem.get_or_insert(NotSet::Refused(format!("there is no {attribute}")));
                }
                Some(_) => match self.write_one(port, attribute, value) {
                    Ok(()) => {}
                    Err(problem @ (NotSet::Refused(_) | NotSet::Failed(_))) if self.unread.is_none() => {
                        first_problem.get_or_insert(problem);
                    }
                    Err(problem) => return Err(problem),
                },
            }
        }
        first_problem.map_or(Ok(()), Err)
    }

    /// Writes one attribute and reads it back.
    fn write_one(&mut self, port: &mut dyn Port, attribute: &str, value: &str) -> Result<(), NotSet> {
        let written = port.write(attribute, value);
        // Read at once: a change by another user before it would be attributed to the kernel.
        let mut read = port.read();
        for _ in 0..READ_BACK_TRIES {
            if !matches!(read, Err(Fault::Failed(_))) {
                break;
            }
            read = port.read();
        }
        let reading = match read {
            Ok(reading) => reading,
            Err(fault) => {
                self.unread = Some((attribute.to_owned(), value.to_owned()));
                return Err(not_set(fault));
            }
        };
        if !self.is_same_disk(&reading) {
            return Err(NotSet::Gone("another disk has this name now".into()));
        }
        let before = self.in_force.get(attribute).cloned().unwrap_or_default();
        let found = reading.values.get(attribute).cloned().unwrap_or_default();
        if found == value {
            // Attributes that the kernel reset with it count as set by the pilot.
            self.in_force = reading.values;
            return Ok(());
        }
        if found != before && attribute != "scheduler" {
            // The kernel rounds some values. The result counts as set by the pilot, although it is not the value requested.
            self.in_force = reading.values;
            return Err(NotSet::Refused(format!("wrote {value} to {attribute}, which became {found}")));
        }
        if found != before {
            let attribute = attribute.to_owned();
            return Err(NotSet::Foreign(ForeignChange { attribute, expected: value.to_owned(), found }));
        }
        match written {
            Ok(()) => Err(NotSet::Refused(format!("wrote {value} to {attribute}, which is still {found}"))),
            Err(fault) => Err(not_set(fault)),
        }
    }

    /// Restores the settings found, with a few retries. Returns those that still differ, one line each.
    pub(crate) fn restore(&mut self, port: &mut dyn Port) -> Result<Vec<String>, NotSet> {
        /// A write may fail once.
        const TRIES: u32 = 3;
        let (scheduler, settings) =
            (self.original.get("scheduler").cloned().unwrap_or_default(), in_order(&self.original));
        let mut last = Ok(());
        for _ in 0..TRIES {
            if !self.has_changed() {
                break;
            }
            last = self.apply(port, &scheduler, &settings);
            if matches!(last, Err(NotSet::Foreign(_) | NotSet::Gone(_))) {
                return last.map(|()| Vec::new());
            }
        }
        if !self.has_changed() {
            port.release();
            return Ok(Vec::new());
        }
        let differing = self.original.iter().filter(|(name, value)| self.in_force.get(*name) != Some(value));
        let mut problems: Vec<String> =
            differing.map(|(name, value)| format!("{name} was {value} and could not be restored")).collect();
        if let Err(NotSet::Refused(text) | NotSet::Failed(text) | NotSet::NotPermitted(text)) = last {
            problems.push(text);
        }
        Ok(problems)
    }
}

fn not_set(fault: Fault) -> NotSet {
    match fault {
        Fault::Gone(text) => NotSet::Gone(text),
        Fault::NotPermitted(text) => NotSet::NotPermitted(text),
        Fault::Invalid(text) => NotSet::Refused(text),
        Fault::Failed(text) => NotSet::Failed(text),
    }
}
