//! The sockets on which virtual machines find their disks: one for each export, for one machine at a time.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use dumbwaiter_path::WatchId;

/// The owner of a socket's watch is its tenant's number with this bit.
pub(crate) const SOCKET_OWNER: u32 = 1 << 31;

/// A listening socket; its file is removed with it.
pub(crate) struct DeviceSocket {
    pub(super) listener: UnixListener,
    /// A machine that came just as its predecessor left, which is still being taken down.
    pub(super) successor: Option<UnixStream>,
    pub(super) path: PathBuf,
    pub(super) watch: WatchId,
    /// The export's name is a disk's serial number.
    pub(super) name: String,
}

impl Drop for DeviceSocket {
    fn drop(&mut self) {
        // It may have been removed by hand.
        let _ = dumbwaiter_text::remove(&self.path);
    }
}

/// Where the socket of an export is.
pub(crate) fn socket_path(folder: &Path, export: &str) -> PathBuf {
    folder.join(format!("{export}.vhost"))
}
