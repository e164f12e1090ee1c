//! How many requests of a kind, and of a queue, the block layer may hold.

use dumbwaiter_block::{Flags, Io, Op, RequestTags};

use super::Bfq;
use crate::mq_deadline::Kernel;

/// I/O priority levels of a class: a class counts this many times as much as the one below when slots are shared out.
const LEVELS: u64 = 8;

/// The tags that a queue above its share may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverShare {
    /// One of all (Linux 6.18, and late 6.12; which update changed 6.12 is assumed to be that of mq-deadline's list at the head).
    OneOfAll,
    /// One of each word of the map of tags, four of 256 (before).
    OneOfEachWord,
}

impl OverShare {
    /// Reads a Linux release.
    pub fn parse(release: &str) -> Option<OverShare> {
        let whole = Kernel::parse(release)? == Kernel::V6_18 || release.starts_with("6.18");
        Some(if whole { OverShare::OneOfAll } else { OverShare::OneOfEachWord })
    }

    fn tags(self, nr_requests: u32) -> u32 {
        match self {
            OverShare::OneOfAll => 1,
            OverShare::OneOfEachWord => RequestTags::words(nr_requests),
        }
    }
}

impl Bfq {
    pub(super) fn limit_of(&self, io: &Io, nr_requests: u32) -> u32 {
        let sync = is_sync(io);
        let part = |sixteenths| self.device.part_of_slots(sixteenths, nr_requests);
        let limit = match (sync, io.op == Op::Read, self.counts.raised > 0) {
            (true, true, _) => nr_requests,
            (true, false, false) => part(12),
            (true, false, true) => part(6),
            (false, _, false) => part(8),
            (false, _, true) => part(3),
        };
        if self.over_share(io, sync, limit) { self.above_share.tags(nr_requests).min(limit) } else { limit }
    }

    /// Is the queue of this kind of I/O, or a group around it, at its share of `limit` slots?
    fn over_share(&self, io: &Io, sync: bool, limit: u32) -> bool {
        let Some(process) = self.processes.get(io.task.0) else { return false };
        let Some(queue) = self.queues.get(process.queue_for(sync)) else { return false };
        let mut limit = u64::from(limit);
        let mut groups = [None; 8];
        let (mut depth, mut at) = (0, Some(queue.group));
        while let Some(group) = at.filter(|_| depth < groups.len()) {
            groups[depth] = Some(group);
            depth += 1;
            at = self.groups[group].parent;
        }
        for group in groups[..depth].iter().rev().flatten() {
            let group = &self.groups[*group];
            if let Some(entity) = group.entity.filter(|e| self.engine.entity(*e).known()) {
                let all = self.engine.weights_of_class(entity);
                limit = share_of(limit, self.engine.entity(entity).weight, all);
                if u64::from(group.allocated) >= limit {
                    return true;
                }
            }
        }
        if !self.engine.entity(queue.entity).known() {
            return false;
        }
        let all = self.engine.weights_of_classes_above(queue.entity, LEVELS);
        u64::from(queue.allocated) >= share_of(limit, self.engine.entity(queue.entity).weight, all)
    }
}

/// Does it count as synchronous?
pub(super) fn is_sync(io: &Io) -> bool {
    io.op == Op::Read || io.flags.any(Flags::SYNC)
}

/// The share of `limit` that `weight` has of `all` weights, to the nearest.
fn share_of(limit: u64, weight: u64, all: u64) -> u64 {
    let all = all.max(weight).max(1);
    (limit * weight + all / 2) / all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_above_its_share_has_a_tag_of_each_word_until_6_17() {
        let of = |release| OverShare::parse(release).unwrap().tags(256);
        assert_eq!(["5.15", "6.3", "6.12.30", "6.17"].map(of), [4; 4]);
        assert_eq!(["6.12.117", "6.18", "6.18.1", "6.18.15"].map(of), [1; 4]);
        assert_eq!([64, 256, 1023].map(|depth| OverShare::OneOfEachWord.tags(depth)), [4, 4, 16]);
    }
}
