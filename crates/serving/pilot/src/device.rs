//! The pilot of one disk: a state machine over a [`Port`], without a clock, that decides once per period.

use dumbwaiter_block::{Nanos, Op};
use dumbwaiter_controllers::switching::{Arrival, Reason, Tick};
use dumbwaiter_linux::recording::{LiveEvent, LiveKind};
use serde::Serialize;

use crate::Error;
use crate::attached::{Attached, Exchanges, HostContext, measured};
use crate::config::DeviceConfig;
use crate::decision::{Action, Decision, Measured, wording};
use crate::load::{LoadClass, LoadClassifier};
use crate::ownership::ForeignChange;
use crate::port::{Fault, Port, Values};
use crate::store::Learned;

/// No decision is made in a period that lost more than one event in this many.
const LOST_SHARE: u64 = 100;
/// Arrivals in a period that are enough to tell a load.
const MANY_ARRIVALS: u64 = 512;
/// Why nothing is decided where one period had enough of them.
const ONE_PERIOD: (&str, &str) = ("one-period", "one period so far: the next will confirm what the load is");
/// A turn that is later than this discards its measurement.
const LATE: Nanos = Nanos::from_secs(10);

/// State of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    /// The disk is missing.
    Missing {
        /// Why, in words.
        why: String,
    },
    /// The pilot watches it and only advises.
    Advising,
    /// The pilot watches it and changes its settings.
    Acting,
    /// The pilot may not change its settings, so it only advises.
    NotPermitted {
        /// The refusal, in words.
        why: String,
    },
    /// Another user changed a setting: nothing is written until `pilot resume`.
    HandsOff {
        /// The change.
        change: ForeignChange,
    },
}

/// Counts since the pilot began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Decisions.
    pub decisions: u64,
    /// Exchanges of settings, trials included.
    pub exchanges: u64,
    /// Exchanges that were reverted because of a loss.
    pub reverts: u64,
    /// Reads or writes of the kernel's files that failed.
    pub faults: u64,
    /// Events that were lost.
    pub lost_events: u64,
    /// Changes by other users.
    pub foreign_changes: u64,
    /// Times that the disk went away.
    pub disappearances: u64,
}

/// The pilot of one disk.
#[derive(Debug)]
pub struct DevicePilot {
    pub(crate) config: DeviceConfig,
    /// The user allowed changes.
    pub(crate) may_act: bool,
    pub(crate) host: HostContext,
    pub(crate) state: State,
    pub(crate) attached: Option<Attached>,
    pub(crate) classifier: LoadClassifier,
    /// Trial results from before the policy in force began.
    pub(crate) learned: Option<Learned>,
    /// Present while the disk is.
    pub(crate) identity: String,
    /// Candidates that the kernel rejected.
    pub(crate) refused: Vec<String>,
    /// Failures in a row.
    pub(crate) failures: u32,
    pub(crate) exchanges: Exchanges,
    pub(crate) events: Vec<LiveEvent>,
    pub(crate) blind: Option<String>,
    pub(crate) tally: Tally,
    pub(crate) last: Option<Decision>,
    pub(crate) next: Nanos,
}

/// Observations of a turn before its decision.
pub(crate) struct Look {
    pub(crate) now: Nanos,
    pub(crate) measured: Measured,
    pub(crate) class: Option<LoadClass>,
}

impl DevicePilot {
    /// A pilot that changes the disk only if `may_act`.
    pub fn new(config: DeviceConfig, may_act: bool, host: HostContext) -> Result<DevicePilot, Error> {
        Ok(DevicePilot {
            config,
            may_act,
            host,
            state: State::Missing { why: "not looked for yet".into() },
            attached: None,
            classifier: LoadClassifier::new()?,
            learned: None,
            identity: String::new(),
            refused: Vec::new(),
            failures: 0,
            exchanges: Exchanges::default(),
            events: Vec::new(),
            blind: None,
            tally: Tally::default(),
            last: None,
            next: Nanos::ZERO,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// How the disk is treated.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Takes over trial results of an earlier pilot, if they are of the same disk. Call it before the first turn.
    pub fn recall(&mut self, learned: Learned) {
        self.learned = Some(learned);
    }

    /// Trial results of the disk, also after it went away; `None` before the first workload, and where trials are not
    /// allowed.
    pub fn learned(&self, now: Nanos) -> Option<Learned> {
        let Some(attached) = &self.attached else { return self.learned.clone() };
        if attached.advice_only.is_some() {
            return None;
        }
        let memory = attached.policy.memory(&self.candidates());
        let HostContext { kernel, unix_s, began } = &self.host;
        let unix_s = unix_s + now.since(*began).0 / 1_000_000_000;
        let any = !memory.workloads.is_empty();
        any.then(|| Learned::new(self.identity.clone(), kernel.clone(), unix_s, memory))
    }

    /// Some requests were not traced.
    pub(crate) fn gap(&mut self) {
        self.classifier.gap();
    }

    /// Counts since the pilot began.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The last decision.
    pub fn last(&self) -> Option<&Decision> {
        self.last.as_ref()
    }

    /// Why requests cannot be watched; `None` where they can.
    pub fn blind(&self) -> Option<&str> {
        self.blind.as_deref()
    }

    /// The settings as found and as in force; `None` where the disk is missing.
    pub fn settings(&self) -> Option<(&Values, &Values)> {
        self.attached.as_ref().map(|a| (a.ownership.original(), a.ownership.in_force()))
    }

    /// Names of the candidates.
    pub fn candidates(&self) -> Vec<String> {
        self.attached.iter().flat_map(|a| a.candidates.iter().map(|c| c.name.clone())).collect()
    }

    /// The advised candidate; `None` where it is in force.
    pub fn advice(&self) -> Option<String> {
        let attached = self.attached.as_ref()?;
        let advised = attached.advice_only.is_some() && attached.in_force != attached.present();
        advised.then(|| attached.name(attached.in_force))
    }

    /// Why the pilot only advises switches; `None` where it makes them, or the disk is missing.
    pub fn advice_only(&self) -> Option<&str> {
        self.attached.as_ref().and_then(|a| a.advice_only.as_deref())
    }

    /// When [`DevicePilot::turn`] is to be called next.
    pub fn wake_at(&self) -> Nanos {
        let watch = self.attached.as_ref().and_then(Attached::watch_at);
        watch.map_or(self.next, |watch| watch.min(self.next))
    }

    /// If it is time: reads the disk's activity, decides and acts. Returns the decision, if one was made.
    pub fn turn(&mut self, now: Nanos, port: &mut dyn Port) -> Option<&Decision> {
        if let Some(enough) = self.attached.as_mut().and_then(|attached| attached.resume_watch(now, port)) {
            self.next = self.next.max(enough);
        }
        if now < self.next {
            return None;
        }
        let late = now.since(self.next);
        if late > LATE && self.next > Nanos::ZERO {
            // The pilot was stopped, or had no CPU: the load may have changed in this time, so it is not measured.
            self.gap();
            if let Some(attached) = &mut self.attached {
                attached.skip(now, port);
            }
        }
        self.next = now + self.config.policy.period;
        let decision = match self.attached.is_some() {
            true => self.look(now, port),
            false => self.find(now, port),
        };
        self.tally.decisions += 1;
        self.last = Some(decision);
        self.last.as_ref()
    }

    pub(crate) fn hands_off(&mut self, look: &Look, port: &mut dyn Port, change: ForeignChange) -> Decision {
        port.release();
        self.tally.foreign_changes += 1;
        let from = self.attached.as_ref().map(|a| a.name(a.in_force)).unwrap_or_default();
        let why = foreign_text(&change);
        self.state = State::HandsOff { change };
        self.decision(look, Action::HandsOff, ("foreign-change", &why), &from)
    }

    fn fault(&mut self, look: &Look, fault: &Fault) -> Decision {
        self.tally.faults += 1;
        let from = self.attached.as_ref().map(|a| a.name(a.in_force)).unwrap_or_default();
        self.decision(look, Action::Failed, ("fault", fault.text()), &from)
    }

    /// A turn of a disk that is present.
    fn look(&mut self, now: Nanos, port: &mut dyn Port) -> Decision {
        let mut look = Look { now, measured: Measured::default(), class: None };
        let read = port.read().and_then(|reading| Ok((reading, port.counters()?)));
        let (reading, counters) = match read {
            Ok(both) => both,
            Err(Fault::Gone(why)) => return self.lose(&look, port, why),
            Err(fault) => return self.fault(&look, &fault),
        };
        self.blind = port.blind();
        let Some(attached) = &mut self.attached else { return self.find(now, port) };
        if !attached.ownership.is_same_disk(&reading) {
            return self.lose(&look, port, "another disk has this name now".into());
        }
        attached.ownership.settle(&reading, port);
        let foreign = attached.ownership.foreign(&reading);
        let (work, elapsed) = attached.work(now, counters);
        look.measured = Measured { in_flight: counters.in_flight, ..measured(work, elapsed) };
        if let Some(change) = foreign.filter(|_| !matches!(self.state, State::HandsOff { .. })) {
            if self.state == State::Acting || attached.ownership.has_changed() {
                return self.hands_off(&look, port, change);
            }
            // The pilot has set nothing: it takes the new settings as found.
            return match self.attach(now, port, &reading) {
                Ok(()) => self.decision(&look, Action::Found, ("settings-changed", &foreign_text(&change)), ""),
                Err(fault) => self.fault(&look, &fault),
            };
        }
        let seen = match self.take_events(now, port, &mut look) {
            Ok(seen) => seen,
            Err(fault) => return self.fault(&look, &fault),
        };
        self.decide(look, seen, work, port)
    }

    /// Reads the requests' events; `false` where too many were lost to use them.
    fn take_events(&mut self, now: Nanos, port: &mut dyn Port, look: &mut Look) -> Result<bool, Fault> {
        self.events.clear();
        let lost = port.events(now, &mut self.events)?;
        self.tally.lost_events += lost;
        look.measured.lost_events = lost;
        if lost > 0 {
            // Their place is unknown, so that no history may span this period.
            self.gap();
            self.classifier.discard();
        }
        if lost * LOST_SHARE > self.events.len() as u64 + lost {
            return Ok(false);
        }
        let Some(attached) = &mut self.attached else { return Ok(false) };
        for event in &self.events {
            if event.kind == LiveKind::Arrive && event.op != Op::Flush {
                look.measured.arrivals_seen += 1;
                let write = event.op != Op::Read;
                let arrival = Arrival { task: event.pid, write, sector: event.sector, sectors: event.sectors };
                attached.policy.arrive(Nanos(event.at_ns), arrival);
            }
            if lost == 0 {
                self.classifier.event(event, port.tag(event));
            }
        }
        look.class = self.classifier.period();
        Ok(true)
    }

    /// Keeps the settings and begins the next period.
    fn keep(&mut self, look: &Look, from: &str, port: &mut dyn Port, reason: (&'static str, &str)) -> Decision {
        if let Some(attached) = &mut self.attached
            && attached.watch(look.now, self.next, look.measured.iops, port)
        {
            self.gap();
        }
        self.decision(look, Action::Keep, reason, from)
    }

    /// Asks the policy, and carries out or advises its decision.
    fn decide(
        &mut self,
        look: Look,
        seen: bool,
        work: dumbwaiter_controllers::switching::Work,
        port: &mut dyn Port,
    ) -> Decision {
        let Some(attached) = &mut self.attached else { return self.find(look.now, port) };
        let from = attached.name(attached.in_force);
        if let State::HandsOff { change } = &self.state {
            let why = foreign_text(change);
            return self.keep(&look, &from, port, ("hands-off", &why));
        }
        if !seen {
            attached.policy.resume(look.now);
            return self.keep(
                &look,
                &from,
                port,
                ("lost-events", "too many events were lost to tell what the load is"),
            );
        }
        if let Some(why) = self.blind.clone() {
            return self.keep(&look, &from, port, ("blind", &why));
        }
        if work.ios == 0 && look.measured.arrivals_seen == 0 {
            attached.policy.resume(look.now);
            return self.keep(&look, &from, port, ("idle", "the disk rests"));
        }
        let tick = Tick { now: look.now, work, clean: true, in_force: attached.in_force };
        let decided = attached.policy.tick(&tick);
        self.next = decided.next.max(look.now + Nanos::from_ms(10));
        let advised = attached.advice_only.is_some();
        let reason = match decided.reason {
            // Thousands of I/Os are not too few: the load has a name once the next period confirms it.
            Reason::TooFewRequests if look.measured.arrivals_seen >= MANY_ARRIVALS => ONE_PERIOD,
            other => wording(other),
        };
        let Some(wanted) = decided.switch_to else {
            let decision = self.keep(&look, &from, port, reason);
            let advises = advised && decision.from != self.found_name();
            return Decision { action: if advises { Action::Advise } else { decision.action }, ..decision };
        };
        if advised {
            attached.in_force = wanted;
            let decision = self.keep(&look, &from, port, wording(decided.reason));
            return Decision { action: Action::Advise, ..decision };
        }
        let is_way_back =
            matches!(decided.reason, Reason::Revert | Reason::TrialOver) || attached.policy.best() == Some(wanted);
        if !self.exchanges.has_room(look.now, self.config.exchanges_per_hour, is_way_back) {
            attached.policy.not_done(attached.in_force);
            return self.keep(
                &look,
                &from,
                port,
                ("too-many-exchanges", "the limit of exchanges in an hour is reached"),
            );
        }
        self.exchange(&look, wanted, decided.reason, port)
    }

    /// Name of the settings as they were found.
    fn found_name(&self) -> String {
        self.attached.as_ref().map(|a| a.name(0)).unwrap_or_default()
    }

    pub(crate) fn decision(
        &mut self,
        look: &Look,
        action: Action,
        (reason, why): (&'static str, &str),
        from: &str,
    ) -> Decision {
        let attached = self.attached.as_ref();
        let to = attached.map(|a| a.name(a.in_force)).unwrap_or_default();
        let workload = attached.and_then(|a| a.policy.workload());
        Decision {
            device: self.config.path.display().to_string(),
            at_s: look.now.since(self.host.began).as_secs_f64(),
            action,
            reason,
            from: if from.is_empty() { to.clone() } else { from.to_owned() },
            to,
            workload,
            class: look.class.clone(),
            measured: look.measured,
            trials: attached.map(|a| a.trials(workload)).unwrap_or_default(),
            exchanges_last_hour: self.exchanges.count(look.now),
            took_ms: None,
            why: why.to_owned(),
        }
    }
}

pub(crate) fn foreign_text(change: &ForeignChange) -> String {
    let ForeignChange { attribute, expected, found } = change;
    format!(
        "another user changed {attribute} from {expected} to {found}: nothing more is written to this disk, also at the end; \
         `dumbwaiter pilot resume` takes it up again"
    )
}
