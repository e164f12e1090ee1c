//! The exports that clients may ask for, shared between the threads of disks and the listener.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dumbwaiter_protocols::nbd::{Description, Exports};

/// An export, and where it is served.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) description: Description,
    /// The disk's number.
    pub(crate) shard: usize,
    /// The tenant's number in its volume.
    pub(crate) tenant: u32,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<String, Entry>,
    /// The export that the empty name selects.
    default: Option<String>,
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
        inner.default.get_or_insert_with(|| name.to_owned());
        inner.entries.insert(name.to_owned(), entry);
    }

    /// An export is gone.
    pub(crate) fn remove(&self, name: &str) {
        let mut inner = self.lock();
        inner.entries.remove(name);
        if inner.default.as_deref() == Some(name) {
            inner.default = inner.entries.keys().next().cloned();
        }
    }

    /// The export of this name, or the default one for the empty name.
    pub(crate) fn get(&self, name: &str) -> Option<Entry> {
        let inner = self.lock();
        let found = inner.entries.get(name);
        let default = || inner.entries.get(inner.default.as_ref()?);
        found.or_else(|| if name.is_empty() { default() } else { None }).cloned()
    }

    /// The disk that serves an export.
    pub(crate) fn shard_of(&self, name: &str) -> Option<usize> {
        self.lock().entries.get(name).map(|entry| entry.shard)
    }
}

impl Exports for Directory {
    fn find(&self, name: &str) -> Option<Description> {
        self.get(name).map(|entry| entry.description)
    }

    fn list(&self) -> Vec<(String, String)> {
        self.lock().entries.iter().map(|(name, entry)| (name.clone(), entry.description.text.clone())).collect()
    }
}
