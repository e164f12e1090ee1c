//! Unix sockets that a service listens on.

use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// A Unix socket for its owner alone. One that a dead service left behind is replaced; a live one's is not
/// ([`ErrorKind::AddrInUse`]).
pub fn bind_unix(path: &Path) -> Result<UnixListener> {
    if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            return Err(Error::new(ErrorKind::AddrInUse, "a server listens there already"));
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
