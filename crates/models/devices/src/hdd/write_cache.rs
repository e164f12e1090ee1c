//! The write-back cache of a hard disk: admission of writes, and the choice of what to write back.

use dumbwaiter_block::{Nanos, Op};

use super::dirty::NONE;
use super::geometry::Place;
use super::seek::Candidates;
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
        let nearly_full = self.cache_sectors > 0 && 4 * self.used() >= 3 * self.cache_sectors;
        !self.waiting.is_empty() || nearly_full || 4 * self.dirty.len() >= 3 * self.max_dirty_extents
    }

    /// Writes back one extent, at most to the end of its track.
    pub(super) fn write_back(&mut self, now: Nanos) {
        let continued = if now == self.passed_at { self.dirty.starting_at(self.next_lba) } else { NONE };
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
                    let index = candidates.nearest(self.here, phase, turn, window, &self.seek);
                    self.dirty.oldest().nth(index).unwrap_or(NONE)
                }
            };
            if slot == NONE {
                return;
            }
            (slot, self.t_cmd.0 + cost(self.dirty.extent(slot).place))
        } else {
            (continued, self.geometry.step(self.next_lba))
        };
        let lba = self.dirty.extent(slot).lba;
        let end = self.dirty.extent(slot).end.min(self.geometry.track_end(lba));
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
        self.arm = Arm::Write { until, returns: end - lba };
    }
}
