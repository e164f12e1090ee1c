//! Unix sockets that the server listens on.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::Error;

/// A Unix socket for its owner alone. One that a dead server left behind is replaced; a live server's is not.
pub(crate) fn bind_unix(path: &Path) -> Result<UnixListener, Error> {
    let failed = |source| Error::Io { what: path.display().to_string(), source };
    if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            return Err(Error::Settings(format!("{}: a server listens there already", path.display())));
        }
        std::fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}
