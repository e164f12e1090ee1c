//! A video player: reads one frame of a file at each frame time.

use dumbwaiter_block::{Flags, Nanos, Op, SECTOR_BYTES};

use crate::{ApplicationOutcome, Next, Want, Workload};

/// Sectors of the largest request of a batch (64 KiB).
const REQUEST_SECTORS_MAX: u32 = 128;
/// Sectors of a page.
const PAGE_SECTORS: u64 = 8;

pub(super) struct Player {
    kind: &'static str,
    warmup: Nanos,
    /// Frame period.
    period: Nanos,
    frame_bytes: u64,
    /// Frames still to play.
    left: u64,
    /// The file, in sectors.
    start: u64,
    length: u64,
    /// Frames started.
    frame: u64,
    /// Sectors read so far, and the end of the current frame.
    read: u64,
    until: u64,
    began: Option<Nanos>,
    outstanding: u32,
    missed: u64,
    batches: Vec<Nanos>,
}

impl Player {
    /// A video of `bits` per second and length `runtime` on sectors `start..start + length`. Frames before `warmup` do
    /// not count.
    pub(super) fn new(
        kind: &'static str,
        bits: u64,
        per_second: u64,
        runtime: Nanos,
        (start, length): (u64, u64),
        warmup: Nanos,
    ) -> Player {
        let period = Nanos(1_000_000_000 / per_second);
        let left = runtime.0 / period.0;
        Player {
            kind,
            warmup,
            period,
            frame_bytes: bits / 8 / per_second,
            left,
            start,
            length: length / PAGE_SECTORS * PAGE_SECTORS,
            frame: 0,
            read: 0,
            until: 0,
            began: None,
            outstanding: 0,
            missed: 0,
            batches: Vec::with_capacity(left.min(1 << 20) as usize),
        }
    }

    /// Most I/Os of one frame.
    pub(super) fn depth(&self) -> u32 {
        (self.frame_bytes / (u64::from(REQUEST_SECTORS_MAX) * SECTOR_BYTES)) as u32 + 2
    }
}

impl Workload for Player {
    fn next(&mut self, now: Nanos) -> Next {
        if self.read == self.until {
            if self.outstanding > 0 {
                return Next::Blocked;
            }
            match self.began {
                Some(began) if now < began + self.period && self.left > 0 => return Next::Wait(began + self.period),
                _ if self.left == 0 => return Next::Done,
                _ => {}
            }
            self.left -= 1;
            self.frame += 1;
            self.began = Some(now);
            // Whole pages: a page shared by two frames is read with the first.
            self.until = (self.frame * self.frame_bytes).div_ceil(SECTOR_BYTES).next_multiple_of(PAGE_SECTORS);
        }
        let at = self.read % self.length;
        let rest = (self.until - self.read).min(self.length - at);
        let sectors = rest.min(u64::from(REQUEST_SECTORS_MAX)) as u32;
        self.read += u64::from(sectors);
        self.outstanding += 1;
        let (sector, flags) = (self.start + at, Flags::NONE);
        Next::Issue(Want { op: Op::Read, sector, sectors, flags, ioprio: None, stream: 0, task: 0 })
    }

    fn completed(&mut self, now: Nanos, _task: u16, _lat: Nanos) {
        self.outstanding -= 1;
        let Some(began) = self.began.filter(|_| self.outstanding == 0 && self.read == self.until) else { return };
        if began >= self.warmup {
            let took = now.since(began);
            self.missed += u64::from(took > self.period);
            self.batches.push(took);
        }
    }

    fn outcome(&self, now: Nanos) -> Option<ApplicationOutcome> {
        let under_way = self.outstanding > 0 || self.read < self.until;
        let late = |began: Nanos| began >= self.warmup && now.since(began) > self.period;
        let overdue = u64::from(under_way && self.began.is_some_and(late));
        Some(ApplicationOutcome::Frames {
            kind: self.kind,
            frames: self.batches.len() as u64 + overdue,
            missed: self.missed + overdue,
            batches: self.batches.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_frame_is_missed_and_the_next_waits_for_it() {
        // 5 Mb/s at 25 frames a second: 25,000 bytes, that is 7, then 6 pages, and so on.
        let mut p = Player::new("player", 5_000_000, 25, Nanos::from_ms(160), (1000, 1 << 20), Nanos::ZERO);
        let Next::Issue(want) = p.next(Nanos::ZERO) else { panic!() };
        assert_eq!((want.sector, want.sectors), (1000, 56));
        assert_eq!(p.next(Nanos::ZERO), Next::Blocked);
        p.completed(Nanos::from_ms(10), 0, Nanos::ZERO);
        assert_eq!(p.next(Nanos::from_ms(10)), Next::Wait(Nanos::from_ms(40)));
        let Next::Issue(want) = p.next(Nanos::from_ms(40)) else { panic!() };
        assert_eq!((want.sector, want.sectors), (1056, 48));
        p.completed(Nanos::from_ms(100), 0, Nanos::ZERO);
        assert!(matches!(p.next(Nanos::from_ms(100)), Next::Issue(_)), "its deadline has passed");
        let Some(ApplicationOutcome::Frames { frames, missed, .. }) = p.outcome(Nanos::from_ms(120)) else { panic!() };
        assert_eq!((frames, missed), (2, 1));
        let Some(ApplicationOutcome::Frames { frames, missed, .. }) = p.outcome(Nanos::from_ms(150)) else { panic!() };
        assert_eq!((frames, missed), (3, 2), "the third is overdue");
    }
}
