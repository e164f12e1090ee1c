//! Completions whose time is known but still to come.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use dumbwaiter_block::Nanos;

use crate::Completion;

/// Holds future completions and returns them by (time, command number). Reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    order: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    slots: Vec<Completion>,
    free: Vec<u32>,
    due: VecDeque<Completion>,
}

impl Outbox {
    /// Adds the completion of command number `seq`.
    pub(crate) fn push(&mut self, seq: u64, completion: Completion) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = completion;
                slot
            }
            None => {
                self.slots.push(completion);
                (self.slots.len() - 1) as u32
            }
        };
        self.order.push(Reverse((completion.at, seq, slot)));
    }

    /// Sets completions due by `now` aside; returns their number.
    pub(crate) fn settle(&mut self, now: Nanos) -> u32 {
        let mut settled = 0;
        while let Some(completion) = self.pop(now) {
            self.due.push_back(completion);
            settled += 1;
        }
        settled
    }

    /// Appends all completions due by `now`; returns how many of them [`Outbox::settle`] had not counted.
    pub(crate) fn drain(&mut self, now: Nanos, out: &mut Vec<Completion>) -> u32 {
        out.extend(self.due.drain(..));
        let before = out.len();
        while let Some(completion) = self.pop(now) {
            out.push(completion);
        }
        (out.len() - before) as u32
    }

    /// Time of the next completion.
    pub(crate) fn next(&self) -> Option<Nanos> {
        match self.due.front() {
            Some(completion) => Some(completion.at),
            None => self.order.peek().map(|Reverse((at, _, _))| *at),
        }
    }

    fn pop(&mut self, now: Nanos) -> Option<Completion> {
        let Reverse((at, _, slot)) = *self.order.peek()?;
        if at > now {
            return None;
        }
        self.order.pop();
        self.free.push(slot);
        Some(self.slots[slot as usize])
    }
}
