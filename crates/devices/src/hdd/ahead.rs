//! Reading ahead: when the drive goes on after a read, how far, and what a stream gains by it.

use dumbwaiter_block::Nanos;

use super::{Arm, Hdd, Held};
use crate::Breakdown;

impl Hdd {
    /// Lets a read-ahead begin at the track of `lba`, if that has passed: streams are long, and times count from there.
    pub(super) fn rebase(&mut self, now: Nanos, lba: u64) {
        if let Arm::Ahead { segment, since, from, end, .. } = self.arm
            && (from..=end).contains(&lba)
        {
            let track = self.geometry.track_start(lba);
            let passed = since + self.span(from, track);
            if track > from && passed <= now {
                self.buffer.extend(segment, track);
                if let Arm::Ahead { since, from, .. } = &mut self.arm {
                    (*since, *from) = (passed, track);
                }
            }
        }
    }

    /// Time from when the sector before `from` had passed until the one before `end` has; 0 if it already had.
    pub(super) fn span(&self, from: u64, end: u64) -> Nanos {
        if end <= from {
            return Nanos::ZERO;
        }
        Nanos(self.geometry.step(from) + self.geometry.media(from, end - from))
    }

    /// Completes a read whose last sector is in the buffer at `ready`.
    pub(super) fn stream(&mut self, held: Held, now: Nanos, ready: Nanos) {
        let start = now.max(self.link_free);
        let link = Nanos((held.command.bytes() as f64 * self.link_ns_per_byte + 0.5) as u64);
        let sent = start + self.t_cmd + link;
        // Sectors go out as they come in: only what the media delivers late is left to wait for.
        let at = sent.max(ready);
        self.link_free = sent;
        self.counters.link_busy += link;
        let queue = start.since(held.arrival);
        let media = at.since(sent);
        self.finish(held, at, Breakdown { queue, firmware: self.t_cmd, link, media, ..Breakdown::default() });
    }

    /// After a media read of `from..end`: goes on reading if nobody waits or a stream has a claim.
    pub(super) fn read_on(&mut self, now: Nanos, segment: usize, from: u64, end: u64) -> bool {
        if !self.lookahead {
            return false;
        }
        let claim = if self.buffer.get(segment).sequential { from + self.ahead_min } else { end };
        let limit = (end + self.ahead_max).min(self.facts.capacity_sectors);
        let committed = claim.clamp(end, limit.max(end));
        let waits = self.work_waits();
        let to = if waits { committed } else { limit };
        if to <= end {
            return false;
        }
        let until = now + self.span(end, to);
        self.arm = Arm::Ahead { segment, since: now, from: end, committed, end: to, until, ending: waits };
        true
    }

    /// A stream hit the buffer: reads ahead again once half of what lay ahead is consumed.
    pub(super) fn resume(&mut self, now: Nanos, segment: usize) {
        let s = *self.buffer.get(segment);
        let ahead = s.end.saturating_sub(s.last_end);
        let idle = matches!(self.arm, Arm::Idle { .. }) && !self.work_waits();
        if !self.lookahead || !idle || !s.sequential || 2 * ahead > self.ahead_max {
            return;
        }
        let to = (s.last_end + self.ahead_max).min(self.facts.capacity_sectors);
        if to <= s.end {
            return;
        }
        // `span` adds the crossing to the first sector, as if the one before had just passed: aim there.
        let place = self.geometry.place(s.end - 1);
        let seek = self.seek.time(self.here, place, false);
        let sector = self.geometry.media(s.end - 1, 1);
        let since = now + Nanos(seek + self.rotation(now, seek, place) + sector);
        let until = since + self.span(s.end, to);
        self.arm = Arm::Ahead { segment, since, from: s.end, committed: s.end, end: to, until, ending: false };
    }
}
