//! Unix sockets that the server listens on.

use std::io::ErrorKind;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::Error;

/// A Unix socket for its owner alone. One that a dead server left behind is replaced; a live server's is not.
pub(crate) fn bind_unix(path: &Path) -> Result<UnixListener, Error> {
    dumbwaiter_linux::service::bind_unix(path).map_err(|source| match source.kind() {
        ErrorKind::AddrInUse => Error::Settings(format!("{}: {source}", path.display())),
        _ => Error::Io { what: format!("cannot create the socket {}", path.display()), source },
    })
}
