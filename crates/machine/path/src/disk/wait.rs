//! The one place where a disk waits: until something completed, or something is due.

use dumbwaiter_block::Nanos;

use super::Disk;
use crate::Error;
use crate::clock::Clock;
use crate::spinner::SPIN_MAX;

/// Pauses of the CPU between two looks at a ring.
const LOOK_INTERVAL: u32 = 4;

impl Disk {
    /// Waits until a completion or event can be reaped, at most until `due`.
    pub(super) fn wait(&mut self, due: Option<Nanos>) -> Result<(), Error> {
        let failed = |source| Error::Ring { what: "waiting for completions", source };
        if matches!(self.clock, Clock::Manual(_)) {
            self.rings.look(true).map_err(failed)?;
            if !self.rings.ready() {
                let queued = self.layer.queued();
                self.clock.advance(due.ok_or(Error::Stalled { queued })?);
            }
            return Ok(());
        }
        let timeout = due.map(|at| at.since(self.now));
        if self.rings.requests() > 0 {
            self.waiter.waits += 1;
            return self.wait_in_ring(due, timeout).map_err(failed);
        }
        let watching = self.listeners.any();
        let writing = self.page_cache.writing();
        if timeout.is_none() && (!watching || (self.layer.queued() > 0 && !writing)) {
            return Err(Error::Stalled { queued: self.layer.queued() });
        }
        match timeout {
            Some(Nanos::ZERO) if watching => self.rings.look(true).map_err(failed),
            Some(Nanos::ZERO) => Ok(()),
            _ => self.rings.sleeper().enter(1, timeout, 0).map_err(failed),
        }
    }

    fn wait_in_ring(&mut self, due: Option<Nanos>, timeout: Option<Nanos>) -> std::io::Result<()> {
        let watching = self.listeners.any();
        if timeout == Some(Nanos::ZERO) {
            return self.rings.look(watching);
        }
        if self.waiter.only_sleeps() {
            let (want, min_wait_us) = self.waiter.batch(&self.rings, watching);
            if let Some(spins) = self.waiter.spins().filter(|_| want == 1 && !watching) {
                return self.spin_or_sleep(spins, due);
            }
            return self.rings.main.enter(want, timeout, min_wait_us);
        }
        if self.waiter.is_hybrid() {
            self.rings.look(watching)?;
            if self.rings.ready() {
                return Ok(());
            }
            // As hybrid polling does.
            if let Some(until) = self.waiter.sleep_first(&self.held) {
                self.clock.sleep_until(due.map_or(until, |due| due.min(until)));
            }
        }
        if self.rings.in_main() == 0 {
            return self.rings.sleeper().enter(1, timeout, 0);
        }
        if self.rings.main.polled() && !self.rings.side_in_use(watching) && due.is_none() {
            return self.rings.main.enter(1, None, 0);
        }
        loop {
            self.rings.look(watching)?;
            if self.rings.ready() || due.is_some_and(|at| self.clock.now() >= at) {
                return Ok(());
            }
            if self.rings.main.polled() {
                std::hint::spin_loop();
            } else {
                // The completion may need this CPU.
                std::thread::yield_now();
            }
        }
    }

    /// Waits for one completion; spins first where trials show that this is faster.
    fn spin_or_sleep(&mut self, spins: bool, due: Option<Nanos>) -> std::io::Result<()> {
        if spins {
            self.rings.main.submit()?;
            let end = self.clock.now() + SPIN_MAX;
            let end = due.map_or(end, |due| due.min(end));
            while !self.rings.has_news() && self.clock.now() < end {
                for _ in 0..LOOK_INTERVAL {
                    std::hint::spin_loop();
                }
            }
        }
        let timeout = due.map(|due| due.since(self.clock.now()));
        // Brings what is there, or sleeps.
        self.rings.main.enter(1, timeout, 0)?;
        // Since the turn before, so that it counts who submits.
        self.waiter.waited(self.clock.now().since(self.now));
        Ok(())
    }

    /// Is there one request, for which the next turn sleeps at once? Then one system call submits it and waits for it.
    pub(super) fn goes_with_the_wait(&self) -> bool {
        let by_interrupts = self.waiter.by_interrupts() && !self.listeners.any();
        by_interrupts && self.rings.requests() == 1 && self.waiter.spins() != Some(true)
    }
}
