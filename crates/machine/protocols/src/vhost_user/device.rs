//! A vhost-user-blk device as its front end sets it up: features, memory, rings, in-flight records. It does no I/O on the disk.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::vhost_user::config::{BlockFacts, ConfigSpace, MAX_RANGE_SECTORS, WRITEBACK_OFFSET};
use crate::vhost_user::inflight::Inflight;
use crate::vhost_user::memory::{GuestPlace, Memory};
use crate::vhost_user::message::{Message, encode};
use crate::vhost_user::request::Rules;
use crate::vhost_user::ring::{Broken, Ring, RingAddresses};
use crate::vhost_user::signal::{Signal, is_eventfd};
use crate::vhost_user::wire::{MAX_QUEUE_SIZE, MAX_REGIONS, code, feature, header_flag, protocol_feature};

/// A message that cannot be carried out; the connection lives if its sender waits for a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

fn fail<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure(why.into()))
}

/// A reply to the front end.
#[derive(Debug)]
pub struct Reply {
    /// The whole message.
    pub bytes: Vec<u8>,
    /// A descriptor that goes with it.
    pub descriptor: Option<OwnedFd>,
}

/// A ring as it is set up.
#[derive(Debug, Default)]
pub struct Queue {
    size: u16,
    addresses: RingAddresses,
    base: u16,
    enabled: bool,
    /// Where the driver's kicks come.
    pub kick: Option<OwnedFd>,
    /// Signals for the driver.
    call: Option<Signal>,
    error: Option<Signal>,
    /// Counts changes of `kick`.
    pub kick_changes: u32,
    /// It was started and is sound.
    pub ring: Option<Ring>,
    /// It was started without a descriptor for kicks.
    pub polled: bool,
    /// Heads that were taken by a server that died, oldest first; they come before anything new.
    pub again: VecDeque<u16>,
}

impl Queue {
    /// May new requests be taken from it?
    pub fn runs(&self) -> bool {
        self.enabled && self.ring.is_some()
    }

    /// Tells the driver of errors that the ring is broken.
    fn report_error(&mut self) {
        if let Some(error) = &mut self.error {
            error.send();
        }
    }
}

/// A device.
#[derive(Debug)]
pub struct Device {
    facts: BlockFacts,
    config: ConfigSpace,
    features: u64,
    protocol_features: u64,
    /// The guest's memory.
    pub memory: Memory,
    /// Its rings.
    pub queues: Vec<Queue>,
    /// Records of what is in flight.
    pub inflight: Option<Inflight>,
    /// Messages to the front end go here.
    backend_channel: Option<OwnedFd>,
    /// Notes for people.
    pub notes: Vec<String>,
}

impl Device {
    /// A device that no front end has set up.
    pub fn new(facts: BlockFacts) -> Device {
        Device {
            config: ConfigSpace::new(&facts),
            queues: (0..facts.queues).map(|_| Queue::default()).collect(),
            facts,
            features: 0,
            protocol_features: 0,
            memory: Memory::default(),
            inflight: None,
            backend_channel: None,
            notes: Vec::new(),
        }
    }

    /// Rules that requests are checked against.
    pub fn rules(&self) -> Rules {
        let BlockFacts { bytes, block_bytes, readonly, .. } = self.facts;
        Rules { bytes, block_bytes, readonly, max_range_sectors: MAX_RANGE_SECTORS }
    }

    /// Must a write be permanent when it completes? So it is where the driver never flushes (Virtio 1.2, "Device Operation").
    pub fn writes_through(&self) -> bool {
        let choice = self.features & feature::CONFIG_WCE != 0 && !self.config.writeback();
        self.features & feature::FLUSH == 0 || choice
    }

    /// Did the front end agree on this feature of virtio?
    pub fn has_feature(&self, bit: u64) -> bool {
        self.features & bit != 0
    }

    /// The disk has another size from now on; tells the front end, where it wants to know.
    pub fn resize(&mut self, bytes: u64) {
        self.facts.bytes = bytes;
        self.config.set_bytes(bytes);
        if let Some(channel) = &self.backend_channel {
            // One that does not listen learns it when it asks.
            let _ = crate::vhost_user::socket::send(channel, &encode(code::BACKEND_CONFIG_CHANGE, 0, &[]), &[]);
        }
    }

    /// Must nothing be in flight when a message is carried out?
    pub fn needs_quiet(message: &Message<OwnedFd>) -> bool {
        matches!(
            message,
            Message::SetMemoryTable(_)
                | Message::RemoveRegion(_)
                | Message::GetRingBase { .. }
                | Message::SetInflight { .. }
                | Message::SetRingKick { .. }
                | Message::ResetOwner
        )
    }

    /// Carries a message out and answers it, if it is answered.
    ///
    /// `code` and `needs_reply` are those of its envelope. Nothing may be in flight where [`Device::needs_quiet`] says so.
    pub fn handle(
        &mut self,
        code: u32,
        message: Message<OwnedFd>,
        needs_reply: bool,
    ) -> Result<Option<Reply>, Failure> {
        let acknowledge = needs_reply && self.protocol_features & protocol_feature::REPLY_ACK != 0;
        match self.carry_out(message) {
            Ok(None) if acknowledge => Ok(Some(number(code, 0))),
            Err(Failure(why)) if acknowledge => {
                self.notes.push(why);
                Ok(Some(number(code, 1)))
            }
            done => done,
        }
    }

    fn carry_out(&mut self, message: Message<OwnedFd>) -> Result<Option<Reply>, Failure> {
        match message {
            Message::GetFeatures => return Ok(Some(number(code::GET_FEATURES, self.facts.features()))),
            Message::SetFeatures(features) => self.set_features(features)?,
            Message::SetOwner => {}
            Message::ResetOwner => self.stop_rings(),
            Message::GetProtocolFeatures => return Ok(Some(number(code::GET_PROTOCOL_FEATURES, PROTOCOL_FEATURES))),
            Message::SetProtocolFeatures(features) => {
                if features & !PROTOCOL_FEATURES != 0 {
                    return fail(format!("SET_PROTOCOL_FEATURES {features:#x}: not all of them were offered"));
                }
                self.protocol_features = features;
            }
            Message::GetQueueNumber => return Ok(Some(number(code::GET_QUEUE_NUM, u64::from(self.facts.queues)))),
            Message::GetMaxMemorySlots => return Ok(Some(number(code::GET_MAX_MEM_SLOTS, MAX_REGIONS as u64))),
            Message::SetBackendChannel(channel) => self.backend_channel = Some(channel),
            Message::GetConfig { offset, size, flags } => return Ok(Some(self.config_reply(offset, size, flags))),
            Message::SetConfig { offset, bytes } => self.set_config(offset, &bytes)?,
            Message::SetMemoryTable(regions) => self.set_memory(regions)?,
            Message::AddRegion(region, file) => {
                self.memory.add(region, file).map_err(|e| Failure(format!("cannot use a memory region: {e}")))?;
            }
            Message::RemoveRegion(region) => {
                self.memory.remove(region).map_err(|e| Failure(format!("cannot remove a memory region: {e}")))?;
                self.relocate_rings();
            }
            Message::GetInflight { queues, queue_size } => return self.create_inflight(queues, queue_size).map(Some),
            Message::SetInflight { bytes, offset, queues, queue_size, file } => {
                if queues > self.facts.queues {
                    return fail(format!(
                        "in-flight records of {queues} rings: expected at most {}",
                        self.facts.queues
                    ));
                }
                let opened = Inflight::open(file, bytes, offset, queues, queue_size);
                self.inflight = Some(opened.map_err(|e| Failure(format!("cannot use the in-flight records: {e}")))?);
            }
            Message::GetRingBase { ring } => return self.stop_ring(ring).map(Some),
            message => self.set_up_ring(message)?,
        }
        Ok(None)
    }

    fn set_features(&mut self, features: u64) -> Result<(), Failure> {
        if features & !self.facts.features() != 0 {
            return fail(format!("SET_FEATURES {features:#x}: not all of them were offered"));
        }
        self.features = features;
        if !self.has_feature(feature::PROTOCOL_FEATURES) {
            // Then no message enables rings.
            self.queues.iter_mut().for_each(|queue| queue.enabled = true);
        }
        Ok(())
    }

    fn config_reply(&self, offset: u32, size: u32, flags: u32) -> Reply {
        let bytes = self.config.read(offset, size);
        // Nothing at all says that it failed.
        let mut body = Vec::new();
        if let Some(bytes) = bytes {
            [offset, size, flags].iter().for_each(|part| body.extend_from_slice(&part.to_le_bytes()));
            body.extend_from_slice(bytes);
        }
        Reply { bytes: encode(code::GET_CONFIG, header_flag::REPLY, &body), descriptor: None }
    }

    fn set_config(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Failure> {
        match bytes {
            [value @ (0 | 1)] if offset as usize == WRITEBACK_OFFSET && self.has_feature(feature::CONFIG_WCE) => {
                self.config.set_writeback(*value == 1);
                Ok(())
            }
            _ => fail(format!(
                "SET_CONFIG of {} bytes at {offset}: only the write cache (one byte at 32, 0 or 1) can change",
                bytes.len()
            )),
        }
    }

    fn set_memory(&mut self, regions: Vec<(crate::vhost_user::Region, OwnedFd)>) -> Result<(), Failure> {
        let mut memory = Memory::default();
        for (region, file) in regions {
            memory.add(region, file).map_err(|e| Failure(format!("cannot use a memory region: {e}")))?;
        }
        self.memory = memory;
        self.relocate_rings();
        Ok(())
    }

    fn relocate_rings(&mut self) {
        for queue in &mut self.queues {
            if let Some(ring) = &mut queue.ring
                && !ring.relocate(&queue.addresses, &self.memory)
            {
                queue.ring = None;
                queue.report_error();
                self.notes.push("stopped a ring that lies outside the guest memory".into());
            }
        }
    }

    fn create_inflight(&mut self, queues: u16, queue_size: u16) -> Result<Reply, Failure> {
        if queues > self.facts.queues {
            return fail(format!("in-flight records of {queues} rings: expected at most {}", self.facts.queues));
        }
        let refused = |what: String| Failure(format!("in-flight records: {what}"));
        let region = Inflight::create(queues, queue_size).map_err(|e| refused(e.to_string()))?;
        let file = region.file().try_clone_to_owned().map_err(|e| refused(e.to_string()))?;
        let mut body = Vec::new();
        body.extend_from_slice(&region.bytes().to_le_bytes());
        body.extend_from_slice(&0u64.to_le_bytes());
        body.extend_from_slice(&queues.to_le_bytes());
        body.extend_from_slice(&queue_size.to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        Ok(Reply { bytes: encode(code::GET_INFLIGHT_FD, header_flag::REPLY, &body), descriptor: Some(file) })
    }

    fn queue(&mut self, ring: u16) -> Result<&mut Queue, Failure> {
        let count = self.facts.queues;
        self.queues
            .get_mut(usize::from(ring))
            .ok_or(Failure(format!("there is no ring {ring}; the device has {count}")))
    }

    fn set_up_ring(&mut self, message: Message<OwnedFd>) -> Result<(), Failure> {
        match message {
            Message::SetRingSize { ring, size } => {
                let queue = self.queue(ring)?;
                let sound = size.is_power_of_two() && size <= u32::from(MAX_QUEUE_SIZE);
                if !sound || queue.ring.is_some() {
                    return fail(format!(
                        "ring {ring}, {size} entries: expected a power of two of at most {MAX_QUEUE_SIZE}, before the ring starts"
                    ));
                }
                queue.size = size as u16;
            }
            Message::SetRingAddresses { ring, addresses } => {
                let queue = self.queue(ring)?;
                // A ring that runs keeps its place: front ends repeat this to switch logging.
                if queue.ring.is_none() {
                    queue.addresses = addresses;
                }
            }
            Message::SetRingBase { ring, base } => self.queue(ring)?.base = base as u16,
            Message::SetRingKick { ring, descriptor } => {
                if descriptor.as_ref().is_some_and(|descriptor| !is_eventfd(descriptor)) {
                    return fail(format!("ring {ring}: expected an eventfd for its kicks"));
                }
                let queue = self.queue(ring)?;
                queue.polled = descriptor.is_none();
                queue.kick = descriptor;
                queue.kick_changes += 1;
                self.start_ring(ring);
            }
            Message::SetRingCall { ring, descriptor } => self.queue(ring)?.call = signal(ring, descriptor)?,
            Message::SetRingError { ring, descriptor } => self.queue(ring)?.error = signal(ring, descriptor)?,
            Message::EnableRing { ring, enabled } => {
                if !self.has_feature(feature::PROTOCOL_FEATURES) {
                    return fail("SET_VRING_ENABLE needs the feature VHOST_USER_F_PROTOCOL_FEATURES");
                }
                // Also of rings that were never set up.
                self.queue(ring)?.enabled = enabled;
            }
            // Handled before.
            _ => {}
        }
        Ok(())
    }

    fn start_ring(&mut self, number: u16) {
        let event_index = self.has_feature(feature::EVENT_IDX);
        let queue = &mut self.queues[usize::from(number)];
        if queue.ring.is_some() {
            return;
        }
        let inflight = self.inflight.as_ref().filter(|inflight| inflight.covers(number, queue.size));
        let started = match queue.size {
            0 => None,
            size => Ring::start(number, size, &queue.addresses, queue.base, event_index, &self.memory, inflight),
        };
        match started {
            Some((ring, recovery)) => {
                if recovery.nonsense {
                    self.notes.push(format!("ring {number}: ignored its in-flight records, which are inconsistent"));
                }
                queue.ring = Some(ring);
                queue.again = recovery.heads.into();
            }
            None => {
                queue.report_error();
                self.notes.push(format!(
                    "ring {number} was not started: it has no size, is not aligned, or lies outside the guest memory"
                ));
            }
        }
    }

    fn stop_ring(&mut self, ring: u16) -> Result<Reply, Failure> {
        let queue = self.queue(ring)?;
        if let Some(running) = queue.ring.take() {
            queue.base = running.base();
        }
        queue.kick = None;
        queue.polled = false;
        queue.kick_changes += 1;
        queue.again.clear();
        let base = u32::from(queue.base);
        let body = [u32::from(ring).to_le_bytes(), base.to_le_bytes()].concat();
        Ok(Reply { bytes: encode(code::GET_VRING_BASE, header_flag::REPLY, &body), descriptor: None })
    }

    fn stop_rings(&mut self) {
        for ring in 0..self.facts.queues {
            // It exists, and the front end asked for no answer.
            let _ = self.stop_ring(ring);
        }
    }

    /// A ring is broken: it is off until it is started again, and the others go on.
    pub fn break_ring(&mut self, ring: u16, why: Broken) {
        if let Some(queue) = self.queues.get_mut(usize::from(ring)) {
            queue.ring = None;
            queue.report_error();
        }
        self.notes.push(format!("stopped ring {ring}: {why}"));
    }

    /// The next head of a ring, and its table of descriptors with their number. Those of a server that died come first.
    pub fn take(&mut self, ring: u16) -> Result<Option<(u16, GuestPlace, u16)>, Broken> {
        let Some(queue) = self.queues.get_mut(usize::from(ring)).filter(|queue| queue.runs()) else { return Ok(None) };
        let Some(running) = &mut queue.ring else { return Ok(None) };
        if let Some(head) = queue.again.pop_front() {
            return Ok(Some((head, running.descriptors(), running.size())));
        }
        let inflight = self.inflight.as_ref().filter(|inflight| inflight.covers(ring, running.size()));
        let head = running.take(&self.memory, inflight)?;
        Ok(head.map(|head| (head, running.descriptors(), running.size())))
    }

    /// Gives a head back; see [`Ring::complete`]. Without effect on a ring that is off.
    pub fn complete(&mut self, ring: u16, head: u16, written: u32) {
        if let Some(running) = self.queues.get_mut(usize::from(ring)).and_then(|queue| queue.ring.as_mut()) {
            running.complete(&self.memory, head, written);
        }
    }

    /// Shows the driver what was given back; answers with its signal if it wants one.
    pub fn publish(&mut self, ring: u16) -> Option<&mut Signal> {
        let queue = self.queues.get_mut(usize::from(ring))?;
        let running = queue.ring.as_mut()?;
        let inflight = self.inflight.as_ref().filter(|inflight| inflight.covers(ring, running.size()));
        queue.call.as_mut().filter(|_| running.publish(&self.memory, inflight))
    }

    /// Did memory or records lose their file?
    pub fn is_truncated(&self) -> bool {
        self.memory.is_truncated() || self.inflight.as_ref().is_some_and(Inflight::is_truncated)
    }
}

/// Features of the vhost-user protocol that are offered.
const PROTOCOL_FEATURES: u64 = protocol_feature::MQ
    | protocol_feature::REPLY_ACK
    | protocol_feature::BACKEND_REQ
    | protocol_feature::CONFIG
    | protocol_feature::INFLIGHT_SHMFD
    | protocol_feature::CONFIGURE_MEM_SLOTS;

/// Signals for a ring's driver; an error where they cannot be sent.
fn signal(ring: u16, descriptor: Option<OwnedFd>) -> Result<Option<Signal>, Failure> {
    let made = descriptor.as_ref().map(Signal::new).transpose();
    made.map_err(|e| Failure(format!("ring {ring}: cannot send signals to its descriptor, expected an eventfd: {e}")))
}

fn number(code: u32, value: u64) -> Reply {
    Reply { bytes: encode(code, header_flag::REPLY, &value.to_le_bytes()), descriptor: None }
}
