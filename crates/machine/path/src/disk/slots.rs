//! I/Os that were submitted and are not done, with their data.

use crate::buffer::Data;

/// An I/O under way.
#[derive(Default)]
struct Slot {
    /// The submitter's own number.
    token: u64,
    /// Requests in the device that use its data.
    in_device: u32,
    data: Data,
}

/// All I/Os under way, by the number that the block layer knows them by.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// I/Os whose data lies outside the disk's memory.
    foreign: u64,
}

impl Slots {
    /// Keeps an I/O; answers with its number.
    #[inline]
    pub(super) fn put(&mut self, token: u64, data: Data) -> u32 {
        self.foreign += u64::from(data.is_foreign());
        let slot = Slot { token, in_device: 0, data };
        match self.free.pop() {
            Some(number) => {
                let place = &mut self.slots[number as usize];
                assert_eq!(place.in_device, 0, "a slot is free while the device has a part of its I/O");
                *place = slot;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// An I/O is done: its token and data.
    #[inline]
    pub(super) fn take(&mut self, number: u32) -> (u64, Data) {
        let slot = &mut self.slots[number as usize];
        // A panic keeps the data until the disk has been drained.
        assert_eq!(slot.in_device, 0, "an I/O ends while the device has a part of it");
        let data = std::mem::take(&mut slot.data);
        self.foreign -= u64::from(data.is_foreign());
        self.free.push(number);
        (slot.token, data)
    }

    /// Does any I/O have data outside the disk's memory?
    #[inline]
    pub(super) fn any_foreign(&self) -> bool {
        self.foreign > 0
    }

    pub(super) fn data(&self, number: u32) -> &Data {
        &self.slots[number as usize].data
    }

    /// A request that uses its data goes to the device.
    pub(super) fn goes(&mut self, number: u32) {
        self.slots[number as usize].in_device += 1;
    }

    /// A request that uses its data came back.
    pub(super) fn returns(&mut self, number: u32) {
        self.slots[number as usize].in_device -= 1;
    }

    /// Never frees the data of what is in the device. Is any of it the caller's?
    pub(super) fn leak(&mut self) -> bool {
        let mut borrowed = false;
        for slot in self.slots.iter_mut().filter(|slot| slot.in_device > 0) {
            borrowed |= matches!(slot.data, Data::Iovec(_));
            std::mem::forget(std::mem::take(&mut slot.data));
        }
        borrowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;

    #[test]
    fn a_slot_gives_back_what_was_put_and_is_used_again() {
        let mut slots = Slots::default();
        let (a, b) = (slots.put(10, Data::Scratch), slots.put(11, Data::Buffer(Buffer::new(512))));
        assert!(slots.any_foreign() && a != b);
        assert!(matches!(slots.take(b), (11, Data::Buffer(buffer)) if buffer.len() == 512));
        assert!(!slots.any_foreign());
        assert_eq!(slots.put(12, Data::Scratch), b);
        assert_eq!((slots.take(a).0, slots.take(b).0), (10, 12));
    }

    #[test]
    #[should_panic(expected = "while the device has a part of it")]
    fn data_in_the_device_is_not_given_back() {
        let mut slots = Slots::default();
        let number = slots.put(1, Data::Buffer(Buffer::new(512)));
        slots.goes(number);
        slots.take(number);
    }
}
