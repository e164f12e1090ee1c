//! Deadlines: an I/O whose predicted wait exceeds its task's deadline is refused at once, for callers that can go elsewhere.
//!
//! The prediction is the smaller of two: the I/Os under way times the time that the device takes for each, and those of the tenant, with the new one,
//! times the time that passes between the tenant's completions. The first is right where requests are served in turn, the second
//! where the scheduler gives the tenant a share. So that a prediction that became wrong is corrected, one I/O of a tenant without any
//! under way is admitted in each time of a deadline.
//!
//! After Hao and others, *MittOS: Supporting Millisecond Tail Tolerance with Fast Rejecting SLO-Aware OS Interface* (SOSP 2017), which predicts by a
//! profile of the device.

use dumbwaiter_block::{
    BioAnswer, BlockLayer, Config, Context, ControlSetting, Controller, Effects, Errno, Event, Finished, Io, Nanos, Op,
    Scope, TaskId, TenantId, Traits, Tunable,
};

/// The mean time between completions follows the last 16 or so.
const MEAN_SHIFT: u32 = 4;

/// It has been busy since before it was observed.
const UNKNOWN: Nanos = Nanos::MAX;

/// Completions of the device or of a tenant.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    outstanding: u64,
    /// The last completion, or when it became busy; [`UNKNOWN`]: before it was observed.
    since: Nanos,
    /// Mean time between completions while it is busy, ns; 0: unknown.
    mean_ns: u64,
    /// When an I/O is admitted whatever is predicted, if none is under way.
    probe_at: Nanos,
}

impl Progress {
    /// With `outstanding` I/Os in flight that were submitted earlier.
    fn with_under_way(outstanding: u64) -> Progress {
        Progress { outstanding, since: UNKNOWN, ..Progress::default() }
    }

    fn begins(&mut self, now: Nanos) {
        if self.outstanding == 0 {
            self.since = now;
        }
        self.outstanding += 1;
    }

    fn ends(&mut self, now: Nanos) {
        self.outstanding = self.outstanding.saturating_sub(1);
        let since = std::mem::replace(&mut self.since, now);
        if since == UNKNOWN {
            return;
        }
        let time = now.since(since).0;
        let mean = self.mean_ns - (self.mean_ns >> MEAN_SHIFT) + (time >> MEAN_SHIFT);
        self.mean_ns = if self.mean_ns == 0 { time } else { mean }.max(1);
    }
}

/// A task's deadline; 0 takes it away.
const DEADLINE: Tunable = Tunable {
    name: "deadline",
    unit: "ns",
    min: 0,
    max: u64::MAX as i128,
    default: 0,
    help: "the longest predicted wait with which a read or write of the task is admitted; 0: any",
};

const SETTINGS: &[ControlSetting] = &[ControlSetting { of: Scope::Task(TaskId(0)), tunable: DEADLINE }];

/// Deadlines of tasks, and what is needed to predict waits.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    /// By task; [`Nanos::MAX`]: none.
    deadlines: Vec<Nanos>,
    device: Progress,
    tenants: Vec<Progress>,
}

/// Sets the deadline of a task's reads and writes, or takes it away: one whose predicted wait is longer completes at once with `EBUSY`,
/// without reaching the scheduler. Predictions begin with the first deadline.
pub fn set_deadline(layer: &mut BlockLayer, now: Nanos, task: TaskId, deadline: Option<Nanos>) {
    if layer.controller("deadlines").is_none() {
        if deadline.is_none() {
            return;
        }
        layer.add_controller(now, Box::new(Deadlines::default()));
    }
    let ns = deadline.map_or(0, |deadline| i128::from(deadline.0));
    // The controller is there and takes any time.
    let _ = layer.set_control(now, Scope::Task(task), DEADLINE.name, ns);
}

impl Deadlines {
    fn tenant(&mut self, tenant: TenantId) -> &mut Progress {
        let index = tenant.0 as usize;
        if index >= self.tenants.len() {
            self.tenants.resize(index + 1, Progress::default());
        }
        &mut self.tenants[index]
    }

    fn predicted(&mut self, tenant: TenantId) -> Nanos {
        let in_turn = self.device.outstanding.saturating_mul(self.device.mean_ns);
        let own = self.tenant(tenant);
        let by_share = (own.outstanding + 1).saturating_mul(own.mean_ns);
        Nanos(if own.mean_ns == 0 { in_turn } else { in_turn.min(by_share) })
    }

    fn deadline(&self, task: TaskId) -> Nanos {
        self.deadlines.get(task.0 as usize).copied().unwrap_or(Nanos::MAX)
    }

    fn set_deadline(&mut self, task: TaskId, deadline: Nanos) {
        let index = task.0 as usize;
        if index >= self.deadlines.len() {
            self.deadlines.resize(index + 1, Nanos::MAX);
        }
        self.deadlines[index] = deadline;
    }

    /// Would this I/O wait for longer than it may?
    fn refuses(&mut self, now: Nanos, io: &Io) -> bool {
        let deadline = self.deadline(io.task);
        if deadline == Nanos::MAX || !matches!(io.op, Op::Read | Op::Write) || self.predicted(io.tenant) <= deadline {
            return false;
        }
        let own = self.tenant(io.tenant);
        if own.outstanding == 0 && now >= own.probe_at {
            own.probe_at = now + deadline;
            return false;
        }
        true
    }
}

impl Controller for Deadlines {
    fn name(&self) -> &'static str {
        "deadlines"
    }

    fn attached(
        &mut self,
        _config: &Config,
        _traits: &Traits,
        under_way: &mut dyn Iterator<Item = u32>,
        _ctx: &Context<'_>,
    ) {
        self.tenants = under_way.map(|ios| Progress::with_under_way(u64::from(ios))).collect();
        self.device = Progress::with_under_way(self.tenants.iter().map(|own| own.outstanding).sum());
    }

    fn submit(&mut self, io: &Io, ctx: &Context<'_>) -> BioAnswer {
        if self.refuses(ctx.now, io) { BioAnswer::Refuse(Errno::EBUSY) } else { BioAnswer::Pass }
    }

    fn admitted(&mut self, io: &Io, ctx: &Context<'_>) {
        self.device.begins(ctx.now);
        self.tenant(io.tenant).begins(ctx.now);
    }

    fn finished(&mut self, done: &Finished, ctx: &Context<'_>, _out: &mut Effects) {
        self.device.ends(ctx.now);
        self.tenant(done.io.tenant).ends(ctx.now);
    }

    /// Numbers of tasks and tenants are used again.
    fn event(&mut self, event: Event, _ctx: &Context<'_>, _out: &mut Effects) {
        match event {
            Event::TaskExited(task) => self.set_deadline(task, Nanos::MAX),
            Event::TenantRetired(tenant) => *self.tenant(tenant) = Progress::default(),
            _ => {}
        }
    }

    fn settings(&self) -> &'static [ControlSetting] {
        SETTINGS
    }

    fn get(&self, scope: Scope, name: &str) -> Option<i128> {
        let Scope::Task(task) = scope else { return None };
        let deadline = Some(self.deadline(task)).filter(|deadline| *deadline != Nanos::MAX);
        (name == DEADLINE.name).then(|| deadline.map_or(0, |deadline| deadline.0.into()))
    }

    fn set(&mut self, scope: Scope, _name: &str, value: i128, _now: Nanos) {
        if let Scope::Task(task) = scope {
            self.set_deadline(task, if value == 0 { Nanos::MAX } else { Nanos(value as u64) });
        }
    }
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::{Requests, Tenants};

    use super::*;

    /// Eight I/Os are always under way, and one completes each millisecond.
    #[test]
    fn a_deadline_that_is_set_under_load_knows_what_is_under_way() {
        let (requests, tenants) = (Requests::default(), Tenants::default());
        let at = |now| Context { now, requests: &requests, tenants: &tenants, busy: false };
        let mut deadlines = Deadlines::default();
        deadlines.attached(&Config::default(), &Traits::default(), &mut [8, 0].into_iter(), &at(Nanos::ZERO));
        let (busy, own) = (TenantId(0), TenantId(1));
        deadlines.set(Scope::Task(TaskId(1)), "deadline", 5_000_000, Nanos::ZERO);
        assert_eq!(deadlines.get(Scope::Task(TaskId(1)), "deadline"), Some(5_000_000));
        let (start, theirs) = (Nanos::from_secs(100), Io { tenant: busy, ..Io::default() });
        let zero = Nanos::ZERO;
        let done = Finished { io: theirs, submit: zero, insert: zero, issue: zero, merged: false, result: Ok(()) };
        for n in 0..20 {
            let ctx = at(start + Nanos::from_ms(n));
            deadlines.finished(&done, &ctx, &mut Effects::default());
            deadlines.admitted(&theirs, &ctx);
        }
        let (ctx, io) = (at(start + Nanos::from_ms(20)), Io { task: TaskId(1), tenant: own, ..Io::default() });
        assert_eq!(deadlines.predicted(own), Nanos::from_ms(8), "eight times the millisecond of each");
        assert_eq!(deadlines.submit(&io, &ctx), BioAnswer::Pass, "one is admitted whatever is predicted");
        assert_eq!(deadlines.submit(&io, &ctx), BioAnswer::Refuse(Errno::EBUSY));
    }
}
