//! A virtual machine by script: a driver that sleeps until it is signalled, knows what its part of an export holds, and breaks rules.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use dumbwaiter_block::Nanos;
use dumbwaiter_protocols::vhost_user::front_end::{FrontEnd, Options};
use dumbwaiter_protocols::vhost_user::wire::{code, descriptor_flag, request_type};

use super::chance::Chance;
use super::history::History;
use super::layout::{CLIENTS, EXPORT_BYTES, PART_BYTES};
use crate::shard::Shard;
use crate::vhost_user::socket_path;

/// Entries of the ring; three for each request.
const QUEUE_SIZE: u16 = 64;
const SLOT_BYTES: u32 = 16 << 10;
/// Answers of the device: done, and failed.
const OK: u8 = 0;
const IO_ERROR: u8 = 1;
/// A status byte that the device has not written.
const UNTOUCHED: u8 = 0xff;

struct Asked {
    kind: u32,
    /// First byte in the export.
    offset: u64,
    length: u32,
    /// Of a write.
    value: u64,
    /// Of a read: the oldest value of each sector that it may see.
    oldest: Vec<usize>,
    begun: u64,
    /// It cannot be carried out: a chain that is none, or a range beyond the end.
    broken: bool,
}

pub(super) struct Machine {
    export: u64,
    chance: Chance,
    front: Option<FrontEnd>,
    next: Nanos,
    asked: BTreeMap<u16, Asked>,
    /// Its ring was asked to stop, and the answer is due once nothing is under way.
    stopping: bool,
    /// It does nothing more but wait for its answers.
    quiet: bool,
    digest: u64,
    pub(super) answers: u64,
    pub(super) failed: u64,
    pub(super) restarts: u64,
}

impl Machine {
    pub(super) fn new(export: u64, mut chance: Chance) -> Machine {
        Machine {
            export,
            next: Nanos(chance.below(1_000_000)),
            chance,
            front: None,
            asked: BTreeMap::new(),
            stopping: false,
            quiet: false,
            digest: 0xcbf2_9ce4_8422_2325,
            answers: 0,
            failed: 0,
            restarts: 0,
        }
    }

    pub(super) fn export(&self) -> u64 {
        self.export
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest.rotate_left(32 + self.export as u32)
    }

    pub(super) fn next(&self) -> Nanos {
        if self.quiet && !self.stopping { Nanos::MAX } else { self.next }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.front.is_some()
    }

    /// Asks for nothing more.
    pub(super) fn rest(&mut self) {
        self.quiet = true;
    }

    /// Requests without an answer.
    pub(super) fn unanswered(&self) -> usize {
        self.asked.len()
    }

    fn part(&self) -> u64 {
        CLIENTS * PART_BYTES
    }

    /// Sector of the drive.
    fn sector(&self, offset: u64) -> u64 {
        (self.export * EXPORT_BYTES + offset) / 512
    }

    /// Half of the machines take no write-back cache: all that they write is permanent.
    fn writes_through(&self) -> bool {
        self.export % 2 == 1
    }

    /// Connects, while time stands still.
    pub(super) fn connect(&mut self, now: Nanos, shard: &mut Shard, folder: &Path) {
        self.next = now + Nanos(self.chance.below(200_000));
        let path = socket_path(folder, &format!("export{}", self.export));
        let options = Options {
            queue_size: QUEUE_SIZE,
            slot_bytes: SLOT_BYTES,
            event_index: !self.chance.one_in(3),
            write_back: !self.writes_through(),
            inflight: self.chance.one_in(2),
            ..Options::default()
        };
        let front = while_served(now, shard, move || FrontEnd::connect(&path, &options));
        // It is not taken while its predecessor is being taken down.
        self.front = front.ok();
        if let Some(front) = &mut self.front {
            front.socket.set_nonblocking(true).unwrap();
            front.queues[0].arm(&front.memory);
        }
    }

    fn hang_up(&mut self) {
        (self.front, self.stopping) = (None, false);
        self.asked.clear();
    }

    /// Does the next thing that its script says.
    pub(super) fn act(&mut self, now: Nanos, hostile: bool, shard: &mut Shard, history: &mut History) {
        self.next = now + Nanos(1000 + self.chance.below(300_000));
        let Some(front) = &mut self.front else { return };
        if self.stopping {
            return self.go_on(now, shard, history);
        }
        if self.quiet {
            return;
        }
        match self.chance.below(300) {
            0 if hostile => self.hang_up(),
            1 if hostile => {
                // Half a message, and gone.
                let _ = front.socket.write(&[1, 0, 0]);
                self.hang_up();
            }
            2 if hostile => {
                // A head that the device has: the ring is broken, and only a new connection helps.
                let (memory, queues) = front.split();
                if let Some(slot) = queues[0].take_slot() {
                    queues[0].submit(memory, slot, request_type::READ, 0, 512);
                    queues[0].offer(memory, 3 * slot);
                    queues[0].kick(memory);
                }
                self.next = now + Nanos(1_000_000);
                self.stopping = true;
            }
            3..6 => {
                self.stopping = front.send(code::GET_VRING_BASE, &[0; 8], &[]).is_ok();
            }
            _ => {
                for _ in 0..1 + self.chance.below(6) {
                    self.ask(hostile, history);
                }
                if let Some(front) = &mut self.front {
                    let (memory, queues) = front.split();
                    queues[0].kick(memory);
                }
            }
        }
    }

    /// Starts its ring again once that has stopped; connects again where it does not stop, as its ring is broken.
    fn go_on(&mut self, now: Nanos, shard: &mut Shard, history: &mut History) {
        let Some(front) = &mut self.front else { return };
        let mut reply = [0; 20];
        let came = match std::io::Read::read(&mut front.socket, &mut reply) {
            Ok(20) => true,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => false,
            _ => return self.hang_up(),
        };
        if !came {
            if self.asked.is_empty() || self.chance.one_in(20) {
                self.hang_up();
            }
            return;
        }
        // All that was taken is answered; what was not is offered still.
        self.take_answers(now, history);
        let Some(mut front) = self.front.take() else { return };
        let started = while_served(now, shard, move || {
            front.socket.set_nonblocking(false)?;
            front.start_ring(0)?;
            front.socket.set_nonblocking(true)?;
            Ok(front)
        });
        self.front = started.ok();
        self.stopping = false;
        self.restarts += 1;
        // Requests offered while the ring stood still may be answered by now.
        self.take_answers(now, history);
    }

    /// Offers a request.
    fn ask(&mut self, hostile: bool, history: &mut History) {
        let Some(slot) = self.front.as_mut().and_then(|front| front.queues[0].take_slot()) else { return };
        let most = if self.chance.one_in(8) { 32 } else { 8 };
        let length = 512 * (1 + self.chance.below(most)) as u32;
        let in_part = self.chance.below((PART_BYTES - u64::from(length)) / 512) * 512;
        let dice = self.chance.below(100);
        let kind = match dice {
            0..40 => request_type::READ,
            40..88 => request_type::WRITE,
            88..92 => request_type::WRITE_ZEROES,
            92..94 => request_type::DISCARD,
            94..98 => request_type::FLUSH,
            98 => request_type::GET_ID,
            _ => request_type::READ,
        };
        let broken = hostile && self.chance.one_in(40) && kind == request_type::READ;
        let beyond = dice == 99;
        let offset = if beyond { EXPORT_BYTES } else { self.part() + in_part };
        let changes = matches!(kind, request_type::WRITE | request_type::WRITE_ZEROES | request_type::DISCARD);
        let overlaps = |other: &Asked| {
            let apart = other.offset + u64::from(other.length) <= offset || offset + u64::from(length) <= other.offset;
            !apart && matches!(other.kind, request_type::WRITE | request_type::WRITE_ZEROES | request_type::DISCARD)
        };
        let conflict = changes && self.asked.values().any(overlaps);
        let value = if kind == request_type::WRITE { history.fresh_value() } else { 0 };
        let (first, count) = (self.sector(offset), u64::from(length) / 512);
        let through = self.writes_through();
        let Some(front) = &mut self.front else { return };
        let (memory, queues) = front.split();
        let queue = &mut queues[0];
        if conflict {
            return queue.give_slot(slot);
        }
        if changes {
            history.begin(first, count, value, through);
        }
        let oldest = match kind == request_type::READ && !beyond {
            true => (first..first + count).map(|sector| history.oldest_visible(sector)).collect(),
            false => Vec::new(),
        };
        let begun = history.tick();
        let (sector, bytes) = match kind {
            request_type::WRITE => {
                let words: Vec<u8> = (0..length / 8).flat_map(|_| value.to_le_bytes()).collect();
                queue.write_data(memory, slot, &words);
                (offset / 512, length)
            }
            request_type::WRITE_ZEROES | request_type::DISCARD => {
                let (at, sectors) = ((offset / 512).to_le_bytes(), (length / 512).to_le_bytes());
                queue.write_data(memory, slot, &[&at[..], &sectors, &[0; 4]].concat());
                (0, 16)
            }
            request_type::FLUSH => (0, 0),
            request_type::GET_ID => (0, 20),
            _ => (offset / 512, length),
        };
        queue.submit(memory, slot, kind, sector, bytes);
        if broken {
            // The chain runs in a circle. The device may have seen it only after the kick.
            let (at, data) = (3 * slot, queue.data_address(slot));
            let flags = descriptor_flag::NEXT | descriptor_flag::WRITE;
            queue.set_descriptor(memory, at + 1, data, length, flags, at + 1);
        }
        let broken = broken || beyond;
        self.asked.insert(slot, Asked { kind, offset, length, value, oldest, begun, broken });
    }

    /// Takes its answers, if it was signalled.
    pub(super) fn read(&mut self, now: Nanos, history: &mut History) {
        if self.front.as_ref().is_some_and(|front| front.queues[0].take_signal()) {
            self.take_answers(now, history);
        }
    }

    fn take_answers(&mut self, now: Nanos, history: &mut History) {
        loop {
            let Some(front) = &mut self.front else { return };
            let mut done = Vec::new();
            let (memory, queues) = front.split();
            queues[0].reap(memory, &mut done);
            if done.is_empty() && !queues[0].arm(memory) {
                return;
            }
            for (slot, status) in done {
                self.answered(now, slot, status, history);
            }
        }
    }

    fn answered(&mut self, now: Nanos, slot: u16, status: u8, history: &mut History) {
        // The second answer of a head that was offered twice, or one that names no request.
        let Some(asked) = self.asked.remove(&slot) else { return };
        let Some(front) = &mut self.front else { return };
        let mut data = vec![0; asked.length as usize];
        front.queues[0].read_data(&front.memory, slot, &mut data);
        front.queues[0].give_slot(slot);
        self.answers += 1;
        for part in [now.0, u64::from(slot), u64::from(status)] {
            self.digest = (self.digest ^ part).wrapping_mul(0x0100_0000_01b3);
        }
        if asked.broken {
            assert!([UNTOUCHED, IO_ERROR].contains(&status), "{status} for what cannot be carried out");
            return;
        }
        if status != OK {
            self.failed += 1;
            assert_eq!(status, IO_ERROR, "request {} at {}", asked.kind, asked.offset);
            return;
        }
        let first = self.sector(asked.offset);
        match asked.kind {
            request_type::READ => {
                for (at, sector) in data.chunks(512).enumerate() {
                    let found = u64::from_le_bytes(sector[..8].try_into().unwrap());
                    history.check_read(first + at as u64, asked.oldest[at], found);
                    self.digest = (self.digest ^ found).wrapping_mul(0x0100_0000_01b3);
                }
            }
            request_type::FLUSH => history.flushed(asked.begun),
            request_type::GET_ID => {}
            _ => history.acknowledge(first, u64::from(asked.length) / 512, asked.value),
        }
    }
}

/// Does something that waits for the server, on another thread, while the server runs and time stands still: the result does not depend on
/// how fast either is.
fn while_served<T: Send>(
    now: Nanos,
    shard: &mut Shard,
    work: impl FnOnce() -> std::io::Result<T> + Send,
) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        let mut events = Vec::new();
        while !thread.is_finished() {
            shard.turn(now, &mut events).unwrap();
            std::thread::yield_now();
        }
        thread.join().unwrap()
    })
}
