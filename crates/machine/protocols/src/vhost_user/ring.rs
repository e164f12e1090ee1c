//! A split ring (Virtio 1.2, "Split Virtqueues"), from the device's side.

use std::sync::atomic::{Ordering, fence};

use crate::vhost_user::inflight::Inflight;
use crate::vhost_user::memory::{GuestPlace, Memory};

/// The driver wants no signals.
const NO_INTERRUPT: u16 = 1;

/// Where the parts of a ring lie, as addresses of the front end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingAddresses {
    /// The table of descriptors.
    pub descriptors: u64,
    /// Address of the available ring, which the driver writes.
    pub available: u64,
    /// Address of the used ring, which the device writes.
    pub used: u64,
}

/// The same as places in guest memory.
#[derive(Clone, Copy, Debug)]
struct RingLayout {
    descriptors: GuestPlace,
    available: GuestPlace,
    used: GuestPlace,
}

impl RingAddresses {
    /// Finds the parts of a ring of `size` entries; `None` if they are unaligned, overlap, or lie outside of memory.
    fn locate(&self, memory: &Memory, size: u16) -> Option<RingLayout> {
        let size = u64::from(size);
        let parts =
            [(self.descriptors, 16 * size, 16), (self.available, 6 + 2 * size, 2), (self.used, 6 + 8 * size, 4)];
        for (at, (address, bytes, align)) in parts.iter().enumerate() {
            let end = address.checked_add(*bytes)?;
            let apart = parts[..at].iter().all(|(other, bytes, _)| end <= *other || other + bytes <= *address);
            if !address.is_multiple_of(*align) || !apart {
                return None;
            }
        }
        let place = |at: usize| {
            let (address, bytes, align) = parts[at];
            let place = memory.locate_user(address, bytes)?;
            // Front ends map regions where they like, pages on pages.
            let pointer = memory.pointer(crate::vhost_user::memory::Piece { place, len: bytes as u32 })?;
            (pointer as u64).is_multiple_of(align.min(8)).then_some(place)
        };
        Some(RingLayout { descriptors: place(0)?, available: place(1)?, used: place(2)? })
    }
}

/// The driver broke the ring: nothing more is taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It offers more entries than the ring has.
    AvailableIndex,
    /// It offers a head that the device still has.
    HeadInFlight(u16),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::AvailableIndex => f.write_str("its driver offers more entries than the ring has"),
            Broken::HeadInFlight(head) => write!(f, "its driver offers head {head}, which is still in use"),
        }
    }
}

/// A running ring.
#[derive(Debug)]
pub struct Ring {
    /// Its number in the device.
    number: u16,
    size: u16,
    places: RingLayout,
    event_index: bool,
    next_available: u16,
    /// The driver's index when it was last read: entries before it are there. The driver writes to that cache line with each request, so it
    /// is read again only when these are used up.
    seen_available: u16,
    used_index: u16,
    /// The used index that the driver has seen.
    published: u16,
    /// Heads that the device has.
    held: Vec<bool>,
    in_flight: u16,
    /// Heads given back since the last publication.
    batch: Vec<u16>,
    counter: u64,
}

impl Ring {
    /// A ring that begins at `base`, or where its in-flight records say; with the heads that must be done again first.
    /// `None` if its addresses cannot be.
    pub fn start(
        number: u16,
        size: u16,
        addresses: &RingAddresses,
        base: u16,
        event_index: bool,
        memory: &Memory,
        inflight: Option<&Inflight>,
    ) -> Option<(Ring, crate::vhost_user::inflight::Recovery)> {
        let places = addresses.locate(memory, size)?;
        let used_index = memory.load16(places.used.plus(2));
        let mut recovery = crate::vhost_user::inflight::Recovery { fresh: true, ..Default::default() };
        if let Some(inflight) = inflight {
            recovery = inflight.recover(number, size, used_index);
        }
        // After a crash the front end sends the used index as the base: what was in flight lies between the two.
        let next_available = match recovery.fresh || recovery.nonsense {
            true => base,
            false => used_index.wrapping_add(recovery.heads.len() as u16),
        };
        let mut ring = Ring {
            number,
            size,
            places,
            event_index,
            next_available,
            seen_available: next_available,
            used_index,
            published: used_index,
            held: vec![false; usize::from(size)],
            in_flight: 0,
            batch: Vec::with_capacity(usize::from(size)),
            counter: recovery.next_counter,
        };
        for head in &recovery.heads {
            ring.held[usize::from(*head)] = true;
            ring.in_flight += 1;
        }
        Some((ring, recovery))
    }

    /// Finds its parts again after memory changed; `false` if they are gone.
    pub fn relocate(&mut self, addresses: &RingAddresses, memory: &Memory) -> bool {
        match addresses.locate(memory, self.size) {
            Some(places) => {
                self.places = places;
                true
            }
            None => false,
        }
    }

    /// The table of descriptors.
    pub fn descriptors(&self) -> GuestPlace {
        self.places.descriptors
    }

    /// Entries.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// The index at which the next one to serve it begins.
    pub fn base(&self) -> u16 {
        self.next_available
    }

    /// Takes the next head, if there is one. A head beyond the ring is given back at once by the owner, as it names no chain.
    pub fn take(&mut self, memory: &Memory, inflight: Option<&Inflight>) -> Result<Option<u16>, Broken> {
        if self.seen_available == self.next_available {
            match self.offered(memory) {
                0 => return Ok(None),
                offered if offered > self.size => return Err(Broken::AvailableIndex),
                offered => self.seen_available = self.next_available.wrapping_add(offered),
            }
        }
        let slot = u64::from(self.next_available % self.size);
        let head = memory.load16(self.places.available.plus(4 + 2 * slot));
        if let Some(held) = self.held.get_mut(usize::from(head)) {
            if std::mem::replace(held, true) {
                return Err(Broken::HeadInFlight(head));
            }
            self.in_flight += 1;
            if let Some(inflight) = inflight {
                inflight.take(self.number, head, self.counter);
                self.counter = self.counter.wrapping_add(1);
            }
        }
        self.next_available = self.next_available.wrapping_add(1);
        Ok(Some(head))
    }

    /// Gives a head back with the number of bytes that were written to the guest. The driver sees it with [`Ring::publish`].
    pub fn complete(&mut self, memory: &Memory, head: u16, written: u32) {
        let element = self.places.used.plus(4 + 8 * u64::from(self.used_index % self.size));
        memory.store32(element, u32::from(head));
        memory.store32(element.plus(4), written);
        self.used_index = self.used_index.wrapping_add(1);
        if let Some(held) = self.held.get_mut(usize::from(head)) {
            *held = false;
            self.in_flight -= 1;
            self.batch.push(head);
        }
    }

    /// Is something given back that the driver has not seen?
    pub fn has_unpublished(&self) -> bool {
        self.used_index != self.published
    }

    /// Shows the driver all that was given back. Does it want a signal?
    pub fn publish(&mut self, memory: &Memory, inflight: Option<&Inflight>) -> bool {
        if !self.has_unpublished() {
            return false;
        }
        if let Some(inflight) = inflight {
            self.batch.iter().for_each(|head| inflight.link(self.number, *head));
        }
        memory.store16(self.places.used.plus(2), self.used_index);
        if let Some(inflight) = inflight {
            self.batch.iter().for_each(|head| inflight.clear(self.number, *head));
            inflight.finish(self.number, self.used_index);
        }
        self.batch.clear();
        let (old, new) = (std::mem::replace(&mut self.published, self.used_index), self.used_index);
        // The index must be seen before the driver's wish is read, or both sides sleep.
        fence(Ordering::SeqCst);
        match self.event_index {
            true => {
                let event = memory.load16(self.places.available.plus(4 + 2 * u64::from(self.size)));
                wants_event(event, new, old)
            }
            false => memory.load16(self.places.available) & NO_INTERRUPT == 0,
        }
    }

    /// Asks for a kick with the next entry. Is there one already?
    pub fn arm(&self, memory: &Memory) -> bool {
        match self.event_index {
            true => memory.store16(self.places.used.plus(4 + 8 * u64::from(self.size)), self.next_available),
            false => memory.store16(self.places.used, 0),
        }
        // The wish must be seen before the index is read.
        fence(Ordering::SeqCst);
        self.offered(memory) > 0
    }

    /// How many chains the driver offers; any number from a driver that breaks the rules.
    pub fn offered(&self, memory: &Memory) -> u16 {
        memory.load16(self.places.available.plus(2)).wrapping_sub(self.next_available)
    }
}

/// Did an index pass the other side's event index on its way from `old` to `new`?
pub fn wants_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_index_is_passed_also_where_it_wraps() {
        for (event, old, new, want) in [
            (0, 0, 1, true),
            (1, 0, 1, false),
            (0, 1, 2, false),
            (65535, 65535, 0, true),
            (65535, 65534, 65535, false),
            (0, 65535, 1, true),
            (5, 0, 10, true),
            (10, 0, 10, false),
        ] {
            assert_eq!(wants_event(event, new, old), want, "{event} {old} {new}");
        }
    }
}
