//! A virtual machine that uses an export: its front end's messages, its rings' requests. All of it runs on the disk's thread, and none of
//! it waits.

use std::os::fd::{AsFd, OwnedFd};

use dumbwaiter_block::{Errno, Nanos, TaskId};
use dumbwaiter_path::{Data, Interest, WatchId};
use dumbwaiter_protocols::vhost_user::wire::ID_BYTES;
use dumbwaiter_protocols::vhost_user::{
    Assembler, BlockFacts, BlockRequest, Chain, Device, Failure, Message, Operation, Refusal, Reply, Ring, Status,
    socket,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::requests::{Requests, answer};
use crate::Error;
use crate::client::{Client, ClientInfo, ClientState, ServeContext};
use crate::event::ClientEvent;
use crate::operation::Command;
use crate::volume::Volume;

/// Chains that are taken in one turn and answered with one signal. The driver wakes and offers more after the first of them are answered,
/// while the disk does the rest: with all in one turn server and driver would wait for each other (0.75 of the IOPS at depth 32). With fewer
/// the system calls are shared by too few.
const MAX_CHAINS: u32 = 11;
/// A message whose rest takes longer does not come.
const MESSAGE_PATIENCE: Nanos = Nanos::from_secs(5);
/// Messages of a front end that are carried out in one go. Some map memory or make a ring of the kernel's, which takes tens of microseconds, and
/// other tenants of the disk wait meanwhile.
pub(super) const MAX_MESSAGES: u32 = 8;
/// Notes that are kept between two looks at them.
const MAX_NOTES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// It takes nothing more; what is under way finishes.
    Finishing,
    /// The front end is gone or broke the protocol: guest memory is not touched any more, except by I/O that the device has.
    Dropped,
}

/// A ring as the session knows it.
#[derive(Default)]
struct RingState {
    task: Option<TaskId>,
    in_flight: u32,
    kick: Option<WatchId>,
    kick_changes: u32,
    /// Requests that a server that died had taken are being done again; nothing new before them.
    recovering: bool,
    /// Something was given back since the last look.
    touched: bool,
}

/// A connected virtual machine.
pub(super) struct Session {
    socket: OwnedFd,
    info: ClientInfo,
    id: [u8; ID_BYTES],
    device: Device,
    rings: Vec<RingState>,
    /// Rings that are or were started, by number.
    active: Vec<u16>,
    chain: Chain,
    requests: Requests,
    in_flight: u32,
    /// Requests that a ring may have under way.
    bound: u32,
    assembler: Assembler<OwnedFd>,
    partial_since: Option<Nanos>,
    control: Option<WatchId>,
    control_ready: bool,
    /// A message that waits until nothing is under way: code, message, whether a result is waited for.
    waiting: Option<(u32, Message<OwnedFd>, bool)>,
    /// Drivers do not announce their next request, as this was not requested since the last look.
    notifications_off: bool,
    /// A request that waits for a buffer.
    held: Option<u32>,
    phase: Phase,
}

impl Session {
    pub(super) fn new(
        socket: OwnedFd,
        peer: String,
        tenant: u32,
        name: &str,
        facts: BlockFacts,
        bound: u32,
    ) -> Session {
        let mut id = [0; ID_BYTES];
        let len = name.len().min(ID_BYTES);
        id[..len].copy_from_slice(&name.as_bytes()[..len]);
        Session {
            socket,
            info: ClientInfo::new(tenant, peer, false),
            id,
            rings: (0..facts.queues).map(|_| RingState::default()).collect(),
            device: Device::new(facts),
            active: Vec::new(),
            chain: Chain::default(),
            requests: Requests::default(),
            in_flight: 0,
            bound,
            assembler: Assembler::default(),
            partial_since: None,
            control: None,
            control_ready: true,
            waiting: None,
            notifications_off: false,
            held: None,
            phase: Phase::Serving,
        }
    }

    fn note(&mut self, note: String) {
        if self.info.notes.len() < MAX_NOTES {
            self.info.notes.push(note);
        }
    }

    /// Carries out the messages that are here, as far as what is under way lets them. `true` if some may be left: one that sends without end
    /// does not delay others.
    fn read_messages(&mut self, volume: &mut Volume) -> Result<bool, Error> {
        if self.in_flight == 0
            && let Some((code, message, needs_reply)) = self.waiting.take()
        {
            self.carry_out(code, message, needs_reply, volume)?;
        }
        let mut left = MAX_MESSAGES;
        while left > 0 && self.control_ready && self.waiting.is_none() && self.phase == Phase::Serving {
            left -= 1;
            let (count, descriptors) = match socket::receive(&self.socket, self.assembler.room(), false) {
                Ok((0, _)) => {
                    self.drop_client(None, volume);
                    return Ok(false);
                }
                Ok(received) => received,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => {
                    self.control_ready = false;
                    break;
                }
                Err(_) => {
                    self.drop_client(None, volume);
                    return Ok(false);
                }
            };
            let message = match self.assembler.received(count, descriptors) {
                Ok(None) => continue,
                Ok(Some(envelope)) => {
                    let (code, needs_reply) = (envelope.code, envelope.needs_reply);
                    envelope.open().map(|message| (code, message, needs_reply))
                }
                Err(error) => Err(error),
            };
            match message {
                Ok((code, message, needs_reply)) if self.in_flight > 0 && Device::needs_quiet(&message) => {
                    self.waiting = Some((code, message, needs_reply));
                }
                Ok((code, message, needs_reply)) => self.carry_out(code, message, needs_reply, volume)?,
                Err(error) => {
                    self.note(error.to_string());
                    self.drop_client(Some("an invalid vhost-user message"), volume);
                }
            }
        }
        let partial = self.assembler.is_partial();
        self.partial_since = if partial { self.partial_since.or(Some(volume.disk.now())) } else { None };
        Ok(left == 0)
    }

    fn carry_out(
        &mut self,
        code: u32,
        message: Message<OwnedFd>,
        needs_reply: bool,
        volume: &mut Volume,
    ) -> Result<(), Error> {
        // A signal that is on its way is not lost with the descriptor that the message may take away.
        volume.disk.hand_over()?;
        let done = self.device.handle(code, message, needs_reply);
        for note in std::mem::take(&mut self.device.notes) {
            self.note(note);
        }
        match done {
            Ok(Some(Reply { bytes, descriptor })) => {
                let descriptors = descriptor.as_ref().map(AsFd::as_fd);
                if socket::send(&self.socket, &bytes, descriptors.as_slice()).is_err() {
                    self.drop_client(None, volume);
                }
            }
            Ok(None) => {}
            Err(Failure(why)) => {
                self.note(why);
                self.drop_client(Some("a vhost-user message failed"), volume);
            }
        }
        self.follow_rings(volume)
    }

    /// Watches the kicks of rings that were started, and forgets rings that were stopped.
    fn follow_rings(&mut self, volume: &mut Volume) -> Result<(), Error> {
        for (number, (queue, state)) in self.device.queues.iter().zip(&mut self.rings).enumerate() {
            if queue.kick_changes == state.kick_changes {
                continue;
            }
            state.kick_changes = queue.kick_changes;
            if let Some(watch) = state.kick.take() {
                volume.disk.unwatch(watch)?;
            }
            let number = number as u16;
            if let Some(kick) = &queue.kick {
                state.kick = Some(volume.watch(kick.as_fd(), Interest::Read, self.info.index)?);
            }
            state.recovering = !queue.again.is_empty();
            match &queue.ring {
                Some(_) if !self.active.contains(&number) => self.active.push(number),
                None => {
                    self.active.retain(|other| *other != number);
                    // Nothing of it is under way: the message waited for that.
                    if let Some(task) = state.task.take() {
                        volume.end_task(task);
                    }
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Takes requests from all rings, another one first each time. `true` if some are left.
    fn take_requests(&mut self, volume: &mut Volume) -> Result<bool, Error> {
        if self.active.len() > 1 {
            self.active.rotate_left(1);
        }
        let mut left = MAX_CHAINS;
        for at in 0..self.active.len() {
            let ring = self.active[at];
            self.take_from(ring, &mut left, volume)?;
            self.show(ring, volume)?;
        }
        Ok(left == 0)
    }

    fn take_from(&mut self, ring: u16, left: &mut u32, volume: &mut Volume) -> Result<(), Error> {
        while *left > 0 && self.phase == Phase::Serving {
            let state = &mut self.rings[usize::from(ring)];
            if state.in_flight >= self.bound || self.held.is_some() {
                return Ok(());
            }
            if state.recovering && self.device.queues[usize::from(ring)].again.is_empty() {
                if state.in_flight > 0 {
                    return Ok(());
                }
                state.recovering = false;
            }
            let (head, table, size) = match self.device.take(ring) {
                Ok(Some(taken)) => taken,
                Ok(None) => {
                    self.notifications_off = true;
                    return Ok(());
                }
                Err(broken) => {
                    self.device.break_ring(ring, broken);
                    for note in std::mem::take(&mut self.device.notes) {
                        self.note(note);
                    }
                    count_refusal(volume, self.info.tenant);
                    return Ok(());
                }
            };
            *left -= 1;
            let loaded = self.chain.load(&self.device.memory, table, size, head);
            if loaded.is_err() {
                self.device.complete(ring, head, 0);
                count_refusal(volume, self.info.tenant);
                continue;
            }
            match self.chain.request(&self.device.memory, &self.device.rules()) {
                Ok(request) => self.begin(ring, head, request, volume)?,
                Err(refusal) => {
                    let written = match refusal {
                        Refusal::NoStatus => 0,
                        Refusal::With(place, status) => {
                            self.device.memory.write(place, &[status as u8]);
                            1
                        }
                    };
                    self.device.complete(ring, head, written);
                    count_refusal(volume, self.info.tenant);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, ring: u16, head: u16, request: BlockRequest, volume: &mut Volume) -> Result<(), Error> {
        let pieces = self.chain.data(request.operation);
        if request.operation == Operation::GetId {
            let number = self.requests.put(ring, head, request, pieces);
            if let Some(pending) = self.requests.take(number) {
                let written = pending.scatter(&self.device.memory, &self.id);
                answer(&self.device.memory, &request, Status::Ok);
                self.device.complete(ring, head, written + 1);
            }
            return Ok(());
        }
        let number = self.requests.put(ring, head, request, pieces);
        self.in_flight += 1;
        self.rings[usize::from(ring)].in_flight += 1;
        self.submit(number, volume)
    }

    /// Hands a request to the disk, on guest memory where the target takes that, else through a buffer.
    fn submit(&mut self, number: u32, volume: &mut Volume) -> Result<(), Error> {
        let pending = self.requests.get(number);
        let (ring, request) = (pending.ring, pending.request);
        let BlockRequest { operation, offset, length, .. } = request;
        let fua = self.device.writes_through();
        let command = match operation {
            Operation::Read => Command::Read { offset, length },
            Operation::Write => Command::Write { offset, length, fua },
            Operation::Flush | Operation::GetId => Command::Flush,
            Operation::Discard => Command::Trim { offset, length, fua },
            Operation::WriteZeroes { unmap } => Command::Zero { offset, length, fua, keep: !unmap, fast: false },
        };
        let memory = &self.device.memory;
        let data = match operation {
            Operation::Read | Operation::Write if length > 0 => {
                if self.requests.is_aligned(number, memory, volume.memory_align) {
                    self.requests.guest_data(number, memory)
                } else if let Some(mut buffer) = volume.take_buffer(self.info.tenant, length) {
                    if operation == Operation::Write {
                        self.requests.gather(number, memory, &mut buffer);
                    }
                    Some(Data::Buffer(buffer))
                } else {
                    self.held = Some(number);
                    return Ok(());
                }
            }
            _ => Some(Data::Scratch),
        };
        let Some(data) = data else {
            self.completed(number, Err(Errno::EIO), Data::Scratch, volume);
            return Ok(());
        };
        let task = match self.rings[usize::from(ring)].task {
            Some(task) => task,
            None => {
                let task = volume.add_task(self.info.tenant)?;
                self.rings[usize::from(ring)].task = Some(task);
                task
            }
        };
        volume.submit(self.info.tenant, task, command, data, self.info.token(number))
    }

    /// Rings from which requests may be taken now.
    fn open_rings(&self) -> impl Iterator<Item = &Ring> {
        let serving = self.phase == Phase::Serving && self.waiting.is_none() && self.held.is_none();
        self.active.iter().filter(move |_| serving).filter_map(|number| {
            let (queue, state) = (&self.device.queues[usize::from(*number)], &self.rings[usize::from(*number)]);
            let open = queue.runs() && state.in_flight < self.bound && !state.recovering;
            queue.ring.as_ref().filter(|_| open)
        })
    }

    /// Shows drivers what is done.
    fn publish(&mut self, volume: &mut Volume) -> Result<(), Error> {
        for at in 0..self.active.len() {
            let ring = self.active[at];
            if std::mem::take(&mut self.rings[usize::from(ring)].touched) {
                self.show(ring, volume)?;
            }
        }
        Ok(())
    }

    /// Shows the driver of a ring what is done. Its signal goes with the disk's next call, where the kernel can do that.
    fn show(&mut self, ring: u16, volume: &mut Volume) -> Result<(), Error> {
        if let Some(signal) = self.device.publish(ring)
            && !volume.disk.signal(signal.ring())?
        {
            signal.send();
        }
        Ok(())
    }

    /// Answers a request whose command is done.
    fn completed(&mut self, number: u32, result: Result<(), Errno>, data: Data, volume: &mut Volume) {
        let Some(pending) = self.requests.take(number) else { return };
        let (ring, head, request) = (pending.ring, pending.head, pending.request);
        self.in_flight -= 1;
        let state = &mut self.rings[usize::from(ring)];
        state.in_flight -= 1;
        state.touched = true;
        if self.phase != Phase::Dropped {
            let status = match result {
                Ok(()) => Status::Ok,
                Err(Errno::EOPNOTSUPP) => Status::Unsupported,
                Err(_) => Status::IoError,
            };
            let written = match (&data, status) {
                (Data::Buffer(buffer), Status::Ok) if request.operation == Operation::Read => {
                    pending.scatter(&self.device.memory, buffer)
                }
                (_, Status::Ok) => pending.bytes_read(),
                _ => 0,
            };
            answer(&self.device.memory, &request, status);
            self.device.complete(ring, head, written + 1);
        }
        if let Data::Buffer(buffer) = data {
            volume.give_buffer(self.info.tenant, buffer);
        }
    }

    /// Answers nothing any more, and says why if the front end broke the protocol.
    fn drop_client(&mut self, violation: Option<&'static str>, volume: &mut Volume) {
        if self.phase == Phase::Dropped {
            return;
        }
        for task in self.rings.iter().filter_map(|ring| ring.task) {
            volume.give_up(task);
        }
        self.info.violation = violation;
        self.phase = Phase::Dropped;
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        if let Some(number) = self.held.take()
            && let Some(pending) = self.requests.take(number)
        {
            self.in_flight -= 1;
            self.rings[usize::from(pending.ring)].in_flight -= 1;
        }
    }

    fn is_over(&self) -> bool {
        self.phase != Phase::Serving && self.in_flight == 0
    }

    fn is_polled(&self) -> bool {
        let polled = |ring: &u16| {
            let queue = &self.device.queues[usize::from(*ring)];
            queue.polled && queue.runs()
        };
        self.phase == Phase::Serving && self.active.iter().any(polled)
    }
}

/// A request that never reached the disk.
fn count_refusal(volume: &mut Volume, tenant: u32) {
    if let Some(own) = volume.tenant_mut(tenant) {
        own.counts.refused += 1;
    }
}

impl Client for Session {
    fn info(&self) -> &ClientInfo {
        &self.info
    }

    fn info_mut(&mut self) -> &mut ClientInfo {
        &mut self.info
    }

    fn handle(&mut self, event: ClientEvent, volume: &mut Volume) -> Result<(), Error> {
        match event {
            ClientEvent::Completed { token, result, data } => self.completed(token, result, data, volume),
            // A kick needs nothing but a look at the rings.
            ClientEvent::Ready(watch) => self.control_ready |= self.control == Some(watch),
            ClientEvent::Resized(bytes) => self.device.resize(bytes),
            ClientEvent::Finish if self.phase == Phase::Serving => self.phase = Phase::Finishing,
            ClientEvent::Drop(violation) => self.drop_client(violation, volume),
            _ => {}
        }
        Ok(())
    }

    fn serve(&mut self, context: &mut ServeContext<'_>) -> Result<ClientState, Error> {
        let volume = &mut *context.volume;
        if self.phase != Phase::Dropped {
            self.publish(volume)?;
        }
        if self.control.is_none() && self.phase == Phase::Serving {
            self.control = Some(volume.watch(self.socket.as_fd(), Interest::Read, self.info.index)?);
        }
        let more = self.read_messages(volume)?;
        if let Some(number) = self.held.take() {
            self.submit(number, volume)?;
        }
        let takes = self.phase == Phase::Serving && self.waiting.is_none();
        let again = takes && (self.take_requests(volume)? || more);
        Ok(ClientState {
            again,
            awaits_memory: self.held.is_some(),
            notifications_off: self.notifications_off,
            polled: self.is_polled(),
            is_over: self.is_over(),
        })
    }

    fn offered(&self) -> u32 {
        self.open_rings().map(|ring| u32::from(ring.offered(&self.device.memory))).sum()
    }

    fn turn_notifications_on(&mut self) -> bool {
        self.notifications_off = false;
        let mut news = false;
        for ring in self.open_rings() {
            news |= ring.arm(&self.device.memory);
        }
        news
    }

    fn complaint(&self, now: Nanos) -> Option<&'static str> {
        if self.device.is_truncated() {
            return Some("the file of its memory was truncated, or no huge page was left for it");
        }
        let stalled = self.partial_since.is_some_and(|since| now.since(since) > MESSAGE_PATIENCE);
        stalled.then_some("the rest of a message did not arrive within 5 s")
    }

    fn is_gone(&self) -> bool {
        self.phase == Phase::Dropped || has_hung_up(&self.socket)
    }

    fn close(mut self: Box<Self>, volume: &mut Volume) -> Result<(), Error> {
        // Its last signals are sent before their descriptors are closed.
        volume.disk.hand_over()?;
        for state in &mut self.rings {
            if let Some(task) = state.task.take() {
                volume.end_task(task);
            }
            if let Some(watch) = state.kick.take() {
                volume.disk.unwatch(watch)?;
            }
        }
        if let Some(watch) = self.control.take() {
            volume.disk.unwatch(watch)?;
        }
        Ok(())
    }
}

/// Has the other end of a socket gone?
fn has_hung_up(socket: impl AsFd) -> bool {
    let mut one = [PollFd::new(&socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut one, Some(&now)), Ok(1)) && one[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP)
}
