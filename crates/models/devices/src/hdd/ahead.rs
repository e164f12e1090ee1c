//! Read-ahead: when the drive continues after a read, how far it reads, and how it serves streams.

use dumbwaiter_block::Nanos;

use super::{Arm, Hdd, Held};
use crate::Breakdown;

impl Hdd {
    /// Moves the reference point of a long read-ahead to the track of `lba`, once the head has passed it.
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

    /// Time from the end of sector `from - 1` to the end of sector `end - 1` under the head; 0 if `end` lies before
    /// `from`.
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
        // The link sends sectors as they arrive, so only media time beyond the link time delays the completion.
        let at = sent.max(ready);
        self.link_free = sent;
        self.counters.link_busy += link;
        let queue = start.since(held.arrival);
        let media = at.since(sent);
        self.finish(held, at, Breakdown { queue, firmware: self.t_cmd, link, media, ..Breakdown::default() });
    }

    /// After a media read of `from..end`: continues to read if no command waits or the read is part of a stream.
    pub(super) fn read_on(&mut self, now: Nanos, segment: usize, from: u64, end: u64) -> bool {
        if !self.lookahead {
            return false;
        }
        let claim = if self.buffer.get(segment).sequential { from + self.ahead_min } else { end };
        let limit = (end + self.ahead_max).min(self.facts.capacity_sectors);
        let committed = claim.clamp(end, limit.max(end));
        let waits = self.has_arm_work();
        let to = if waits { committed } else { limit };
        if to <= end {
            return false;
        }
        let until = now + self.span(end, to);
        self.arm = Arm::Ahead { segment, since: now, from: end, committed, end: to, until, ending: waits };
        true
    }

    /// After a buffer hit of a stream: reads ahead again once half of the buffered sectors ahead are consumed.
    pub(super) fn resume(&mut self, now: Nanos, segment: usize) {
        let s = *self.buffer.get(segment);
        let ahead = s.end.saturating_sub(s.last_end);
        let idle = matches!(self.arm, Arm::Idle { .. }) && !self.has_arm_work();
        if !self.lookahead || !idle || !s.sequential || 2 * ahead > self.ahead_max {
            return;
        }
        let to = (s.last_end + self.ahead_max).min(self.facts.capacity_sectors);
        if to <= s.end {
            return;
        }
        // `span` adds the crossing to the first sector, as if the sector before it had just passed.
        let place = self.geometry.place(s.end - 1);
        let seek = self.seek.time(self.here, place, false);
        let sector = self.geometry.media(s.end - 1, 1);
        let since = now + Nanos(seek + self.rotation(now, seek, place) + sector);
        let until = since + self.span(s.end, to);
        self.arm = Arm::Ahead { segment, since, from: s.end, committed: s.end, end: to, until, ending: false };
    }
}
