//! The lab of bfq: its devices, shares by client, and its counters.

use dumbwaiter_block::{Nanos, Setup};

use super::super::Bfq;
use super::super::queue::NONE;
pub(super) use crate::test_lab::Client;
use crate::test_lab::{Checked, Device};

pub(super) type Lab = crate::test_lab::Lab<Bfq>;

/// As the kernel was measured: one request after another, 64 KiB in 4.1 ms wherever it lies.
const MEASURED: Device = Device { per_byte: 63, ..Device::PLAIN };

impl Lab {
    /// A device as the kernel was measured on, which holds `depth` requests.
    pub(super) fn fifo(make: impl FnOnce(Setup) -> Bfq, depth: u32) -> Lab {
        Lab::new(make, Setup { rotational: true, ..Setup::default() }, Device { depth, ..MEASURED })
    }

    /// The same, said to be flash.
    pub(super) fn flash(make: impl FnOnce(Setup) -> Bfq, depth: u32) -> Lab {
        Lab::new(make, Setup { rotational: false, ..Setup::default() }, Device { depth, ..MEASURED })
    }

    /// A disk of 100 MB/s that seeks in 5 ms and takes one request at a time.
    pub(super) fn disk(make: impl FnOnce(Setup) -> Bfq) -> Lab {
        let device = Device { seek: Nanos::from_ms(5), ..Device::PLAIN };
        Lab::new(make, Setup { rotational: true, ..Setup::default() }, device)
    }

    /// Parts of the sectors sent between two times, by client.
    pub(super) fn shares(&self, from: Nanos, to: Nanos) -> Vec<f64> {
        let mut sum = vec![0u64; self.clients.len()];
        for sent in self.sent.iter().filter(|s| s.at >= from && s.at < to) {
            sum[sent.client] += u64::from(sent.sectors);
        }
        let all: u64 = sum.iter().sum();
        sum.iter().map(|s| *s as f64 / all.max(1) as f64).collect()
    }

    /// The clients in the order in which they were served: each from when on, and for how many sectors until the next.
    pub(super) fn turns(&self) -> Vec<(usize, Nanos, u64)> {
        let mut turns: Vec<(usize, Nanos, u64)> = Vec::new();
        for sent in &self.sent {
            match turns.last_mut().filter(|t| t.0 == sent.client) {
                Some(turn) => turn.2 += u64::from(sent.sectors),
                None => turns.push((sent.client, sent.at, u64::from(sent.sectors))),
            }
        }
        turns
    }
}

impl Checked for Bfq {
    type Memory = ();

    /// Counters agree with what they count.
    fn check(&self, (): &mut ()) {
        check(self);
    }
}

fn check(bfq: &Bfq) {
    let live = || bfq.queues.live().map(|(_, q)| q);
    assert_eq!(live().map(|q| q.queued[0] + q.queued[1]).sum::<u32>(), bfq.requests.queued);
    assert_eq!(live().map(|q| q.in_flight).sum::<u32>(), bfq.device.in_driver);
    bfq.counts.check(&bfq.queues, &bfq.groups);
    for (q, queue) in bfq.queues.live() {
        assert_eq!(queue.is_empty(), queue.next == NONE);
        assert!(queue.is_empty() || queue.busy);
        assert!(!queue.busy || queue.pending);
        let entity = bfq.engine.entity(queue.entity);
        let oversized = queue.max_budget.max(512);
        assert!(!bfq.slot.serves(q) || entity.used <= entity.budget.max(oversized));
    }
}
