//! The server's side of fixed newstyle negotiation, as a state machine: bytes in, replies out, until an export is agreed on.

use crate::nbd::export::{Description, Exports};
use crate::nbd::tls_policy::TlsPolicy;
use crate::nbd::wire::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, INIT_MAGIC, MAX_STRING, OPTION_MAGIC,
    OPTION_REPLY_MAGIC, info, option, option_reply, transmission, u16_at, u32_at, u64_at,
};

/// Longest data of an option that is read; longer ones are skipped.
pub const MAX_OPTION_BYTES: usize = 64 << 10;
/// Longest data of an option that is skipped; a longer one ends the connection.
pub const MAX_SKIPPED_BYTES: usize = 1 << 20;
/// Options that a client may send.
pub const MAX_OPTIONS: u32 = 64;
/// Lists of exports that a client gets: they may be long.
const MAX_LISTS: u32 = 8;
/// Bytes of zero after the answer to `EXPORT_NAME`, unless both sides do without.
const PADDING: usize = 124;
/// Bytes before the data of an option.
const OPTION_HEADER: usize = 16;

/// The greeting of a server.
pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    bytes
}

/// The result of a negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The export, with the transmission flags that were sent.
    pub export: Description,
    /// Reads are answered by structured replies.
    pub structured: bool,
    /// `base:allocation` was selected for this export.
    pub allocation: bool,
    /// Bytes received after it.
    pub rest: Vec<u8>,
}

/// Where a negotiation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    More,
    /// Transmission begins once the output was sent.
    Agreed(Box<Agreement>),
    /// TLS begins once the output was sent: from then on the negotiation takes decrypted bytes, and its replies are encrypted.
    StartTls,
    /// The client ended the session.
    Ended,
    /// The connection must be closed, and why.
    Violation(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ClientFlags,
    Option,
    /// Data of an option that is too long to be read.
    Skipping {
        option: u32,
        left: usize,
    },
}

/// The server's side of one negotiation. It holds at most one option's data.
#[derive(Clone, Debug)]
pub struct Negotiation {
    state: State,
    input: Vec<u8>,
    options: u32,
    lists: u32,
    no_zeroes: bool,
    structured: bool,
    /// The export for which `base:allocation` was selected.
    allocation: Option<String>,
    tls: TlsPolicy,
    /// `STARTTLS` was agreed on.
    encrypted: bool,
    shutting_down: bool,
}

impl Default for Negotiation {
    fn default() -> Negotiation {
        Negotiation {
            state: State::ClientFlags,
            input: Vec::new(),
            options: 0,
            lists: 0,
            no_zeroes: false,
            structured: false,
            allocation: None,
            tls: TlsPolicy::Off,
            encrypted: false,
            shutting_down: false,
        }
    }
}

impl Negotiation {
    /// A negotiation of a server with this policy.
    pub fn new(tls: TlsPolicy) -> Negotiation {
        Negotiation { tls, ..Negotiation::default() }
    }

    /// Refuses all further options because the server shuts down.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// Takes bytes of the client and appends replies to `out`. After an agreement, an end or a violation it takes no more; after
    /// [`Progress::StartTls`] it goes on with decrypted bytes.
    pub fn feed(&mut self, bytes: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Progress {
        self.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.input);
        let mut taken = 0;
        let progress = loop {
            match self.step(&input[taken..], exports, out) {
                (0, Progress::More) => break Progress::More,
                (count, Progress::More) => taken += count,
                (count, Progress::Agreed(mut agreed)) => {
                    agreed.rest = input[taken + count..].to_vec();
                    return Progress::Agreed(agreed);
                }
                // The client must wait for the answer: an attacker could have injected bytes that came with the option.
                (count, Progress::StartTls) if taken + count < input.len() => {
                    return Progress::Violation("data between STARTTLS and its answer");
                }
                (_, ended) => return ended,
            }
        };
        input.drain(..taken);
        self.input = input;
        progress
    }

    /// One step on the front of `input`: the bytes consumed and the progress. `None` where more bytes are needed.
    fn step(&mut self, input: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> (usize, Progress) {
        match self.state {
            State::ClientFlags if input.len() < 4 => (0, Progress::More),
            State::ClientFlags => {
                let flags = u32_at(input, 0);
                if flags & !u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) != 0 {
                    return (4, Progress::Violation("unknown client flags"));
                }
                self.no_zeroes = flags & u32::from(FLAG_NO_ZEROES) != 0;
                self.state = State::Option;
                (4, Progress::More)
            }
            State::Skipping { option, left } => {
                let count = left.min(input.len());
                self.state = State::Skipping { option, left: left - count };
                if left == count {
                    self.state = State::Option;
                    error(out, option, option_reply::ERR_TOO_BIG, "the option is too long");
                }
                (count, Progress::More)
            }
            State::Option if input.len() < OPTION_HEADER => (0, Progress::More),
            State::Option => self.begin_option(input, exports, out),
        }
    }

    fn begin_option(&mut self, input: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> (usize, Progress) {
        if u64_at(input, 0) != OPTION_MAGIC {
            return (0, Progress::Violation("wrong option magic"));
        }
        let (number, len) = (u32_at(input, 8), u32_at(input, 12) as usize);
        if len > MAX_SKIPPED_BYTES {
            return (0, Progress::Violation("an option of more than 1 MiB"));
        }
        if len > MAX_OPTION_BYTES {
            if number == option::EXPORT_NAME {
                return (0, Progress::Violation("an export name that is too long"));
            }
            self.state = State::Skipping { option: number, left: len };
            return (OPTION_HEADER, Progress::More);
        }
        if input.len() < OPTION_HEADER + len {
            return (0, Progress::More);
        }
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return (0, Progress::Violation("too many options"));
        }
        let data = &input[OPTION_HEADER..OPTION_HEADER + len];
        (OPTION_HEADER + len, self.answer(number, data, exports, out))
    }

    fn answer(&mut self, number: u32, data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Progress {
        if self.shutting_down && number != option::ABORT {
            if number == option::EXPORT_NAME {
                return Progress::Violation("the server is shutting down");
            }
            error(out, number, option_reply::ERR_SHUTDOWN, "the server is shutting down");
            return Progress::More;
        }
        let refused = self.tls == TlsPolicy::Required && !self.encrypted;
        if refused && !matches!(number, option::STARTTLS | option::ABORT) {
            if number == option::EXPORT_NAME {
                return Progress::Violation("asked for an export without TLS, which is required");
            }
            error(out, number, option_reply::ERR_TLS_REQD, "TLS is required: begin with STARTTLS");
            return Progress::More;
        }
        match number {
            option::EXPORT_NAME => return self.export_name(data, exports, out),
            option::ABORT => {
                reply(out, number, option_reply::ACK, &[]);
                return Progress::Ended;
            }
            option::GO | option::INFO => return self.info_or_go(number, data, exports, out),
            option::LIST if data.is_empty() && self.lists < MAX_LISTS => {
                self.lists += 1;
                list(exports, out);
            }
            option::LIST if data.is_empty() => {
                error(out, number, option_reply::ERR_POLICY, "too many requests for the list of exports");
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                reply(out, number, option_reply::ACK, &[]);
            }
            option::LIST | option::STRUCTURED_REPLY => {
                error(out, number, option_reply::ERR_INVALID, "this option takes no data");
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_context(number, data, exports, out),
            option::STARTTLS => return self.start_tls(data, out),
            _ => error(out, number, option_reply::ERR_UNSUP, "this server does not know the option"),
        }
        Progress::More
    }

    /// Drops all that was negotiated before, except for the client's flags, which it does not send again.
    fn start_tls(&mut self, data: &[u8], out: &mut Vec<u8>) -> Progress {
        let number = option::STARTTLS;
        if !data.is_empty() {
            error(out, number, option_reply::ERR_INVALID, "this option takes no data");
            return Progress::More;
        }
        if self.encrypted {
            error(out, number, option_reply::ERR_INVALID, "TLS is in use already");
            return Progress::More;
        }
        if self.tls == TlsPolicy::Off {
            error(out, number, option_reply::ERR_POLICY, "TLS is not enabled here");
            return Progress::More;
        }
        reply(out, number, option_reply::ACK, &[]);
        (self.encrypted, self.structured, self.allocation) = (true, false, None);
        Progress::StartTls
    }

    fn agreement(&self, mut export: Description, asked: &str) -> Progress {
        export.flags = self.flags(&export);
        let allocation = self.structured && self.allocation.as_deref() == Some(asked);
        Progress::Agreed(Box::new(Agreement { export, structured: self.structured, allocation, rest: Vec::new() }))
    }

    fn flags(&self, export: &Description) -> u16 {
        let df = if self.structured { transmission::SEND_DF } else { 0 };
        export.flags | transmission::HAS_FLAGS | df
    }

    fn export_name(&mut self, data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Progress {
        let Some(name) = string(data) else { return Progress::Violation("an export name that is not valid text") };
        let Some(export) = exports.find(name) else { return Progress::Violation("unknown export") };
        out.extend_from_slice(&export.size.to_be_bytes());
        out.extend_from_slice(&self.flags(&export).to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; PADDING]);
        }
        self.agreement(export, name)
    }

    fn info_or_go(&mut self, number: u32, data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Progress {
        let Some((name, wanted)) = parse_info(data) else {
            error(out, number, option_reply::ERR_INVALID, "the lengths inside the option are inconsistent");
            return Progress::More;
        };
        let Some(export) = exports.find(name) else {
            error(out, number, option_reply::ERR_UNKNOWN, "there is no such export");
            return Progress::More;
        };
        let mut about = [0u8; 12];
        about[..2].copy_from_slice(&info::EXPORT.to_be_bytes());
        about[2..10].copy_from_slice(&export.size.to_be_bytes());
        about[10..].copy_from_slice(&self.flags(&export).to_be_bytes());
        reply(out, number, option_reply::INFO, &[&about]);
        let wants = |kind: u16| wanted.chunks_exact(2).any(|word| u16_at(word, 0) == kind);
        if wants(info::NAME) {
            reply(out, number, option_reply::INFO, &[&info::NAME.to_be_bytes(), export.name.as_bytes()]);
        }
        if wants(info::DESCRIPTION) && !export.text.is_empty() {
            reply(out, number, option_reply::INFO, &[&info::DESCRIPTION.to_be_bytes(), export.text.as_bytes()]);
        }
        if wants(info::BLOCK_SIZE) {
            let sizes = export.block_sizes;
            let words = [sizes.minimum.to_be_bytes(), sizes.preferred.to_be_bytes(), sizes.maximum.to_be_bytes()];
            reply(out, number, option_reply::INFO, &[&info::BLOCK_SIZE.to_be_bytes(), words.as_flattened()]);
        }
        reply(out, number, option_reply::ACK, &[]);
        match number {
            option::GO => self.agreement(export, name),
            _ => Progress::More,
        }
    }

    fn meta_context(&mut self, number: u32, data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) {
        let set = number == option::SET_META_CONTEXT;
        if set {
            // A new selection replaces the earlier one, also when it fails.
            self.allocation = None;
        }
        if !self.structured {
            error(out, number, option_reply::ERR_INVALID, "negotiate structured replies first");
            return;
        }
        let Some((name, queries)) = parse_meta(data) else {
            error(out, number, option_reply::ERR_INVALID, "the lengths inside the option are inconsistent");
            return;
        };
        if exports.find(name).is_none() {
            error(out, number, option_reply::ERR_UNKNOWN, "there is no such export");
            return;
        }
        let list_all = |query: &[u8]| !set && query == b"base:";
        let wanted = (!set && queries.is_empty())
            || queries.iter().any(|query| *query == BASE_ALLOCATION.as_bytes() || list_all(query));
        if wanted {
            let id = if set { BASE_ALLOCATION_ID } else { 0 };
            reply(out, number, option_reply::META_CONTEXT, &[&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()]);
            if set {
                self.allocation = Some(name.to_owned());
            }
        }
        reply(out, number, option_reply::ACK, &[]);
    }
}

fn list(exports: &dyn Exports, out: &mut Vec<u8>) {
    for (name, text) in exports.list() {
        let length = (name.len() as u32).to_be_bytes();
        reply(out, option::LIST, option_reply::SERVER, &[&length, name.as_bytes(), text.as_bytes()]);
    }
    reply(out, option::LIST, option_reply::ACK, &[]);
}

fn reply(out: &mut Vec<u8>, number: u32, kind: u32, data: &[&[u8]]) {
    let length: usize = data.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(length as u32).to_be_bytes());
    for part in data {
        out.extend_from_slice(part);
    }
}

fn error(out: &mut Vec<u8>, number: u32, kind: u32, text: &str) {
    reply(out, number, kind, &[text.as_bytes()]);
}

/// Text without NUL of at most [`MAX_STRING`] bytes.
fn string(bytes: &[u8]) -> Option<&str> {
    let fits = bytes.len() <= MAX_STRING && !bytes.contains(&0);
    std::str::from_utf8(bytes).ok().filter(|_| fits)
}

/// A 32-bit length and a string of that length; what follows.
fn counted(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// Data of `INFO` and `GO`: the name, and the words of what is asked for.
fn parse_info(data: &[u8]) -> Option<(&str, &[u8])> {
    let (name, rest) = counted(data)?;
    let (count, words) = rest.split_first_chunk::<2>()?;
    let exact = words.len() == 2 * usize::from(u16::from_be_bytes(*count));
    string(name).filter(|_| exact).map(|name| (name, words))
}

/// Data of the options on metadata contexts: the export's name, and the queries.
fn parse_meta(data: &[u8]) -> Option<(&str, Vec<&[u8]>)> {
    let (name, rest) = counted(data)?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let mut queries = Vec::new();
    for _ in 0..u32::from_be_bytes(*count) {
        let (query, behind) = counted(rest)?;
        string(query)?;
        queries.push(query);
        rest = behind;
    }
    string(name).filter(|_| rest.is_empty()).map(|name| (name, queries))
}

#[cfg(test)]
#[path = "negotiation_tests.rs"]
mod tests;
