//! A pilot's state as OpenMetrics text.

use dumbwaiter_linux::service::openmetrics::{Family, escape, head, sample};

use crate::decision::Decision;
use crate::device::Tally;
use crate::status::{DeviceStatus, Status};

type OfTally = fn(&Tally) -> u64;
type OfDecision = fn(&Decision) -> Option<f64>;

const COUNTERS: [(&str, &str, OfTally); 7] = [
    ("dumbwaiter_pilot_decisions", "Decisions.", |t| t.decisions),
    ("dumbwaiter_pilot_exchanges", "Exchanges of settings, trials included.", |t| t.exchanges),
    ("dumbwaiter_pilot_reverts", "Exchanges undone because of a loss.", |t| t.reverts),
    ("dumbwaiter_pilot_faults", "Kernel files that could not be read or written.", |t| t.faults),
    ("dumbwaiter_pilot_lost_events", "Trace events lost.", |t| t.lost_events),
    ("dumbwaiter_pilot_foreign_changes", "Settings changed by other users.", |t| t.foreign_changes),
    ("dumbwaiter_pilot_disappearances", "Times that the disk went away.", |t| t.disappearances),
];

const GAUGES: [(&str, &str, OfDecision); 4] = [
    ("dumbwaiter_pilot_iops", "I/Os per second in the last period.", |d| Some(d.measured.iops)),
    ("dumbwaiter_pilot_bytes_per_second", "Bytes per second in the last period.", |d| Some(1e6 * d.measured.mb_per_s)),
    ("dumbwaiter_pilot_latency_seconds", "Mean time of a request in the last period.", |d| {
        d.measured.latency_ms.map(|ms| ms / 1e3)
    }),
    ("dumbwaiter_pilot_class_confidence_ratio", "Probability of the load's name.", |d| {
        d.class.as_ref().map(|class| f64::from(class.confidence))
    }),
];

/// The text of an OpenMetrics exposition.
pub fn openmetrics(status: &Status) -> String {
    let mut out = String::new();
    let info = Family { name: "dumbwaiter_pilot", kind: "info", help: "Version and mode." };
    head(&mut out, &info);
    let labels = format!("version=\"{}\",mode=\"{}\"", env!("CARGO_PKG_VERSION"), status.mode);
    sample(&mut out, "dumbwaiter_pilot_info", &labels, 1.0);
    let name = "dumbwaiter_pilot_device_state";
    head(&mut out, &Family { name, kind: "gauge", help: "1 for the state and the scheduler of each disk." });
    for device in &status.devices {
        let scheduler = escape(device.scheduler.as_deref().unwrap_or(""));
        let advice = escape(device.advice.as_deref().unwrap_or(""));
        let labels = format!(
            "{},state=\"{}\",scheduler=\"{scheduler}\",advice=\"{advice}\"",
            label(device),
            device.state_name()
        );
        sample(&mut out, name, &labels, 1.0);
    }
    for (name, help, value) in COUNTERS {
        head(&mut out, &Family { name, kind: "counter", help });
        for device in &status.devices {
            sample(&mut out, &format!("{name}_total"), &label(device), value(&device.counts) as f64);
        }
    }
    for (name, help, value) in GAUGES {
        head(&mut out, &Family { name, kind: "gauge", help });
        for device in &status.devices {
            if let Some(value) = device.last_decision.as_ref().and_then(value) {
                sample(&mut out, name, &label(device), value);
            }
        }
    }
    out += "# EOF\n";
    out
}

fn label(device: &DeviceStatus) -> String {
    format!("device=\"{}\"", escape(&device.device))
}
