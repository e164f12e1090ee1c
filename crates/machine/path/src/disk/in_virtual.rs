//! Requests of a disk whose device is a [`VirtualDevice`](crate::VirtualDevice).

use dumbwaiter_block::{Errno, RequestId};

use super::Disk;
use super::event::Event;
use crate::Error;

impl Disk {
    /// Lets the virtual device work up to the present, one event after another: the scheduler answers each at its own time,
    /// however late this thread was woken.
    pub(super) fn run_virtual(&mut self, events: &mut Vec<Event>) -> Result<(), Error> {
        let until = self.now;
        while let Some(device) = &mut self.device
            && let Some(now) = device.advance(until)
        {
            self.now = now;
            let mut done = std::mem::take(&mut device.done);
            for (tag, result) in done.drain(..) {
                let id = RequestId(tag);
                let result = result.and_then(|()| self.move_virtual_data(id));
                let result = result.map_or_else(|errno| -errno.0, |()| self.held.get(id).bytes as i32);
                self.completed(id, result, events);
            }
            if let Some(device) = &mut self.device {
                device.done = done;
            }
            if self.layer.next_timer().is_some_and(|at| at <= self.now) {
                self.layer.timer(self.now);
            }
            while let Some(id) = self.layer.poll(self.now) {
                self.issue(id)?;
            }
            // The next turn reports them.
            self.all_sent &= !self.layer.has_dropped();
        }
        self.now = until;
        if let Some(device) = &mut self.device {
            device.now = device.now.max(until);
        }
        Ok(())
    }

    fn move_virtual_data(&mut self, id: RequestId) -> Result<(), Errno> {
        let pieces = self.held.iovecs.get(id.index()).map_or(&[][..], Vec::as_slice);
        self.device.as_mut().map_or(Ok(()), |device| device.move_data(self.held.get(id), pieces))
    }
}
