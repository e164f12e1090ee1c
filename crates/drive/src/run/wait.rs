//! The one place where a run waits: until something completed, or something is due.

use dumbwaiter_block::Nanos;

use super::Run;
use crate::Error;
use crate::options::batch;
use crate::ring::Finding;

/// Longest sleep with nothing under way, so that somebody who cancels is heard.
const DOZE: Nanos = Nanos::from_ms(50);
/// The end of a run is waited for with a timer only when it is this near.
const END_NEAR: Nanos = Nanos::from_ms(20);

impl Run<'_> {
    /// Hands over what is queued, and waits.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        let due = self.due();
        let failed = |source| Error::Ring { what: "waiting for completions", source };
        // The device starts first. A loop device's worker besides is then at work before this CPU goes idle and would try to
        // pull it over: with one I/O at a time that is worth half of the throughput.
        self.ring.submit().map_err(failed)?;
        self.measure();
        if self.in_ring + self.in_side == 0 {
            return match due {
                Some(at) => {
                    self.clock.sleep_until(at.min(self.now + DOZE));
                    Ok(())
                }
                None => Err(Error::Stalled {
                    target: self.target.path().display().to_string(),
                    scheduler: String::new(),
                    waiting: self.layer.queued(),
                }),
            };
        }
        self.wait_in_ring(due).map_err(failed)
    }

    /// When something happens that no completion announces; `now` if at once.
    fn due(&mut self) -> Option<Nanos> {
        if !self.ready.is_empty() {
            return Some(self.now);
        }
        let near = self.open && (self.in_ring + self.in_side == 0 || self.until.time.since(self.now) < END_NEAR);
        let end = (near && self.until.time < Nanos::MAX).then_some(self.until.time);
        let wake = if self.open { self.next_wake() } else { None };
        [self.layer.next_timer(), wake, self.next_change(), end].into_iter().flatten().min()
    }

    fn wait_in_ring(&mut self, due: Option<Nanos>) -> std::io::Result<()> {
        let timeout = due.map(|at| at.since(self.now));
        self.enters += 1;
        if timeout == Some(Nanos::ZERO) {
            return self.look();
        }
        match self.way.finding {
            Finding::Interrupt if self.sleeper.is_none() => {
                let (want, min_wait_us) = self.batch();
                self.ring.enter(want, timeout, min_wait_us)
            }
            _ => {
                if self.sleeper.is_some() {
                    self.look()?;
                    if self.any_ready() {
                        return Ok(());
                    }
                    self.sleep_first(due);
                }
                if self.in_ring == 0 {
                    return match &mut self.side {
                        Some(side) => side.enter(1, timeout, 0),
                        None => Ok(()),
                    };
                }
                if self.ring.polled() && self.in_side == 0 && due.is_none() {
                    return self.ring.enter(1, None, 0);
                }
                loop {
                    self.look()?;
                    if self.any_ready() || due.is_some_and(|at| self.clock.now() >= at) {
                        return Ok(());
                    }
                    if self.ring.polled() {
                        std::hint::spin_loop();
                    } else {
                        // What we wait for is found by others, and on this CPU perhaps.
                        std::thread::yield_now();
                    }
                }
            }
        }
    }

    /// Hands over what is queued and lets the kernel bring what is there, without waiting.
    fn look(&mut self) -> std::io::Result<()> {
        self.ring.enter(0, None, 0)?;
        match &mut self.side {
            Some(side) if self.in_side > 0 || side.pending() > 0 => side.enter(0, None, 0),
            _ => Ok(()),
        }
    }

    fn any_ready(&mut self) -> bool {
        self.ring.ready() || self.side.as_mut().is_some_and(|side| side.ready())
    }

    /// Sleeps for the oldest request that nobody slept for, as our hybrid polling does.
    fn sleep_first(&mut self, due: Option<Nanos>) {
        while let Some((until, id, number)) = self.to_sleep.pop_front() {
            if self.held[id.index()].number_is(number) {
                self.clock.sleep_until(due.map_or(until, |due| due.min(until)));
                return;
            }
        }
    }

    /// How many completions to wait for, and after how many microseconds one is enough.
    fn batch(&self) -> (u32, u32) {
        batch(&self.ring, self.in_ring, Nanos(self.service), self.target.options().batching)
    }
}
