//! Sets a candidate, and drops one that the kernel rejects.

use dumbwaiter_controllers::switching::Reason;

use crate::candidate::Candidate;
use crate::decision::{Action, Decision, wording};
use crate::device::{DevicePilot, Look, State};
use crate::ownership::NotSet;
use crate::port::{Port, Reading};

/// Consecutive failures after which a candidate is dropped.
const FAILURES_MAX: u32 = 3;

impl DevicePilot {
    /// Sets a candidate.
    pub(crate) fn exchange(&mut self, look: &Look, wanted: usize, reason: Reason, port: &mut dyn Port) -> Decision {
        let Some(attached) = &mut self.attached else { return self.find(look.now, port) };
        let from = attached.name(attached.in_force);
        let Some(candidate) = attached.candidates.get(wanted).cloned() else { return self.find(look.now, port) };
        self.exchanges.add(look.now);
        let done = attached.ownership.apply(port, &candidate.scheduler, &candidate.settings);
        let iops = look.measured.iops;
        if attached.watch(look.now, self.next, iops, port) {
            self.classifier.gap();
        }
        let (text, about) = wording(reason);
        match done {
            Ok(()) => {
                attached.in_force = wanted;
                self.failures = 0;
                self.tally.exchanges += 1;
                let action = if reason == Reason::Revert { Action::Revert } else { Action::Switch };
                self.tally.reverts += u64::from(action == Action::Revert);
                let took = port.last_write();
                let decision = self.decision(look, action, (text, about), &from);
                Decision { took_ms: took.map(|took| took.0 as f64 / 1e6), ..decision }
            }
            Err(NotSet::Foreign(change)) => self.hands_off(look, port, change),
            Err(NotSet::Gone(why)) => self.lose(look, port, why),
            Err(NotSet::NotPermitted(why)) => {
                self.tally.faults += 1;
                self.state = State::NotPermitted { why: why.clone() };
                attached.advice_only = Some(format!("the settings may not be changed: {why}"));
                attached.in_force = attached.present();
                attached.policy.settings_mut().by = dumbwaiter_controllers::switching::By::Model;
                attached.policy.not_done(attached.in_force);
                self.decision(look, Action::Failed, ("not-permitted", &why), &from)
            }
            Err(NotSet::Refused(why)) => self.give_up(look, &candidate, ("refused", &why), port),
            Err(NotSet::Failed(why)) => {
                self.failures += 1;
                if self.failures >= FAILURES_MAX {
                    return self.give_up(look, &candidate, ("failed", &why), port);
                }
                self.tally.faults += 1;
                attached.in_force = attached.present();
                attached.policy.not_done(attached.in_force);
                self.decision(look, Action::Failed, ("failed", &why), &from)
            }
        }
    }

    /// The kernel rejects a candidate: restores the settings as found, and drops the candidate.
    fn give_up(
        &mut self,
        look: &Look,
        candidate: &Candidate,
        (reason, why): (&'static str, &str),
        port: &mut dyn Port,
    ) -> Decision {
        self.tally.faults += 1;
        self.failures = 0;
        let from = self.attached.as_ref().map(|a| a.name(a.in_force)).unwrap_or_default();
        self.refused.push(candidate.name.clone());
        if let Some(attached) = &mut self.attached {
            if attached.ownership.in_force().get("scheduler") != Some(&candidate.scheduler) {
                // The kernel rejects the scheduler itself, not one of its settings.
                let same = attached.candidates.iter().filter(|other| other.scheduler == candidate.scheduler);
                self.refused.extend(same.map(|other| other.name.clone()));
            }
            match attached.ownership.restore(port) {
                Err(NotSet::Foreign(change)) => return self.hands_off(look, port, change),
                Err(NotSet::Gone(why)) => return self.lose(look, port, why),
                _ => {}
            }
        }
        let original = self.attached.as_ref().map(|a| a.ownership.clone());
        let reading = port.read();
        let attached = reading.and_then(|reading| {
            let wanted =
                original.as_ref().map_or(reading.clone(), |own| Reading { values: own.original().clone(), ..reading });
            self.attach(look.now, port, &wanted)
        });
        // The old owner still knows the settings in force.
        if let (Some(attached), Some(ownership)) = (&mut self.attached, original) {
            attached.ownership = ownership;
            attached.in_force = attached.present();
            attached.policy.not_done(attached.in_force);
        }
        let why = match attached {
            Ok(()) => format!("{} is not used any more: {why}", candidate.name),
            Err(fault) => format!("{}: {why}; {}", candidate.name, fault.text()),
        };
        self.decision(look, Action::Failed, (reason, &why), &from)
    }
}
