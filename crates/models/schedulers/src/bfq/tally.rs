//! Counts of how slots ended, for results.

use super::reason::Reason;

/// Since the scheduler was made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// By [`Reason`].
    slots: [u64; 5],
    /// Sectors served in them.
    sectors: [u64; 5],
    /// Requests in the device when their queue's slot ended.
    carried: u64,
    /// Longest slot, sectors.
    longest: u64,
    /// Number of times that the device idled for a queue.
    pub(super) waits: u64,
    /// Interactive and soft real-time raises.
    pub(super) raises: [u64; 2],
}

const SLOTS: [&str; 5] = ["slots_idle", "slots_time", "slots_exhausted", "slots_empty", "slots_preempted"];
const SECTORS: [&str; 5] = ["sectors_idle", "sectors_time", "sectors_exhausted", "sectors_empty", "sectors_preempted"];

impl Tally {
    pub(super) fn slot(&mut self, reason: Reason, served: u64, in_flight: u32) {
        let i = match reason {
            Reason::TooIdle => 0,
            Reason::BudgetTimeout => 1,
            Reason::BudgetExhausted => 2,
            Reason::NoMoreRequests => 3,
            Reason::Preempted => 4,
        };
        self.slots[i] += 1;
        self.sectors[i] += served;
        self.carried += u64::from(in_flight);
        self.longest = self.longest.max(served);
    }

    pub(super) fn report(&self, count: &mut dyn FnMut(&'static str, u64)) {
        for i in 0..SLOTS.len() {
            count(SLOTS[i], self.slots[i]);
            count(SECTORS[i], self.sectors[i]);
        }
        count("carried_requests", self.carried);
        count("longest_slot_sectors", self.longest);
        count("idle_waits", self.waits);
        count("raises_interactive", self.raises[0]);
        count("raises_soft_rt", self.raises[1]);
    }
}
