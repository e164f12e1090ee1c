//! The client's side, for tests, benchmarks and loads: the bytes of a negotiation, and a reader of replies.

use crate::nbd::export::BlockSizes;
use crate::nbd::wire::{
    BASE_ALLOCATION, CHUNK_BYTES, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC,
    SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk, info, option, option_reply, u16_at, u32_at,
    u64_at,
};

/// A client's request.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Name of the export.
    pub export: String,
    /// Ask for structured replies.
    pub structured: bool,
    /// Ask for `base:allocation`; needs structured replies.
    pub allocation: bool,
}

/// The server's offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Size of the export, bytes.
    pub size: u64,
    /// Transmission flags.
    pub flags: u16,
    /// Sizes of requests.
    pub block_sizes: BlockSizes,
    /// Structured replies were agreed on.
    pub structured: bool,
    /// `base:allocation` was selected.
    pub allocation: bool,
}

/// Why a negotiation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The peer is not an NBD server with fixed newstyle negotiation.
    NoServer,
    /// It refused the export, with its reason.
    Refused(String),
}

/// A client's negotiation: feed what the server sends, send what is appended.
#[derive(Clone, Debug, Default)]
pub struct Handshake {
    wish: Wish,
    greeted: bool,
    input: Vec<u8>,
    offer: Offer,
}

impl Handshake {
    /// A negotiation for `wish`.
    pub fn new(wish: Wish) -> Handshake {
        Handshake { wish, ..Handshake::default() }
    }

    /// Takes bytes of the server and appends bytes to send. `Some` with the offer once transmission has begun.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<Offer>, Refusal> {
        self.input.extend_from_slice(bytes);
        if !self.greeted {
            if self.input.len() < 18 {
                return Ok(None);
            }
            let fixed = u16_at(&self.input, 16) & FLAG_FIXED_NEWSTYLE != 0;
            if u64_at(&self.input, 0) != INIT_MAGIC || u64_at(&self.input, 8) != OPTION_MAGIC || !fixed {
                return Err(Refusal::NoServer);
            }
            self.greeted = true;
            self.input.drain(..18);
            self.ask(out);
        }
        while self.input.len() >= 20 {
            let length = u32_at(&self.input, 16) as usize;
            if u64_at(&self.input, 0) != OPTION_REPLY_MAGIC || length > 1 << 20 {
                return Err(Refusal::NoServer);
            }
            if self.input.len() < 20 + length {
                return Ok(None);
            }
            let reply: Vec<u8> = self.input.drain(..20 + length).collect();
            if self.take(u32_at(&reply, 8), u32_at(&reply, 12), &reply[20..])? {
                return Ok(Some(self.offer));
            }
        }
        Ok(None)
    }

    fn ask(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
        let name = self.wish.export.as_bytes();
        let counted = |text: &[u8]| [&(text.len() as u32).to_be_bytes()[..], text].concat();
        if self.wish.structured {
            send_option(out, option::STRUCTURED_REPLY, &[]);
        }
        if self.wish.allocation {
            let query = counted(BASE_ALLOCATION.as_bytes());
            send_option(out, option::SET_META_CONTEXT, &[&counted(name)[..], &1u32.to_be_bytes(), &query].concat());
        }
        let words = [1u16.to_be_bytes(), info::BLOCK_SIZE.to_be_bytes()];
        send_option(out, option::GO, &[&counted(name)[..], words.as_flattened()].concat());
    }

    /// One reply to an option; true with the last.
    fn take(&mut self, number: u32, kind: u32, data: &[u8]) -> Result<bool, Refusal> {
        match (number, kind) {
            (option::STRUCTURED_REPLY, option_reply::ACK) => self.offer.structured = true,
            (option::SET_META_CONTEXT, option_reply::META_CONTEXT) => self.offer.allocation = true,
            (option::GO, option_reply::INFO) if data.len() >= 12 && u16_at(data, 0) == info::EXPORT => {
                (self.offer.size, self.offer.flags) = (u64_at(data, 2), u16_at(data, 10));
            }
            (option::GO, option_reply::INFO) if data.len() >= 14 && u16_at(data, 0) == info::BLOCK_SIZE => {
                let (minimum, preferred, maximum) = (u32_at(data, 2), u32_at(data, 6), u32_at(data, 10));
                self.offer.block_sizes = BlockSizes { minimum, preferred, maximum };
            }
            (option::GO, option_reply::ACK) => return Ok(true),
            (option::GO, kind) if kind >> 31 == 1 => {
                return Err(Refusal::Refused(String::from_utf8_lossy(data).into_owned()));
            }
            _ => {}
        }
        Ok(false)
    }
}

fn send_option(out: &mut Vec<u8>, number: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// The stream has other data where a reply should begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoReply;

/// The head of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request's number.
    pub cookie: u64,
    /// The error, 0 without one.
    pub error: u32,
    /// Bytes of data that follow.
    pub data: u32,
    /// Bytes to skip before the data.
    pub skip: u32,
    /// It ends the answer to its request.
    pub done: bool,
}

impl Reply {
    /// Reads the head of a reply from the front of `bytes`: the reply, and how long its head is. `read_length` tells how much
    /// data a successful simple reply to this cookie brings. `None` with too few bytes; an error if it is no reply.
    pub fn parse(bytes: &[u8], read_length: impl Fn(u64) -> u32) -> Result<Option<(Reply, usize)>, NoReply> {
        if bytes.len() < SIMPLE_REPLY_BYTES {
            return Ok(None);
        }
        match u32_at(bytes, 0) {
            SIMPLE_REPLY_MAGIC => {
                let (error, cookie) = (u32_at(bytes, 4), u64_at(bytes, 8));
                let data = if error == 0 { read_length(cookie) } else { 0 };
                Ok(Some((Reply { cookie, error, data, skip: 0, done: true }, SIMPLE_REPLY_BYTES)))
            }
            STRUCTURED_REPLY_MAGIC if bytes.len() < CHUNK_BYTES => Ok(None),
            STRUCTURED_REPLY_MAGIC => {
                let (flags, kind, length) = (u16_at(bytes, 4), u16_at(bytes, 6), u32_at(bytes, 16));
                let done = flags & chunk::FLAG_DONE != 0;
                let mut reply = Reply { cookie: u64_at(bytes, 8), error: 0, data: 0, skip: length, done };
                let mut head = CHUNK_BYTES;
                if kind == chunk::OFFSET_DATA && length > 8 {
                    (reply.skip, reply.data) = (8, length - 8);
                } else if kind >> 15 == 1 {
                    if bytes.len() < CHUNK_BYTES + 4 {
                        return Ok(None);
                    }
                    (reply.error, reply.skip) = (u32_at(bytes, CHUNK_BYTES), length.saturating_sub(4));
                    head += 4;
                }
                Ok(Some((reply, head)))
            }
            _ => Err(NoReply),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::error::NbdError;
    use crate::nbd::export::{Description, Exports};
    use crate::nbd::negotiation::{Negotiation, Progress, greeting};
    use crate::nbd::reply;
    use crate::nbd::request::{Command, Request};

    struct One;
    impl Exports for One {
        fn find(&self, name: &str) -> Option<Description> {
            let sizes = BlockSizes { minimum: 512, preferred: 4096, maximum: 1 << 20 };
            (name == "disk").then(|| Description {
                name: name.to_owned(),
                size: 1 << 20,
                flags: 5,
                block_sizes: sizes,
                ..Description::default()
            })
        }
        fn list(&self) -> Vec<(String, String)> {
            Vec::new()
        }
    }

    fn negotiate(export: &str) -> Result<Offer, Refusal> {
        let wish = Wish { export: export.to_owned(), structured: true, allocation: true };
        let (mut client, mut server) = (Handshake::new(wish), Negotiation::default());
        let (mut up, mut down) = (Vec::new(), greeting().to_vec());
        loop {
            if let Some(offer) = client.feed(&std::mem::take(&mut down), &mut up)? {
                return Ok(offer);
            }
            let progress = server.feed(&std::mem::take(&mut up), &One, &mut down);
            assert!(matches!(progress, Progress::More | Progress::Agreed(_)), "{progress:?}");
        }
    }

    #[test]
    fn client_and_server_agree() {
        let offer = negotiate("disk").unwrap();
        assert_eq!((offer.size, offer.block_sizes.maximum), (1 << 20, 1 << 20));
        assert!(offer.structured && offer.allocation && offer.flags & 5 == 5);
        assert!(matches!(negotiate("other"), Err(Refusal::Refused(_))));
    }

    #[test]
    fn every_reply_of_the_server_is_read_by_the_client() {
        let request = Request { flags: 0, command: Command::Read, cookie: 9, offset: 4096, length: 512 };
        for structured in [false, true] {
            let head = reply::data(&request, structured);
            let (reply, len) = Reply::parse(head.as_bytes(), |_| 512).unwrap().unwrap();
            assert_eq!((reply.cookie, reply.error, reply.data, reply.done), (9, 0, 512, true));
            assert_eq!(len + reply.skip as usize, head.as_bytes().len());
            let failed = reply::error(&request, NbdError::NoSpace, structured);
            let (reply, len) = Reply::parse(failed.as_bytes(), |_| 512).unwrap().unwrap();
            assert_eq!((reply.error, reply.data), (28, 0));
            assert_eq!(len + reply.skip as usize, failed.as_bytes().len());
        }
        assert_eq!(Reply::parse(&[0; 16], |_| 0), Err(NoReply));
    }
}
