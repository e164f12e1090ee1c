//! The exports that clients may ask for, and the sockets of their own, shared between the threads of disks and the listener.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dumbwaiter_protocols::nbd::{BlockSizes, Description, Exports};
use rustix::event::{EventfdFlags, eventfd};

use super::export_socket::ExportSocket;
use crate::Error;
use crate::access::{AccessRules, Peer};
use crate::kept_socket::{Address, KeptSocket};
use crate::settings::ExportSettings;

/// An export, and where it is served.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Those of its tenant: its name, its description, and who may open it.
    pub(crate) settings: Arc<ExportSettings>,
    /// Bytes.
    pub(crate) size: u64,
    /// Of the transmission.
    pub(crate) flags: u16,
    pub(crate) block_sizes: BlockSizes,
    /// The disk's number.
    pub(crate) shard: usize,
    /// The tenant's number in its volume.
    pub(crate) tenant: u32,
}

impl Entry {
    fn may_be_opened_by(&self, peer: &Peer) -> bool {
        self.settings.access.allows(peer)
    }

    fn is_listed_for(&self, peer: &Peer) -> bool {
        !self.settings.access.hidden && self.may_be_opened_by(peer)
    }

    fn description(&self) -> Description {
        let ExportSettings { name, description, .. } = &*self.settings;
        let (name, text) = (name.clone(), description.clone());
        Description { name, text, size: self.size, flags: self.flags, block_sizes: self.block_sizes }
    }
}

/// An export, and its place in the order in which exports came: the empty name selects the first that a client may open.
struct Listed {
    arrival: u64,
    entry: Entry,
}

#[derive(Default)]
struct Inner {
    /// By name.
    entries: Vec<Listed>,
    /// Exports that have come.
    arrivals: u64,
    sockets: BTreeMap<PathBuf, Arc<ExportSocket>>,
    /// Sockets of a server before this one.
    kept: Vec<KeptSocket>,
    /// The server ends: there are no sockets any more.
    closed: bool,
}

impl Inner {
    /// Where an export is, or would be.
    fn place_of(&self, name: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|listed| listed.entry.settings.name.as_str().cmp(name))
    }

    fn get(&self, name: &str) -> Option<&Entry> {
        Some(&self.entries[self.place_of(name).ok()?].entry)
    }

    /// Opens the socket that an export names, if it is not open.
    fn open_socket(&mut self, access: &AccessRules) -> Result<(), Error> {
        let Some(path) = access.socket.as_ref().filter(|path| !self.closed && !self.sockets.contains_key(*path)) else {
            return Ok(());
        };
        let kept = KeptSocket::take(&mut self.kept, |at| matches!(at, Address::Unix(at) if at == path));
        self.sockets.insert(path.clone(), Arc::new(ExportSocket::open(path, kept)?));
        Ok(())
    }

    /// Closes the socket that an export has named, if no other one names it.
    fn close_socket(&mut self, before: Option<Entry>) {
        let Some(path) = before.as_ref().and_then(|entry| entry.settings.access.socket.as_ref()) else { return };
        if self.entries.iter().all(|listed| listed.entry.settings.access.socket.as_ref() != Some(path))
            && let Some(socket) = self.sockets.remove(path)
        {
            socket.remove();
        }
    }
}

/// All exports by name.
#[derive(Default)]
pub(crate) struct Directory {
    inner: Mutex<Inner>,
    /// Becomes readable when sockets come or go.
    changed: Option<OwnedFd>,
}

impl Directory {
    /// One whose sockets a thread waits for; those that a server before this one has kept are gone on with.
    pub(crate) fn watched(kept: Vec<KeptSocket>) -> Result<Directory, Error> {
        let changed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let changed = changed.map_err(|e| Error::Io { what: "cannot create an event".into(), source: e.into() })?;
        Ok(Directory { inner: Mutex::new(Inner { kept, ..Inner::default() }), changed: Some(changed) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds or changes an export, and opens the socket that it names, or refuses all of it.
    pub(crate) fn put(&self, entry: Entry) -> Result<(), Error> {
        let mut inner = self.lock();
        inner.open_socket(&entry.settings.access)?;
        match inner.place_of(&entry.settings.name) {
            Ok(place) => {
                let before = std::mem::replace(&mut inner.entries[place].entry, entry);
                inner.close_socket(Some(before));
            }
            Err(place) => {
                inner.arrivals += 1;
                let arrival = inner.arrivals;
                inner.entries.insert(place, Listed { arrival, entry });
            }
        }
        drop(inner);
        self.wake();
        Ok(())
    }

    /// An export is gone.
    pub(crate) fn remove(&self, name: &str) {
        let mut inner = self.lock();
        let before = inner.place_of(name).ok().map(|place| inner.entries.remove(place).entry);
        inner.close_socket(before);
        drop(inner);
        self.wake();
    }

    /// Closes the kept sockets that no export has taken.
    pub(crate) fn forget_kept(&self) {
        KeptSocket::close(std::mem::take(&mut self.lock().kept));
    }

    /// Takes all sockets away, and opens none from now on.
    pub(crate) fn take_sockets(&self) -> Vec<Arc<ExportSocket>> {
        let mut inner = self.lock();
        inner.closed = true;
        std::mem::take(&mut inner.sockets).into_values().collect()
    }

    /// The sockets that exports have for themselves.
    pub(crate) fn sockets(&self) -> Vec<Arc<ExportSocket>> {
        self.lock().sockets.values().cloned().collect()
    }

    /// What becomes readable when sockets come or go.
    pub(super) fn changed(&self) -> Option<BorrowedFd<'_>> {
        self.changed.as_ref().map(AsFd::as_fd)
    }

    fn wake(&self) {
        if let Some(changed) = &self.changed {
            // It stays readable until it is read: one wake is enough for many changes.
            let _ = rustix::io::write(changed, &1u64.to_ne_bytes());
        }
    }

    /// The changes until now are known.
    pub(super) fn seen_changes(&self) {
        if let Some(changed) = &self.changed {
            let _ = rustix::io::read(changed, &mut [0; 8]);
        }
    }

    /// The export of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Entry> {
        self.lock().get(name).cloned()
    }

    /// The exports as a client sees them.
    pub(crate) fn seen_by<'a>(&'a self, peer: &'a Peer) -> Seen<'a> {
        Seen { directory: self, peer }
    }

    /// The disk that serves an export.
    pub(crate) fn shard_of(&self, name: &str) -> Option<usize> {
        self.lock().get(name).map(|entry| entry.shard)
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
        let found = inner.get(name).filter(|entry| entry.may_be_opened_by(self.peer));
        let first = || {
            let listed = inner.entries.iter().filter(|listed| listed.entry.is_listed_for(self.peer));
            listed.min_by_key(|listed| listed.arrival).map(|listed| &listed.entry)
        };
        found.or_else(|| if name.is_empty() { first() } else { None }).map(Entry::description)
    }

    fn list(&self) -> Vec<(String, String)> {
        let inner = self.directory.lock();
        let all = inner.entries.iter().map(|listed| &listed.entry);
        let listed = all.filter(|entry| entry.is_listed_for(self.peer)).map(|entry| &entry.settings);
        listed.map(|settings| (settings.name.clone(), settings.description.clone())).collect()
    }
}
