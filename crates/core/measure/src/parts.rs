//! Where the time of requests goes: disjoint parts that add up to the mean latency.

use serde::{Deserialize, Serialize};

use crate::Completed;
use crate::nan::{nan, not_known};

/// Parts of the latency of one request, ns. They are disjoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Waiting for a CPU and its work, before the request is inserted.
    pub cpu: u64,
    /// Waiting for the scheduler's lock.
    pub lock: u64,
    /// Asleep for a tag.
    pub tag: u64,
    /// Parked by a controller.
    pub controller: u64,
    /// Held back by the scheduler while the device had room.
    pub idling: u64,
    /// Of a read: in the device while that had a write too.
    pub beside_writes: u64,
}

/// Names and number of the sums.
const SUMS: usize = 10;

/// Sums of the parts of a group of requests, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartSums([u64; SUMS]);

impl PartSums {
    /// Adds a request; `known`: the parts that its world knows, `None` where that has only the stages.
    #[inline]
    pub(crate) fn add(&mut self, done: &Completed, known: Option<&Parts>) {
        let whole = done.complete.since(done.submit).0;
        let before = done.insert.since(done.submit).0.min(whole);
        let queued = done.issue.since(done.insert).0.min(whole - before);
        let served = done.device_done.since(done.issue).0.min(whole - before - queued);
        let rest = whole - before - queued - served;
        let parts = match known {
            None => [0, 0, 0, 0, before, queued, 0, served, 0, rest],
            Some(known) => {
                // Each no more than what its stage has left, so that the sum is the whole.
                let tag = known.tag.min(before);
                let controller = known.controller.min(before - tag);
                let lock = known.lock.min(before - tag - controller);
                let cpu = before - tag - controller - lock;
                let idling = known.idling.min(queued);
                let beside = known.beside_writes.min(served);
                [cpu, lock, tag, controller, 0, queued - idling, idling, served - beside, beside, rest]
            }
        };
        for (sum, part) in self.0.iter_mut().zip(parts) {
            *sum += part;
        }
    }

    pub(crate) fn join(&mut self, other: &PartSums) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// The means beside the mean latency that they are parts of; `None` where nothing was measured.
    pub(crate) fn means(&self, samples: u64, mean_us: f64) -> Option<TimeParts> {
        if samples == 0 {
            return None;
        }
        let mean = |i: usize| self.0[i] as f64 / samples as f64 / 1e3;
        let sum = self.0.iter().map(|sum| u128::from(*sum)).sum::<u128>() as f64 / samples as f64 / 1e3;
        let left = mean_us - sum;
        Some(TimeParts {
            cpu: mean(0),
            lock: mean(1),
            tag: mean(2),
            controller: mean(3),
            before_insert: mean(4),
            scheduler: mean(5),
            idling: mean(6),
            device: mean(7),
            beside_writes: mean(8),
            completion: mean(9),
            // Rounding is no wait.
            unfinished: if left.abs() < 1e-6 * mean_us { 0.0 } else { left },
        })
    }
}

/// Where the time of a mean request goes, us: disjoint parts that add up to its mean latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeParts {
    /// Waiting for a CPU and its work, before the request is inserted.
    #[serde(deserialize_with = "nan")]
    pub cpu: f64,
    /// Waiting for the scheduler's lock.
    #[serde(deserialize_with = "nan")]
    pub lock: f64,
    /// Asleep for a tag.
    #[serde(deserialize_with = "nan")]
    pub tag: f64,
    /// Parked by a controller.
    #[serde(deserialize_with = "nan")]
    pub controller: f64,
    /// The four before together, where they are not known by themselves.
    #[serde(deserialize_with = "nan")]
    pub before_insert: f64,
    /// In the scheduler, while the device was full or served others.
    #[serde(deserialize_with = "nan")]
    pub scheduler: f64,
    /// In the scheduler, which held back what it had while the device had room.
    #[serde(deserialize_with = "nan")]
    pub idling: f64,
    /// In the device; of a read without what comes next.
    #[serde(deserialize_with = "nan")]
    pub device: f64,
    /// Of a read: in the device while that had a write too.
    #[serde(deserialize_with = "nan")]
    pub beside_writes: f64,
    /// From the end of the device's work until the application sees it.
    #[serde(deserialize_with = "nan")]
    pub completion: f64,
    /// What requests add that had not finished at the end.
    #[serde(default = "not_known", deserialize_with = "nan")]
    pub unfinished: f64,
}

impl TimeParts {
    /// The parts with what they are called in sentences.
    pub fn named(&self) -> [(&'static str, f64); 11] {
        [
            ("waiting for a CPU and its work", self.cpu),
            ("waiting for the scheduler's lock", self.lock),
            ("asleep for a tag", self.tag),
            ("parked by a controller", self.controller),
            ("before the scheduler", self.before_insert),
            ("in the scheduler's queue", self.scheduler),
            ("held back by the scheduler while the device had room", self.idling),
            ("in the device", self.device),
            ("in the device beside writes", self.beside_writes),
            ("after the device was done", self.completion),
            ("unfinished at the end", self.unfinished),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};

    #[test]
    fn parts_are_disjoint_and_none_is_longer_than_its_stage() {
        let ns = Nanos;
        let done = Completed {
            op: Op::Read,
            task: TaskId(0),
            tenant: TenantId(0),
            sector: 0,
            bytes: 4096,
            submit: ns(100),
            insert: ns(150),
            issue: ns(250),
            device_done: ns(650),
            complete: ns(700),
        };
        let mut sums = PartSums::default();
        let known = Parts { lock: 20, tag: 500, idling: 40, beside_writes: 1000, ..Parts::default() };
        sums.add(&done, Some(&known));
        assert_eq!(sums.0, [0, 0, 50, 0, 0, 60, 40, 0, 400, 50]);
        assert_eq!(sums.0.iter().sum::<u64>(), 600);
        let mut plain = PartSums::default();
        plain.add(&done, None);
        assert_eq!(plain.0, [0, 0, 0, 0, 50, 100, 0, 400, 0, 50]);
        plain.join(&sums);
        assert_eq!(plain.0.iter().sum::<u64>(), 1200);
    }
}
