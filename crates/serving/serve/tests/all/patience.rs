//! How long a test waits for a server. Time that threads of this process spend waiting for a CPU does not count: on a busy machine, or at a
//! low priority, a server may take long through no fault of its own.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Waited in all, whatever the machine gives.
const LONGEST: Duration = Duration::from_secs(600);

/// A wait of one client.
pub(crate) struct Patience {
    left: Duration,
    begun: Instant,
    last: Instant,
    waited: BTreeMap<String, u64>,
    starved: Duration,
}

impl Patience {
    /// So long, on a machine that has a CPU for every thread.
    pub(crate) fn new(length: Duration) -> Patience {
        let now = Instant::now();
        Patience { left: length, begun: now, last: now, waited: waited_for_cpu(), starved: Duration::ZERO }
    }

    /// Is it over?
    pub(crate) fn is_over(&mut self) -> bool {
        let (elapsed, now) = (self.last.elapsed(), waited_for_cpu());
        self.last = Instant::now();
        // The thread that waited longest may be the one that all others wait for.
        let most = now.iter().filter_map(|(thread, ns)| Some(ns - self.waited.get(thread)?)).max().unwrap_or(0);
        let starved = Duration::from_nanos(most).min(elapsed);
        self.waited = now;
        self.starved += starved;
        self.left = self.left.saturating_sub(elapsed - starved);
        self.left.is_zero() || self.begun.elapsed() > LONGEST
    }

    /// The message when it is over.
    pub(crate) fn report(&self) -> String {
        let (all, starved) = (self.begun.elapsed().as_secs(), self.starved.as_secs());
        let machine = if self.begun.elapsed() > LONGEST { ": the machine is starved" } else { "" };
        format!("after {all} s, {starved} s of which a thread waited for a CPU{machine}")
    }
}

/// For how long each thread of this process was ready to run and had no CPU, ns (`/proc/PID/task/TID/schedstat`).
fn waited_for_cpu() -> BTreeMap<String, u64> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waited = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let ns = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some((thread.file_name().into_string().ok()?, ns))
    });
    waited.collect()
}

#[test]
fn patience_ends_and_says_how_long_it_was() {
    let mut patience = Patience::new(Duration::from_millis(20));
    let begun = Instant::now();
    while !patience.is_over() {
        std::thread::sleep(Duration::from_millis(5));
        assert!(begun.elapsed() < LONGEST);
    }
    assert!(begun.elapsed() >= Duration::from_millis(20));
    assert!(patience.report().starts_with("after "), "{}", patience.report());
}
