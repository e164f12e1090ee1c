//! The exports that clients may ask for, shared between the threads of disks and the listener.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dumbwaiter_protocols::nbd::{Description, Exports};

use crate::access::{Access, Peer};

/// An export, and where it is served.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) description: Description,
    /// Who may open it.
    pub(crate) access: Access,
    /// The disk's number.
    pub(crate) shard: usize,
    /// The tenant's number in its volume.
    pub(crate) tenant: u32,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<String, Entry>,
    /// Names in the order in which exports came: the empty name selects the first that a client may open.
    order: Vec<String>,
}

/// All exports by name.
#[derive(Default)]
pub(crate) struct Directory(Mutex<Inner>);

impl Directory {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds or changes an export.
    pub(crate) fn put(&self, name: &str, entry: Entry) {
        let mut inner = self.lock();
        if !inner.entries.contains_key(name) {
            inner.order.push(name.to_owned());
        }
        inner.entries.insert(name.to_owned(), entry);
    }

    /// An export is gone.
    pub(crate) fn remove(&self, name: &str) {
        let mut inner = self.lock();
        inner.entries.remove(name);
        inner.order.retain(|other| other != name);
    }

    /// The export of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Entry> {
        self.lock().entries.get(name).cloned()
    }

    /// The exports as a client sees them.
    pub(crate) fn seen_by<'a>(&'a self, peer: &'a Peer) -> Seen<'a> {
        Seen { directory: self, peer }
    }

    /// The disk that serves an export.
    pub(crate) fn shard_of(&self, name: &str) -> Option<usize> {
        self.lock().entries.get(name).map(|entry| entry.shard)
    }
}

/// What a client sees: for others' exports it gets the same answer as for none.
pub(crate) struct Seen<'a> {
    directory: &'a Directory,
    peer: &'a Peer,
}

impl Exports for Seen<'_> {
    fn find(&self, name: &str) -> Option<Description> {
        let inner = self.directory.lock();
        let allowed = |entry: &&Entry| entry.access.allows(self.peer);
        let found = inner.entries.get(name).filter(allowed);
        let first = || {
            let all = inner.order.iter().filter_map(|name| inner.entries.get(name));
            all.filter(allowed).find(|entry| !entry.access.hidden)
        };
        found.or_else(|| if name.is_empty() { first() } else { None }).map(|entry| entry.description.clone())
    }

    fn list(&self) -> Vec<(String, String)> {
        let inner = self.directory.lock();
        let listed = inner.entries.iter().filter(|(_, entry)| !entry.access.hidden && entry.access.allows(self.peer));
        listed.map(|(name, entry)| (name.clone(), entry.description.text.clone())).collect()
    }
}
