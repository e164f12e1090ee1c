//! Replay of a trace: what a pilot would have decided.
//!
//! A [`DevicePilot`] sees the requests of the trace in the trace's own time. A trace shows only the settings under which it was
//! recorded, so that trials are not possible: the pilot advises by its table, as without `--act`.

use std::collections::BTreeMap;

use dumbwaiter_block::{Flags, IoTag, Nanos, Op};
use dumbwaiter_controllers::switching::{Kind, Work};
use dumbwaiter_linux::recording::{LiveEvent, LiveKind};
use dumbwaiter_traces::{Record, TraceReader};
use serde::Serialize;

use crate::config::DeviceConfig;
use crate::decision::{Action, Decision};
use crate::device::DevicePilot;
use crate::port::{Counters, Fault, Note, Port, Reading, Values};
use crate::{Error, HostContext};

/// Assumed queue depth: traces do not record it.
const DEPTH: u32 = 32;

/// Longer pauses between two requests are skipped.
const PAUSE: Nanos = Nanos::from_secs(3600);

/// The assumed disk of the trace.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The scheduler in force.
    pub scheduler: String,
    /// Whether it is a rotating disk.
    pub rotating: bool,
    /// The policy's settings.
    pub device: DeviceConfig,
}

/// Summary of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct ReplaySummary {
    /// Version of this document.
    pub schema: u32,
    /// Requests of the trace.
    pub requests: u64,
    /// Its length.
    pub seconds: f64,
    /// Decisions.
    pub decisions: u64,
    /// How often the advice changed.
    pub switches: u64,
    /// Seconds for which each candidate was in force or advised.
    pub seconds_by_candidate: BTreeMap<String, f64>,
    /// Distinct workloads.
    pub workloads: usize,
    /// Decisions that differ from the previous one.
    pub changes: Vec<Decision>,
}

/// Requests as the kernel's events.
#[derive(Default)]
struct ReplayPort {
    scheduler: String,
    rotating: bool,
    counters: Counters,
    /// Not read yet, in order of time.
    events: Vec<LiveEvent>,
    /// The trace's tags of requests whose events were not read before the last call: by time, sector and whether it is a write.
    tags: BTreeMap<(u64, u64, bool), IoTag>,
    /// When that call was.
    read_at: Nanos,
}

impl ReplayPort {
    /// A request of the trace. Without measured times it counts as issued and completed on arrival.
    fn add(&mut self, record: &Record) {
        let latency = record.latency.unwrap_or(Nanos(1));
        let wait = record.wait.unwrap_or(Nanos::ZERO).min(latency);
        if matches!(record.op, Op::Read | Op::Write) {
            let work = Work { ios: 1, bytes: record.bytes(), latency };
            self.counters.work = self.counters.work.plus(work);
        }
        let event = |kind, at: Nanos| LiveEvent {
            at_ns: at.0,
            kind,
            pid: record.task,
            op: record.op,
            meta: record.flags.has(Flags::META),
            sector: record.sector,
            sectors: record.sectors,
        };
        let (issue, complete) = (record.time + wait, record.time + latency);
        if let Some(tag) = record.tag {
            let write = record.op == Op::Write;
            self.tags.extend([issue, complete].map(|at| ((at.0, record.sector, write), tag)));
        }
        self.events.push(event(LiveKind::Arrive, record.time));
        self.events.push(event(LiveKind::Issue, issue));
        self.events.push(event(LiveKind::Complete, complete));
    }
}

impl Port for ReplayPort {
    fn open(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn kind(&self) -> Kind {
        Kind { rotational: self.rotating, depth: DEPTH }
    }

    fn blind(&self) -> Option<String> {
        None
    }

    fn read(&mut self) -> Result<Reading, Fault> {
        let schedulers = ["none", "mq-deadline", "kyber", "bfq"].map(str::to_owned).into();
        let values = Values::from([("scheduler".to_owned(), self.scheduler.clone())]);
        Ok(Reading { sequence: None, schedulers, values })
    }

    fn write(&mut self, _: &str, _: &str) -> Result<(), Fault> {
        Err(Fault::NotPermitted("a replay changes nothing".into()))
    }

    fn last_write(&self) -> Option<Nanos> {
        None
    }

    fn note(&mut self, _: &Note) -> Result<(), Fault> {
        Err(Fault::NotPermitted("a replay changes nothing".into()))
    }

    fn release(&mut self) {}

    fn counters(&mut self) -> Result<Counters, Fault> {
        Ok(self.counters)
    }

    fn watch(&mut self, _on: bool) {}

    fn tag(&self, event: &LiveEvent) -> IoTag {
        let said = self.tags.get(&(event.at_ns, event.sector, event.op == Op::Write)).copied();
        said.unwrap_or(if event.meta { IoTag::META } else { IoTag::UNKNOWN })
    }

    fn events(&mut self, now: Nanos, into: &mut Vec<LiveEvent>) -> Result<u64, Fault> {
        self.tags = self.tags.split_off(&(self.read_at.0, 0, false));
        self.read_at = now;
        self.events.sort_by_key(|event| event.at_ns);
        let passed = self.events.partition_point(|event| event.at_ns <= now.0);
        into.extend(self.events.drain(..passed));
        Ok(0)
    }
}

/// Runs a pilot over a trace; calls `changed` with every decision that differs from the previous one.
pub fn replay(
    trace: &mut TraceReader,
    options: &ReplayOptions,
    mut changed: impl FnMut(&Decision),
) -> Result<ReplaySummary, Error> {
    let mut port =
        ReplayPort { scheduler: options.scheduler.clone(), rotating: options.rotating, ..ReplayPort::default() };
    let mut pilot = DevicePilot::new(options.device.clone(), false, HostContext::default())?;
    let mut summary = ReplaySummary {
        schema: 1,
        requests: 0,
        seconds: 0.0,
        decisions: 0,
        switches: 0,
        seconds_by_candidate: BTreeMap::new(),
        workloads: 0,
        changes: Vec::new(),
    };
    let mut note = |pilot: &mut DevicePilot, port: &mut ReplayPort, until: Nanos| {
        while pilot.wake_at() <= until {
            let (due, before) = (pilot.wake_at(), pilot.last().cloned());
            // A pause of days takes one turn, not one a second.
            let at = if until.since(due) > PAUSE { until } else { due };
            let Some(decision) = pilot.turn(at, port).cloned() else { continue };
            if let Some(before) = &before {
                let held = summary.seconds_by_candidate.entry(before.to.clone()).or_default();
                *held += decision.at_s - before.at_s;
            }
            summary.switches += u64::from(decision.from != decision.to && decision.action == Action::Advise);
            summary.workloads = summary.workloads.max(decision.workload.map_or(0, |workload| workload + 1));
            if before.is_none_or(|before| !decision.is_like(&before)) {
                changed(&decision);
                summary.changes.push(decision);
            }
        }
    };
    let mut end = Nanos::ZERO;
    while let Some(record) = trace.next_record()? {
        note(&mut pilot, &mut port, record.time);
        end = end.max(record.time);
        port.add(&record);
    }
    note(&mut pilot, &mut port, end + options.device.policy.period);
    summary.decisions = pilot.tally().decisions;
    summary.seconds = end.as_secs_f64();
    summary.requests = port.counters.work.ios;
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_tag_of_its_record_while_its_events_are_read_and_the_metadata_mark_without_one() {
        let mut port = ReplayPort::default();
        let at = |us: u64, sector| Record {
            time: Nanos::from_us(us),
            latency: Some(Nanos::from_us(500)),
            ..Record::new(Op::Read, sector, 8)
        };
        port.add(&Record { tag: Some(IoTag::JOURNAL), ..at(0, 0) });
        port.add(&Record { flags: Flags::META, ..at(10, 8) });
        port.add(&at(20, 16));
        port.add(&Record { tag: Some(IoTag::FILE_4KB), ..at(30, 0) });
        let mut read = |now: u64| {
            let mut events = Vec::new();
            port.events(Nanos::from_us(now), &mut events).unwrap();
            let told = events.iter().filter(|event| event.kind != LiveKind::Arrive);
            (told.map(|event| (event.kind, port.tag(event))).collect::<Vec<_>>(), port.tags.len())
        };
        let issued =
            [IoTag::JOURNAL, IoTag::META, IoTag::UNKNOWN, IoTag::FILE_4KB].map(|tag| (LiveKind::Issue, tag)).to_vec();
        assert_eq!(read(100), (issued.clone(), 4));
        let complete: Vec<_> = issued.iter().map(|(_, tag)| (LiveKind::Complete, *tag)).collect();
        assert_eq!(read(1000), (complete, 2));
        assert_eq!(read(2000), (Vec::new(), 0), "what was read is forgotten");
    }
}
