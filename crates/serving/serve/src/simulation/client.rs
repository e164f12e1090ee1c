//! A client by script: it knows what its part of an export holds, and misbehaves.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use dumbwaiter_block::Nanos;
use dumbwaiter_protocols::nbd::client::{Handshake, Reply, Wish};
use dumbwaiter_protocols::nbd::negotiation::greeting;
use dumbwaiter_protocols::nbd::wire::command_flag;
use dumbwaiter_protocols::nbd::{Command, Negotiation, Progress, Request};

use super::chance::Chance;
use super::history::History;
use super::layout::{CLIENTS, EXPORT_BYTES, PART_BYTES};
use crate::access::Peer;
use crate::message::Message;
use crate::shard::Shard;

/// Requests that it has under way at most; the server takes 16 of a connection.
const DEPTH: usize = 24;

struct Asked {
    request: Request,
    /// Of a write.
    value: u64,
    /// Of a read: the oldest value of each sector that it may see.
    oldest: Vec<usize>,
    begun: u64,
}

pub(super) struct Client {
    number: u64,
    chance: Chance,
    stream: Option<UnixStream>,
    next: Nanos,
    /// It reads nothing before this time.
    reads_from: Nanos,
    asked: BTreeMap<u64, Asked>,
    cookie: u64,
    out: Vec<u8>,
    input: Vec<u8>,
    /// The next block of a run of neighbouring writes.
    run: u64,
    /// It asks for nothing more.
    quiet: bool,
    digest: u64,
    answers: u64,
    failed: u64,
}

impl Client {
    pub(super) fn new(number: u64, mut chance: Chance) -> Client {
        Client {
            number,
            next: Nanos(chance.below(1_000_000)),
            chance,
            stream: None,
            reads_from: Nanos::ZERO,
            asked: BTreeMap::new(),
            cookie: 0,
            out: Vec::new(),
            input: Vec::new(),
            run: 0,
            quiet: false,
            digest: 0xcbf2_9ce4_8422_2325,
            answers: 0,
            failed: 0,
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Its name at the server.
    pub(super) fn peer(&self) -> String {
        format!("client {}", self.number)
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    pub(super) fn answers(&self) -> u64 {
        self.answers
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    pub(super) fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// Asks for nothing more.
    pub(super) fn rest(&mut self) {
        self.quiet = true;
    }

    /// Requests without an answer.
    pub(super) fn unanswered(&self) -> usize {
        self.asked.len()
    }

    /// When it does something by itself.
    pub(super) fn next(&self) -> Nanos {
        let acts = if self.quiet && self.out.is_empty() { Nanos::MAX } else { self.next };
        acts.min(if self.stream.is_some() && self.reads_from > Nanos::ZERO { self.reads_from } else { Nanos::MAX })
    }

    fn export(&self) -> u64 {
        self.number / CLIENTS
    }

    /// First byte of its part, in the export.
    fn part(&self) -> u64 {
        self.number % CLIENTS * PART_BYTES
    }

    /// Sector of the drive.
    fn sector(&self, offset: u64) -> u64 {
        (self.export() * EXPORT_BYTES + offset) / 512
    }

    /// Negotiates, and hands the socket to the disk, as the listener does.
    pub(super) fn connect(&mut self, now: Nanos, shard: &mut Shard) {
        self.next = now + Nanos(self.chance.below(200_000));
        let wish = Wish { export: format!("export{}", self.export()), structured: true, allocation: false };
        let (mut handshake, mut negotiation) = (Handshake::new(wish), Negotiation::default());
        let (mut down, mut up) = (greeting().to_vec(), Vec::new());
        let agreement = loop {
            handshake.feed(&std::mem::take(&mut down), &mut up).unwrap();
            let (peer, bytes) = (Peer::default(), std::mem::take(&mut up));
            match negotiation.feed(&bytes, &shard.common.directory.seen_by(&peer), &mut down) {
                Progress::More => {}
                Progress::Agreed(agreement) => break agreement,
                other => panic!("{other:?}"),
            }
        };
        let (own, theirs) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        if self.chance.one_in(2) {
            // Replies do not fit at once.
            rustix::net::sockopt::set_socket_send_buffer_size(&theirs, 4096).unwrap();
        }
        let entry = shard.common.directory.get(&agreement.export.name).unwrap();
        shard.common.connections.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let peer = self.peer();
        let message = Message::Connection { socket: theirs.into(), peer, tenant: entry.tenant, agreement };
        shard.receive_message(message).unwrap();
        self.stream = Some(own);
        self.reads_from = Nanos::ZERO;
    }

    fn hang_up(&mut self) {
        self.stream = None;
        self.asked.clear();
        self.out.clear();
        self.input.clear();
        self.reads_from = Nanos::ZERO;
    }

    /// Does the next thing that its script says.
    pub(super) fn act(&mut self, now: Nanos, hostile: bool, history: &mut History) {
        if self.reads_from <= now {
            self.reads_from = Nanos::ZERO;
        }
        if self.next > now {
            return;
        }
        self.next = now + Nanos(1000 + self.chance.below(300_000));
        if self.stream.is_none() {
            return;
        }
        if !self.out.is_empty() {
            self.send(hostile);
            return;
        }
        if self.quiet {
            return;
        }
        match self.chance.below(400) {
            0 if hostile => {
                // Half a request, and gone.
                self.ask(history);
                self.out.truncate(1 + self.out.len() / 2);
                self.send(false);
                self.hang_up();
            }
            1 if hostile => self.hang_up(),
            2 if hostile => {
                self.out.extend_from_slice(&[0xee; 28]);
                self.send(false);
            }
            3 => {
                let request = Request { flags: 0, command: Command::Disconnect, cookie: 0, offset: 0, length: 0 };
                self.out.extend_from_slice(&request.encode());
                self.send(false);
            }
            4..8 if hostile => self.reads_from = now + Nanos(1_000_000 + self.chance.below(20_000_000)),
            _ => {
                for _ in 0..1 + self.chance.below(6) {
                    self.ask(history);
                }
                self.send(hostile);
            }
        }
    }

    /// Queues a request.
    fn ask(&mut self, history: &mut History) {
        if self.asked.len() >= DEPTH {
            return;
        }
        self.cookie += 1;
        let most = if self.chance.one_in(8) { 64 } else { 8 };
        let length = 512 * (1 + self.chance.below(most));
        let in_part = self.chance.below((PART_BYTES - length) / 512) * 512;
        let kind = self.chance.below(100);
        // Some writes are neighbours, so that they can merge.
        let in_part = match kind {
            30..50 if self.run + length < PART_BYTES => self.run,
            _ => in_part,
        };
        self.run = in_part + length;
        let (offset, length) = (self.part() + in_part, length as u32);
        let fua = if self.chance.one_in(4) { command_flag::FUA } else { 0 };
        let (command, flags) = match kind {
            0..35 => (Command::Read, 0),
            35..85 => (Command::Write, fua),
            85..90 => (Command::WriteZeroes, fua | if self.chance.one_in(2) { command_flag::NO_HOLE } else { 0 }),
            90..93 => (Command::Trim, fua),
            93..99 => (Command::Flush, 0),
            // Refused: beyond the end.
            _ => (Command::Read, 0),
        };
        let mut request = Request { flags, command, cookie: self.cookie, offset, length };
        match command {
            Command::Flush => (request.offset, request.length) = (0, 0),
            Command::Read if kind == 99 => request.offset = EXPORT_BYTES,
            _ => {}
        }
        let changes = matches!(command, Command::Write | Command::WriteZeroes | Command::Trim);
        if changes
            && self
                .asked
                .values()
                .any(|other| overlap(&other.request, &request) && other.request.command != Command::Read)
        {
            return;
        }
        let value = if command == Command::Write { history.fresh_value() } else { 0 };
        let (first, count) = (self.sector(request.offset), u64::from(request.length) / 512);
        if changes {
            history.begin(first, count, value, flags & command_flag::FUA != 0);
        }
        let oldest = match kind {
            0..35 => (first..first + count).map(|sector| history.oldest_visible(sector)).collect(),
            _ => Vec::new(),
        };
        self.out.extend_from_slice(&request.encode());
        if command == Command::Write {
            (0..request.length / 8).for_each(|_| self.out.extend_from_slice(&value.to_le_bytes()));
        }
        let begun = history.tick();
        self.asked.insert(self.cookie, Asked { request, value, oldest, begun });
    }

    /// Sends what is queued, or a part of it.
    fn send(&mut self, hostile: bool) {
        let Some(stream) = &mut self.stream else { return };
        let most = if hostile && self.chance.one_in(10) { 1 + self.chance.below(40) as usize } else { usize::MAX };
        let most = most.min(self.out.len());
        match stream.write(&self.out[..most]) {
            Ok(count) => {
                self.out.drain(..count);
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.hang_up(),
        }
    }

    /// Takes the answers that are here.
    pub(super) fn read(&mut self, now: Nanos, history: &mut History) {
        let Some(stream) = &mut self.stream else { return };
        if self.reads_from > now {
            return;
        }
        let mut bytes = [0; 8192];
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => return self.hang_up(),
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return self.hang_up(),
            }
        }
        while let Some((reply, head)) = Reply::parse(&self.input, |_| 0).expect("a reply where one is due") {
            let whole = head + (reply.skip + reply.data) as usize;
            if self.input.len() < whole {
                return;
            }
            let data: Vec<u8> = self.input[head + reply.skip as usize..whole].to_vec();
            self.input.drain(..whole);
            self.answered(now, &reply, &data, history);
        }
    }

    fn answered(&mut self, now: Nanos, reply: &Reply, data: &[u8], history: &mut History) {
        let asked = self.asked.remove(&reply.cookie).expect("an answer to a request that is under way");
        let Asked { request, value, oldest, begun } = asked;
        self.answers += 1;
        for part in [now.0, reply.cookie, u64::from(reply.error), data.len() as u64] {
            self.digest = (self.digest ^ part).wrapping_mul(0x0100_0000_01b3);
        }
        if reply.error != 0 {
            self.failed += 1;
            // EIO by the drive's faults, EINVAL beyond the end, ESHUTDOWN at the end.
            assert!([5, 22, 108].contains(&reply.error), "{request:?}: {}", reply.error);
            return;
        }
        let first = self.sector(request.offset);
        match request.command {
            Command::Read => {
                assert_eq!(data.len(), request.length as usize);
                for (at, sector) in data.chunks(512).enumerate() {
                    let found = u64::from_le_bytes(sector[..8].try_into().unwrap());
                    history.check_read(first + at as u64, oldest[at], found);
                    self.digest = (self.digest ^ found).wrapping_mul(0x0100_0000_01b3);
                }
            }
            Command::Flush => history.flushed(begun),
            _ => history.acknowledge(first, u64::from(request.length) / 512, value),
        }
    }
}

fn overlap(a: &Request, b: &Request) -> bool {
    a.offset < b.offset + u64::from(b.length) && b.offset < a.offset + u64::from(a.length)
}
