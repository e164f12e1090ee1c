//! systemd: sockets that it passes, and notes about the state of the service.

use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::AddressFamily;

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

/// Tells systemd, if it wants to know: `READY=1`, `STOPPING=1`, `WATCHDOG=1`, `STATUS=...`. Failing to do so hurts nobody.
pub fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let Ok(socket) = UnixDatagram::unbound() else { return };
    let text = path.to_string_lossy();
    let _ = match text.strip_prefix('@') {
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            std::os::unix::net::SocketAddr::from_abstract_name(name)
                .and_then(|address| socket.send_to_addr(state.as_bytes(), &address))
        }
        None => socket.send_to(state.as_bytes(), &path),
    };
}

/// How often systemd wants to hear from a healthy service: half of `WATCHDOG_USEC`.
pub fn watchdog() -> Option<std::time::Duration> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|us| ours && *us > 0).map(|us| std::time::Duration::from_micros(us / 2))
}
