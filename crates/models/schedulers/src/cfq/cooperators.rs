//! Queues that read close to each other: they take over from each other, and become one.

use super::Cfq;
use super::queue::{HOMELESS, IDLE, NONE, REALTIME};

/// Close: this many sectors from the head.
const CLOSE_SECTORS: u64 = 8192;

impl Cfq {
    /// Is this sector close to the head?
    pub(super) fn close(&self, sector: u64) -> bool {
        sector.abs_diff(self.head) <= CLOSE_SECTORS
    }

    /// Another queue of the group whose next request is close to the device's head.
    pub(super) fn close_cooperator(&self, q: u32) -> Option<u32> {
        let queue = &self.queues[q as usize];
        if !queue.sync || queue.class == IDLE || queue.seeky() || self.groups[queue.group as usize].queues == 1 {
            return None;
        }
        let tree = &self.positions[usize::from(queue.asked.1)];
        let above = self.by_position.first_from(tree, self.head);
        let below = match above {
            Some(above) => self.by_position.previous(above),
            None => tree.last(),
        };
        let distance = |other: &u32| self.by_position.key(*other).abs_diff(self.head);
        // The nearer first; an exact hit is one above.
        let other = [above, below].into_iter().flatten().filter(|o| *o != q).min_by_key(distance)?;
        let candidate = &self.queues[other as usize];
        let suits = distance(&other) <= CLOSE_SECTORS
            && candidate.group == queue.group
            && (candidate.class == REALTIME) == (queue.class == REALTIME);
        suits.then_some(other)
    }

    /// The queue with fewer tasks will merge into the other as its tasks ask again.
    pub(super) fn plan_merge(&mut self, q: u32, other: u32) {
        let mut target = other;
        while self.queues[target as usize].merge_into != NONE {
            target = self.queues[target as usize].merge_into;
            if target == q {
                return;
            }
        }
        let (own, others) = (self.queues[q as usize].tasks, self.queues[target as usize].tasks);
        if own == 0 || others == 0 || target == q {
            return;
        }
        let (from, into) = if others >= own { (q, target) } else { (target, q) };
        if self.queues[from as usize].merge_into == NONE {
            self.queues[from as usize].merge_into = into;
            self.queues[into as usize].pointers += 1;
        }
    }

    /// The position tree follows the queue's next request. Only queues that may take over are in it.
    pub(super) fn reposition(&mut self, q: u32) {
        let queue = &mut self.queues[q as usize];
        if queue.position_level != HOMELESS {
            self.by_position.remove(&mut self.positions[usize::from(queue.position_level)], q);
            queue.position_level = HOMELESS;
        }
        if queue.next != NONE && queue.sync && queue.class != IDLE && !queue.seeky() {
            queue.position_level = queue.asked.1;
            let sector = self.by_sector.key(queue.next);
            self.by_position.insert(&mut self.positions[usize::from(queue.position_level)], q, sector);
        }
    }
}
