//! Groups in one another, of which some have targets: who may go, and who sleeps.

use std::collections::VecDeque;

use dumbwaiter_block::{Nanos, RequestId};

use super::scaling::{Latencies, Scaling, UNTHROTTLED, step_up};
use crate::kernel_timer::Jiffies;

/// The device, around all groups. It is never throttled.
pub const DEVICE: usize = 0;

/// The window of a target, and its bounds.
const TARGETS_PER_WINDOW: u64 = 16;
const WINDOW_MIN: Nanos = Nanos::from_ms(100);
const WINDOW_MAX: Nanos = Nanos::from_secs(1);
/// One that did no more than this share of the latencies, percent, is not in the way.
const FEW_PERCENT: u64 = 5;

/// A group.
#[derive(Clone, Debug)]
struct Group {
    parent: usize,
    /// Where it will be once nothing of it is under way.
    next_parent: usize,
    /// Zero: it has none.
    target: Nanos,
    /// The window since it began, and windows since the last change.
    began: Nanos,
    window: Latencies,
    running: Latencies,
    /// Latencies of it that are in [`Scaling::samples`].
    samples: u64,
    /// How many I/Os it may have under way; `None`: any number.
    depth: Option<u32>,
    under_way: u32,
    asleep: VecDeque<RequestId>,
    /// The cookie that it has seen.
    seen: u32,
    /// How often it was to become less deep than one.
    delays: u32,
    /// Of the groups in it.
    inside: Scaling,
}

impl Group {
    fn idle(&self) -> bool {
        self.under_way == 0 && self.asleep.is_empty()
    }

    fn full(&self) -> bool {
        self.depth.is_some_and(|depth| self.under_way >= depth)
    }
}

/// The groups of a device.
#[derive(Clone, Debug)]
pub struct Groups {
    jiffies: Jiffies,
    /// `nr_requests`.
    queue_depth: u32,
    rotational: bool,
    groups: Vec<Group>,
    timer: Option<Nanos>,
}

impl Groups {
    /// No groups but the [`DEVICE`] yet.
    pub fn new(jiffies: Jiffies, queue_depth: u32, rotational: bool) -> Groups {
        let mut groups = Groups { jiffies, queue_depth, rotational, groups: Vec::new(), timer: None };
        groups.add(DEVICE);
        groups
    }

    /// Adds a group without a target, in another or in the [`DEVICE`]. Its number: 1, 2, …
    pub fn add(&mut self, parent: usize) -> usize {
        self.groups.push(Group {
            parent,
            next_parent: parent,
            target: Nanos::ZERO,
            began: Nanos::ZERO,
            window: Latencies::default(),
            running: Latencies::default(),
            samples: 0,
            depth: None,
            under_way: 0,
            asleep: VecDeque::new(),
            seen: UNTHROTTLED,
            delays: 0,
            inside: Scaling::default(),
        });
        self.groups.len() - 1
    }

    /// How many groups there are, the [`DEVICE`] included.
    pub fn count(&self) -> usize {
        self.groups.len()
    }

    /// A group moves into another one, or into the [`DEVICE`], once nothing of it is under way.
    ///
    /// # Panics
    ///
    /// No group has this number, as everywhere here.
    pub fn set_parent(&mut self, group: usize, parent: usize) {
        self.groups[group].next_parent = parent;
    }

    /// The target of a group; zero: none. What was judged is forgotten, and nobody is throttled for it any more.
    pub fn set_target(&mut self, group: usize, target: Nanos, now: Nanos) {
        let own = &mut self.groups[group];
        let parent = own.parent;
        (own.target, own.began, own.window, own.running) = (target, now, Latencies::default(), Latencies::default());
        let samples = std::mem::take(&mut own.samples);
        let around = &mut self.groups[parent].inside;
        around.samples -= samples;
        if around.protects == Some(group) {
            *around = Scaling { samples: around.samples, ..Scaling::default() };
        }
    }

    /// The target of a group; zero: none.
    pub fn target(&self, group: usize) -> Nanos {
        self.groups[group].target
    }

    /// `nr_requests` from now on.
    pub fn set_queue_depth(&mut self, queue_depth: u32) {
        self.queue_depth = queue_depth;
    }

    /// How many I/Os a group may have under way; `None`: any number.
    pub fn depth(&self, group: usize) -> Option<u32> {
        self.groups[group].depth
    }

    /// How often a group of depth one was to become less deep. In Linux its tasks are delayed then, as they return from the kernel.
    pub fn delays(&self, group: usize) -> u32 {
        self.groups[group].delays
    }

    /// What the groups in this one are throttled by: 1,000,000, or less.
    pub fn cookie(&self, group: usize) -> u32 {
        self.groups[group].inside.cookie
    }

    /// When [`Groups::tick`] must be called, if ever.
    pub fn timer(&self) -> Option<Nanos> {
        self.timer
    }

    /// An I/O of a group asks. `false`: it sleeps. One that is `urgent` (metadata, swap) never does. `wake` gets others that go on.
    pub fn admit(
        &mut self,
        group: usize,
        id: RequestId,
        urgent: bool,
        now: Nanos,
        wake: &mut dyn FnMut(RequestId),
    ) -> bool {
        if self.timer.is_none() {
            let second = self.jiffies.at(now) + self.jiffies.hz();
            self.timer = Some(self.jiffies.timer(now, second));
        }
        self.climb(group, id, urgent, wake)
    }

    /// It takes a slot of each group from this one outwards, until it sleeps.
    fn climb(&mut self, group: usize, id: RequestId, urgent: bool, wake: &mut dyn FnMut(RequestId)) -> bool {
        let mut at = group;
        while at != DEVICE {
            self.settle(at);
            self.follow(at, wake);
            let own = &mut self.groups[at];
            if !urgent && (!own.asleep.is_empty() || own.full()) {
                own.asleep.push_back(id);
                return false;
            }
            own.under_way += 1;
            at = own.parent;
        }
        true
    }

    /// A group that was to move does, if nothing of it is under way.
    fn settle(&mut self, at: usize) {
        let own = &mut self.groups[at];
        if own.parent != own.next_parent && own.idle() {
            let before = std::mem::replace(&mut own.parent, own.next_parent);
            (own.seen, own.depth, own.delays) = (UNTHROTTLED, None, 0);
            let samples = std::mem::take(&mut own.samples);
            let around = &mut self.groups[before].inside;
            around.samples -= samples;
            if around.protects == Some(at) {
                *around = Scaling { samples: around.samples, ..Scaling::default() };
            }
        }
    }

    /// A group sees what became of the cookie since its last I/O.
    fn follow(&mut self, at: usize, wake: &mut dyn FnMut(RequestId)) {
        let Scaling { cookie, target, samples, .. } = self.groups[self.groups[at].parent].inside;
        let own = &mut self.groups[at];
        let before = std::mem::replace(&mut own.seen, cookie);
        if cookie < before {
            let few = own.samples <= (samples * FEW_PERCENT / 100).max(1);
            if own.target > Nanos::ZERO && (own.target <= target || few) {
                return;
            }
            match own.depth {
                Some(1) => own.delays += 1,
                depth => own.depth = Some((depth.unwrap_or(u32::MAX).min(self.queue_depth) / 2).max(1)),
            }
        } else if cookie > before {
            if cookie == UNTHROTTLED {
                (own.depth, own.delays) = (None, 0);
            } else if own.depth == Some(1) && own.delays > 0 {
                own.delays -= 1;
            } else if let Some(depth) = own.depth {
                own.depth = Some((depth + step_up(self.queue_depth)).min(self.queue_depth).max(depth));
            }
            while self.wake_one(at, wake) {}
        }
    }

    /// The first sleeper of a group goes on, if it may. Returns whether it left the group.
    fn wake_one(&mut self, at: usize, wake: &mut dyn FnMut(RequestId)) -> bool {
        let own = &mut self.groups[at];
        if own.full() {
            return false;
        }
        let Some(id) = own.asleep.pop_front() else { return false };
        own.under_way += 1;
        let parent = own.parent;
        if self.climb(parent, id, false, wake) {
            wake(id);
        }
        true
    }

    /// An I/O of a group that had gone is done, after `latency`; `None`: it leaves without having been served.
    pub fn done(&mut self, group: usize, latency: Option<Nanos>, now: Nanos, wake: &mut dyn FnMut(RequestId)) {
        let mut at = group;
        while at != DEVICE {
            let own = &mut self.groups[at];
            own.under_way -= 1;
            let parent = own.parent;
            if let Some(latency) = latency.filter(|_| own.target > Nanos::ZERO) {
                own.window.add(latency, own.target);
                let window = Nanos(own.target.0.saturating_mul(TARGETS_PER_WINDOW)).clamp(WINDOW_MIN, WINDOW_MAX);
                if now.since(own.began) >= window {
                    self.judge(at, now);
                }
            }
            self.wake_one(at, wake);
            at = parent;
        }
    }

    /// The window of a group with a target is over.
    fn judge(&mut self, at: usize, now: Nanos) {
        let own = &mut self.groups[at];
        let (parent, target) = (own.parent, own.target);
        own.began = now;
        let window = std::mem::take(&mut own.window);
        let good = window.good(target, self.rotational);
        if good && self.groups[parent].inside.cookie == UNTHROTTLED {
            return;
        }
        let own = &mut self.groups[at];
        own.running.add_all(window);
        let running = own.running;
        let before = std::mem::replace(&mut own.samples, running.total);
        let around = &mut self.groups[parent].inside;
        around.samples = around.samples - before + running.total;
        if around.rests(now) {
            return;
        }
        self.groups[at].running = Latencies::default();
        let protected = self.groups[parent].inside.protects.map(|group| self.groups[group].target);
        let around = &mut self.groups[parent].inside;
        if good && running.good(target, self.rotational) {
            around.met(at, running.total, self.queue_depth, now);
        } else {
            around.missed(at, target, protected, self.queue_depth, now);
        }
    }

    /// A second has passed.
    pub fn tick(&mut self, now: Nanos) {
        // The next I/O sets it again.
        self.timer = None;
        for group in &mut self.groups {
            group.inside.second(self.queue_depth, now);
        }
    }

    /// How many I/Os of a group, and of those in it, have gone and are not done, and how many sleep at it.
    pub fn under_way(&self, group: usize) -> (u32, usize) {
        (self.groups[group].under_way, self.groups[group].asleep.len())
    }
}
