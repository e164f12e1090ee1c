//! A turn of a disk: what it did since the last one, and what follows.

use dumbwaiter_block::{Nanos, Op};
use dumbwaiter_controllers::switching::{Arrival, Reason, Tick};
use dumbwaiter_linux::recording::LiveKind;

use crate::attached::measured;
use crate::decision::{Action, Decision, Measured, wording};
use crate::device::{DevicePilot, Look, State, foreign_text};
use crate::port::{Fault, Port};

/// No decision is made in a period that lost more than one event in this many.
const LOST_SHARE: u64 = 100;
/// Arrivals in a period that are enough to tell a load.
const MANY_ARRIVALS: u64 = 512;
/// Why nothing is decided where one period had enough of them.
const ONE_PERIOD: (&str, &str) = ("one-period", "one period so far: the next will confirm what the load is");
/// A turn that is later than this discards its measurement.
const LATE: Nanos = Nanos::from_secs(10);

impl DevicePilot {
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
}
