//! Constants of published machines. Measurements identify only sums of them.

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
    /// Interrupt handler where no thread has to be woken.
    pub irq_warm: u64,
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
    /// Reading a completion from a ring, without a system call.
    pub reap: u64,
    /// Caches and predictors that cool while a thread is away.
    pub cooling: Cooling,
    /// A scheduler's code with cold caches, in percent of the warm cost, by the time for which the CPU idled, ns.
    pub cold_hooks: &'static [(u64, u64)],
    /// Segments last so much more or less, in percent, at random.
    pub vary_percent: u64,
    /// The lock of schedulers that have one for the device.
    pub lock: LockCost,
    /// Schedulers' costs are so many percent of those given.
    pub scale_percent: u64,
    /// Schedulers' costs on this machine.
    pub schedulers: &'static [(&'static str, SchedulerCost)],
    /// Two threads share a core, from so many CPUs on; never if 0.
    pub smt_from: u16,
    /// Clock at which the costs were measured, MHz.
    pub mhz: u32,
    /// How its kernel shares a CPU.
    pub cpu_scheduler: CpuScheduler,
}

/// Linux's schedulers of CPUs, as far as they differ here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuScheduler {
    /// Until 6.5: a thread that is woken takes the CPU from one that has used more of it by a granularity.
    Cfs,
    /// From 6.6 on: a thread keeps the CPU for a slice.
    Eevdf,
}

impl Profile {
    /// The same machine at another clock. What is not work of its CPUs stays: interrupt messages, and the transfers between cores.
    pub fn at(&self, mhz: u32) -> Profile {
        let scaled = |ns: u64| ns * u64::from(self.mhz) / u64::from(mhz.max(1));
        let c = self.cooling;
        Profile {
            u_out: scaled(self.u_out),
            sub: scaled(self.sub),
            sub_per_kib: scaled(self.sub_per_kib),
            syscall: scaled(self.syscall),
            issue: scaled(self.issue),
            cpl: scaled(self.cpl),
            cpl_warm: scaled(self.cpl_warm),
            idle_exit: scaled(self.idle_exit),
            irq: scaled(self.irq),
            irq_warm: scaled(self.irq_warm),
            switch_out: scaled(self.switch_out),
            switch_in: scaled(self.switch_in),
            cold: scaled(self.cold),
            poll_gap: scaled(self.poll_gap),
            cold_hybrid: scaled(self.cold_hybrid),
            timer: scaled(self.timer),
            timer_irq: scaled(self.timer_irq),
            sqpoll: self.sqpoll.map(scaled),
            reap: scaled(self.reap),
            cooling: Cooling {
                base: scaled(c.base),
                growth: scaled(c.growth),
                idle_base: scaled(c.idle_base),
                idle_growth: scaled(c.idle_growth),
                others: scaled(c.others),
                ..c
            },
            scale_percent: scaled(100),
            mhz,
            ..self.clone()
        }
    }
}

/// What a thread's next turn costs more after it was away: `base + growth * (1 - exp(-t / tau))` by the time for which it was away,
/// and the same of the CPU's idle time; and for each doubling of the time for which others ran beyond `others_from`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cooling {
    /// Of a thread that slept.
    pub base: u64,
    /// Of one that slept long.
    pub growth: u64,
    /// Of a CPU that left the idle state.
    pub idle_base: u64,
    /// Of one that idled long.
    pub idle_growth: u64,
    /// The time in which two thirds of it come, ns.
    pub tau: u64,
    /// For each doubling of the time for which other threads ran.
    pub others: u64,
    /// From this time on, ns.
    pub others_from: u64,
}

/// `1 - exp(-x / 8)` in thousandths, for x from 0 to 40.
const COOLED: [u64; 41] = [
    0, 118, 221, 313, 393, 465, 528, 583, 632, 675, 713, 747, 777, 803, 826, 847, 865, 881, 895, 907, 918, 928, 936,
    944, 950, 956, 961, 966, 970, 973, 976, 979, 982, 984, 986, 987, 989, 990, 991, 992, 993,
];

impl Cooling {
    fn grown(&self, growth: u64, time: u64) -> u64 {
        if growth == 0 || self.tau == 0 {
            return 0;
        }
        let (place, rest) = (8 * time / self.tau, 8 * time % self.tau);
        let at = |place: u64| COOLED.get(place as usize).copied().unwrap_or(1000);
        let part = at(place) * 1000 + (at(place + 1) - at(place)) * 1000 * rest / self.tau;
        growth * part / 1_000_000
    }

    /// Of a thread that was away for `away` ns, `others` of them while other threads ran.
    pub fn of_thread(&self, away: u64, others: u64) -> u64 {
        let mut cost = self.base + self.grown(self.growth, away);
        if self.others > 0 && others > self.others_from {
            let (whole, start) = (others / self.others_from.max(1), self.others_from.max(1));
            let doublings = u64::from(whole.max(1).ilog2());
            // Straight between powers of two.
            let below = start << doublings.min(40);
            cost += self.others * doublings + self.others * (others - below) / below;
        }
        cost
    }

    /// Of a CPU that idled.
    pub fn of_cpu(&self, idle: u64) -> u64 {
        self.idle_base + self.grown(self.idle_growth, idle)
    }
}

/// What a hand-over of the scheduler's lock between CPUs costs, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCost {
    /// A hold is so much longer where other CPUs held the lock before: what it protects is in their caches.
    pub remote: u64,
    /// After a wait, if nobody waits behind.
    pub waited: u64,
    /// After a wait, if others wait behind.
    pub in_line: u64,
}

/// How often, and for how long, a scheduler takes its lock for an I/O, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockUse {
    /// For an I/O that completed.
    pub finish: u64,
    /// To look for a request that the I/O may join.
    pub merge: u64,
    /// To look for the limit of its task.
    pub limit: u64,
    /// To insert: once for each request, or for all of a call.
    pub insert: u64,
    pub(crate) insert_each: bool,
    /// To choose the next request.
    pub dispatch: u64,
    /// Another lock, that of the disk's queue: how often for an I/O, and for how long each time.
    pub side: (u64, u64),
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
    irq_warm: 400,
    switch_out: 450,
    switch_in: 800,
    cold: 180,
    smt_percent: 125,
    poll_gap: 100,
    cold_hybrid: 480,
    timer: 260,
    timer_irq: 500,
    sqpoll: [150, 800, 360, 100],
    reap: 0,
    cooling: Cooling { base: 0, growth: 0, idle_base: 0, idle_growth: 0, tau: 0, others: 0, others_from: 0 },
    cold_hooks: &[(0, 163)],
    vary_percent: 0,
    // One die: half of what a server's mesh takes [E].
    lock: LockCost { remote: 200, waited: 120, in_line: 70 },
    scale_percent: 100,
    schedulers: &[],
    smt_from: 4,
    mhz: 3400,
    cpu_scheduler: CpuScheduler::Cfs,
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
    irq_warm: 500,
    switch_out: 600,
    switch_in: 1150,
    cold: 420,
    smt_percent: 125,
    poll_gap: 100,
    cold_hybrid: 480,
    timer: 260,
    timer_irq: 600,
    sqpoll: [150, 800, 360, 100],
    reap: 0,
    cooling: Cooling { base: 0, growth: 0, idle_base: 0, idle_growth: 0, tau: 0, others: 0, others_from: 0 },
    cold_hooks: &[(0, 163)],
    vary_percent: 0,
    // One die: half of what a server's mesh takes [E].
    lock: LockCost { remote: 200, waited: 120, in_line: 70 },
    scale_percent: 100,
    schedulers: &[],
    smt_from: 4,
    mhz: 3400,
    cpu_scheduler: CpuScheduler::Cfs,
};

/// A server of 10 cores at 2.4 GHz without SMT, Linux 6.3.8, io_uring: the machine of the study of NVMe schedulers of 2024.
///
/// The parts of an I/O are fitted to its first figure, one process by block size and depth under `none`. What a sleep costs, the
/// schedulers' hooks, and the lock's constants are sums that the study's CPU times give: a sleep's is 1.3 us + 4.4 us *
/// (1 - exp(-idle / 30 us)); the lock's were fitted to two to five processes.
pub const ICPE24: Profile = Profile {
    name: "icpe24",
    u_out: 550,
    sub: 1080,
    sub_per_kib: 0,
    syscall: 450,
    issue: 630,
    cpl: 300,
    cpl_warm: 300,
    msi: 300,
    idle_exit: 0,
    irq: 600,
    irq_warm: 600,
    switch_out: 0,
    switch_in: 0,
    cold: 0,
    smt_percent: 100,
    poll_gap: 100,
    cold_hybrid: 700,
    timer: 400,
    timer_irq: 900,
    sqpoll: [230, 1200, 540, 150],
    reap: 150,
    cooling: Cooling {
        base: 900,
        growth: 2450,
        idle_base: 400,
        idle_growth: 1950,
        tau: 30_000,
        others: 570,
        others_from: 97_000,
    },
    cold_hooks: &[(10_000, 100), (20_000, 120), (33_000, 160), (60_000, 320)],
    vary_percent: 15,
    lock: LockCost { remote: 420, waited: 240, in_line: 140 },
    scale_percent: 100,
    schedulers: &[
        ("mq-deadline", SchedulerCost { read: 570, write: 710, lock: MQ_DEADLINE_LOCK }),
        ("kyber", SchedulerCost { read: 660, write: 750, lock: LockShape::NONE }),
        ("bfq", SchedulerCost { read: 1360, write: 1660, lock: BFQ_LOCK }),
    ],
    smt_from: 0,
    mhz: 2400,
    cpu_scheduler: CpuScheduler::Cfs,
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
    irq_warm: 0,
    switch_out: 0,
    switch_in: 0,
    cold: 0,
    smt_percent: 100,
    poll_gap: 0,
    cold_hybrid: 0,
    timer: 0,
    timer_irq: 0,
    sqpoll: [0; 4],
    reap: 0,
    cooling: Cooling { base: 0, growth: 0, idle_base: 0, idle_growth: 0, tau: 0, others: 0, others_from: 0 },
    cold_hooks: &[],
    vary_percent: 0,
    lock: LockCost { remote: 0, waited: 0, in_line: 0 },
    scale_percent: 100,
    schedulers: &[],
    smt_from: 4,
    mhz: 3400,
    cpu_scheduler: CpuScheduler::Cfs,
};

/// All profiles.
pub const PROFILES: [&Profile; 4] = [&R230_5_18, &R230_5_15, &ICPE24, &FREE];

/// How a scheduler's warm cost is spread over its lock, in thousandths: for each take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockShape {
    finish: u64,
    merge: u64,
    limit: u64,
    insert: u64,
    insert_each: bool,
    dispatch: u64,
    /// The queue's lock: how often for an I/O, and how long each time.
    side: (u64, u64),
}

impl LockShape {
    /// No lock of the device: one for each queue, or none.
    pub const NONE: LockShape =
        LockShape { finish: 0, merge: 0, limit: 0, insert: 0, insert_each: false, dispatch: 0, side: (0, 0) };

    /// Is there a lock?
    pub fn is_shared(&self) -> bool {
        self.dispatch > 0
    }

    /// The takes of a request whose hooks cost `hooks` ns.
    pub(crate) fn takes(&self, hooks: u64) -> LockUse {
        let of = |part: u64| hooks * part / 1000;
        LockUse {
            finish: of(self.finish),
            merge: of(self.merge),
            limit: of(self.limit),
            insert: of(self.insert),
            insert_each: self.insert_each,
            dispatch: of(self.dispatch),
            side: (self.side.0, of(self.side.1)),
        }
    }

    /// The part of a submission's cost that is not under the lock, in thousandths, if submission is `submit` of the cost.
    pub(crate) fn free(&self, submit: u64) -> u64 {
        submit.saturating_sub(self.merge + self.limit + self.insert + self.dispatch + self.side.0 * self.side.1)
    }
}

/// Three takes: merge, insert, dispatch. 0.33 us of 0.57 are under the lock.
const MQ_DEADLINE_LOCK: LockShape =
    LockShape { finish: 0, merge: 116, limit: 0, insert: 232, insert_each: false, dispatch: 232, side: (0, 0) };
/// Five takes: merge, limit, insert, dispatch, finish. 0.62 us of 1.36 are under the lock, and three times the queue's lock is taken.
const BFQ_LOCK: LockShape =
    LockShape { finish: 68, merge: 55, limit: 37, insert: 160, insert_each: true, dispatch: 137, side: (3, 29) };
/// Everything under the queue's one lock, as in the single-queue layer.
const WHOLE_LOCK: LockShape =
    LockShape { finish: 150, merge: 150, limit: 0, insert: 350, insert_each: true, dispatch: 350, side: (0, 0) };

/// Cost of a scheduler's hooks per request with warm caches, ns: insert, dispatch and completion together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerCost {
    /// A read.
    pub read: u64,
    /// Anything else.
    pub write: u64,
    /// What of it is under the device's lock.
    pub lock: LockShape,
}

/// Cost of a scheduler on a machine: fitted to published latencies for the kernel's schedulers, estimates for the others.
pub fn scheduler_cost(profile: &Profile, name: &str) -> SchedulerCost {
    let scaled = |ns: u64| ns * profile.scale_percent / 100;
    if let Some((_, cost)) = profile.schedulers.iter().find(|(known, _)| *known == name) {
        return SchedulerCost { read: scaled(cost.read), write: scaled(cost.write), lock: cost.lock };
    }
    let (read, write, lock) = match name {
        "none" => (0, 0, LockShape::NONE),
        "mq-deadline" => (520, 650, MQ_DEADLINE_LOCK),
        "kyber" => (530, 600, LockShape::NONE),
        "bfq" => (1570, 1920, BFQ_LOCK),
        "noop" => (300, 300, WHOLE_LOCK),
        // Sorted structures under one lock, as mq-deadline's.
        _ => (520, 650, MQ_DEADLINE_LOCK),
    };
    SchedulerCost { read: scaled(read), write: scaled(write), lock }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sleep costs 1.3 us and up to 4.4 us more by the CPU's idle time: the sum that the study's CPU times give.
    #[test]
    fn a_sleep_costs_what_the_law_says() {
        for idle_us in [0, 5, 10, 20, 33, 61, 200] {
            let (idle, c) = (idle_us * 1000, ICPE24.cooling);
            let law = 1300.0 + 4400.0 * (1.0 - (-(idle_us as f64) / 30.0).exp());
            let cost = (c.of_thread(idle, 0) + c.of_cpu(idle)) as f64;
            assert!((cost - law).abs() < 60.0, "{idle_us} us: {cost}, by the law {law}");
        }
        let more = ICPE24.cooling.of_thread(2_000_000, 97_000 * 16) - ICPE24.cooling.of_thread(2_000_000, 97_000);
        assert_eq!(more, 4 * 570);
    }
}
