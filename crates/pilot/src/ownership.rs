//! Which settings are ours: what was found, what is in force, and changing one into the other without touching what another
//! user has set.

use crate::candidate::in_order;
use crate::port::{Fault, Note, Port, Reading, Values};

/// Further tries to read back what was written.
const READ_BACK_TRIES: u32 = 5;

/// A setting that another user changed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ForeignChange {
    /// The attribute.
    pub attribute: String,
    /// What was in force before.
    pub expected: String,
    /// What is in force now.
    pub found: String,
}

/// Why a change was not made, or not in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotSet {
    /// Another user changed something: nothing more was written.
    Foreign(ForeignChange),
    /// The device is gone, or is another one.
    Gone(String),
    /// No permission.
    NotPermitted(String),
    /// The kernel does not take these settings. What is in force is known.
    Refused(String),
    /// It failed and may work later. What is in force is known.
    Failed(String),
}

/// The settings of one disk.
#[derive(Clone, Debug)]
pub(crate) struct Ownership {
    sequence: Option<String>,
    original: Values,
    in_force: Values,
    /// A write whose effect could not be read.
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

    /// Is anything different from what was found?
    pub(crate) fn has_changed(&self) -> bool {
        self.unread.is_some() || self.in_force != self.original
    }

    /// A write whose effect could not be read is ours if it is in force now. The journal then has what there is to put back.
    pub(crate) fn settle(&mut self, reading: &Reading, port: &mut dyn Port) {
        if !self.is_same_disk(reading) {
            return;
        }
        let Some((attribute, value)) = self.unread.take() else { return };
        if reading.values.get(&attribute) == Some(&value) {
            self.in_force.clone_from(&reading.values);
        }
        self.renew_note(port);
    }

    /// Makes the journal say what is in force.
    fn renew_note(&self, port: &mut dyn Port) {
        if !self.has_changed() {
            port.release();
        } else if self.unread.is_none() {
            let note = self.note(vec![self.scheduler().to_owned()], Some(self.in_force.clone()));
            // The note of before the change is there still; it asks less of what is in force.
            let _ = port.note(&note);
        }
    }

    /// Is this the disk that was found?
    pub(crate) fn is_same_disk(&self, reading: &Reading) -> bool {
        self.sequence == reading.sequence
    }

    /// The first setting that differs from what was left in force. A file that cannot be read is no change.
    pub(crate) fn foreign(&self, reading: &Reading) -> Option<ForeignChange> {
        let differs = self.in_force.iter().find_map(|(name, expected)| {
            let found = reading.values.get(name)?;
            (found != expected).then(|| (name.clone(), expected.clone(), found.clone()))
        });
        differs.map(|(attribute, expected, found)| ForeignChange { attribute, expected, found })
    }

    /// Reads, and makes sure that the disk is the same and no other program has changed it.
    fn checked(&mut self, port: &mut dyn Port) -> Result<Reading, NotSet> {
        let reading = port.read().map_err(not_set)?;
        self.settle(&reading, port);
        if !self.is_same_disk(&reading) {
            return Err(NotSet::Gone("another disk has its name now".into()));
        }
        match self.foreign(&reading) {
            Some(change) => Err(NotSet::Foreign(change)),
            None => Ok(reading),
        }
    }

    /// Sets a scheduler, then attributes in their order. Every write is noted before and read back after. Attributes that
    /// the kernel does not take are skipped; the first one is in the error.
    pub(crate) fn apply(
        &mut self,
        port: &mut dyn Port,
        scheduler: &str,
        settings: &[(String, String)],
    ) -> Result<(), NotSet> {
        let reading = self.checked(port)?;
        let done = self.write_all(port, &reading, scheduler, settings);
        match &done {
            // Another user's now, or nobody's.
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
        // At once: what another user changes before it is read would be taken for the kernel's doing.
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
            return Err(NotSet::Gone("another disk has its name now".into()));
        }
        let before = self.in_force.get(attribute).cloned().unwrap_or_default();
        let found = reading.values.get(attribute).cloned().unwrap_or_default();
        if found == value {
            // What the kernel reset with it is our doing.
            self.in_force = reading.values;
            return Ok(());
        }
        if found != before && attribute != "scheduler" {
            // The kernel rounds some values. That is no value that was asked for, but it is our doing.
            self.in_force = reading.values;
            return Err(NotSet::Refused(format!("wrote {value} to {attribute}, which became {found}")));
        }
        if found != before {
            let attribute = attribute.to_owned();
            return Err(NotSet::Foreign(ForeignChange { attribute, expected: value.to_owned(), found }));
        }
        match written {
            Ok(()) => Err(NotSet::Refused(format!("wrote {value} to {attribute}, which still is {found}"))),
            Err(fault) => Err(not_set(fault)),
        }
    }

    /// Puts back what was found, trying a few times. What differs in the end, one line each.
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
            differing.map(|(name, value)| format!("{name} was {value} and is not")).collect();
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
