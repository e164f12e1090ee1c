//! Rejection: an I/O whose predicted wait exceeds its deadline is refused at once, for callers that can go elsewhere.
//!
//! The prediction is the smaller of two: the I/Os under way times the time that the device takes for each, and those of the tenant, with the new one,
//! times the time that passes between the tenant's completions. The first is right where requests are served in turn, the second
//! where the scheduler gives the tenant a share. So that a prediction that became wrong is corrected, one I/O of a tenant without any
//! under way is admitted in each time of a deadline.
//!
//! After Hao and others, *MittOS: Supporting Millisecond Tail Tolerance with Fast Rejecting SLO-Aware OS Interface* (SOSP 2017), which predicts by a
//! profile of the device.

use crate::{Io, Nanos, Op, TaskId, TenantId};

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
    /// With so many I/Os under way that began before.
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

/// Deadlines of tasks, and what is needed to predict waits.
#[derive(Clone, Debug, Default)]
pub(super) struct Admission {
    /// By task; [`Nanos::MAX`]: none.
    deadlines: Vec<Nanos>,
    device: Progress,
    tenants: Vec<Progress>,
}

impl Admission {
    /// Without a deadline, while so many I/Os of each tenant are under way.
    pub(super) fn with_under_way(tenants: impl Iterator<Item = u32>) -> Admission {
        let tenants: Vec<Progress> = tenants.map(|ios| Progress::with_under_way(u64::from(ios))).collect();
        let all = tenants.iter().map(|own| own.outstanding).sum();
        Admission { deadlines: Vec::new(), device: Progress::with_under_way(all), tenants }
    }

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

    /// Would this I/O wait for longer than it may?
    pub(super) fn refuses(&mut self, now: Nanos, io: &Io) -> bool {
        let deadline = self.deadlines.get(io.task.0 as usize).copied().unwrap_or(Nanos::MAX);
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

    /// An I/O was admitted.
    pub(super) fn begins(&mut self, now: Nanos, tenant: TenantId) {
        self.device.begins(now);
        self.tenant(tenant).begins(now);
    }

    /// An I/O that was admitted is complete.
    pub(super) fn ends(&mut self, now: Nanos, tenant: TenantId) {
        self.device.ends(now);
        self.tenant(tenant).ends(now);
    }

    /// Sets the deadline of a task, or takes it away.
    pub(super) fn set_deadline(&mut self, task: TaskId, deadline: Option<Nanos>) {
        let index = task.0 as usize;
        if index >= self.deadlines.len() {
            self.deadlines.resize(index + 1, Nanos::MAX);
        }
        self.deadlines[index] = deadline.unwrap_or(Nanos::MAX);
    }

    /// A task exited, and its number may be used again.
    pub(super) fn forget_task(&mut self, task: TaskId) {
        if let Some(deadline) = self.deadlines.get_mut(task.0 as usize) {
            *deadline = Nanos::MAX;
        }
    }

    /// A tenant was retired, and its number may be used again.
    pub(super) fn forget_tenant(&mut self, tenant: TenantId) {
        *self.tenant(tenant) = Progress::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight I/Os are always under way, and one completes each millisecond.
    #[test]
    fn a_deadline_that_is_set_under_load_knows_what_is_under_way() {
        let mut admission = Admission::with_under_way([8, 0].into_iter());
        let (busy, own) = (TenantId(0), TenantId(1));
        admission.set_deadline(TaskId(1), Some(Nanos::from_ms(5)));
        let start = Nanos::from_secs(100);
        for n in 0..20 {
            let now = start + Nanos::from_ms(n);
            admission.ends(now, busy);
            admission.begins(now, busy);
        }
        let (now, io) = (start + Nanos::from_ms(20), Io { task: TaskId(1), tenant: own, ..Io::default() });
        assert_eq!(admission.predicted(own), Nanos::from_ms(8), "eight times the millisecond of each");
        assert!(!admission.refuses(now, &io) && admission.refuses(now, &io), "one is admitted whatever is predicted");
    }
}
