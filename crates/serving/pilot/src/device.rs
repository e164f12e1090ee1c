//! The pilot of one disk: a state machine over a [`Port`], without a clock, that decides once per period.

use dumbwaiter_block::Nanos;
use dumbwaiter_linux::recording::LiveEvent;
use serde::Serialize;

use crate::Error;
use crate::attached::{Attached, Exchanges, HostContext};
use crate::config::DeviceConfig;
use crate::decision::{Action, Decision, Measured};
use crate::load::{LoadClass, LoadClassifier};
use crate::ownership::ForeignChange;
use crate::port::{Port, Values};
use crate::store::Learned;

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

    pub(crate) fn hands_off(&mut self, look: &Look, port: &mut dyn Port, change: ForeignChange) -> Decision {
        port.release();
        self.tally.foreign_changes += 1;
        let from = self.attached.as_ref().map(|a| a.name(a.in_force)).unwrap_or_default();
        let why = foreign_text(&change);
        self.state = State::HandsOff { change };
        self.decision(look, Action::HandsOff, ("foreign-change", &why), &from)
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
