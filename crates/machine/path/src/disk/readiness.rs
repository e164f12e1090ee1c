//! Conditions for which descriptors are watched, and conditions that they report.

/// Conditions for which a descriptor is watched. Errors and hang-ups are always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// There is something to read, or a connection to accept.
    Read,
    /// There is room to write.
    Write,
    /// Either.
    ReadWrite,
}

impl Interest {
    pub(super) fn mask(self) -> i16 {
        match self {
            Interest::Read => libc::POLLIN | libc::POLLRDHUP,
            Interest::Write => libc::POLLOUT,
            Interest::ReadWrite => libc::POLLIN | libc::POLLRDHUP | libc::POLLOUT,
        }
    }
}

/// The readiness of a watched descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// There is something to read, the end of the stream included.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// It is broken or closed at the other end, or cannot be watched: nothing more is reported of it.
    pub ended: bool,
}

/// Names a watched descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatchId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl WatchId {
    /// A small number that no other watch has at the same time, for tables.
    pub fn index(self) -> usize {
        self.index as usize
    }
}
