//! A disk appears, goes away, is left to another user, is resumed, and is restored at the end.

use dumbwaiter_block::Nanos;

use crate::attached::{Attached, HostContext};
use crate::decision::{Action, Decision, Measured};
use crate::device::{DevicePilot, Look, State, foreign_text};
use crate::ownership::NotSet;
use crate::port::{Fault, Port, Reading};

impl DevicePilot {
    /// Resumes managing a disk that was left to another user, or whose changes were not permitted.
    pub fn resume(&mut self, port: &mut dyn Port) {
        if matches!(self.state, State::HandsOff { .. } | State::NotPermitted { .. }) {
            // Restore the settings that are still ours first, so that the next settings found are the user's. Where that is not
            // permitted either, they remain recorded as ours.
            if matches!(self.state, State::NotPermitted { .. })
                && let Some(attached) = &mut self.attached
                && !matches!(attached.ownership.restore(port), Err(NotSet::Foreign(_) | NotSet::Gone(_)))
                && attached.ownership.has_changed()
            {
                return;
            }
            port.release();
            self.attached = None;
            self.refused.clear();
            self.next = Nanos::ZERO;
        }
    }

    /// The pilot ends: if `restore`, restores the settings that are ours. Returns what could not be restored, one line each.
    pub fn finish(&mut self, now: Nanos, port: &mut dyn Port, restore: bool) -> Vec<String> {
        port.watch(false);
        let Some(attached) = &mut self.attached else { return Vec::new() };
        if matches!(self.state, State::HandsOff { .. }) || !attached.ownership.has_changed() {
            port.release();
            return Vec::new();
        }
        if !restore {
            port.release();
            return Vec::new();
        }
        let from = attached.name(attached.in_force);
        let (action, problems, why) = match attached.ownership.restore(port) {
            Ok(problems) if problems.is_empty() => (Action::Restore, problems, "the pilot ends".to_owned()),
            Ok(problems) => (Action::Failed, problems.clone(), problems.join("; ")),
            Err(NotSet::Foreign(change)) => {
                let why = foreign_text(&change);
                self.state = State::HandsOff { change };
                self.tally.foreign_changes += 1;
                (Action::HandsOff, Vec::new(), why)
            }
            Err(NotSet::Gone(why)) => (Action::Missing, Vec::new(), why),
            Err(NotSet::NotPermitted(why) | NotSet::Refused(why) | NotSet::Failed(why)) => {
                (Action::Failed, vec![why.clone()], why)
            }
        };
        let look = Look { now, measured: Measured::default(), class: None };
        let decision = self.decision(&look, action, ("end", &why), &from);
        self.last = Some(decision);
        problems
    }

    /// Looks for a missing disk.
    pub(crate) fn find(&mut self, now: Nanos, port: &mut dyn Port) -> Decision {
        let reading = port.open().and_then(|()| port.read());
        let found = reading.and_then(|reading| self.attach(now, port, &reading));
        let look = Look { now, measured: Measured::default(), class: None };
        match found {
            Ok(()) => {
                let why = match &self.blind {
                    Some(why) => format!("found; its requests cannot be watched: {why}"),
                    None => "found".to_owned(),
                };
                self.decision(&look, Action::Found, ("found", &why), "")
            }
            Err(fault) => {
                self.state = State::Missing { why: fault.text().to_owned() };
                self.decision(&look, Action::Missing, ("missing", fault.text()), "")
            }
        }
    }

    pub(crate) fn attach(&mut self, now: Nanos, port: &mut dyn Port, reading: &Reading) -> Result<(), Fault> {
        let acts = self.may_act && !matches!(self.state, State::NotPermitted { .. });
        // A policy that restarts because a candidate failed keeps the trial results of the previous one.
        self.learned = self.learned(now).or_else(|| self.learned.take());
        let parts = (acts, &self.host);
        let mut attached = Attached::new(now, &self.config, &self.refused, (port, reading), parts)?;
        self.identity = port.identity();
        let HostContext { kernel, unix_s, .. } = &self.host;
        let learned = self.learned.as_ref().filter(|learned| learned.fits(&self.identity, kernel, *unix_s));
        if let Some(learned) = learned.filter(|_| attached.advice_only.is_none()) {
            let names: Vec<String> = attached.candidates.iter().map(|candidate| candidate.name.clone()).collect();
            attached.policy.remember(&learned.memory, &names);
        }
        self.attached = Some(attached);
        self.blind = port.blind();
        self.classifier.discard();
        match (&self.state, acts) {
            (State::NotPermitted { .. }, _) => {}
            (_, true) => self.state = State::Acting,
            (_, false) => self.state = State::Advising,
        }
        Ok(())
    }

    /// The disk went away, and its settings with it.
    pub(crate) fn lose(&mut self, look: &Look, port: &mut dyn Port, why: String) -> Decision {
        let from = self.attached.as_ref().map(|a| a.name(a.in_force)).unwrap_or_default();
        self.learned = self.learned(look.now).or_else(|| self.learned.take());
        self.attached = None;
        port.release();
        self.tally.disappearances += 1;
        self.refused.clear();
        self.failures = 0;
        let decision = self.decision(look, Action::Missing, ("missing", &why), &from);
        self.state = State::Missing { why };
        decision
    }
}
