//! The lab of cfq: its devices, shares by tenant, its counters, trees and virtual times.

use dumbwaiter_block::{Nanos, Setup, TickClock};

use super::super::Cfq;
use super::super::queue::{HOMELESS, NONE};
use crate::test_lab::{Checked, Device};
pub(super) use crate::test_lab::{Client, Sent};

pub(super) type Lab = crate::test_lab::Lab<Cfq>;

pub(super) const HZ_1000: TickClock = TickClock { period: Nanos::from_ms(1), step_at: Nanos::ZERO };

impl Lab {
    /// A disk of 100 MB/s that seeks in 5 ms and takes one request at a time, or of `depth`.
    pub(super) fn disk(make: impl FnOnce(Setup) -> Cfq, depth: u32) -> Lab {
        let setup = Setup { clock: HZ_1000, rotational: true, ..Setup::default() };
        Lab::new(make, setup, Device { depth, seek: Nanos::from_ms(5), ..Device::PLAIN })
    }

    /// The same, seeking in this time.
    pub(super) fn seeking(mut self, seek: Nanos) -> Lab {
        self.device.seek = seek;
        self
    }

    /// Flash: 16 channels of 80 us and 100 MB/s each, 32 requests.
    pub(super) fn flash(make: impl FnOnce(Setup) -> Cfq) -> Lab {
        let setup = Setup { clock: HZ_1000, rotational: false, ..Setup::default() };
        Lab::new(make, setup, Device { depth: 32, channels: 16, fixed: Nanos::from_us(80), ..Device::PLAIN })
    }

    /// Parts of what was sent from `from` on, counted as `what` says, by tenant.
    pub(super) fn shares(&self, from: Nanos, what: fn(&Sent) -> u64) -> Vec<f64> {
        let mut sum = vec![0u64; self.tenants.tenant_slots()];
        for sent in self.sent.iter().filter(|s| s.at >= from) {
            sum[self.clients[sent.client].tenant as usize] += what(sent);
        }
        let all: u64 = sum.iter().sum();
        sum.iter().map(|s| *s as f64 / all as f64).collect()
    }
}

/// Virtual times as they were at the last check.
#[derive(Default)]
pub(crate) struct Times {
    /// Those of groups that were active.
    groups: Vec<Option<u64>>,
    min: u64,
}

impl Checked for Cfq {
    type Memory = Times;

    /// Counters and trees are consistent. Virtual times go on while a group is active, and the least of them always.
    fn check(&self, before: &mut Times) {
        check(self);
        assert!(self.min_vdisktime >= before.min);
        before.min = self.min_vdisktime;
        before.groups.resize(self.groups.len(), None);
        for (before, group) in before.groups.iter_mut().zip(&self.groups) {
            let now = (group.queues > 0).then_some(group.vdisktime);
            assert!(before.is_none() || now.is_none() || now >= *before, "{before:?} {now:?}");
            *before = now;
        }
    }

    /// The idle timer, a tenant's slot or its next request.
    fn waits_with_reason(&self, until: Nanos) -> bool {
        let active = |cfq: &Cfq| {
            let queue = &cfq.queues[cfq.active as usize];
            queue.is_empty() && queue.waiting
        };
        self.anticipation.is_some() || (self.idle_timer == Some(until) && active(self))
    }
}

/// Fractions, computed anew, are parts of a whole; none is less than one part of 4096.
pub(super) fn check_fractions(cfq: &Cfq) {
    let mut cfq = cfq.clone();
    let active: Vec<u32> = cfq.order.iter(&cfq.line).collect();
    active.iter().for_each(|g| cfq.refresh(*g));
    // The first were computed before the others took up new weights.
    active.iter().for_each(|g| cfq.refresh(*g));
    let fractions = active.iter().map(|g| cfq.groups[*g as usize].vfraction);
    let least = fractions.clone().filter(|f| *f == 1).count() as u64;
    assert!(fractions.sum::<u64>() <= 4096 + least);
}

/// Counts agree with what they count, and trees are in order.
pub(super) fn check(cfq: &Cfq) {
    let on_trees: usize = cfq.groups.iter().flat_map(|g| &g.trees).map(|t| t.tree.len()).sum();
    assert_eq!(on_trees, cfq.busy_queues as usize);
    let homes = cfq.queues.iter().filter(|q| q.home != HOMELESS);
    assert_eq!(homes.clone().count(), on_trees);
    assert_eq!(homes.filter(|q| q.sync).count(), cfq.busy_sync as usize);
    let queued: usize = cfq.queues.iter().map(|q| q.requests.len()).sum();
    assert_eq!(queued, cfq.rq_queued as usize);
    for (i, q) in cfq.queues.iter().enumerate() {
        let active = cfq.active == i as u32;
        assert!(!q.is_empty() || q.home == HOMELESS || active, "an empty queue in line");
        assert!(q.is_empty() || q.home != HOMELESS, "a queue with requests is not in line");
        assert_eq!(q.is_empty(), q.next == NONE);
        assert_eq!(q.requests.len(), q.fifo.len());
    }
    for g in &cfq.groups {
        for tree in &g.trees {
            assert!(cfq.service.iter(&tree.tree).is_sorted_by_key(|q| cfq.service.key(q)));
        }
        assert_eq!(g.queues as usize, g.trees.iter().map(|t| t.tree.len()).sum::<usize>());
    }
    assert_eq!(cfq.groups.iter().filter(|g| g.queues > 0).count(), cfq.line.len());
    assert!(cfq.order.iter(&cfq.line).is_sorted_by_key(|g| cfq.groups[g as usize].vdisktime));
    assert!(cfq.groups.iter().map(|g| g.in_flight).sum::<u32>() == cfq.in_flight[0] + cfq.in_flight[1]);
}
