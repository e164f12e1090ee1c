//! The exports that clients may ask for, and the sockets of their own, shared between the threads of disks and the listener.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dumbwaiter_protocols::nbd::{Description, Exports};
use rustix::event::{EventfdFlags, eventfd};

use super::export_socket::ExportSocket;
use crate::Error;
use crate::access::{Access, Peer};
use crate::kept_socket::{Address, KeptSocket};

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
    sockets: BTreeMap<PathBuf, Arc<ExportSocket>>,
    /// Sockets of a server before this one.
    kept: Vec<KeptSocket>,
    /// The server ends: there are no sockets any more.
    closed: bool,
}

impl Inner {
    /// Opens the socket that an export names, if it is not open.
    fn open_socket(&mut self, access: &Access) -> Result<(), Error> {
        let Some(path) = access.socket.as_ref().filter(|path| !self.closed && !self.sockets.contains_key(*path)) else {
            return Ok(());
        };
        let kept = KeptSocket::take(&mut self.kept, |at| matches!(at, Address::Unix(at) if at == path));
        self.sockets.insert(path.clone(), Arc::new(ExportSocket::open(path, kept)?));
        Ok(())
    }

    /// Closes the socket that an export has named, if no other one names it.
    fn close_socket(&mut self, before: Option<Entry>) {
        let Some(path) = before.and_then(|entry| entry.access.socket) else { return };
        if self.entries.values().all(|entry| entry.access.socket.as_ref() != Some(&path))
            && let Some(socket) = self.sockets.remove(&path)
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
    pub(crate) fn put(&self, name: &str, entry: Entry) -> Result<(), Error> {
        let mut inner = self.lock();
        inner.open_socket(&entry.access)?;
        if !inner.entries.contains_key(name) {
            inner.order.push(name.to_owned());
        }
        let before = inner.entries.insert(name.to_owned(), entry);
        inner.close_socket(before);
        drop(inner);
        self.wake();
        Ok(())
    }

    /// An export is gone.
    pub(crate) fn remove(&self, name: &str) {
        let mut inner = self.lock();
        let before = inner.entries.remove(name);
        inner.order.retain(|other| other != name);
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
