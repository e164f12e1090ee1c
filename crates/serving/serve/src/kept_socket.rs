//! Listening sockets that outlive their server: the next one, in this process or in the program that takes its place, goes on with them,
//! and no client finds that nobody listens.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use serde::{Deserialize, Serialize};

use crate::Error;

/// Where a socket listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
    /// systemd has passed it under this number, and says so to the next program too.
    Passed(RawFd),
}

/// A listening socket without a server.
#[derive(Debug)]
pub struct KeptSocket {
    pub(crate) address: Address,
    pub(crate) socket: OwnedFd,
}

/// What the next program finds in its environment: for which process it is, and the numbers of the sockets.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Passed {
    pid: u32,
    sockets: Vec<(RawFd, Address)>,
}

impl KeptSocket {
    /// The variable that names the sockets which a program passes to the one that takes its place.
    pub const VARIABLE: &str = "DUMBWAITER_SOCKETS";

    /// The sockets that the program before this one in this process has passed. To be called once.
    ///
    /// # Errors
    /// The variable was not set by this project's program.
    pub fn received() -> Result<Vec<KeptSocket>, Error> {
        let Ok(text) = std::env::var(KeptSocket::VARIABLE) else { return Ok(Vec::new()) };
        let refuse = |what: &str| Error::Settings(format!("{}={text}: {what}; unset it", KeptSocket::VARIABLE));
        let passed: Passed = serde_json::from_str(&text).map_err(|e| refuse(&e.to_string()))?;
        // A child of a server has the variable too, and not the sockets.
        if passed.pid != std::process::id() {
            return Ok(Vec::new());
        }
        let one = |(number, address): (RawFd, Address)| {
            let socket = take(number).filter(|socket| listens_at(socket, &address));
            socket.map(|socket| KeptSocket { address, socket }).ok_or_else(|| refuse("a socket is not what it says"))
        };
        passed.sockets.into_iter().map(one).collect()
    }

    /// Lets these pass to the program that takes this one's place, and says what [`KeptSocket::VARIABLE`] must be for it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn pass(sockets: &[KeptSocket]) -> Result<String, Error> {
        KeptSocket::set_flags(sockets, FdFlags::empty())?;
        let own = sockets.iter().filter(|kept| !matches!(kept.address, Address::Passed(_)));
        let sockets = own.map(|kept| (kept.socket.as_raw_fd(), kept.address.clone())).collect();
        let passed = Passed { pid: std::process::id(), sockets };
        serde_json::to_string(&passed).map_err(|e| Error::Settings(e.to_string()))
    }

    /// Takes [`KeptSocket::pass`] back: no program has taken this one's place.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn hold(sockets: &[KeptSocket]) -> Result<(), Error> {
        KeptSocket::set_flags(sockets, FdFlags::CLOEXEC)
    }

    fn set_flags(sockets: &[KeptSocket], flags: FdFlags) -> Result<(), Error> {
        let failed = |e: rustix::io::Errno| Error::Io { what: "cannot pass a socket".into(), source: e.into() };
        sockets.iter().try_for_each(|kept| fcntl_setfd(&kept.socket, flags).map_err(failed))
    }

    /// Closes them, and removes their files.
    pub fn close(sockets: Vec<KeptSocket>) {
        for kept in sockets {
            if let Address::Unix(path) = &kept.address {
                // It may have been removed by hand.
                let _ = dumbwaiter_text::remove(path);
            }
        }
    }

    /// The socket for this address, if it is one of these.
    pub(crate) fn take(kept: &mut Vec<KeptSocket>, wanted: impl Fn(&Address) -> bool) -> Option<OwnedFd> {
        let at = kept.iter().position(|kept| wanted(&kept.address))?;
        Some(kept.swap_remove(at).socket)
    }
}

/// A descriptor of this number, if it is open; from now on no program that this one starts has it.
#[allow(unsafe_code)]
fn take(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: the descriptor is only asked for its flags, and an error says that there is none.
    let there = number > 2 && fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).is_ok();
    // SAFETY: the program before this one has opened it for this one, and nothing else of this process knows it.
    let socket = there.then(|| unsafe { OwnedFd::from_raw_fd(number) })?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC).ok().map(|()| socket)
}

/// Is this a socket that listens at this address?
fn listens_at(socket: &OwnedFd, address: &Address) -> bool {
    let listening = rustix::net::sockopt::socket_acceptconn(socket) == Ok(true);
    let Ok(socket) = socket.try_clone() else { return false };
    listening
        && match address {
            Address::Unix(path) => {
                let at = UnixListener::from(socket).local_addr();
                // The path by which it was made may be another one to the same folder.
                at.is_ok_and(|at| at.as_pathname().is_some_and(|at| at.file_name() == path.file_name()))
            }
            Address::Tcp(address) => TcpListener::from(socket).local_addr().is_ok_and(|at| at == *address),
            Address::Passed(_) => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_listening_socket_of_the_address_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let unix: OwnedFd = UnixListener::bind(&path).unwrap().into();
        assert!(listens_at(&unix, &Address::Unix(path.clone())));
        assert!(!listens_at(&unix, &Address::Unix(folder.path().join("b.sock"))));
        let file: OwnedFd = std::fs::File::open(folder.path()).unwrap().into();
        assert!(!listens_at(&file, &Address::Unix(path.clone())));
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        let mut kept = vec![
            KeptSocket { address: Address::Unix(path.clone()), socket: unix },
            KeptSocket { address: Address::Tcp(address), socket: tcp.into() },
        ];
        let variable = KeptSocket::pass(&kept).unwrap();
        assert!(variable.contains("a.sock") && variable.contains(&std::process::id().to_string()), "{variable}");
        assert!(KeptSocket::take(&mut kept, |at| *at == Address::Tcp(address)).is_some() && kept.len() == 1);
        assert!(KeptSocket::take(&mut kept, |at| *at == Address::Tcp(address)).is_none());
        assert!(take(1_000_000).is_none() && take(-1).is_none() && take(0).is_none());
    }
}
