//! Constants of two published machines. Measurements identify only sums of them.

/// Segments of the I/O path, in nanoseconds of CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Application time between I/Os, outside the measured latency.
    pub u_out: u64,
    /// System call, file system or io_uring, bio, driver, doorbell: one I/O of a thread that slept before.
    pub sub: u64,
    /// Extra cost per KiB of the I/O.
    pub sub_per_kib: u64,
    /// System call alone, and one more I/O in the same call: a thread that did not sleep.
    pub syscall: u64,
    /// One more I/O in a batch.
    pub issue: u64,
    /// Block layer and driver completion, return to the application.
    pub cpl: u64,
    /// Completion cost of each further I/O of a batch, or of a thread that did not sleep.
    pub cpl_warm: u64,
    /// Time from the device's interrupt message to the first instruction of the handler. Not CPU time.
    pub msi: u64,
    /// Exit from an idle state.
    pub idle_exit: u64,
    /// Interrupt handler and wake-up.
    pub irq: u64,
    /// Context switch out; hidden behind the device at depth 1.
    pub switch_out: u64,
    /// Context switch in.
    pub switch_in: u64,
    /// Cache refill on the completion path after a sleep.
    pub cold: u64,
    /// Slowdown of work with a busy SMT sibling, in percent.
    pub smt_percent: u64,
    /// Period of the poll loop; on average half of it passes before a completion is seen.
    pub poll_gap: u64,
    /// Cache refill after the sleep of hybrid polling.
    pub cold_hybrid: u64,
    /// Programming a timer.
    pub timer: u64,
    /// A timer's interrupt and wake-up.
    pub timer_irq: u64,
    /// Kernel submission polling: pick-up, issue, completion, and until the application sees the entry.
    pub sqpoll: [u64; 4],
}

/// Linux 5.15, `preadv2` on ext4 with O_DIRECT, Xeon E3-1230 v5.
pub const R230_5_15: Profile = Profile {
    name: "r230-5.15",
    u_out: 240,
    sub: 970,
    sub_per_kib: 10,
    syscall: 400,
    issue: 450,
    cpl: 620,
    cpl_warm: 450,
    msi: 300,
    idle_exit: 150,
    irq: 770,
    switch_out: 450,
    switch_in: 800,
    cold: 180,
    smt_percent: 125,
    poll_gap: 100,
    cold_hybrid: 480,
    timer: 260,
    timer_irq: 500,
    sqpoll: [150, 800, 360, 100],
};

/// Linux 5.18, io_uring, the same machine.
pub const R230_5_18: Profile = Profile {
    name: "r230-5.18",
    u_out: 250,
    sub: 1500,
    sub_per_kib: 0,
    syscall: 450,
    issue: 600,
    cpl: 1050,
    cpl_warm: 600,
    msi: 300,
    idle_exit: 650,
    irq: 1100,
    switch_out: 600,
    switch_in: 1150,
    cold: 420,
    smt_percent: 125,
    poll_gap: 100,
    cold_hybrid: 480,
    timer: 260,
    timer_irq: 600,
    sqpoll: [150, 800, 360, 100],
};

/// A host without cost, to study a device and a scheduler alone.
pub const FREE: Profile = Profile {
    name: "free",
    u_out: 0,
    sub: 0,
    sub_per_kib: 0,
    syscall: 0,
    issue: 0,
    cpl: 0,
    cpl_warm: 0,
    msi: 0,
    idle_exit: 0,
    irq: 0,
    switch_out: 0,
    switch_in: 0,
    cold: 0,
    smt_percent: 100,
    poll_gap: 0,
    cold_hybrid: 0,
    timer: 0,
    timer_irq: 0,
    sqpoll: [0; 4],
};

/// All profiles.
pub const PROFILES: [&Profile; 3] = [&R230_5_18, &R230_5_15, &FREE];

/// Cost of a scheduler's hooks per request with warm caches, ns: insert, dispatch and completion together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerCost {
    /// A read.
    pub read: u64,
    /// Anything else.
    pub write: u64,
    /// Fraction spent under one lock of the device, in percent; 0 with locks per queue.
    pub locked_percent: u64,
}

/// Cost of a scheduler: fitted to published latencies for the kernel's schedulers, estimates for the others.
pub fn scheduler_cost(name: &str) -> SchedulerCost {
    let (read, write, locked_percent) = match name {
        "none" => (0, 0, 0),
        "mq-deadline" => (520, 650, 80),
        "kyber" => (530, 600, 0),
        "bfq" => (1570, 1920, 100),
        "noop" => (300, 300, 100),
        // Sorted structures under one lock, as mq-deadline's.
        _ => (520, 650, 100),
    };
    SchedulerCost { read, write, locked_percent }
}
