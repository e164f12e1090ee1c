//! The cells that are still to be run.

use dumbwaiter_experiment::Control;

use crate::cell::Resolver;
use crate::grid::Rules;
use crate::{Error, Key, Sweep};

/// Keys of cells that have their rows, 16 bytes each.
#[derive(Clone, Debug, Default)]
pub struct Done {
    sorted: Vec<u128>,
}

impl Done {
    /// These keys; one that is there twice is an error of who wrote them.
    pub fn new(keys: Vec<Key>) -> Done {
        let mut sorted: Vec<u128> = keys.into_iter().map(|key| key.0).collect();
        sorted.sort_unstable();
        sorted.dedup();
        Done { sorted }
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    fn has(&self, key: Key) -> bool {
        self.sorted.binary_search(&key.0).is_ok()
    }
}

/// Cells that are passed over between two looks at the control: some milliseconds of work.
const CONTROL_POLL_CELLS: u64 = 1024;

/// The numbers of the cells that are neither left out nor done, in order. No list of them is made.
pub struct Pending<'a> {
    sweep: &'a Sweep,
    rules: Rules,
    done: &'a Done,
    resolver: Resolver<'a>,
    control: &'a Control,
    next: u64,
    end: u64,
}

impl Sweep {
    /// Number of cells, without those that are left out.
    pub fn len(&self) -> u64 {
        let all = self.grid.len().unwrap_or(0);
        match self.grid.rules() {
            Ok(rules) if !self.grid.not.is_empty() => {
                let replicates = u64::from(self.grid.replicates);
                let combinations = (0..all / replicates).filter(|i| !rules.leave_out(&self.grid.at(i * replicates).0));
                combinations.count() as u64 * replicates
            }
            _ => all,
        }
    }

    /// Has it no cells?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cells from this number on that `done` lacks, until `control` is cancelled.
    pub fn pending<'a>(&'a self, done: &'a Done, next: u64, control: &'a Control) -> Result<Pending<'a>, Error> {
        let rules = self.grid.rules().map_err(Error::Input)?;
        let end = self.grid.len().unwrap_or(0);
        Ok(Pending { sweep: self, rules, done, resolver: Resolver::new(self, control), control, next, end })
    }

    /// The key of a cell that cannot be resolved: of its values.
    pub(crate) fn key_of_values(&self, places: &[usize], replicate: u32) -> Key {
        let values: Vec<String> =
            self.grid.axes.iter().zip(places).map(|(axis, at)| format!("{}={}", axis.name, axis.text(*at))).collect();
        let replicate = replicate.to_string();
        let base = self.base.to_string();
        let texts = values.iter().map(String::as_str);
        crate::key::hash(texts.chain([replicate.as_str(), base.as_str(), "unresolved"]))
    }
}

impl Pending<'_> {
    /// The number after the last one that was looked at.
    pub fn position(&self) -> u64 {
        self.next
    }
}

impl Iterator for Pending<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        while self.next < self.end {
            let index = self.next;
            if index.is_multiple_of(CONTROL_POLL_CELLS) && self.control.cancelled() {
                return None;
            }
            self.next += 1;
            let (places, replicate) = self.sweep.grid.at(index);
            if self.rules.leave_out(&places) {
                continue;
            }
            // Keys are only made where there is something to compare them with.
            if !self.done.is_empty() {
                let key = self.resolver.key(&places, replicate);
                let key = key.unwrap_or_else(|_| self.sweep.key_of_values(&places, replicate));
                if self.done.has(key) {
                    continue;
                }
            }
            return Some(index);
        }
        None
    }
}
