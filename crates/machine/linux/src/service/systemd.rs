//! Notes to systemd about the state of the service.

use std::os::unix::net::UnixDatagram;

/// Sends a state to systemd, if it asked for one: `READY=1`, `STOPPING=1`, `WATCHDOG=1`, `STATUS=...`. A failure is ignored.
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
