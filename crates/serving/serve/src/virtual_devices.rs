//! Devices without a file: a model in real time, and one that does nothing.

use std::collections::VecDeque;

use dumbwaiter_block::{Errno, Nanos, TenantId};
use dumbwaiter_devices::{Command, Completion, Device, Submitted};
use dumbwaiter_path::{VirtualDevice, VirtualRequest};

use crate::memory_store::MemoryStore;

/// A device model in real time, with its data in memory.
pub(crate) struct EmulatedDevice {
    model: Box<dyn Device>,
    store: MemoryStore,
    done: Vec<Completion>,
}

impl EmulatedDevice {
    pub(crate) fn new(model: Box<dyn Device>, store: MemoryStore) -> EmulatedDevice {
        EmulatedDevice { model, store, done: Vec::new() }
    }
}

impl VirtualDevice for EmulatedDevice {
    fn submit(&mut self, now: Nanos, request: &VirtualRequest) -> bool {
        let VirtualRequest { tag, op, fua, sector, sectors } = *request;
        let command = Command { tag, op, fua, sector, sectors, queue: 0, tenant: TenantId(0) };
        self.model.submit(now, &command) == Submitted::Accepted
    }

    fn next_event(&self) -> Option<Nanos> {
        self.model.next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<(u32, Result<(), Errno>)>) {
        self.model.advance(now, &mut self.done);
        let completed = self.done.drain(..);
        done.extend(completed.map(|done| (done.tag, if done.failed { Err(Errno::EIO) } else { Ok(()) })));
    }

    fn read(&mut self, at: u64, into: &mut [u8]) {
        self.store.read(at, into);
    }

    fn write(&mut self, at: u64, from: &[u8]) -> Result<(), Errno> {
        self.store.write(at, from)
    }

    fn zero(&mut self, at: u64, bytes: u64) {
        self.store.zero(at, bytes);
    }
}

/// Completes every request at once: reads are zeroes, writes are forgotten.
#[derive(Default)]
pub(crate) struct NullDevice {
    held: VecDeque<u32>,
    since: Nanos,
}

impl VirtualDevice for NullDevice {
    fn submit(&mut self, now: Nanos, request: &VirtualRequest) -> bool {
        self.since = now;
        self.held.push_back(request.tag);
        true
    }

    fn next_event(&self) -> Option<Nanos> {
        (!self.held.is_empty()).then_some(self.since)
    }

    fn advance(&mut self, _now: Nanos, done: &mut Vec<(u32, Result<(), Errno>)>) {
        done.extend(self.held.drain(..).map(|tag| (tag, Ok(()))));
    }

    fn read(&mut self, _at: u64, into: &mut [u8]) {
        into.fill(0);
    }

    fn write(&mut self, _at: u64, _from: &[u8]) -> Result<(), Errno> {
        Ok(())
    }

    fn zero(&mut self, _at: u64, _bytes: u64) {}
}
