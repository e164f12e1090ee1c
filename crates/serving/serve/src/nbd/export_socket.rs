//! A Unix socket of its own for some exports: who reaches it finds these, and nobody else does.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::unix_socket::bind_unix;

/// A listening socket.
#[derive(Debug)]
pub(crate) struct ExportSocket {
    pub(super) listener: UnixListener,
    pub(crate) path: PathBuf,
}

impl ExportSocket {
    /// Listens at the path, or goes on with a socket that does.
    pub(super) fn open(path: &Path, kept: Option<OwnedFd>) -> Result<ExportSocket, Error> {
        let listener = kept.map_or_else(|| bind_unix(path), |socket| Ok(socket.into()))?;
        let socket = ExportSocket { listener, path: path.to_owned() };
        socket.listener.set_nonblocking(true).map_err(Error::io("cannot make a socket non-blocking"))?;
        Ok(socket)
    }

    /// Removes its file: nobody finds it any more, though the listener may look at it once more. Its path is free for another one.
    pub(crate) fn remove(&self) {
        // It may have been removed by hand.
        let _ = dumbwaiter_text::remove(&self.path);
    }
}
