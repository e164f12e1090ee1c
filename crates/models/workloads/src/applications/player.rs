//! A video player: shows the frames of a file at their times, which the kernel reads ahead for it.
//!
//! The file is read through the page cache in windows of 128 KiB; when the player comes to one, the next is asked for. A frame whose
//! data is not there stalls the film until it is, and those behind it come later by as much. As in mplayer, it is dropped if
//! that took more than 100 ms.

use std::collections::VecDeque;

use dumbwaiter_block::{Flags, Nanos, Op, SECTOR_BYTES};

use crate::{ApplicationOutcome, Next, Want, Workload};

/// Sectors of a window of read-ahead (128 KiB).
const WINDOW_SECTORS: u64 = 256;
/// Sectors of a page.
const PAGE_SECTORS: u64 = 8;
/// A frame that comes later is dropped.
const DROPPED_AFTER: Nanos = Nanos::from_ms(100);

/// A window that was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Nanos,
    there: bool,
}

pub(super) struct Player {
    kind: &'static str,
    warmup: Nanos,
    /// Frame period.
    period: Nanos,
    frame_bytes: u64,
    /// Frames to play.
    frames: u64,
    /// The file, in sectors, and its windows.
    start: u64,
    window: u64,
    windows: u64,
    /// Frames that were had.
    had: u64,
    /// When the next frame is due; `None` before the film begins.
    due: Option<Nanos>,
    /// It is awaited.
    waits: bool,
    /// Windows asked for; those that the player has not left are in `asked`, from number `left` on.
    next_window: u64,
    left: u64,
    asked: VecDeque<Asked>,
    dropped: u64,
    late: Vec<Nanos>,
}

impl Player {
    /// A video of `bits` per second and length `runtime` on sectors `start..start + length`. Frames that are due before `warmup` do
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
        let frames = runtime.0 / period.0;
        let window = WINDOW_SECTORS.min(length / PAGE_SECTORS * PAGE_SECTORS).max(PAGE_SECTORS);
        Player {
            kind,
            warmup,
            period,
            frame_bytes: bits / 8 / per_second,
            frames,
            start,
            window,
            windows: (length / window).max(1),
            had: 0,
            due: None,
            waits: false,
            next_window: 0,
            left: 0,
            asked: VecDeque::new(),
            dropped: 0,
            late: Vec::with_capacity(frames.min(1 << 20) as usize),
        }
    }

    /// Most I/Os at once: the windows of a frame, and one ahead.
    pub(super) fn depth(&self) -> u32 {
        (self.frame_bytes / (self.window * SECTOR_BYTES)) as u32 + 3
    }

    /// First and last window of the next frame.
    fn span(&self) -> (u64, u64) {
        let bytes = self.window * SECTOR_BYTES;
        let end = (self.had + 1) * self.frame_bytes;
        (self.had * self.frame_bytes / bytes, end.saturating_sub(1) / bytes)
    }

    /// Is the data of the next frame there?
    fn is_there(&self) -> bool {
        let (_, last) = self.span();
        let known = last < self.next_window;
        known && self.asked.iter().take((last + 1 - self.left) as usize).all(|window| window.there)
    }

    /// The next frame is had at `now`.
    fn show(&mut self, due: Nanos, now: Nanos) {
        let late = now.since(due);
        if due >= self.warmup {
            self.dropped += u64::from(late > DROPPED_AFTER);
            self.late.push(late);
        }
        self.had += 1;
        self.waits = false;
        self.due = Some(due + late + self.period);
        let (first, _) = self.span();
        while self.left < first && self.asked.pop_front().is_some() {
            self.left += 1;
        }
    }
}

impl Workload for Player {
    fn next(&mut self, now: Nanos) -> Next {
        let mut due = *self.due.get_or_insert(now);
        let last = loop {
            if self.had == self.frames {
                return if self.asked.iter().all(|window| window.there) { Next::Done } else { Next::Blocked };
            }
            if now < due {
                return Next::Wait(due);
            }
            self.waits = true;
            let (_, last) = self.span();
            if self.next_window < last + 2 || !self.is_there() {
                break last;
            }
            // Whenever the player got the CPU: the data was there.
            self.show(due, due);
            due += self.period;
        };
        // The window behind that in which the player is.
        if self.next_window < last + 2 {
            let at = self.next_window % self.windows * self.window;
            let flags = if self.next_window > last { Flags::RAHEAD } else { Flags::NONE };
            self.next_window += 1;
            self.asked.push_back(Asked { at: now, there: false });
            let (sector, sectors) = (self.start + at, self.window as u32);
            return Next::Issue(Want { op: Op::Read, sector, sectors, flags, ioprio: None, stream: 0, task: 0 });
        }
        Next::Blocked
    }

    fn completed(&mut self, now: Nanos, _task: u16, lat: Nanos) {
        let asked = Nanos(now.0.saturating_sub(lat.0));
        let own = self.asked.iter().position(|window| !window.there && window.at == asked);
        let first = self.asked.iter().position(|window| !window.there);
        if let Some(at) = own.or(first) {
            self.asked[at].there = true;
        }
        if self.waits
            && self.is_there()
            && let Some(due) = self.due
        {
            self.show(due, now);
        }
    }

    fn outcome(&self, now: Nanos) -> Option<ApplicationOutcome> {
        let overdue = |due: Nanos| self.waits && due >= self.warmup && now.since(due) > DROPPED_AFTER;
        let overdue = u64::from(self.due.is_some_and(overdue));
        Some(ApplicationOutcome::Frames {
            kind: self.kind,
            frames: self.late.len() as u64 + overdue,
            missed: self.dropped + overdue,
            batches: self.late.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 5 Mb/s at 25 frames a second: 25,000 bytes a frame, so that a window has the data of five frames and a part of the sixth.
    fn film(seconds: u64) -> Player {
        Player::new("player", 5_000_000, 25, Nanos::from_secs(seconds), (1000, 1 << 20), Nanos::ZERO)
    }

    fn issued(p: &mut Player, at: Nanos) -> (u64, u32, bool) {
        match p.next(at) {
            Next::Issue(want) => (want.sector, want.sectors, want.flags.any(Flags::RAHEAD)),
            other => panic!("{other:?}"),
        }
    }

    fn outcome(p: &Player, at: Nanos) -> (u64, u64) {
        match p.outcome(at) {
            Some(ApplicationOutcome::Frames { frames, missed, .. }) => (frames, missed),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_next_window_is_asked_for_when_the_player_comes_to_one() {
        let ms = Nanos::from_ms;
        let mut p = film(40);
        assert_eq!(issued(&mut p, Nanos::ZERO), (1000, 256, false));
        assert_eq!(issued(&mut p, Nanos::ZERO), (1256, 256, true));
        assert_eq!(p.next(Nanos::ZERO), Next::Blocked);
        p.completed(ms(10), 0, ms(10));
        // The film begins 10 ms late; frames 0 to 4 are in the first window, frame 5 ends in the second.
        for frame in 1..=4 {
            assert_eq!(p.next(ms(10 + 40 * (frame - 1))), Next::Wait(ms(10 + 40 * frame)), "frame {frame}");
            p.next(ms(10 + 40 * frame));
        }
        p.completed(ms(190), 0, ms(190));
        assert_eq!(p.next(ms(190)), Next::Wait(ms(210)));
        assert_eq!(issued(&mut p, ms(210)), (1512, 256, true));
        assert_eq!(p.next(ms(210)), Next::Wait(ms(250)));
        assert_eq!(outcome(&p, ms(210)), (6, 0));
    }

    #[test]
    fn a_late_frame_stalls_the_film_and_is_dropped_after_100_ms() {
        let ms = Nanos::from_ms;
        let mut p = film(40);
        issued(&mut p, Nanos::ZERO);
        issued(&mut p, Nanos::ZERO);
        p.completed(ms(1), 0, ms(1));
        for frame in 1..=4 {
            p.next(ms(1 + 40 * frame));
        }
        // Frame 5 is due at 201 ms and its window comes 150 ms later.
        assert!(matches!(p.next(ms(201)), Next::Issue(_)));
        assert_eq!(p.next(ms(201)), Next::Blocked);
        assert_eq!(outcome(&p, ms(290)), (5, 0), "not yet dropped");
        assert_eq!(outcome(&p, ms(310)), (6, 1), "overdue");
        // The window asked for later comes first, and does not help.
        p.completed(ms(320), 0, ms(119));
        assert_eq!(p.next(ms(320)), Next::Blocked);
        p.completed(ms(351), 0, ms(351));
        assert_eq!(outcome(&p, ms(351)), (6, 1));
        assert_eq!(p.next(ms(351)), Next::Wait(ms(391)), "the clock stood still meanwhile");
    }

    #[test]
    fn a_film_of_one_second_ends() {
        let mut p = film(1);
        let mut now = Nanos::ZERO;
        let mut asked = 0;
        loop {
            match p.next(now) {
                Next::Issue(_) => asked += 1,
                Next::Wait(at) | Next::Pause(at) => now = at,
                Next::Blocked => p.completed(now, 0, Nanos::ZERO),
                Next::Done => break,
            }
        }
        // 625,000 bytes are less than five windows, and one more is read ahead.
        assert_eq!((outcome(&p, now), asked), ((25, 0), 6));
    }
}
