//! The device: what is in it, and what has been seen of how it works.

use dumbwaiter_block::Setup;

use super::generation::{Constants, Generation};
use super::queue::{NONE, Queue, QueueId};

/// Requests farther apart are random, sectors; on flash only small ones.
const FAR_SECTORS: u64 = 800;
const SMALL_ON_FLASH: u32 = 64;
/// With fewer requests in the device and waiting it cannot be seen whether the device queues them.
const TELLING: u32 = 4;
const SAMPLES: u32 = 32;

#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) rotational: bool,
    /// `rotational` at the start: estimates of the peak rate begin with it.
    pub(super) rotational_at_start: bool,
    /// The slots that limits of asynchronous I/O and of writes are parts of; `None` for those that there are.
    nr_requests_at_attach: Option<u32>,
    /// Flash that queues commands: idling never helps its throughput.
    pub(super) nonrot_queueing: bool,
    pub(super) in_driver: u32,
    pub(super) sync_in_driver: u32,
    pub(super) head_pos: u64,
    pub(super) last_completion: u64,
    pub(super) last_completed: QueueId,
    /// −1 unknown, 0 the device serves one at a time, 1 it queues.
    pub(super) hw_tag: i8,
    hw_tag_samples: u32,
    pub(super) max_in_driver: u32,
}

impl Device {
    pub(super) fn new(setup: &Setup, generation: Generation) -> Device {
        Device {
            rotational: setup.rotational,
            rotational_at_start: setup.rotational_at_attach(),
            nr_requests_at_attach: setup.at_attach.nr_requests,
            nonrot_queueing: !setup.rotational_at_attach(),
            in_driver: 0,
            sync_in_driver: 0,
            head_pos: 0,
            last_completion: 0,
            last_completed: NONE,
            hw_tag: if generation < Generation::V7r8 { 1 } else { -1 },
            hw_tag_samples: 0,
            max_in_driver: 0,
        }
    }

    /// A request goes to it.
    pub(super) fn send(&mut self, sync: bool) {
        self.in_driver += 1;
        self.sync_in_driver += u32::from(sync);
    }

    /// A request comes back.
    pub(super) fn complete(&mut self, sync: bool) {
        self.in_driver -= 1;
        self.sync_in_driver -= u32::from(sync);
    }

    /// Is a request far from a position? Position 0 is near to everything.
    pub(super) fn far(&self, from: u64, sector: u64, sectors: u32) -> bool {
        from != 0 && from.abs_diff(sector) > FAR_SECTORS && (self.rotational || sectors < SMALL_ON_FLASH)
    }

    /// Does it queue commands? Looked at with each completion, with `queued` requests waiting.
    pub(super) fn note_queueing(&mut self, constants: &Constants, queued: u32, serving: Option<&Queue>) {
        self.max_in_driver = self.max_in_driver.max(self.in_driver);
        let sticky = constants.is(Generation::V7r8);
        if (sticky && self.hw_tag == 1) || self.in_driver + queued < TELLING {
            return;
        }
        if let Some(queue) = serving.filter(|_| constants.is(Generation::Mainline)) {
            let held = queue.in_flight + queue.queued[0] + queue.queued[1];
            if queue.short_think && held < constants.queueing && self.in_driver < constants.queueing {
                return;
            }
        }
        self.hw_tag_samples += 1;
        if self.hw_tag_samples <= SAMPLES {
            return;
        }
        self.hw_tag = i8::from(self.max_in_driver > constants.queueing);
        self.max_in_driver = 0;
        self.nonrot_queueing = !self.rotational && self.hw_tag == 1;
        self.hw_tag_samples = 0;
    }

    /// `sixteenths` of the slots, at least one; of those at the time of attachment if limits stay those.
    pub(super) fn part_of_slots(&self, sixteenths: u64, nr_requests: u32) -> u32 {
        let whole = u64::from(self.nr_requests_at_attach.unwrap_or(nr_requests));
        u32::try_from(whole * sixteenths / 16).unwrap_or(u32::MAX).min(nr_requests).max(1)
    }
}
