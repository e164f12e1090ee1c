//! Which threads of a load may submit, and when the others wake up: for worlds that have no events of their own.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use dumbwaiter_block::Nanos;

use crate::load::running::RunningLoad;

/// Threads that may submit, in the order in which they became ready, and wake-ups of others.
#[derive(Default)]
pub struct WakeQueue {
    wakes: BinaryHeap<Reverse<(Nanos, u32)>>,
    ready: VecDeque<u32>,
    /// By thread: whether it is in `ready`.
    is_ready: Vec<bool>,
}

impl WakeQueue {
    /// Starts the next stage of the load if it may start.
    pub fn start_stage(&mut self, load: &mut RunningLoad, now: Nanos) {
        for (thread, at) in load.start_stage(now) {
            self.wake(thread, at);
        }
        self.make_due_ready(load, now);
    }

    /// Wakes a thread at this time.
    pub fn wake(&mut self, thread: u32, at: Nanos) {
        self.wakes.push(Reverse((at, thread)));
    }

    /// A thread may submit.
    pub fn make_ready(&mut self, thread: u32) {
        let index = thread as usize;
        if self.is_ready.len() <= index {
            self.is_ready.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.is_ready[index], true) {
            self.ready.push_back(thread);
        }
    }

    /// Threads whose time has come may submit.
    pub fn make_due_ready(&mut self, load: &mut RunningLoad, now: Nanos) {
        while let Some(Reverse((at, thread))) = self.wakes.peek().copied()
            && at <= now
        {
            self.wakes.pop();
            if load.wakes(thread, now) {
                self.make_ready(thread);
            }
        }
    }

    /// When the next thread wakes up by itself.
    pub fn next_wake(&mut self, load: &RunningLoad) -> Option<Nanos> {
        while let Some(Reverse((at, thread))) = self.wakes.peek().copied() {
            if load.wake_at(thread) == at {
                return Some(at);
            }
            self.wakes.pop();
        }
        None
    }

    /// May a thread submit?
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the next thread that may submit.
    pub fn next_ready(&mut self) -> Option<u32> {
        let thread = self.ready.pop_front()?;
        self.is_ready[thread as usize] = false;
        Some(thread)
    }
}
