//! The write-back cache of a hard disk: admission of writes, and the choice of what to write back.

use dumbwaiter_block::{Nanos, Op};

use super::dirty::NONE;
use super::geometry::Place;
use super::seek::{Candidates, DEPTH_MAX};
use super::{Arm, Hdd, Held};
use crate::Command;

impl Hdd {
    pub(super) fn used(&self) -> u64 {
        self.dirty.sectors() + self.returning
    }

    pub(super) fn fits(&self, command: &Command) -> bool {
        let (lba, sectors) = (command.sector, u64::from(command.sectors));
        let end = lba + sectors;
        let tracked = self.dirty.len() < self.max_dirty_extents || self.dirty.adjoins(lba, end);
        (tracked && self.used() + sectors <= self.cache_sectors) || self.dirty.covers(lba, end)
    }

    pub(super) fn admit(&mut self, held: Held, now: Nanos) {
        let Command { op, sector, sectors, .. } = held.command;
        self.over_link(held, now, if op == Op::Write { held.command.bytes() } else { 0 });
        self.dirty.insert(sector, sector + u64::from(sectors), &self.geometry);
    }

    pub(super) fn admit_waiting(&mut self, now: Nanos) {
        while let Some(held) = self.waiting.front().copied().filter(|held| self.fits(&held.command)) {
            self.waiting.pop_front();
            self.admit(held, now);
        }
    }

    /// Whether dirty data must be written back even if commands wait.
    pub(super) fn must_write_back(&self) -> bool {
        self.draining || self.is_over_high()
    }

    fn is_over_high(&self) -> bool {
        let over = self.cache_sectors > 0 && self.used() >= self.destage.high;
        !self.waiting.is_empty() || over || 4 * self.dirty.len() >= 3 * self.max_dirty_extents
    }

    /// Whether the arm has something to do that cannot wait.
    pub(super) fn has_arm_work(&self) -> bool {
        !self.queue.is_empty() || self.barrier.is_some() || (self.must_write_back() && !self.dirty.is_empty())
    }

    /// Decides whether the drive goes on to write back until enough room is free.
    pub(super) fn decide_draining(&mut self) {
        self.draining = self.is_over_high() || (self.draining && self.used() > self.destage.low);
    }

    /// Whether the arm is at a run of dirty data that it began to write, of which it may write more before a read.
    pub(super) fn is_visiting(&self, now: Nanos) -> bool {
        (1..self.destage.visit).contains(&self.visit)
            && now == self.passed_at
            && self.dirty.starting_at(self.next_lba) != NONE
    }

    /// Whether it writes the run beginning at the next sector, and the time until it is there.
    fn positioning_on(&self, now: Nanos, slot: u32) -> u64 {
        if now != self.passed_at {
            return self.t_cmd.0 + self.rotation(now, self.t_cmd.0, self.dirty.extent(slot).place);
        }
        if self.visit >= self.destage.visit {
            // No read has come between: the drive streams.
            return self.geometry.step(self.next_lba);
        }
        // What it looks up between two full pieces costs a revolution.
        let gap = if self.full_piece { self.destage.gap.0 } else { 0 };
        gap + self.rotation(now, gap, self.dirty.extent(slot).place)
    }

    /// Writes back a piece of one extent.
    pub(super) fn write_back(&mut self, now: Nanos) {
        let continued = if self.visit > 0 { self.dirty.starting_at(self.next_lba) } else { NONE };
        let turn = self.geometry.revolution;
        let phase = (now.0 + self.phase0 + self.t_cmd.0) % turn;
        // As `seek` and `rotation` but without divisions, since it runs for many places.
        let cost = |place: Place| {
            let seek = self.seek.time(self.here, place, true);
            let mut reached = phase + seek;
            while reached >= turn {
                reached -= turn;
            }
            let wait = if place.angle >= reached { place.angle - reached } else { place.angle + turn - reached };
            if wait + turn / 1_000_000 >= turn { seek } else { seek + wait }
        };
        let (slot, positioning) = if continued == NONE {
            let slot = match self.write_back_window {
                0 => self.dirty.nearest(self.here.cylinder, cost, |d| self.seek.least_write(d)),
                window => {
                    let mut candidates = Candidates::new();
                    for slot in self.dirty.oldest().take(window) {
                        candidates.push(self.dirty.extent(slot).place, true, &self.seek);
                    }
                    let index = candidates.nearest((self.here, phase), turn, window, &self.seek, &[0.0; DEPTH_MAX]);
                    self.dirty.oldest().nth(index).unwrap_or(NONE)
                }
            };
            if slot == NONE {
                return;
            }
            (slot, self.t_cmd.0 + cost(self.dirty.extent(slot).place))
        } else {
            (continued, self.positioning_on(now, continued))
        };
        let lba = self.dirty.extent(slot).lba;
        let mut piece = self.geometry.track_end(lba);
        for _ in 1..self.destage.tracks {
            piece = self.geometry.track_end(piece);
        }
        let end = self.dirty.extent(slot).end.min(piece);
        if let Some(shingled) = &mut self.shingled {
            if !shingled.in_order(lba) {
                return self.append_with_oldest(slot, now);
            }
            shingled.place(lba, end - lba);
        }
        let until = now + Nanos(positioning + self.geometry.media(lba, end - lba));
        self.dirty.remove(lba, end, &self.geometry);
        self.returning += end - lba;
        self.moved(now, until, end);
        self.wrote_back_last = true;
        self.full_piece = end == piece;
        self.visit += end - lba;
        self.arm = Arm::Write { until, returns: end - lba };
    }
}
