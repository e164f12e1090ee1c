//! What a free arm does next, and how it moves there.

use dumbwaiter_block::Nanos;

use super::{Arm, Barrier, Hdd, PHYSICAL_SECTORS, Queued};
use crate::{Breakdown, Command};

impl Hdd {
    /// Wakes an idle arm, or ends a read-ahead early, if commands wait.
    pub(super) fn wake_arm(&mut self, now: Nanos) {
        if !self.has_arm_work() {
            return;
        }
        match self.arm {
            Arm::Idle { .. } => self.dispatch(now),
            Arm::Ahead { segment, since, from, committed, end, ending: false, .. } => {
                let passed = now.since(since);
                let mut stop = from + self.geometry.passed(from, passed.0, end - from);
                // Reads the current sector to its end.
                if self.span(from, stop) < passed {
                    stop += 1;
                }
                let end = stop.max(committed).min(end);
                let until = (since + self.span(from, end)).max(now);
                self.arm = Arm::Ahead { segment, since, from, committed, end, until, ending: true };
            }
            _ => {}
        }
    }

    /// Chooses the next action of a free arm.
    pub(super) fn dispatch(&mut self, now: Nanos) {
        self.arm = Arm::Idle { since: now };
        let serve = !self.queue.is_empty();
        self.decide_draining();
        let back = !self.dirty.is_empty()
            && if self.barrier.is_some() {
                !serve
            } else {
                self.is_visiting(now) || (self.draining && !(serve && self.wrote_back_last))
            };
        if back {
            self.write_back(now);
        } else if let Some(index) = self.continuing(now) {
            self.position(now, index, true);
        } else if serve {
            self.arm = Arm::Overhead { until: now + self.t_cmd };
        } else if let Some(Barrier { began, .. }) = self.barrier {
            self.arm = Arm::Flushed { until: now.max(began + self.t_cmd) };
        }
    }

    /// The command overhead has ended: chooses a command for the arm.
    pub(super) fn serve(&mut self, now: Nanos) {
        let index = self.choose(now);
        let Queued { held, write, .. } = self.queue[index];
        let Command { sector, sectors, .. } = held.command;
        let buffered = if write { None } else { self.buffer.holding(sector) };
        if buffered.is_some_and(|segment| self.buffer.get(segment).end >= sector + u64::from(sectors)) {
            // A read-ahead for another command has buffered it meanwhile.
            self.queue.remove(index);
            self.candidates.remove(index);
            self.counters.cache_hits += 1;
            self.over_link(held, now, held.command.bytes());
            self.dispatch(now);
        } else {
            self.position(now, index, false);
        }
    }

    /// Moves the arm for a queued command. One that `continues` the last transfer needs no overhead.
    pub(super) fn position(&mut self, now: Nanos, index: usize, continues: bool) {
        let Queued { held, mut place, write, from } = self.queue.remove(index);
        self.candidates.remove(index);
        let end = held.command.sector + u64::from(held.command.sectors);
        // On a shingled drive a write may have to wait until a band was cleaned, and may go elsewhere.
        let (began, mut target) = (now, from);
        let mut now = now;
        if write {
            while self.shingled.as_ref().is_some_and(|s| s.full_for(from, end - from)) {
                now = self.clean(now).unwrap_or(now);
            }
            if let Some(shingled) = &mut self.shingled {
                target = shingled.place(from, end - from);
                place = self.geometry.place(target);
            }
        }
        let waited = began.since(held.arrival);
        let continues = continues && target == from && now == began;
        let (firmware, seek, rotation) = if continues {
            (Nanos::ZERO, self.geometry.step(from), 0)
        } else {
            let seek = self.seek.time(self.here, place, write);
            (self.t_cmd.min(waited), seek, self.rotation(now, seek, place) + self.lateness(held.seq, write))
        };
        let mut media = self.geometry.media(target, end - from);
        if write && (from % PHYSICAL_SECTORS != 0 || end % PHYSICAL_SECTORS != 0) {
            media += self.geometry.revolution;
        }
        let until = now + Nanos(seek + rotation + media);
        let breakdown = Breakdown {
            queue: waited.since(firmware),
            seek: Nanos(seek),
            rotation: Nanos(rotation),
            media: Nanos(media),
            firmware,
            gc_stall: now.since(began),
            ..Breakdown::default()
        };
        self.finish(held, until, breakdown);
        self.moved(now, until, target + (end - from));
        self.wrote_back_last = false;
        self.visit = 0;
        if write {
            self.dirty.remove(from, end, &self.geometry);
            self.arm = Arm::Write { until, returns: 0 };
        } else {
            self.arm = Arm::Read { until, lba: held.command.sector, from, end };
        }
    }

    /// Another revolution, of a read that misses its sector.
    fn lateness(&self, seq: u64, write: bool) -> u64 {
        let share = self.late[usize::from(self.wrote_back_last)];
        let late = !write && share > 0.0 && self.lateness.unit(seq) < share;
        if late { self.geometry.revolution } else { 0 }
    }
}
