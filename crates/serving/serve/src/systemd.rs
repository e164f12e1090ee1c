//! systemd: sockets that it passes, and notes about the state of the service.

use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::AddressFamily;

pub use dumbwaiter_linux::service::systemd::{notify, watchdog};

use crate::Error;
use crate::nbd::listener::Listener;

/// The first descriptor that systemd passes.
const FIRST: i32 = 3;

/// How many sockets were passed to this process, if any.
pub fn passed_sockets() -> usize {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    match (number("LISTEN_PID"), number("LISTEN_FDS")) {
        (Some(pid), Some(count)) if pid == std::process::id() => count as usize,
        _ => 0,
    }
}

/// Takes the sockets that were passed, with their numbers. To be called once.
#[allow(unsafe_code)]
pub(crate) fn take_sockets() -> Result<Vec<(RawFd, Listener)>, Error> {
    let count = passed_sockets() as i32;
    let take = |number: i32| {
        // SAFETY: systemd has opened this descriptor for us, and nothing else of this process knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        let failed =
            |e: rustix::io::Errno| Error::Io { what: format!("the socket passed as {number}"), source: e.into() };
        fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(failed)?;
        listener(socket).map(|listener| (number, listener)).map_err(failed)
    };
    (FIRST..FIRST + count).map(take).collect()
}

/// A listening socket of either kind.
pub(crate) fn listener(socket: OwnedFd) -> Result<Listener, rustix::io::Errno> {
    let address = rustix::net::getsockname(&socket)?;
    Ok(match address.address_family() {
        AddressFamily::UNIX => Listener::Unix(UnixListener::from(socket)),
        _ => Listener::Tcp(TcpListener::from(socket)),
    })
}
