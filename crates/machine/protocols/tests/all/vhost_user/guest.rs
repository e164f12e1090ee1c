//! A guest's memory for tests.

use dumbwaiter_protocols::vhost_user::{GuestPlace, Memory, Region};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

/// First guest address; two regions of this size adjoin, a third lies apart.
pub(crate) const BASE: u64 = 0x1_0000;
pub(crate) const REGION: u64 = 0x1_0000;

pub(crate) struct Guest {
    pub(crate) memory: Memory,
}

impl Guest {
    pub(crate) fn new() -> Guest {
        let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 3 * REGION).unwrap();
        let mut memory = Memory::default();
        for (number, guest) in [BASE, BASE + REGION, BASE + 4 * REGION].into_iter().enumerate() {
            // In the front end's address space they lie the other way round.
            let user = 0x7000_0000 - number as u64 * 2 * REGION;
            memory.add(Region { guest, bytes: REGION, user, offset: number as u64 * REGION }, &file).unwrap();
        }
        Guest { memory }
    }

    pub(crate) fn table(&self) -> GuestPlace {
        self.memory.locate(BASE, 1).unwrap().0
    }

    pub(crate) fn write(&self, guest: u64, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            let place = self.memory.locate(guest + at as u64, 1).unwrap().0;
            assert!(self.memory.write(place, &[*byte]));
        }
    }

    pub(crate) fn descriptor(&self, table: u64, index: u16, address: u64, len: u32, flags: u16, next: u16) {
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        self.write(table + 16 * u64::from(index), &bytes);
    }
}
