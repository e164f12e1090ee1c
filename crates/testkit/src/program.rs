//! Child programs of tests, which wait for events and not for times.

use std::process::{Child, Command};
use std::time::Duration;

/// Waits until `seen` returns true. Panics if the program ends first.
pub fn wait_until(child: &mut Child, what: &str, mut seen: impl FnMut() -> bool) {
    while !seen() {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            panic!("{what}: it ended before that ({status})");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends SIGINT or SIGTERM once the program catches both; before, they would kill it silently.
pub fn interrupt(child: &mut Child, signal: &str) {
    const BOTH: u64 = 1 << (2 - 1) | 1 << (15 - 1);
    let pid = child.id();
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & BOTH == BOTH)
    };
    wait_until(child, "it catches signals", caught);
    let sent = Command::new("kill").args(["-s", signal, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{signal} is sent");
}
