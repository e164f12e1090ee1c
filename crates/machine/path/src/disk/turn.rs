//! A turn of the disk: send, wait, take what is done.

use dumbwaiter_block::Nanos;

use super::Disk;
use super::event::Event;
use crate::Error;

impl Disk {
    /// Sends what the scheduler chooses, waits, and appends what happened to `events`.
    ///
    /// Returns as soon as something happened, at `deadline` at the latest (at once if it has passed), or early without an
    /// event, as after a signal. Without a deadline it sleeps until a completion, a timer of the scheduler, a watched
    /// descriptor or a waker ends that; where there can be none of these, that is [`Error::Stalled`]. After an error the disk
    /// serves nothing more.
    pub fn turn(&mut self, deadline: Option<Nanos>, events: &mut Vec<Event>) -> Result<(), Error> {
        let before = events.len();
        if !self.all_sent || self.listeners.watches.to_arm() {
            self.queue(events)?;
        }
        let due = if events.len() > before || !self.held.done.is_empty() || !self.all_sent {
            Some(self.now)
        } else {
            let device = self.device.as_ref().and_then(|device| device.device.next_event());
            [self.layer.next_timer(), deadline, device].into_iter().flatten().min()
        };
        self.wait(due)?;
        self.now = self.clock.now();
        self.reap(events)?;
        if self.device.is_some() {
            self.run_virtual(events)?;
            self.deliver(events);
        }
        if self.layer.next_timer().is_some_and(|at| at <= self.now) {
            self.all_sent = false;
            self.layer.timer(self.now);
        }
        Ok(())
    }

    /// Hands the device what the scheduler chooses now, without waiting. A turn does the same first; in between the caller
    /// can work while the device does. Appends I/Os that need nothing from the device. A single request may go with the next turn, whose
    /// system call submits it and waits for it.
    pub fn send(&mut self, events: &mut Vec<Event>) -> Result<(), Error> {
        self.queue(events)?;
        if self.goes_with_the_wait() {
            return Ok(());
        }
        self.rings.main.submit().map_err(|source| Error::Ring { what: "the ring takes no requests", source })
    }

    /// Hands the kernel what is queued for it, receives and watches too, so that [`Disk::has_news`] sees their ends.
    pub fn hand_over(&mut self) -> Result<(), Error> {
        self.listeners.watches.arm(&mut self.rings)?;
        self.rings.submit().map_err(|source| Error::Ring { what: "the ring takes no requests", source })
    }

    /// Would a turn find something that ended? Asks memory, not the kernel, so that a caller can look for a while before it sleeps. On
    /// kernels before 5.19 and in polled rings it may answer no where a turn would find something.
    pub fn has_news(&mut self) -> bool {
        self.rings.has_news()
    }

    /// Queues what the scheduler chooses now; the next call on the ring hands it over.
    fn queue(&mut self, events: &mut Vec<Event>) -> Result<(), Error> {
        self.unplug();
        let mut left = if self.listeners.any_answers() { u32::MAX } else { self.submit_batch };
        while left > 0
            && let Some(id) = self.layer.poll(self.now)
        {
            self.issue(id)?;
            left -= 1;
        }
        self.layer.finish_idle(self.now, &mut self.finished);
        self.deliver(events);
        self.check_fault()?;
        self.listeners.watches.arm(&mut self.rings)?;
        self.page_cache.submit();
        self.all_sent = left > 0;
        Ok(())
    }
}
