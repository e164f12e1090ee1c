//! Energy of a run by the power model of the machine, and its memory operations.

use std::collections::BTreeMap;

use dumbwaiter_block::Nanos;
use dumbwaiter_devices::{Counters, DeviceModel};
use dumbwaiter_measure::{DevicePower, DeviceTimes, HostPower, HostTimes, R230};

use dumbwaiter_scenario::HostCosts;

use crate::host::{Activity, Spent};
use crate::run::RunOutput;

/// The power model of a profile's machine, if known for `cpus` logical CPUs.
fn host_power(profile: &HostCosts, cpus: u16) -> Option<&'static HostPower> {
    let known = profile.power.as_deref() == Some("r230");
    (known && usize::from(cpus) <= R230.cpus).then_some(&R230)
}

/// Energy over the measured time, J, and its source; `None` if the constants of machine or device are unknown.
pub(crate) fn joules(
    profile: &HostCosts,
    model: &DeviceModel,
    cpus: u16,
    outcome: &RunOutput,
    warmup: Nanos,
) -> Option<(f64, String)> {
    let host = host_power(profile, cpus)?;
    let device = DevicePower::of(model.name().split('?').next().unwrap_or_default())?;
    let activity = &outcome.measured.activity;
    let span = outcome.end.since(warmup);
    if span == Nanos::ZERO {
        return None;
    }
    let seconds = |ns: u64| Nanos(ns).as_secs_f64();
    let times = HostTimes {
        span_s: span.as_secs_f64(),
        awake_s: seconds(activity.awake),
        pairs_s: activity.pairs.map(seconds),
        switches: activity.switches as f64,
        interrupts: (activity.interrupts + activity.timers) as f64,
        wakes: activity.wakes as f64,
    };
    // The dies of a flash drive work in parallel, so its link measures its busy time. Both may be reserved beyond the
    // end.
    let of_drive = |counters: &Counters| {
        let busy = if model.facts().rotational { counters.media_busy } else { counters.link_busy };
        device.joules(&DeviceTimes {
            busy_s: busy.min(span).as_secs_f64(),
            commands: (counters.reads + counters.writes + counters.flushes + counters.discards) as f64,
            read_bytes: counters.read_bytes as f64,
            write_bytes: counters.write_bytes as f64,
        })
    };
    let drives: f64 = outcome.measured.counters.iter().map(of_drive).sum();
    Some((host.joules(&times) + drives, format!("model {}", host.name)))
}

/// Loads and stores of a part of the kernel: per I/O, per polled I/O, per µs of polling, per context switch and per
/// timer.
struct MemoryUse {
    part: &'static str,
    io: f64,
    polled: f64,
    poll_us: f64,
    switch: f64,
    timer: f64,
}

/// Fitted to the table of memory operations of the polling and energy paper (2022, Table 2: 32 threads of 4 KB reads).
const MEMORY: [MemoryUse; 5] = [
    MemoryUse { part: "block", io: 671.0, polled: 200.0, poll_us: 31.5, switch: 0.0, timer: 0.0 },
    MemoryUse { part: "nvme", io: 88.7, polled: 0.0, poll_us: 22.4, switch: 0.0, timer: 0.0 },
    MemoryUse { part: "sched", io: 71.0, polled: 0.0, poll_us: 0.0, switch: 970.0, timer: 300.0 },
    MemoryUse { part: "time", io: 38.0, polled: 0.0, poll_us: 0.0, switch: 68.0, timer: 170.0 },
    MemoryUse { part: "other", io: 2802.0, polled: 500.0, poll_us: 38.0, switch: 0.0, timer: 0.0 },
];

/// Counters of the host over the measured time.
pub(crate) fn host_counters(a: &Activity, spent: &Spent) -> BTreeMap<String, f64> {
    let mut counters = BTreeMap::from([
        ("switches".to_owned(), a.switches as f64),
        ("interrupts".to_owned(), a.interrupts as f64),
        ("timer_interrupts".to_owned(), a.timers as f64),
        ("idle_exits".to_owned(), a.wakes as f64),
        ("work_s".to_owned(), Nanos(a.work).as_secs_f64()),
        ("poll_s".to_owned(), Nanos(a.poll).as_secs_f64()),
        ("lock_wait_s".to_owned(), Nanos(spent.lock_wait).as_secs_f64()),
        ("lock_takes".to_owned(), spent.lock_takes as f64),
    ]);
    let poll_us = Nanos(a.poll).as_us_f64();
    for m in &MEMORY {
        let operations = a.ios as f64 * m.io
            + a.polled as f64 * m.polled
            + poll_us * m.poll_us
            + a.switches as f64 * m.switch
            + a.timers as f64 * m.timer;
        counters.insert(format!("memory_{}", m.part), operations);
    }
    counters
}
