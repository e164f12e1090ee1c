//! The other side: a front end with a virtio-blk driver in one, in this process. It serves tests and benchmarks, and lets tests break rules.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::sync::atomic::{Ordering, fence};

use crate::vhost_user::memory::{GuestPlace, Memory, Region};
use crate::vhost_user::message::encode;
use crate::vhost_user::ring::wants_event;
use crate::vhost_user::wire::{
    HEADER_BYTES, code, descriptor_flag, feature, header_flag, protocol_feature, request_type,
};

/// The guest's first address.
pub const GUEST_BASE: u64 = 0x10_0000;
/// The front end's first address.
pub const USER_BASE: u64 = 0x7000_0000_0000;
/// A reply that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(20);
/// Descriptors of a request: header, data, status.
const PARTS: u16 = 3;

/// Options of a driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rings.
    pub queues: u16,
    /// Entries of a ring; three for each request.
    pub queue_size: u16,
    /// Bytes of data that a request may have.
    pub slot_bytes: u32,
    /// Use event indices.
    pub event_index: bool,
    /// Take a write-back cache and flush it; else every write must be permanent.
    pub write_back: bool,
    /// Keep records of what is in flight.
    pub inflight: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { queues: 1, queue_size: 128, slot_bytes: 4096, event_index: true, write_back: true, inflight: true }
    }
}

impl Options {
    /// Requests that a ring holds at once.
    pub fn slots(&self) -> u16 {
        self.queue_size / PARTS
    }

    /// Bytes of a ring with its requests, whole pages.
    fn queue_bytes(&self) -> u64 {
        (self.data_offset() + u64::from(self.slots()) * self.slot_stride()).next_multiple_of(4096)
    }

    fn slot_stride(&self) -> u64 {
        u64::from(self.slot_bytes).next_multiple_of(4096)
    }

    fn available_offset(&self) -> u64 {
        16 * u64::from(self.queue_size)
    }

    fn used_offset(&self) -> u64 {
        (self.available_offset() + 6 + 2 * u64::from(self.queue_size)).next_multiple_of(64)
    }

    /// Headers and status bytes, 64 bytes for a request.
    fn headers_offset(&self) -> u64 {
        (self.used_offset() + 6 + 8 * u64::from(self.queue_size)).next_multiple_of(64)
    }

    fn data_offset(&self) -> u64 {
        (self.headers_offset() + 64 * u64::from(self.slots())).next_multiple_of(4096)
    }
}

/// A ring from the driver's side.
#[derive(Debug)]
pub struct DriverQueue {
    options: Options,
    /// Its first byte in memory.
    offset: u64,
    number: u16,
    kick: OwnedFd,
    call: OwnedFd,
    /// The front end's connection, as soon as the ring is started.
    connection: Option<UnixStream>,
    available_index: u16,
    /// The available index that the device may know of.
    kicked: u16,
    used_index: u16,
    free: Vec<u16>,
}

/// A front end that is connected.
#[derive(Debug)]
pub struct FrontEnd {
    path: PathBuf,
    /// The connection.
    pub socket: UnixStream,
    /// The guest's memory file.
    pub file: OwnedFd,
    bytes: u64,
    /// The guest's memory.
    pub memory: Memory,
    /// Its rings.
    pub queues: Vec<DriverQueue>,
    /// Features that were agreed on.
    pub features: u64,
    protocol_features: u64,
    options: Options,
    /// Size in the file, and the file.
    inflight: Option<(u64, OwnedFd)>,
    /// Where the back end tells of changes.
    pub backend_channel: Option<UnixStream>,
}

impl FrontEnd {
    /// Connects and starts all rings.
    pub fn connect(path: &Path, options: &Options) -> io::Result<FrontEnd> {
        let mut front_end = FrontEnd::prepare(path, options)?;
        front_end.negotiate()?;
        front_end.start_rings()?;
        Ok(front_end)
    }

    /// Connects, and says nothing yet.
    pub fn prepare(path: &Path, options: &Options) -> io::Result<FrontEnd> {
        let socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let bytes = options.queue_bytes() * u64::from(options.queues);
        let file = memfd_create("guest-memory", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes)?;
        fcntl_add_seals(&file, SealFlags::GROW)?;
        let mut memory = Memory::default();
        let region = Region { guest: GUEST_BASE, bytes, user: USER_BASE, offset: 0 };
        memory.add(region, &file).map_err(|e| io::Error::other(format!("{e:?}")))?;
        let queues = (0..options.queues).map(|number| DriverQueue::new(number, options)).collect::<io::Result<_>>()?;
        let mut front_end = FrontEnd {
            path: path.to_owned(),
            socket,
            file,
            bytes,
            memory,
            queues,
            features: 0,
            protocol_features: 0,
            options: options.clone(),
            inflight: None,
            backend_channel: None,
        };
        for queue in &mut front_end.queues {
            queue.lay_out(&front_end.memory);
        }
        Ok(front_end)
    }

    /// Connects again to a server that was restarted: memory and rings are as they were.
    pub fn reconnect(&mut self) -> io::Result<()> {
        self.socket = UnixStream::connect(&self.path)?;
        self.socket.set_read_timeout(Some(PATIENCE))?;
        self.negotiate()?;
        self.start_rings()
    }

    /// Sends a message.
    pub fn send(&mut self, code: u32, body: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        Ok(crate::vhost_user::socket::send(&self.socket, &encode(code, 0, body), descriptors)?)
    }

    /// Sends a message and waits for the body of its reply.
    pub fn ask(&mut self, code: u32, body: &[u8]) -> io::Result<Vec<u8>> {
        self.send(code, body, &[])?;
        Ok(self.reply(code)?.0)
    }

    /// Sends a message and waits until it was carried out; `false` if it failed.
    pub fn send_acknowledged(&mut self, code: u32, body: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<bool> {
        if self.protocol_features & protocol_feature::REPLY_ACK == 0 {
            self.send(code, body, descriptors)?;
            return Ok(true);
        }
        crate::vhost_user::socket::send(&self.socket, &encode(code, header_flag::NEED_REPLY, body), descriptors)?;
        Ok(self.reply(code)?.0 == 0u64.to_le_bytes())
    }

    fn must(&mut self, code: u32, body: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match self.send_acknowledged(code, body, descriptors)? {
            true => Ok(()),
            false => Err(io::Error::other(format!("message {code} failed"))),
        }
    }

    fn reply(&mut self, code: u32) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let (header, mut descriptors) = self.receive(HEADER_BYTES)?;
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if word(0) != code || word(4) & header_flag::REPLY == 0 {
            return Err(io::Error::other(format!("a reply to {code} was due, {} came", word(0))));
        }
        let (body, more) = self.receive(word(8) as usize)?;
        descriptors.extend(more);
        Ok((body, descriptors))
    }

    fn receive(&mut self, count: usize) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let (mut bytes, mut have, mut descriptors) = (vec![0; count], 0, Vec::new());
        while have < count {
            let (received, more) = match crate::vhost_user::socket::receive(&self.socket, &mut bytes[have..], true) {
                Err(rustix::io::Errno::INTR) => continue,
                received => received?,
            };
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            have += received;
            descriptors.extend(more);
        }
        Ok((bytes, descriptors))
    }

    fn ask_number(&mut self, code: u32) -> io::Result<u64> {
        let body = self.ask(code, &[])?;
        body.try_into().map(u64::from_le_bytes).map_err(|_| io::Error::other("a reply of the wrong size"))
    }

    /// Agrees on features, as QEMU does.
    pub fn negotiate(&mut self) -> io::Result<()> {
        self.protocol_features = 0;
        let offered = self.ask_number(code::GET_FEATURES)?;
        let protocol = self.ask_number(code::GET_PROTOCOL_FEATURES)?;
        let mut wanted_protocol = protocol_feature::MQ
            | protocol_feature::REPLY_ACK
            | protocol_feature::BACKEND_REQ
            | protocol_feature::CONFIG;
        if self.options.inflight {
            wanted_protocol |= protocol_feature::INFLIGHT_SHMFD;
        }
        self.send(code::SET_PROTOCOL_FEATURES, &(protocol & wanted_protocol).to_le_bytes(), &[])?;
        self.protocol_features = protocol & wanted_protocol;
        self.must(code::SET_OWNER, &[], &[])?;
        if self.protocol_features & protocol_feature::BACKEND_REQ != 0 {
            let (ours, theirs) = UnixStream::pair()?;
            self.must(code::SET_BACKEND_REQ_FD, &[], &[theirs.as_fd()])?;
            self.backend_channel = Some(ours);
        }
        let mut wanted = feature::VERSION_1
            | feature::PROTOCOL_FEATURES
            | feature::SEG_MAX
            | feature::BLK_SIZE
            | feature::MQ
            | feature::READ_ONLY
            | feature::DISCARD
            | feature::WRITE_ZEROES
            | feature::INDIRECT_DESC;
        if self.options.event_index {
            wanted |= feature::EVENT_IDX;
        }
        if self.options.write_back {
            wanted |= feature::FLUSH | feature::CONFIG_WCE;
        }
        self.features = offered & wanted;
        self.must(code::SET_FEATURES, &self.features.to_le_bytes(), &[])
    }

    /// Shares the in-flight records and memory, and starts the rings.
    pub fn start_rings(&mut self) -> io::Result<()> {
        if self.protocol_features & protocol_feature::INFLIGHT_SHMFD != 0 {
            self.share_inflight()?;
        }
        let body = self.memory_table();
        let file = self.file.try_clone()?;
        self.must(code::SET_MEM_TABLE, &body, &[file.as_fd()])?;
        for number in 0..self.options.queues {
            self.start_ring(number)?;
        }
        Ok(())
    }

    fn share_inflight(&mut self) -> io::Result<()> {
        let sizes = [self.options.queues.to_le_bytes(), self.options.queue_size.to_le_bytes()].concat();
        if self.inflight.is_none() {
            self.send(code::GET_INFLIGHT_FD, &[&[0; 16], sizes.as_slice()].concat(), &[])?;
            let (body, mut descriptors) = self.reply(code::GET_INFLIGHT_FD)?;
            let bytes = body.get(..8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
            let (Some(bytes), Some(file)) = (bytes, descriptors.pop()) else {
                return Err(io::Error::other("no in-flight records"));
            };
            self.inflight = Some((bytes, file));
        }
        let Some((bytes, file)) = &self.inflight else { return Ok(()) };
        let body = [&bytes.to_le_bytes()[..], &[0; 8], &sizes].concat();
        let file = file.try_clone()?;
        self.must(code::SET_INFLIGHT_FD, &body, &[file.as_fd()])
    }

    /// The body of SET_MEM_TABLE for its one region.
    pub fn memory_table(&self) -> Vec<u8> {
        let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0];
        for part in [GUEST_BASE, self.bytes, USER_BASE, 0] {
            body.extend_from_slice(&part.to_le_bytes());
        }
        body
    }

    /// Sets a ring up and starts it.
    pub fn start_ring(&mut self, number: u16) -> io::Result<()> {
        let ring = u32::from(number).to_le_bytes();
        let queue = &mut self.queues[usize::from(number)];
        queue.connection = Some(self.socket.try_clone()?);
        let size = u32::from(self.options.queue_size).to_le_bytes();
        // After a crash QEMU sends the used index.
        let base = u32::from(queue.seen_used(&self.memory)).to_le_bytes();
        let addresses = queue.addresses_body();
        let (kick, call) = (queue.kick.try_clone()?, queue.call.try_clone()?);
        self.must(code::SET_VRING_NUM, &[ring, size].concat(), &[])?;
        self.must(code::SET_VRING_BASE, &[ring, base].concat(), &[])?;
        self.must(code::SET_VRING_ADDR, &addresses, &[])?;
        self.must(code::SET_VRING_CALL, &u64::from(number).to_le_bytes(), &[call.as_fd()])?;
        self.must(code::SET_VRING_KICK, &u64::from(number).to_le_bytes(), &[kick.as_fd()])?;
        self.must(code::SET_VRING_ENABLE, &[ring, 1u32.to_le_bytes()].concat(), &[])
    }

    /// Stops a ring; answers with its next available index.
    pub fn stop_ring(&mut self, number: u16) -> io::Result<u32> {
        let body = self.ask(code::GET_VRING_BASE, &[u32::from(number).to_le_bytes(), [0; 4]].concat())?;
        let base = body.get(4..8).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
        base.ok_or_else(|| io::Error::other("no base"))
    }

    /// A part of the configuration space.
    pub fn config(&mut self, offset: u32, size: u32) -> io::Result<Vec<u8>> {
        let mut body: Vec<u8> = [offset, size, 0].iter().flat_map(|part| part.to_le_bytes()).collect();
        body.resize(12 + size as usize, 0);
        let mut reply = self.ask(code::GET_CONFIG, &body)?;
        match reply.len() {
            0 => Err(io::Error::other("the configuration cannot be read")),
            _ => Ok(reply.split_off(12)),
        }
    }

    /// Bytes of the disk.
    pub fn disk_bytes(&mut self) -> io::Result<u64> {
        let sectors = self.config(0, 8)?.try_into().map(u64::from_le_bytes);
        sectors.map(|sectors| sectors * 512).map_err(|_| io::Error::other("no capacity"))
    }

    /// One request on the first ring, and its status; `data` is sent, or filled.
    pub fn call(&mut self, kind: u32, sector: u64, data: &mut [u8]) -> io::Result<u8> {
        let queue = &mut self.queues[0];
        let slot = queue.take_slot().ok_or_else(|| io::Error::other("the ring is full"))?;
        queue.write_data(&self.memory, slot, data);
        queue.submit(&self.memory, slot, kind, sector, data.len() as u32);
        queue.kick(&self.memory);
        let mut done = Vec::new();
        while done.is_empty() {
            queue.wait(&self.memory, PATIENCE)?;
            queue.reap(&self.memory, &mut done);
        }
        queue.read_data(&self.memory, slot, data);
        queue.give_slot(slot);
        Ok(done[0].1)
    }

    /// All that is needed to serve one ring, apart from the connection.
    pub fn split(&mut self) -> (&Memory, &mut [DriverQueue]) {
        (&self.memory, &mut self.queues)
    }
}

impl DriverQueue {
    fn new(number: u16, options: &Options) -> io::Result<DriverQueue> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(DriverQueue {
            offset: u64::from(number) * options.queue_bytes(),
            number,
            kick: eventfd(0, flags)?,
            call: eventfd(0, flags)?,
            connection: None,
            available_index: 0,
            kicked: 0,
            used_index: 0,
            free: (0..options.slots()).rev().collect(),
            options: options.clone(),
        })
    }

    /// A place in its part of memory.
    fn place(&self, memory: &Memory, offset: u64) -> GuestPlace {
        memory.locate(self.guest(offset), 1).map_or(GuestPlace::default(), |(place, _)| place)
    }

    fn guest(&self, offset: u64) -> u64 {
        GUEST_BASE + self.offset + offset
    }

    /// The guest's address of a request's header; its status byte lies 16 bytes on.
    pub fn header_address(&self, slot: u16) -> u64 {
        self.guest(self.options.headers_offset() + 64 * u64::from(slot))
    }

    /// The guest's address of a request's data.
    pub fn data_address(&self, slot: u16) -> u64 {
        self.guest(self.options.data_offset() + u64::from(slot) * self.options.slot_stride())
    }

    /// The body of SET_VRING_ADDR.
    pub fn addresses_body(&self) -> Vec<u8> {
        let mut body = [u32::from(self.number).to_le_bytes(), [0; 4]].concat();
        let user = USER_BASE + self.offset;
        for part in [user, user + self.options.used_offset(), user + self.options.available_offset(), 0] {
            body.extend_from_slice(&part.to_le_bytes());
        }
        body
    }

    /// Descriptors of all requests: header, data, status.
    fn lay_out(&mut self, memory: &Memory) {
        for slot in 0..self.options.slots() {
            let first = slot * PARTS;
            self.set_descriptor(memory, first, self.header_address(slot), 16, descriptor_flag::NEXT, first + 1);
            let status = self.header_address(slot) + 16;
            self.set_descriptor(memory, first + 2, status, 1, descriptor_flag::WRITE, 0);
        }
    }

    /// Writes a descriptor.
    pub fn set_descriptor(&self, memory: &Memory, index: u16, address: u64, len: u32, flags: u16, next: u16) {
        let place = self.place(memory, 16 * u64::from(index));
        memory.store64(place, address);
        memory.store64(place.plus(8), u64::from(len) | u64::from(flags) << 32 | u64::from(next) << 48);
    }

    /// A request that is not in use.
    pub fn take_slot(&mut self) -> Option<u16> {
        self.free.pop()
    }

    /// A request that is done may be used again.
    pub fn give_slot(&mut self, slot: u16) {
        self.free.push(slot);
    }

    /// Puts data into a request.
    pub fn write_data(&self, memory: &Memory, slot: u16, data: &[u8]) {
        if let Some((place, _)) = memory.locate(self.data_address(slot), data.len().max(1) as u64) {
            memory.write(place, data);
        }
    }

    /// Gets data out of a request.
    pub fn read_data(&self, memory: &Memory, slot: u16, data: &mut [u8]) {
        if let Some((place, _)) = memory.locate(self.data_address(slot), data.len().max(1) as u64) {
            memory.read(place, data);
        }
    }

    /// Offers a request; the device may see it at once, and surely does with [`DriverQueue::kick`].
    pub fn submit(&mut self, memory: &Memory, slot: u16, kind: u32, sector: u64, bytes: u32) {
        let header = self.place(memory, self.options.headers_offset() + 64 * u64::from(slot));
        memory.store64(header, u64::from(kind));
        memory.store64(header.plus(8), sector);
        memory.write(header.plus(16), &[0xff]);
        let (first, data) = (slot * PARTS, self.data_address(slot));
        let into_memory = matches!(kind, request_type::READ | request_type::GET_ID);
        let write = if into_memory { descriptor_flag::WRITE } else { 0 };
        let next = if bytes > 0 { first + 1 } else { first + 2 };
        self.set_descriptor(memory, first, self.header_address(slot), 16, descriptor_flag::NEXT, next);
        self.set_descriptor(memory, first + 1, data, bytes, descriptor_flag::NEXT | write, first + 2);
        self.offer(memory, first);
    }

    /// Offers any head.
    pub fn offer(&mut self, memory: &Memory, head: u16) {
        let entry = 4 + 2 * u64::from(self.available_index % self.options.queue_size);
        memory.store16(self.place(memory, self.options.available_offset() + entry), head);
        self.available_index = self.available_index.wrapping_add(1);
        self.set_available_index(memory, self.available_index);
    }

    /// Shows the device an available index, right or wrong.
    pub fn set_available_index(&self, memory: &Memory, index: u16) {
        memory.store16(self.place(memory, self.options.available_offset() + 2), index);
    }

    /// Wakes the device, if it wants that. Did it?
    pub fn kick(&mut self, memory: &Memory) -> bool {
        fence(Ordering::SeqCst);
        let old = std::mem::replace(&mut self.kicked, self.available_index);
        let wanted = match self.options.event_index {
            true => {
                let place = self.options.used_offset() + 4 + 8 * u64::from(self.options.queue_size);
                wants_event(memory.load16(self.place(memory, place)), self.available_index, old)
            }
            false => memory.load16(self.place(memory, self.options.used_offset())) & 1 == 0,
        };
        if wanted {
            // A full counter is a kick.
            let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
        }
        wanted
    }

    /// Has the device signalled since the last call?
    pub fn take_signal(&self) -> bool {
        let mut count = [0; 8];
        // It does not block.
        rustix::io::read(&self.call, &mut count).is_ok()
    }

    /// Asks for a signal with the next answer. Is there one already?
    pub fn arm(&self, memory: &Memory) -> bool {
        let event = self.options.available_offset() + 4 + 2 * u64::from(self.options.queue_size);
        memory.store16(self.place(memory, event), self.used_index);
        fence(Ordering::SeqCst);
        self.used_index != self.seen_used(memory)
    }

    fn seen_used(&self, memory: &Memory) -> u16 {
        memory.load16(self.place(memory, self.options.used_offset() + 2))
    }

    /// Appends what is done: the request and its status byte.
    pub fn reap(&mut self, memory: &Memory, done: &mut Vec<(u16, u8)>) {
        self.reap_heads(memory, |queue, head, _| {
            let slot = head as u16 / PARTS;
            let mut status = [0xff];
            memory.read(queue.place(memory, queue.options.headers_offset() + 64 * u64::from(slot) + 16), &mut status);
            done.push((slot, status[0]));
        });
    }

    /// Takes everything that was given back: heads and bytes written.
    pub fn reap_heads(&mut self, memory: &Memory, mut each: impl FnMut(&DriverQueue, u32, u32)) {
        while self.used_index != self.seen_used(memory) {
            let element = 4 + 8 * u64::from(self.used_index % self.options.queue_size);
            let place = self.place(memory, self.options.used_offset() + element);
            each(self, memory.load32(place), memory.load32(place.plus(4)));
            self.used_index = self.used_index.wrapping_add(1);
        }
    }

    /// Sleeps until the device gives something back, which may be there already. A back end that is gone is an error at once.
    pub fn wait(&mut self, memory: &Memory, patience: Duration) -> io::Result<()> {
        if self.arm(memory) {
            return Ok(());
        }
        let time = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        let connection = self.connection.as_ref().map_or(self.call.as_fd(), |connection| connection.as_fd());
        // Of the connection only its end is asked for, which is always told.
        let mut ready =
            [PollFd::new(&self.call, PollFlags::IN), PollFd::from_borrowed_fd(connection, PollFlags::empty())];
        match poll(&mut ready, Some(&time)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Err(rustix::io::Errno::INTR) | Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        if ready[0].revents().is_empty() && ready[1].revents().contains(PollFlags::HUP) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut count = [0; 8];
        // It may have been emptied before.
        let _ = rustix::io::read(&self.call, &mut count);
        Ok(())
    }

    /// Has the back end closed the connection? For those that poll the ring and never [`wait`](Self::wait).
    pub fn is_cut_off(&self) -> bool {
        let Some(connection) = &self.connection else { return false };
        let mut ready = [PollFd::new(connection, PollFlags::empty())];
        matches!(poll(&mut ready, Some(&Timespec::default())), Ok(1..))
    }
}
