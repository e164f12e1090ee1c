//! Unix sockets that a service listens on.

use std::io::{Error, ErrorKind, Result};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use dumbwaiter_text::Entry;
use rustix::fs::{FileType, Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 128;

/// A Unix socket for its owner alone. One that a dead service left behind is replaced; a live one's is not
/// ([`ErrorKind::AddrInUse`]). A link on the way that another user may have planted is not followed.
///
/// # Errors
/// If a service listens there, or those of bind(2).
pub fn bind_unix(path: &Path) -> Result<UnixListener> {
    let entry = Entry::find(path)?;
    let path = entry.path();
    let there = entry.kind()?;
    if there.is_some_and(|kind| kind != FileType::Socket) {
        return Err(Error::new(ErrorKind::AddrInUse, "what is there is no socket; choose another path"));
    }
    if there.is_some() {
        if UnixStream::connect(&path).is_ok() {
            return Err(Error::new(
                ErrorKind::AddrInUse,
                "another server listens on this socket; stop it or choose another path",
            ));
        }
        entry.remove()?;
    }
    let address = SocketAddrUnix::new(&path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The file gets the mode of the socket: it is never open to others, as it would be between bind and chmod.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_socket_is_for_its_owner_and_replaces_only_a_dead_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = bind_unix(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(bind_unix(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        drop(bind_unix(&path).unwrap());
        // A path that is no socket stays.
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(bind_unix(&file).is_err() && std::fs::read(&file).unwrap() == b"x");
    }
}
