//! Many connections of one tenant, driven by one thread.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dumbwaiter_protocols::nbd::socket::{Address, NbdClient};
use dumbwaiter_protocols::nbd::{Command, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::patience::Patience;

/// Reads 4 KiB blocks over `connections`, `depth` at a time on each, until `stop`; counts answers.
pub(crate) fn read_over(
    socket: &Path,
    export: &str,
    connections: usize,
    depth: u64,
    stop: &AtomicBool,
    done: &AtomicU64,
) {
    let address = Address::Unix(socket.to_owned());
    let mut clients: Vec<NbdClient> = (0..connections).map(|_| NbdClient::connect(&address, export).unwrap()).collect();
    let blocks = clients[0].offer().size / 4096;
    let mut at = 0u64;
    let mut read = |client: &mut NbdClient, cookie: u64| {
        at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let offset = (at >> 8) % blocks * 4096;
        client.ask(&Request { flags: 0, command: Command::Read, cookie, offset, length: 4096 }, &[]);
    };
    for client in &mut clients {
        client.set_nonblocking().unwrap();
        (0..depth).for_each(|cookie| read(client, cookie));
        client.send().unwrap();
    }
    let mut answered = Vec::new();
    let mut left = connections as u64 * depth;
    let mut patience = None;
    while left > 0 {
        let mut all: Vec<PollFd<'_>> =
            clients.iter().map(|client| PollFd::from_borrowed_fd(client.as_fd(), PollFlags::IN)).collect();
        let look = Timespec { tv_sec: 1, tv_nsec: 0 };
        if poll(&mut all, Some(&look)).unwrap_or(1) == 0 {
            let patience = patience.get_or_insert_with(|| Patience::new(Duration::from_secs(20)));
            assert!(!patience.is_over(), "no answer {}", patience.report());
            continue;
        }
        patience = None;
        let ready: Vec<bool> = all.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (client, _) in clients.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            client.receive(|_| 0, &mut answered).unwrap();
            for answer in answered.drain(..) {
                assert_eq!(answer.error, 0);
                done.fetch_add(1, Ordering::Relaxed);
                match stop.load(Ordering::Relaxed) {
                    true => left -= 1,
                    false => read(client, answer.cookie),
                }
            }
            client.send().unwrap();
        }
    }
}

/// Memory of this process, bytes.
pub(crate) fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Open descriptors of this process.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A number from the environment; tests are short without it.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: no number")))
}

/// Descriptors and memory are of the whole process: such a test runs in one of its own. `true` in that; elsewhere it runs the test there, and
/// fails if that does.
pub(crate) fn is_alone(test: &str) -> bool {
    const ALONE: &str = "DUMBWAITER_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let ended =
        std::process::Command::new(program).args([test, "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
    print!("{}", String::from_utf8_lossy(&ended.stdout));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    false
}
