//! Commands that arrive: served from the buffer or the cache, or queued for the arm.

use dumbwaiter_block::{Nanos, Op};

use super::{Arm, Barrier, Hdd, Held, Queued};
use crate::Command;

impl Hdd {
    pub(super) fn accept(&mut self, held: Held, now: Nanos) {
        if self.barrier.is_some() {
            self.behind.push_back(held);
            return;
        }
        let Command { op, fua, sectors, .. } = held.command;
        match op {
            Op::Read if sectors > 0 => self.accept_read(held, now),
            Op::Write | Op::WriteZeroes if sectors > 0 => {
                if fua || u64::from(sectors) > self.cache_sectors {
                    self.enqueue(held, now, true, held.command.sector);
                } else if self.waiting.is_empty() && self.fits(&held.command) {
                    self.admit(held, now);
                    self.wake_arm(now);
                } else {
                    self.waiting.push_back(held);
                    self.wake_arm(now);
                }
            }
            Op::Flush => {
                self.barrier = Some(Barrier { held, began: now });
                self.wake_arm(now);
            }
            _ => self.over_link(held, now, 0),
        }
    }

    fn accept_read(&mut self, held: Held, now: Nanos) {
        let lba = held.command.sector;
        let end = lba + u64::from(held.command.sectors);
        if self.dirty.covers(lba, end) {
            self.counters.cache_hits += 1;
            return self.over_link(held, now, held.command.bytes());
        }
        let mut from = lba;
        self.rebase(now, lba);
        if let Arm::Ahead { segment, since, from: front, committed, end: ahead_end, ending, .. } = self.arm {
            let start = self.buffer.get(segment).start;
            let soon = || now + Nanos(self.geometry.revolution) >= since + self.span(front, lba);
            let joins = lba >= start && lba <= ahead_end.max(front);
            if joins && (end <= ahead_end || (!ending && (lba <= front || soon()))) {
                self.counters.cache_hits += 1;
                let ready = since + self.span(front, end);
                self.stream(held, now, ready);
                self.buffer.touch(segment, lba, end);
                if !ending {
                    let ahead = (end + self.ahead_max).min(self.facts.capacity_sectors).max(ahead_end);
                    let until = since + self.span(front, ahead);
                    let committed = committed.max(end);
                    self.arm = Arm::Ahead { segment, since, from: front, committed, end: ahead, until, ending };
                }
                return;
            }
            if joins {
                from = from.max(ahead_end);
            }
        }
        if let Some(segment) = self.buffer.holding(lba) {
            let buffered = self.buffer.get(segment).end;
            if end <= buffered {
                self.counters.cache_hits += 1;
                self.buffer.touch(segment, lba, end);
                self.over_link(held, now, held.command.bytes());
                self.resume(now, segment);
                return;
            }
            from = from.max(buffered);
        }
        self.enqueue(held, now, false, from.min(end - 1));
    }

    fn enqueue(&mut self, held: Held, now: Nanos, write: bool, from: u64) {
        let place = self.geometry.place(from);
        self.queue.push(Queued { held, place, write, from });
        self.candidates.push(place, write, &self.seek);
        self.wake_arm(now);
    }
}
