//! Messages of the front end: bytes and descriptors in, checked messages out. No I/O; descriptors are of any type.

use crate::vhost_user::memory::Region;
use crate::vhost_user::ring::RingAddresses;
use crate::vhost_user::wire::{HEADER_BYTES, MAX_BODY_BYTES, MAX_DESCRIPTORS, code, header_flag};

/// The front end broke the protocol: its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// Another version, or a reply where a message was due.
    Header,
    /// A body of more than [`MAX_BODY_BYTES`].
    TooLong,
    /// More than [`MAX_DESCRIPTORS`] descriptors.
    TooManyDescriptors,
    /// A body that is too short or too long for its code.
    Body(u32),
    /// Descriptors missing, or where none belong.
    Descriptors(u32),
    /// A code that is unknown or belongs to a feature that is not offered.
    Unknown(u32),
}

impl std::fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProtocolError::Header => f.write_str("expected the header of a message"),
            ProtocolError::TooLong => write!(f, "a message of more than {MAX_BODY_BYTES} bytes"),
            ProtocolError::TooManyDescriptors => write!(f, "more than {MAX_DESCRIPTORS} descriptors with a message"),
            ProtocolError::Body(code) => write!(f, "message {code} has a body of the wrong size"),
            ProtocolError::Descriptors(code) => write!(f, "message {code} has the wrong number of descriptors"),
            ProtocolError::Unknown(code) => write!(f, "message {code} is unknown, or its feature was not offered"),
        }
    }
}

/// A whole message, not looked into.
#[derive(Debug)]
pub struct Envelope<F> {
    /// Which message.
    pub code: u32,
    /// The sender waits for a result.
    pub needs_reply: bool,
    /// Its body.
    pub body: Vec<u8>,
    /// Descriptors that came with it.
    pub descriptors: Vec<F>,
}

/// Puts messages together from what the socket gives.
#[derive(Debug)]
pub struct Assembler<F> {
    bytes: Vec<u8>,
    have: usize,
    descriptors: Vec<F>,
}

impl<F> Default for Assembler<F> {
    fn default() -> Assembler<F> {
        Assembler { bytes: vec![0; HEADER_BYTES], have: 0, descriptors: Vec::new() }
    }
}

impl<F> Assembler<F> {
    /// Where the next bytes go. Not more than this may be received at once: descriptors belong to the message whose bytes they come with.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.have..]
    }

    /// Does it hold a part of a message?
    pub fn is_partial(&self) -> bool {
        self.have > 0
    }

    /// `count` bytes were received into [`Assembler::room`]. A message, if that completed one.
    pub fn received(
        &mut self,
        count: usize,
        descriptors: impl IntoIterator<Item = F>,
    ) -> Result<Option<Envelope<F>>, ProtocolError> {
        self.have = (self.have + count).min(self.bytes.len());
        self.descriptors.extend(descriptors);
        if self.descriptors.len() > MAX_DESCRIPTORS {
            return Err(ProtocolError::TooManyDescriptors);
        }
        if self.have < self.bytes.len() {
            return Ok(None);
        }
        let (flags, size) = (word(&self.bytes, 4), word(&self.bytes, 8) as usize);
        if flags & header_flag::VERSION_MASK != header_flag::VERSION || flags & header_flag::REPLY != 0 {
            return Err(ProtocolError::Header);
        }
        if size > MAX_BODY_BYTES {
            return Err(ProtocolError::TooLong);
        }
        if self.bytes.len() < HEADER_BYTES + size {
            self.bytes.resize(HEADER_BYTES + size, 0);
            return Ok(None);
        }
        let envelope = Envelope {
            code: word(&self.bytes, 0),
            needs_reply: flags & header_flag::NEED_REPLY != 0,
            body: self.bytes.split_off(HEADER_BYTES),
            descriptors: std::mem::take(&mut self.descriptors),
        };
        self.have = 0;
        Ok(Some(envelope))
    }
}

/// A message of the front end.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Message<F> {
    GetFeatures,
    SetFeatures(u64),
    SetOwner,
    ResetOwner,
    SetMemoryTable(Vec<(Region, F)>),
    AddRegion(Region, F),
    RemoveRegion(Region),
    SetRingSize { ring: u16, size: u32 },
    SetRingAddresses { ring: u16, addresses: RingAddresses },
    SetRingBase { ring: u16, base: u32 },
    GetRingBase { ring: u16 },
    SetRingKick { ring: u16, descriptor: Option<F> },
    SetRingCall { ring: u16, descriptor: Option<F> },
    SetRingError { ring: u16, descriptor: Option<F> },
    EnableRing { ring: u16, enabled: bool },
    GetProtocolFeatures,
    SetProtocolFeatures(u64),
    GetQueueNumber,
    SetBackendChannel(F),
    GetConfig { offset: u32, size: u32, flags: u32 },
    SetConfig { offset: u32, bytes: Vec<u8> },
    GetInflight { queues: u16, queue_size: u16 },
    SetInflight { bytes: u64, offset: u64, queues: u16, queue_size: u16, file: F },
    GetMaxMemorySlots,
}

/// The bit of a ring's descriptor message that says that there is none.
const NO_DESCRIPTOR: u64 = 1 << 8;
/// Bytes of a description of a region.
const REGION_BYTES: usize = 32;

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

fn region(bytes: &[u8], at: usize) -> Region {
    Region {
        guest: long(bytes, at),
        bytes: long(bytes, at + 8),
        user: long(bytes, at + 16),
        offset: long(bytes, at + 24),
    }
}

/// Numbers of rings have 32 bits in some messages; those beyond 16 are no ring's.
fn ring(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

impl<F> Envelope<F> {
    fn expect(&self, body: usize, descriptors: usize) -> Result<(), ProtocolError> {
        if self.body.len() != body {
            return Err(ProtocolError::Body(self.code));
        }
        if self.descriptors.len() != descriptors {
            return Err(ProtocolError::Descriptors(self.code));
        }
        Ok(())
    }

    fn one_descriptor(&mut self) -> Result<F, ProtocolError> {
        self.descriptors.pop().ok_or(ProtocolError::Descriptors(self.code))
    }

    /// Looks into it.
    pub fn open(mut self) -> Result<Message<F>, ProtocolError> {
        let body = std::mem::take(&mut self.body);
        let len = body.len();
        self.body = body.clone();
        let (first, second) = (word(&body, 0), word(&body, 4));
        let plain = |message: Message<F>, bytes: usize| self.expect(bytes, 0).map(|()| message);
        match self.code {
            code::GET_FEATURES => plain(Message::GetFeatures, 0),
            code::SET_FEATURES => plain(Message::SetFeatures(long(&body, 0)), 8),
            code::SET_OWNER => plain(Message::SetOwner, 0),
            code::RESET_OWNER => plain(Message::ResetOwner, 0),
            code::GET_PROTOCOL_FEATURES => plain(Message::GetProtocolFeatures, 0),
            code::SET_PROTOCOL_FEATURES => plain(Message::SetProtocolFeatures(long(&body, 0)), 8),
            code::GET_QUEUE_NUM => plain(Message::GetQueueNumber, 0),
            code::GET_MAX_MEM_SLOTS => plain(Message::GetMaxMemorySlots, 0),
            code::SET_VRING_NUM => plain(Message::SetRingSize { ring: ring(first), size: second }, 8),
            code::SET_VRING_BASE => plain(Message::SetRingBase { ring: ring(first), base: second }, 8),
            code::GET_VRING_BASE => plain(Message::GetRingBase { ring: ring(first) }, 8),
            code::SET_VRING_ENABLE => plain(Message::EnableRing { ring: ring(first), enabled: second != 0 }, 8),
            code::SET_VRING_ADDR => {
                let addresses =
                    RingAddresses { descriptors: long(&body, 8), used: long(&body, 16), available: long(&body, 24) };
                plain(Message::SetRingAddresses { ring: ring(first), addresses }, 40)
            }
            code::SET_MEM_TABLE => self.memory_table(&body),
            // Four bytes of padding come before the region; one is removed with or without its descriptor.
            code::ADD_MEM_REG => {
                self.expect(8 + REGION_BYTES, 1)?;
                Ok(Message::AddRegion(region(&body, 8), self.one_descriptor()?))
            }
            code::REM_MEM_REG => {
                if self.descriptors.len() > 1 {
                    return Err(ProtocolError::Descriptors(self.code));
                }
                self.descriptors.clear();
                self.expect(8 + REGION_BYTES, 0)?;
                Ok(Message::RemoveRegion(region(&body, 8)))
            }
            code::SET_VRING_KICK | code::SET_VRING_CALL | code::SET_VRING_ERR => self.ring_descriptor(long(&body, 0)),
            code::SET_BACKEND_REQ_FD => {
                self.expect(0, 1)?;
                Ok(Message::SetBackendChannel(self.one_descriptor()?))
            }
            code::GET_CONFIG | code::SET_CONFIG => {
                if len < 12 || len - 12 != second as usize {
                    return Err(ProtocolError::Body(self.code));
                }
                self.expect(len, 0)?;
                Ok(match self.code {
                    code::GET_CONFIG => Message::GetConfig { offset: first, size: second, flags: word(&body, 8) },
                    _ => Message::SetConfig { offset: first, bytes: body[12..].to_vec() },
                })
            }
            code::GET_INFLIGHT_FD | code::SET_INFLIGHT_FD => {
                // Some send the padding of the structure, some do not.
                if !(20..=24).contains(&len) {
                    return Err(ProtocolError::Body(self.code));
                }
                let (queues, queue_size) = (word(&body, 16) as u16, (word(&body, 16) >> 16) as u16);
                if self.code == code::GET_INFLIGHT_FD {
                    self.expect(len, 0)?;
                    return Ok(Message::GetInflight { queues, queue_size });
                }
                self.expect(len, 1)?;
                let (bytes, offset, file) = (long(&body, 0), long(&body, 8), self.one_descriptor()?);
                Ok(Message::SetInflight { bytes, offset, queues, queue_size, file })
            }
            unknown => Err(ProtocolError::Unknown(unknown)),
        }
    }

    fn memory_table(self, body: &[u8]) -> Result<Message<F>, ProtocolError> {
        let count = word(body, 0) as usize;
        if count > MAX_DESCRIPTORS {
            return Err(ProtocolError::Body(self.code));
        }
        self.expect(8 + count * REGION_BYTES, count)?;
        let regions = (0..count).map(|number| region(body, 8 + number * REGION_BYTES));
        Ok(Message::SetMemoryTable(regions.zip(self.descriptors).collect()))
    }

    fn ring_descriptor(mut self, value: u64) -> Result<Message<F>, ProtocolError> {
        self.expect(8, usize::from(value & NO_DESCRIPTOR == 0))?;
        let (ring, descriptor) = (value as u16 & 0xff, self.descriptors.pop());
        Ok(match self.code {
            code::SET_VRING_KICK => Message::SetRingKick { ring, descriptor },
            code::SET_VRING_CALL => Message::SetRingCall { ring, descriptor },
            _ => Message::SetRingError { ring, descriptor },
        })
    }
}

/// A message or reply as bytes.
pub fn encode(code: u32, flags: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    for part in [code, header_flag::VERSION | flags, body.len() as u32] {
        bytes.extend_from_slice(&part.to_le_bytes());
    }
    bytes.extend_from_slice(body);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn feed(bytes: &[u8], step: usize, descriptors: usize) -> Result<Option<Envelope<u8>>, ProtocolError> {
        let (mut assembler, mut rest, mut first) = (Assembler::default(), bytes, descriptors);
        while !rest.is_empty() {
            let count = assembler.room().len().min(step).min(rest.len());
            assembler.room()[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            if let Some(envelope) = assembler.received(count, vec![0; std::mem::take(&mut first)])? {
                return Ok(Some(envelope));
            }
        }
        Ok(None)
    }

    #[test]
    fn a_message_is_the_same_in_whatever_pieces_it_comes() {
        let bytes = encode(code::SET_VRING_NUM, header_flag::NEED_REPLY, &[1, 0, 0, 0, 128, 0, 0, 0]);
        for step in 1..=bytes.len() {
            let envelope = feed(&bytes, step, 0).unwrap().unwrap();
            assert!(envelope.needs_reply);
            assert!(matches!(envelope.open(), Ok(Message::SetRingSize { ring: 1, size: 128 })));
        }
    }

    #[test]
    fn headers_sizes_and_descriptors_that_do_not_fit_end_the_connection() {
        let open =
            |code, body: &[u8], descriptors| feed(&encode(code, 0, body), 64, descriptors).unwrap().unwrap().open();
        let mut other_version = encode(code::GET_FEATURES, 0, &[]);
        other_version[4] = 2;
        assert_eq!(feed(&other_version, 64, 0).unwrap_err(), ProtocolError::Header);
        assert_eq!(feed(&encode(1, header_flag::REPLY, &[]), 64, 0).unwrap_err(), ProtocolError::Header);
        assert_eq!(feed(&encode(1, 0, &[0; 2000]), 4096, 0).unwrap_err(), ProtocolError::TooLong);
        assert_eq!(feed(&encode(1, 0, &[]), 64, 9).unwrap_err(), ProtocolError::TooManyDescriptors);
        assert!(matches!(open(code::SET_FEATURES, &[0; 7], 0), Err(ProtocolError::Body(_))));
        assert!(matches!(open(code::SET_FEATURES, &[0; 8], 1), Err(ProtocolError::Descriptors(_))));
        assert!(matches!(open(code::SET_VRING_KICK, &[0; 8], 0), Err(ProtocolError::Descriptors(_))));
        assert!(matches!(open(code::SET_VRING_KICK, &[0, 1, 0, 0, 0, 0, 0, 0], 1), Err(ProtocolError::Descriptors(_))));
        assert!(matches!(open(code::SET_MEM_TABLE, &[200; 8], 0), Err(ProtocolError::Body(_))));
        assert!(matches!(open(code::SET_MEM_TABLE, &[1, 0, 0, 0, 0, 0, 0, 0], 0), Err(ProtocolError::Body(_))));
        assert!(matches!(open(code::GET_CONFIG, &[0; 11], 0), Err(ProtocolError::Body(_))));
        assert!(matches!(open(6, &[], 0), Err(ProtocolError::Unknown(6))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), code in 0u32..45, step in 1usize..50, descriptors in 0usize..4) {
            let _ = feed(&bytes, step, descriptors);
            if let Ok(Some(envelope)) = feed(&encode(code, 0, &bytes), step, descriptors) {
                let _ = envelope.open();
            }
        }
    }
}
