//! The disk's own buffers.

use crate::Error;
use crate::arena::Arena;
use crate::rings::Rings;

/// Scratch buffers, if there are any.
#[derive(Default)]
pub(super) struct Scratch {
    arena: Option<Arena>,
    /// The kernel knows them.
    registered: bool,
}

impl Scratch {
    /// Buffers for `depth` requests of up to `bytes`.
    pub(super) fn new(
        rings: &Rings,
        depth: u32,
        bytes: usize,
        seed: Option<u64>,
        notes: &mut Vec<String>,
    ) -> Result<Scratch, Error> {
        let mut arena =
            Arena::new(depth, bytes).map_err(|source| Error::Ring { what: "no memory for the buffers", source })?;
        if let Some(seed) = seed {
            arena.fill(seed);
        }
        let registered = rings.main.register_buffers(&arena);
        if let Err(e) = &registered {
            notes.push(format!(
                "buffers of {} MiB are not registered ({e}): each I/O costs more CPU; `ulimit -l` raises the limit of locked memory",
                arena.registered().1 >> 20
            ));
        }
        Ok(Scratch { arena: Some(arena), registered: registered.is_ok() })
    }

    pub(super) fn take(&mut self, bytes: u64) -> Option<u32> {
        self.arena.as_mut()?.take(bytes as usize)
    }

    pub(super) fn put(&mut self, slot: Option<u32>) {
        if let (Some(slot), Some(arena)) = (slot, &mut self.arena) {
            arena.put(slot);
        }
    }

    /// The address of a buffer, and whether the kernel knows it.
    pub(super) fn place(&self, slot: u32) -> Option<(*mut u8, bool)> {
        let arena = self.arena.as_ref()?;
        Some((arena.address(slot), self.registered && arena.is_registered(slot)))
    }

    /// The bytes of a buffer that the kernel does not use; none without one.
    pub(super) fn bytes(&mut self, slot: Option<u32>, len: u64) -> &mut [u8] {
        match (slot, &mut self.arena) {
            (Some(slot), Some(arena)) => arena.bytes(slot, len as usize),
            _ => &mut [],
        }
    }

    /// Never frees them.
    pub(super) fn leak(&mut self) {
        if let Some(arena) = &mut self.arena {
            arena.leak();
        }
    }
}
