//! systemd: sockets that it passes, and notes about the state of the service.

use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd};
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

/// Takes the sockets that were passed. To be called once.
#[allow(unsafe_code)]
pub(crate) fn take_sockets() -> Result<Vec<Listener>, Error> {
    let count = passed_sockets() as i32;
    let take = |number: i32| {
        // SAFETY: systemd has opened this descriptor for us, and nothing else of this process knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        let failed =
            |e: rustix::io::Errno| Error::Io { what: format!("the socket passed as {number}"), source: e.into() };
        fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(failed)?;
        let address = rustix::net::getsockname(&socket).map_err(failed)?;
        Ok(match address.address_family() {
            AddressFamily::UNIX => Listener::Unix(UnixListener::from(socket)),
            _ => Listener::Tcp(TcpListener::from(socket)),
        })
    };
    (FIRST..FIRST + count).map(take).collect()
}
