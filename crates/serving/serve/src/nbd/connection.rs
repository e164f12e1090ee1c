//! One NBD connection in transmission: requests in, commands to the volume, replies out.
//!
//! A reply goes out straight from the buffer of its read. All replies that are ready go out in one call.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use dumbwaiter_block::{Errno, Nanos, TaskId};
use dumbwaiter_path::{Buffer, Data, Interest, WatchId};
use dumbwaiter_protocols::nbd::reply::{self, Extent, Header};
use dumbwaiter_protocols::nbd::wire::{BASE_ALLOCATION_ID, command_flag};
use dumbwaiter_protocols::nbd::{Command as NbdCommand, NbdError, Receiver, Request, Rules, Step};
use rustix::io;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg, shutdown};

use super::status::StatusQuestion;
use crate::Error;
use crate::client::{Client, ClientInfo, ClientState, ServeContext};
use crate::event::ClientEvent;
use crate::operation::Command;
use crate::volume::Volume;

/// Bytes that are received at once.
const INPUT_BYTES: usize = 64 << 10;
/// The rest of a payload of at least this length is received straight into its buffer.
const DIRECT_BYTES: u32 = 16 << 10;
/// A payload over this is no honest request.
const MAX_PAYLOAD: u32 = 64 << 20;
/// Replies of one call; two pieces each.
const MAX_REPLIES: usize = 64;
/// A client that keeps the rest of a payload back for longer is dropped.
const STALL: Nanos = Nanos::from_secs(30);

/// How far the life of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// It reads nothing more; what is under way finishes and is answered.
    Finishing,
    /// The client does not read replies any more.
    Dropped,
}

/// The buffer that the kernel receives into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    Nothing,
    Input,
    Payload,
}

/// A write whose payload is still coming.
struct PartialWrite {
    request: Request,
    /// `None` while the kernel receives into it.
    buffer: Option<Buffer>,
    filled: usize,
    since: Nanos,
}

/// The data of a reply.
enum Payload {
    None,
    Buffer(Buffer),
    /// Bytes of the export, which go from the page cache to the socket.
    File {
        offset: u64,
        length: u32,
    },
}

/// A reply that waits to be sent.
struct Outgoing {
    header: Header,
    payload: Payload,
    /// A reply of BLOCK_STATUS, which has no fixed length.
    whole: Vec<u8>,
}

impl Outgoing {
    fn head(&self) -> &[u8] {
        if self.whole.is_empty() { self.header.as_bytes() } else { &self.whole }
    }

    fn len(&self) -> usize {
        let payload = match &self.payload {
            Payload::None => 0,
            Payload::Buffer(buffer) => buffer.len(),
            Payload::File { length, .. } => *length as usize,
        };
        self.head().len() + payload
    }
}

/// A connection.
pub(crate) struct Connection {
    socket: Arc<OwnedFd>,
    info: ClientInfo,
    task: TaskId,
    rules: Rules,
    receiver: Receiver,
    /// `None` while the kernel receives into it.
    input: Option<Buffer>,
    begin: usize,
    end: usize,
    receiving: Receiving,
    write: Option<PartialWrite>,
    /// A request that waits for a buffer.
    held: Option<Request>,
    requests: Vec<Request>,
    free: Vec<u32>,
    /// Requests whose replies are not sent.
    in_flight: u32,
    outbox: VecDeque<Outgoing>,
    /// Bytes of the first reply that are sent.
    sent: usize,
    watch: Option<WatchId>,
    phase: Phase,
}

impl Connection {
    /// A connection that has agreed on an export; `rest` is what the client has sent since.
    pub(crate) fn new(
        socket: OwnedFd,
        peer: String,
        tenant: u32,
        task: TaskId,
        rules: Rules,
        rest: &[u8],
    ) -> Connection {
        let mut input = Buffer::new(INPUT_BYTES.max(rest.len()));
        input[..rest.len()].copy_from_slice(rest);
        Connection {
            socket: Arc::new(socket),
            info: ClientInfo::new(tenant, peer, true),
            task,
            rules,
            receiver: Receiver::default(),
            input: Some(input),
            begin: 0,
            end: rest.len(),
            receiving: Receiving::Nothing,
            write: None,
            held: None,
            requests: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            outbox: VecDeque::new(),
            sent: 0,
            watch: None,
            phase: Phase::Serving,
        }
    }

    /// A write whose payload will not come is never begun.
    fn drop_write(&mut self, volume: &mut Volume) {
        if let Some(write) = self.write.take() {
            self.in_flight -= 1;
            if let Some(buffer) = write.buffer {
                volume.give_buffer(self.info.tenant, buffer);
            }
        }
    }

    /// Takes all whole requests that are here, as far as there is room for them.
    fn pump(&mut self, context: &mut ServeContext<'_>) -> Result<(), Error> {
        let Some(input) = self.input.take() else { return Ok(()) };
        let mut rest = &input[self.begin..self.end];
        let result = self.take_requests(&mut rest, context);
        self.begin = self.end - rest.len();
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        }
        self.input = Some(input);
        result
    }

    fn take_requests(&mut self, rest: &mut &[u8], context: &mut ServeContext<'_>) -> Result<(), Error> {
        while self.phase == Phase::Serving {
            if let Some(request) = self.held.take() {
                self.begin_request(request, context)?;
                if self.held.is_some() {
                    return Ok(());
                }
            }
            if let Some(write) =
                self.write.take_if(|write| write.buffer.as_ref().is_some_and(|b| b.len() == write.filled))
            {
                self.submit_write(write, context)?;
                continue;
            }
            if self.in_flight >= context.most && self.receiver.between_requests() {
                return Ok(());
            }
            match self.receiver.step(rest) {
                Step::More => return Ok(()),
                Step::Request(request) => self.begin_request(request, context)?,
                Step::Payload(bytes, _) => {
                    if let Some(write) = &mut self.write
                        && let Some(buffer) = &mut write.buffer
                    {
                        buffer[write.filled..write.filled + bytes.len()].copy_from_slice(bytes);
                        write.filled += bytes.len();
                    }
                }
                Step::Violation => {
                    self.drop_client(Some("expected a request and received other bytes"), context.volume);
                }
            }
        }
        Ok(())
    }

    /// Begins a request, or holds it until there is memory for it.
    fn begin_request(&mut self, request: Request, context: &mut ServeContext<'_>) -> Result<(), Error> {
        if request.payload() > MAX_PAYLOAD {
            self.drop_client(Some("a write of more than 64 MiB"), context.volume);
            return Ok(());
        }
        if request.command == NbdCommand::Disconnect {
            self.finish(context.volume);
            return Ok(());
        }
        let checked = if context.draining { Err(NbdError::Shutdown) } else { request.check(&self.rules) };
        if let Err(error) = checked {
            self.receiver.drop_payload();
            if let Some(own) = context.volume.tenant_mut(self.info.tenant) {
                own.counts.refused += 1;
            }
            self.in_flight += 1;
            self.answer(reply::error(&request, error, self.rules.structured), Payload::None);
            return Ok(());
        }
        let carries_data = matches!(request.command, NbdCommand::Read | NbdCommand::Write);
        if request.command == NbdCommand::Read
            && context.volume.can_send_from_file(self.info.tenant, request.offset, request.length)
        {
            self.in_flight += 1;
            return self.submit(request, Data::InFile, context);
        }
        let buffer = if carries_data && request.length > 0 {
            let Some(buffer) = context.volume.take_buffer(self.info.tenant, request.length) else {
                self.held = Some(request);
                return Ok(());
            };
            Some(buffer)
        } else {
            None
        };
        self.in_flight += 1;
        if request.command == NbdCommand::Write && buffer.is_some() {
            self.write = Some(PartialWrite { request, buffer, filled: 0, since: context.volume.disk.now() });
            return Ok(());
        }
        self.submit(request, buffer.map_or(Data::Scratch, Data::Buffer), context)
    }

    fn submit_write(&mut self, write: PartialWrite, context: &mut ServeContext<'_>) -> Result<(), Error> {
        self.submit(write.request, write.buffer.map_or(Data::Scratch, Data::Buffer), context)
    }

    /// Hands a complete request on.
    fn submit(&mut self, request: Request, data: Data, context: &mut ServeContext<'_>) -> Result<(), Error> {
        let Request { offset, length, .. } = request;
        let fua = request.has(command_flag::FUA);
        let command = match request.command {
            NbdCommand::Read => Command::Read { offset, length },
            NbdCommand::Write => Command::Write { offset, length, fua },
            NbdCommand::Flush => Command::Flush,
            NbdCommand::Trim => Command::Trim { offset, length, fua },
            NbdCommand::WriteZeroes => {
                let (keep, fast) = (request.has(command_flag::NO_HOLE), request.has(command_flag::FAST_ZERO));
                Command::Zero { offset, length, fua, keep, fast }
            }
            NbdCommand::Cache => {
                if let (Some(status), Some(own)) = (context.status, context.volume.tenant(self.info.tenant)) {
                    status.ask(StatusQuestion::Cache { offset: own.offset + offset, length });
                }
                self.answer(reply::simple(request.cookie, 0), Payload::None);
                return Ok(());
            }
            NbdCommand::BlockStatus => return self.ask_status(request, context),
            NbdCommand::Disconnect | NbdCommand::Unknown(_) => return Ok(()),
        };
        let token = self.remember(request);
        context.volume.submit(self.info.tenant, self.task, command, data, token)
    }

    fn ask_status(&mut self, request: Request, context: &mut ServeContext<'_>) -> Result<(), Error> {
        let offset = context.volume.tenant(self.info.tenant).map_or(0, |own| own.offset) + request.offset;
        match context.status {
            Some(status) => {
                let (token, one) = (self.remember(request), request.has(command_flag::REQ_ONE));
                status.ask(StatusQuestion::Extents { token, offset, length: request.length, one });
            }
            None => self.answer_status(&request, &[Extent { length: request.length, status: 0 }]),
        }
        Ok(())
    }

    /// Keeps a request until its reply; the token names it.
    fn remember(&mut self, request: Request) -> u64 {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.requests[slot as usize] = request;
                slot
            }
            None => {
                self.requests.push(request);
                self.requests.len() as u32 - 1
            }
        };
        self.info.token(slot)
    }

    fn recall(&mut self, slot: u32) -> Request {
        self.free.push(slot);
        self.requests[slot as usize]
    }

    fn answer_status(&mut self, request: &Request, extents: &[Extent]) {
        let mut whole = Vec::new();
        reply::block_status(request, BASE_ALLOCATION_ID, extents, &mut whole);
        self.outbox.push_back(Outgoing { header: reply::simple(request.cookie, 0), payload: Payload::None, whole });
    }

    fn answer(&mut self, header: Header, payload: Payload) {
        self.outbox.push_back(Outgoing { header, payload, whole: Vec::new() });
    }

    /// A reply is sent, or of no use any more.
    fn release(&mut self, reply: Outgoing, volume: &mut Volume) {
        self.in_flight -= 1;
        if let Payload::Buffer(buffer) = reply.payload {
            volume.give_buffer(self.info.tenant, buffer);
        }
    }

    /// Sends what is ready, as far as the client takes it. Did anything go?
    fn send(&mut self, volume: &mut Volume) -> Result<bool, Error> {
        let mut any = false;
        while !self.outbox.is_empty() && self.watch.is_none() {
            match self.send_some(volume) {
                Ok(sent) => {
                    any = true;
                    self.sent += sent;
                    self.drop_sent(volume);
                }
                Err(io::Errno::AGAIN) => {
                    self.watch = Some(volume.watch(self.socket.as_fd(), Interest::Write, self.info.index)?);
                }
                Err(io::Errno::INTR) => {}
                Err(_) => self.drop_client(None, volume),
            }
        }
        Ok(any)
    }

    /// One call: replies up to the next data in the page cache, or these.
    fn send_some(&self, volume: &mut Volume) -> io::Result<usize> {
        if let Some((offset, length)) = self.file_part() {
            let sent = volume.send_from_file(&self.socket, self.info.tenant, offset, length)?;
            return if sent == 0 { Err(io::Errno::IO) } else { Ok(sent) };
        }
        let mut pieces = [IoSlice::new(&[]); 2 * MAX_REPLIES];
        let (mut count, mut skip) = (0, self.sent);
        let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        for reply in self.outbox.iter().take(MAX_REPLIES) {
            let data: &[u8] = if let Payload::Buffer(buffer) = &reply.payload { buffer } else { &[] };
            for part in [reply.head(), data] {
                let cut = skip.min(part.len());
                skip -= cut;
                if cut < part.len() {
                    pieces[count] = IoSlice::new(&part[cut..]);
                    count += 1;
                }
            }
            if matches!(reply.payload, Payload::File { .. }) {
                flags |= SendFlags::MORE;
                break;
            }
        }
        sendmsg(&self.socket, &pieces[..count], &mut SendAncillaryBuffer::default(), flags)
    }

    /// The rest of the first reply, if that lies in the page cache.
    fn file_part(&self) -> Option<(u64, usize)> {
        let first = self.outbox.front()?;
        let Payload::File { offset, length } = first.payload else { return None };
        let sent = self.sent.checked_sub(first.head().len())?;
        Some((offset + sent as u64, length as usize - sent))
    }

    /// Forgets replies that are sent.
    fn drop_sent(&mut self, volume: &mut Volume) {
        while let Some(len) = self.outbox.front().map(Outgoing::len).filter(|len| *len <= self.sent) {
            self.sent -= len;
            if let Some(reply) = self.outbox.pop_front() {
                self.release(reply, volume);
            }
        }
    }

    /// Asks the kernel for more of the client, if there is room for it.
    fn receive(&mut self, context: &mut ServeContext<'_>) -> Result<(), Error> {
        let full = self.in_flight >= context.most && self.receiver.between_requests();
        let busy = self.receiving != Receiving::Nothing || self.phase != Phase::Serving;
        if busy || full || self.held.is_some() {
            return Ok(());
        }
        let direct = self.begin == self.end && self.receiver.payload_left() >= DIRECT_BYTES;
        if direct
            && let Some(write) = &mut self.write
            && let Some(buffer) = write.buffer.take()
        {
            let range = write.filled..buffer.len();
            self.receiving = Receiving::Payload;
            return Ok(context.volume.disk.receive(&self.socket, buffer, range, true, u64::from(self.info.index))?);
        }
        if let Some(mut input) = self.input.take() {
            input.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            let range = self.end..input.len();
            self.receiving = Receiving::Input;
            return Ok(context.volume.disk.receive(&self.socket, input, range, false, u64::from(self.info.index))?);
        }
        Ok(())
    }

    fn unwatch(&mut self, volume: &mut Volume) -> Result<(), Error> {
        if let Some(watch) = self.watch.take() {
            volume.disk.unwatch(watch)?;
        }
        Ok(())
    }

    /// Answers a request whose command is done.
    fn completed(&mut self, slot: u32, result: Result<(), Errno>, data: Data, volume: &mut Volume) {
        let request = self.recall(slot);
        let read = request.command == NbdCommand::Read;
        let header = match result {
            Ok(()) if read => reply::data(&request, self.rules.structured),
            Ok(()) => reply::simple(request.cookie, 0),
            Err(errno) => {
                let fast = request.has(command_flag::FAST_ZERO) && errno == Errno::EOPNOTSUPP;
                let error = if fast { NbdError::NotSupported } else { NbdError::of_errno(errno.0) };
                reply::error(&request, error, self.rules.structured)
            }
        };
        let payload = match data {
            Data::Buffer(buffer) if read && result.is_ok() => Payload::Buffer(buffer),
            Data::Buffer(buffer) => {
                volume.give_buffer(self.info.tenant, buffer);
                Payload::None
            }
            Data::InFile if result.is_ok() => Payload::File { offset: request.offset, length: request.length },
            _ => Payload::None,
        };
        self.answer(header, payload);
        if self.phase == Phase::Dropped
            && let Some(reply) = self.outbox.pop_back()
        {
            self.release(reply, volume);
        }
    }

    /// Takes what the kernel has received.
    fn received(&mut self, mut buffer: Buffer, result: Result<usize, Errno>, volume: &mut Volume) {
        let what = std::mem::replace(&mut self.receiving, Receiving::Nothing);
        let count = result.unwrap_or(0);
        match (what, &mut self.write) {
            (Receiving::Payload, Some(write)) => {
                write.filled += count;
                self.receiver.received(count as u32);
                write.buffer = Some(buffer);
            }
            (Receiving::Payload, None) => volume.give_buffer(self.info.tenant, buffer),
            _ => {
                self.end += count;
                buffer.set_len(buffer.capacity());
                self.input = Some(buffer);
            }
        }
        let interrupted = result == Err(Errno(io::Errno::INTR.raw_os_error()));
        if count == 0 && !interrupted && self.phase == Phase::Serving {
            // The end of the stream, without a disconnect: the client is assumed not to read replies.
            self.drop_client(None, volume);
        }
    }

    /// Answers a question about extents.
    fn extents_found(&mut self, slot: u32, extents: &[Extent], volume: &mut Volume) {
        let request = self.recall(slot);
        self.answer_status(&request, extents);
        if self.phase == Phase::Dropped
            && let Some(reply) = self.outbox.pop_back()
        {
            self.release(reply, volume);
        }
    }

    /// Takes nothing more; what is under way is answered.
    fn finish(&mut self, volume: &mut Volume) {
        if self.phase == Phase::Serving {
            self.phase = Phase::Finishing;
            self.drop_write(volume);
            if self.receiving != Receiving::Nothing {
                // The receive that is under way ends; sending goes on.
                let _ = shutdown(&self.socket, Shutdown::Read);
            }
        }
    }

    /// Answers nothing any more, and says why if the client broke the protocol.
    fn drop_client(&mut self, violation: Option<&'static str>, volume: &mut Volume) {
        if self.phase == Phase::Dropped {
            return;
        }
        self.info.violation = violation;
        self.phase = Phase::Dropped;
        let _ = shutdown(&self.socket, Shutdown::Both);
        while let Some(reply) = self.outbox.pop_front() {
            self.release(reply, volume);
        }
        self.drop_write(volume);
        volume.give_up(self.task);
    }

    fn is_over(&self) -> bool {
        let idle = self.in_flight == 0 && self.receiving == Receiving::Nothing;
        match self.phase {
            Phase::Serving => false,
            Phase::Finishing => idle && self.outbox.is_empty(),
            Phase::Dropped => idle,
        }
    }
}

impl Client for Connection {
    fn info(&self) -> &ClientInfo {
        &self.info
    }

    fn info_mut(&mut self) -> &mut ClientInfo {
        &mut self.info
    }

    fn handle(&mut self, event: ClientEvent, volume: &mut Volume) -> Result<(), Error> {
        match event {
            ClientEvent::Completed { token, result, data } => self.completed(token, result, data, volume),
            ClientEvent::Received { buffer, result } => self.received(buffer, result, volume),
            ClientEvent::Ready(_) => self.unwatch(volume)?,
            ClientEvent::ExtentsFound { token, extents } => self.extents_found(token, &extents, volume),
            // It may use no more than before, and no more than there is.
            ClientEvent::Resized(bytes) => self.rules.size = self.rules.size.min(bytes),
            ClientEvent::Finish => self.finish(volume),
            ClientEvent::Drop(violation) => self.drop_client(violation, volume),
            ClientEvent::DriverAnswered { .. } => {}
        }
        Ok(())
    }

    fn serve(&mut self, context: &mut ServeContext<'_>) -> Result<ClientState, Error> {
        // Sending makes room for more of the client's requests, some of which are answered at once. None may be left while there is
        // room for it: the next look would come with the client's next bytes, for which it may not send any.
        loop {
            self.pump(context)?;
            if !self.send(context.volume)? {
                break;
            }
        }
        self.receive(context)?;
        Ok(ClientState { awaits_memory: self.held.is_some(), is_over: self.is_over(), ..ClientState::default() })
    }

    fn complaint(&self, now: Nanos) -> Option<&'static str> {
        let stalled = self.write.as_ref().is_some_and(|write| now.since(write.since) > STALL);
        stalled.then_some("the rest of a write's data did not arrive within 30 s")
    }

    fn close(mut self: Box<Self>, volume: &mut Volume) -> Result<(), Error> {
        volume.end_task(self.task);
        // The kernel may still look at the socket for a moment; the client need not wait for that.
        let _ = shutdown(&self.socket, Shutdown::Both);
        self.unwatch(volume)
    }
}
