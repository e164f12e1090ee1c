//! Numbers of the protocol, by the names of its document.

/// `NBDMAGIC`: first word of the greeting.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: second word of the greeting, and before each option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flag, both sides: fixed newstyle.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1;
/// Handshake flag, both sides: no padding after `EXPORT_NAME`.
pub const FLAG_NO_ZEROES: u16 = 2;

/// Longest string of the protocol, bytes.
pub const MAX_STRING: usize = 4096;
/// Bytes of a request header.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of a simple reply header.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of the header of a structured reply's chunk.
pub const CHUNK_BYTES: usize = 20;

/// Options that a client may send.
pub mod option {
    /// Begin transmission on an export; errors cannot be answered.
    pub const EXPORT_NAME: u32 = 1;
    /// End the session.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Upgrade to TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Begin transmission on an export.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Select metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export of a list.
    pub const SERVER: u32 = 2;
    /// A fact about an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Unknown option.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// Not allowed here.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// Malformed.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// `STARTTLS` must come first.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The server shuts down.
    pub const ERR_SHUTDOWN: u32 = (1 << 31) + 7;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Facts about an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Its canonical name.
    pub const NAME: u16 = 1;
    /// Its description.
    pub const DESCRIPTION: u16 = 2;
    /// Its block sizes.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags of an export.
pub mod transmission {
    /// The flags are valid.
    pub const HAS_FLAGS: u16 = 1;
    /// No writes.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `FLUSH` is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// `FUA` is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// Seeks are slow.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// `TRIM` is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `WRITE_ZEROES` is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// `DF` is understood.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection holds for all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `CACHE` is understood.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// `FAST_ZERO` is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Commands.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; its data follows.
    pub const WRITE: u16 = 1;
    /// Disconnect; not answered.
    pub const DISC: u16 = 2;
    /// Make all answered writes permanent.
    pub const FLUSH: u16 = 3;
    /// Discard the range.
    pub const TRIM: u16 = 4;
    /// The range will be read soon.
    pub const CACHE: u16 = 5;
    /// Write zeroes without sending them.
    pub const WRITE_ZEROES: u16 = 6;
    /// Describe the range.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of commands.
pub mod command_flag {
    /// Permanent when answered.
    pub const FUA: u16 = 1;
    /// Zeroes stay allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// One chunk.
    pub const DF: u16 = 1 << 2;
    /// One extent, not beyond the request.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Zeroes only if that is faster than writing them.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Types of chunks of structured replies.
pub mod chunk {
    /// Nothing, ends a reply.
    pub const NONE: u16 = 0;
    /// Data.
    pub const OFFSET_DATA: u16 = 1;
    /// Extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error.
    pub const ERROR: u16 = 0x8001;
    /// Flag: the last chunk of its reply.
    pub const FLAG_DONE: u16 = 1;
}

/// The one metadata context that is served.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Its number on the wire.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// `base:allocation`: nothing is allocated.
pub const STATE_HOLE: u32 = 1;
/// `base:allocation`: reads as zeroes.
pub const STATE_ZERO: u32 = 2;

/// A big-endian word at `at`, which the caller has checked to be within `bytes`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}
