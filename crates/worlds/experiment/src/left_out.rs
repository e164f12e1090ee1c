//! How much of a trace a comparison leaves out: said first, and refused where it is much.

use dumbwaiter_block::SECTOR_BYTES;
use dumbwaiter_measure::grouped;
use dumbwaiter_scenario::load::{LeftOut, Prepared};
use dumbwaiter_scenario::{Scenario, Task, Work};

use crate::{About, Control, Failure, World};

/// Share of a trace that may be left out unasked.
const LEFT_OUT_SHARE_MAX: f64 = 0.01;

/// Remarks on the records that the runs leave out, for the head of the result. An error where more than 1 % of a trace is
/// left out and the scenario does not ask for that, or where a device that cannot grow should.
pub(crate) fn check(
    load: &Prepared,
    world: &dyn World,
    about: &About,
    control: &Control,
) -> Result<Vec<String>, Failure> {
    if about.real && load.grown_sectors().is_some() {
        return Err(Failure::refused("--fit grow: a real device cannot grow; expected scale, wrap or truncate"));
    }
    let own: Vec<String> = about.device.iter().cloned().collect();
    let devices = if own.is_empty() { &load.scenario().devices } else { &own };
    let mut notes = Vec::new();
    for device in devices {
        let Some(of_one) = world.capacity_sectors(device) else { continue };
        notes.extend(cut(load.scenario(), device, of_one));
        let capacity = of_one.saturating_mul(u64::from(load.scenario().drives));
        for left_out in load.left_out(capacity, &|| control.cancelled())? {
            let what = description(&left_out, device, capacity);
            if left_out.share() > LEFT_OUT_SHARE_MAX && !left_out.asked_for {
                return Err(Failure::refused(format!("{what}; {}", advice(&left_out, about.real))));
            }
            notes.push(what);
        }
    }
    Ok(notes)
}

/// Remarks on jobs of fio that need more than the device: their I/O stays inside.
fn cut(scenario: &Scenario, device: &str, of_one_sectors: u64) -> Vec<String> {
    let all_sectors = of_one_sectors.saturating_mul(u64::from(scenario.drives));
    let gib = |sectors: u64| sectors as f64 / f64::from(2 << 20);
    let beyond = |(_, task): (_, &Task)| match &task.work {
        Work::Job(job) => {
            let sectors = if job.drive.is_some() { of_one_sectors } else { all_sectors };
            job.cut_at(sectors * SECTOR_BYTES, task.count).map(|bytes| (task.name.clone(), bytes, sectors))
        }
        _ => None,
    };
    let text = |(name, bytes, sectors): (String, u64, u64)| {
        let (end, room) = (gib(bytes / SECTOR_BYTES), gib(sectors));
        format!(
            "job {name:?} reaches to {end:.1} GiB, {device} has {room:.1} GiB: its I/O stays on the device, that of what begins \
             beyond its end from the beginning on"
        )
    };
    scenario.tasks().filter_map(beyond).map(text).collect()
}

/// Such as `t.csv: 6,945 of 6,999 records (99.2 %) are left out on ull:optane-900p: 6,945 lie beyond its end (260 GiB)`.
fn description(left_out: &LeftOut, device: &str, capacity_sectors: u64) -> String {
    let mut reasons = Vec::new();
    if left_out.beyond > 0 {
        let gib = capacity_sectors as f64 / f64::from(2 << 20);
        reasons.push(format!("{} lie beyond its end ({gib:.1} GiB)", grouped(left_out.beyond)));
    }
    reasons.extend(left_out.unusable.iter().map(|s| format!("{}: {}", s.reason, grouped(s.count))));
    let example = left_out.example.as_ref().map_or(String::new(), |line| format!("; {line}"));
    format!(
        "{}: {} of {} records ({}) are left out on {device}: {}{example}",
        left_out.trace,
        grouped(left_out.count()),
        grouped(left_out.records),
        percent(left_out.share()),
        reasons.join(", ")
    )
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p < 0.1 => format!("{p:.3} %"),
        p => format!("{p:.1} %"),
    }
}

fn advice(left_out: &LeftOut, real: bool) -> &'static str {
    match (left_out.beyond > 0, real) {
        (true, false) => {
            "say how to handle them with --fit scale|wrap|truncate|grow: scale keeps the distances in proportion, grow \
             makes the device larger, truncate leaves them out"
        }
        (true, true) => {
            "say how to handle them with --fit scale|wrap|truncate: scale keeps the distances in proportion, truncate \
             leaves them out"
        }
        (false, _) => {
            "check --format and --columns, or replay the rest with --fit truncate (--fit scale|wrap|grow do as well)"
        }
    }
}
