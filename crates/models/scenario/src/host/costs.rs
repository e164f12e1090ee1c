//! What an I/O costs a machine's CPUs. Measurements identify only sums of these.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Segments of the I/O path in nanoseconds of CPU time, as a profile's file has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCosts {
    /// Its name.
    pub name: String,
    /// Clock at which the costs were measured, MHz.
    pub mhz: u32,
    /// Application time between I/Os, outside the measured latency.
    #[serde(rename = "u_out_ns")]
    pub u_out: u64,
    /// System call, file system or io_uring, bio, driver, doorbell: one I/O of a thread that slept before.
    #[serde(rename = "sub_ns")]
    pub sub: u64,
    /// Extra cost per KiB of the I/O.
    #[serde(rename = "sub_per_kib_ns")]
    pub sub_per_kib: u64,
    /// Extra cost of any I/O for each KiB beyond the first 4: pages that are mapped and listed for the driver.
    #[serde(rename = "further_per_kib_ns", default)]
    pub further_per_kib: u64,
    /// Extra cost of an I/O to another drive than the one before on this CPU, whose queues are not in the cache.
    #[serde(rename = "other_drive_ns", default)]
    pub other_drive: u64,
    /// System call alone, and one more I/O in the same call: a thread that did not sleep.
    #[serde(rename = "syscall_ns")]
    pub syscall: u64,
    /// One more I/O in a batch.
    #[serde(rename = "issue_ns")]
    pub issue: u64,
    /// Block layer and driver completion, return to the application.
    #[serde(rename = "cpl_ns")]
    pub cpl: u64,
    /// Completion cost of each further I/O of a batch, or of a thread that did not sleep.
    #[serde(rename = "cpl_warm_ns")]
    pub cpl_warm: u64,
    /// Time from the device's interrupt message to the first instruction of the handler. Not CPU time.
    #[serde(rename = "msi_ns")]
    pub msi: u64,
    /// Exit from an idle state.
    #[serde(rename = "idle_exit_ns")]
    pub idle_exit: u64,
    /// Interrupt handler and wake-up.
    #[serde(rename = "irq_ns")]
    pub irq: u64,
    /// Interrupt handler where no thread has to be woken.
    #[serde(rename = "irq_warm_ns")]
    pub irq_warm: u64,
    /// Context switch out; hidden behind the device at depth 1.
    #[serde(rename = "switch_out_ns")]
    pub switch_out: u64,
    /// Context switch in.
    #[serde(rename = "switch_in_ns")]
    pub switch_in: u64,
    /// Cache refill on the completion path after a sleep.
    #[serde(rename = "cold_ns")]
    pub cold: u64,
    /// Slowdown of work with a busy SMT sibling, in percent.
    pub smt_percent: u64,
    /// Two threads share a core, from so many CPUs on; never if 0.
    pub smt_from_cpus: u16,
    /// Period of the poll loop; on average half of it passes before a completion is seen.
    #[serde(rename = "poll_gap_ns")]
    pub poll_gap: u64,
    /// Cache refill after the sleep of hybrid polling.
    #[serde(rename = "cold_hybrid_ns")]
    pub cold_hybrid: u64,
    /// Programming a timer.
    #[serde(rename = "timer_ns")]
    pub timer: u64,
    /// A timer's interrupt and wake-up.
    #[serde(rename = "timer_irq_ns")]
    pub timer_irq: u64,
    /// Kernel submission polling: pick-up, issue, completion, and until the application sees the entry.
    #[serde(rename = "sqpoll_ns")]
    pub sqpoll: [u64; 4],
    /// Reading a completion from a ring, without a system call.
    #[serde(rename = "reap_ns")]
    pub reap: u64,
    /// Segments last so much more or less, in percent, at random.
    pub vary_percent: u64,
    /// A scheduler's code with cold caches: for how long the CPU idled, ns, and percent of the warm cost; straight in between.
    pub cold_hooks_ns_percent: Vec<(u64, u64)>,
    /// Schedulers' costs are so many percent of those given; 0: schedulers cost nothing and have no lock.
    pub schedulers_percent: u64,
    /// How its kernel shares a CPU.
    pub cpu_scheduler: CpuScheduler,
    /// The release of its kernel, such as 6.3; schedulers that differ by release are of this one. None: they are of the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The machine whose power model gives its energy; none: energy is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<String>,
    /// Caches and predictors that cool while a thread is away.
    pub cooling: Cooling,
    /// The lock of schedulers that have one for the device.
    pub lock: LockCost,
    /// Schedulers' costs on this machine; others have those of the first machine that they were measured on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub schedulers: BTreeMap<String, SchedulerNs>,
}

/// Cost of a scheduler's hooks for a request with warm caches: insert, dispatch and completion together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerNs {
    /// A read.
    #[serde(rename = "read_ns")]
    pub read: u64,
    /// Anything else.
    #[serde(rename = "write_ns")]
    pub write: u64,
}

/// Linux's schedulers of CPUs, as far as they differ here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuScheduler {
    /// Until 6.5: a thread that is woken takes the CPU from one that has used more of it by a granularity.
    Cfs,
    /// From 6.6 on: a thread keeps the CPU for a slice.
    Eevdf,
}

/// What a hand-over of the scheduler's lock between CPUs costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockCost {
    /// A hold is so much longer where other CPUs held the lock before: what it protects is in their caches.
    #[serde(rename = "remote_ns")]
    pub remote: u64,
    /// After a wait, if nobody waits behind.
    #[serde(rename = "waited_ns")]
    pub waited: u64,
    /// After a wait, if others wait behind.
    #[serde(rename = "in_line_ns")]
    pub in_line: u64,
}

/// What a thread's next turn costs more after it was away: `base + growth * (1 - exp(-t / tau))` by the time for which it was away,
/// and the same of the CPU's idle time; and for each doubling of the time for which others ran beyond `others_from`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cooling {
    /// Of a thread that slept.
    #[serde(rename = "base_ns")]
    pub base: u64,
    /// Of one that slept long.
    #[serde(rename = "growth_ns")]
    pub growth: u64,
    /// Of a CPU that left the idle state.
    #[serde(rename = "idle_base_ns")]
    pub idle_base: u64,
    /// Of one that idled long.
    #[serde(rename = "idle_growth_ns")]
    pub idle_growth: u64,
    /// The time in which two thirds of it come.
    #[serde(rename = "tau_ns")]
    pub tau: u64,
    /// For each doubling of the time for which other threads ran.
    #[serde(rename = "others_ns")]
    pub others: u64,
    /// From this time on.
    #[serde(rename = "others_from_ns")]
    pub others_from: u64,
}

impl HostCosts {
    /// The profile as a file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a profile is a table of numbers and words")
    }

    /// The same machine at another clock. What is not work of its CPUs stays: interrupt messages, and the transfers between cores.
    pub fn at(&self, mhz: u32) -> HostCosts {
        let percent = |ns: u64| ns * u64::from(self.mhz) / u64::from(mhz.max(1));
        let mut costs = self.clone();
        costs.each_of_work(percent);
        costs.each_of_sleep(percent);
        HostCosts { schedulers_percent: percent(self.schedulers_percent), mhz, ..costs }
    }

    /// The same machine with these percentages of its work, of what its sleeps cost, and of what its locks cost.
    pub fn in_parts(&self, work: u64, sleep: u64, lock: u64) -> HostCosts {
        let mut costs = self.clone();
        costs.each_of_work(|ns| ns * work / 100);
        costs.each_of_sleep(|ns| ns * sleep / 100);
        let LockCost { remote, waited, in_line } = &mut costs.lock;
        for ns in [remote, waited, in_line] {
            *ns = *ns * lock / 100;
        }
        costs
    }

    /// Changes each segment of work.
    fn each_of_work(&mut self, change: impl Fn(u64) -> u64) {
        let HostCosts { u_out, sub, sub_per_kib, further_per_kib, other_drive, .. } = self;
        for ns in [u_out, sub, sub_per_kib, further_per_kib, other_drive] {
            *ns = change(*ns);
        }
        let HostCosts { syscall, issue, cpl, cpl_warm, irq, irq_warm, .. } = self;
        for ns in [syscall, issue, cpl, cpl_warm, irq, irq_warm] {
            *ns = change(*ns);
        }
        let HostCosts { poll_gap, timer, timer_irq, sqpoll, reap, .. } = self;
        for ns in [poll_gap, timer, timer_irq, reap].into_iter().chain(sqpoll) {
            *ns = change(*ns);
        }
    }

    /// Changes each segment that a sleep adds.
    fn each_of_sleep(&mut self, change: impl Fn(u64) -> u64) {
        let HostCosts { idle_exit, switch_out, switch_in, cold, cold_hybrid, cooling, .. } = self;
        let Cooling { base, growth, idle_base, idle_growth, others, .. } = cooling;
        for ns in [idle_exit, switch_out, switch_in, cold, cold_hybrid, base, growth, idle_base, idle_growth, others] {
            *ns = change(*ns);
        }
    }

    /// What a scheduler's hooks cost: fitted to published latencies for the kernel's schedulers, estimates for the others.
    pub fn scheduler(&self, name: &str) -> SchedulerNs {
        let (read, write) = match name {
            "none" => (0, 0),
            "kyber" => (530, 600),
            "bfq" => (1570, 1920),
            "noop" => (300, 300),
            // Sorted structures under one lock, as mq-deadline's.
            _ => (520, 650),
        };
        let SchedulerNs { read, write } = self.schedulers.get(name).copied().unwrap_or(SchedulerNs { read, write });
        let scaled = |ns: u64| ns * self.schedulers_percent / 100;
        SchedulerNs { read: scaled(read), write: scaled(write) }
    }
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
