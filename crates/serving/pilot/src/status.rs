//! The state of a pilot as a document, as text and as metrics.

use std::fmt::Write;

use serde::Serialize;

use crate::decision::Decision;
use crate::device::{DevicePilot, State, Tally};
use crate::port::Values;

/// The state of a pilot: what `pilot status --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Version of this document.
    pub schema: u32,
    /// Process.
    pub pid: u32,
    /// `act` or `advise`.
    pub mode: &'static str,
    /// Seconds since it began.
    pub uptime_s: f64,
    /// The disks, in the order of the configuration.
    pub devices: Vec<DeviceStatus>,
}

/// The state of one disk.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceStatus {
    /// Its configured path.
    pub device: String,
    /// Its state.
    #[serde(flatten)]
    pub state: State,
    /// The scheduler in force; none where the disk is missing.
    pub scheduler: Option<String>,
    /// The advised settings; none where they are in force.
    pub advice: Option<String>,
    /// Why the pilot only advises switches.
    pub advice_only: Option<String>,
    /// Why requests cannot be watched.
    pub blind: Option<String>,
    /// Settings as they were found.
    pub original: Values,
    /// Settings in force.
    pub settings: Values,
    /// The candidates.
    pub candidates: Vec<String>,
    /// Counts since the pilot began.
    pub counts: Tally,
    /// The last decision.
    pub last_decision: Option<Decision>,
}

impl DeviceStatus {
    /// The state of a disk.
    pub(crate) fn of(pilot: &DevicePilot) -> DeviceStatus {
        let settings = pilot.settings();
        let scheduler = settings.and_then(|(_, now)| now.get("scheduler").cloned());
        let advice = pilot.advice();
        DeviceStatus {
            device: pilot.config().path.display().to_string(),
            state: pilot.state().clone(),
            scheduler,
            advice,
            advice_only: pilot.advice_only().map(str::to_owned),
            blind: pilot.blind().map(str::to_owned),
            original: settings.map(|(original, _)| original.clone()).unwrap_or_default(),
            settings: settings.map(|(_, now)| now.clone()).unwrap_or_default(),
            candidates: pilot.candidates(),
            counts: pilot.tally(),
            last_decision: pilot.last().cloned(),
        }
    }

    /// The state in a word.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            State::Missing { .. } => "missing",
            State::Advising => "advising",
            State::Acting => "acting",
            State::NotPermitted { .. } => "not-permitted",
            State::HandsOff { .. } => "hands-off",
        }
    }

    /// Everything about the disk, for people.
    pub fn explain(&self) -> String {
        let mut out = format!("{}: {}\n", self.device, self.state_name());
        // Writing to a string cannot fail.
        match &self.state {
            State::Missing { why } | State::NotPermitted { why } => _ = writeln!(out, "  {why}"),
            State::HandsOff { change } => {
                let (attribute, expected, found) = (&change.attribute, &change.expected, &change.found);
                let _ = writeln!(
                    out,
                    "  another user changed {attribute} from {expected} to {found}; nothing is written any more\n  \
                     to take it up again: dumbwaiter pilot resume {}",
                    self.device
                );
            }
            State::Advising | State::Acting => {}
        }
        if let Some(why) = &self.blind {
            let _ = writeln!(out, "  its requests cannot be watched: {why}");
        }
        if let Some(scheduler) = &self.scheduler {
            let _ = writeln!(out, "  scheduler  {scheduler}");
        }
        if let Some(advice) = &self.advice {
            let _ = writeln!(out, "  advice     {advice}");
        }
        if let Some(why) = &self.advice_only {
            let _ = writeln!(out, "  only advice: {why}");
        }
        for (name, was) in &self.original {
            match self.settings.get(name) {
                Some(now) if now != was => _ = writeln!(out, "  changed    {name}: {was} -> {now}"),
                _ => {}
            }
        }
        if !self.candidates.is_empty() {
            let _ = writeln!(out, "  candidates {}", self.candidates.join(", "));
        }
        if let Some(decision) = &self.last_decision {
            explain_decision(&mut out, decision);
        }
        let Tally { decisions, exchanges, reverts, faults, lost_events, .. } = self.counts;
        let _ = writeln!(
            out,
            "  so far     {decisions} decisions, {exchanges} exchanges, {reverts} undone, {faults} faults, \
             {lost_events} events lost"
        );
        out
    }
}

fn explain_decision(out: &mut String, decision: &Decision) {
    let measured = &decision.measured;
    let _ = writeln!(out, "  decision   {} ({}): {}", decision.action.name(), decision.reason, decision.why);
    let _ = write!(out, "  load       {:.0} IOPS, {:.1} MB/s", measured.iops, measured.mb_per_s);
    if let Some(latency) = measured.latency_ms {
        let _ = write!(out, ", {latency:.2} ms each");
    }
    if let Some(class) = &decision.class {
        let _ = write!(out, "; looks like {} ({:.0} %)", class.name, 100.0 * class.confidence);
    }
    if let Some(workload) = decision.workload {
        let _ = write!(out, "; workload {workload}");
    }
    out.push('\n');
    for (name, score) in &decision.trials {
        let _ = writeln!(
            out,
            "  trial      {name}: {:.3} ± {:.3} in {} turns",
            score.mean, score.standard_error, score.samples
        );
    }
}
