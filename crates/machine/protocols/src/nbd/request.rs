//! Requests: their header, and the checks of a request.

use crate::nbd::error::NbdError;
use crate::nbd::export::BlockSizes;
use crate::nbd::wire::{REQUEST_BYTES, REQUEST_MAGIC, command, command_flag, transmission, u16_at, u32_at, u64_at};

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read,
    /// Write; its data follows.
    Write,
    /// Disconnect; not answered.
    Disconnect,
    /// Make all answered writes permanent.
    Flush,
    /// Discard the range.
    Trim,
    /// The range will be read soon.
    Cache,
    /// Write zeroes without sending them.
    WriteZeroes,
    /// Describe the range.
    BlockStatus,
    /// Any other.
    Unknown(u16),
}

impl Command {
    /// By its number on the wire.
    pub fn of(code: u16) -> Command {
        match code {
            command::READ => Command::Read,
            command::WRITE => Command::Write,
            command::DISC => Command::Disconnect,
            command::FLUSH => Command::Flush,
            command::TRIM => Command::Trim,
            command::CACHE => Command::Cache,
            command::WRITE_ZEROES => Command::WriteZeroes,
            command::BLOCK_STATUS => Command::BlockStatus,
            other => Command::Unknown(other),
        }
    }

    /// Its number on the wire.
    pub fn code(self) -> u16 {
        match self {
            Command::Read => command::READ,
            Command::Write => command::WRITE,
            Command::Disconnect => command::DISC,
            Command::Flush => command::FLUSH,
            Command::Trim => command::TRIM,
            Command::Cache => command::CACHE,
            Command::WriteZeroes => command::WRITE_ZEROES,
            Command::BlockStatus => command::BLOCK_STATUS,
            Command::Unknown(code) => code,
        }
    }

    /// Flags that it accepts; all accept FUA.
    fn flags(self) -> u16 {
        command_flag::FUA
            | match self {
                Command::Read => command_flag::DF,
                Command::WriteZeroes => command_flag::NO_HOLE | command_flag::FAST_ZERO,
                Command::BlockStatus => command_flag::REQ_ONE,
                _ => 0,
            }
    }
}

/// A request without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// See [`crate::nbd::wire::command_flag`].
    pub flags: u16,
    /// The command.
    pub command: Command,
    /// The client's own number, handed back with the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// Limits of a negotiated connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Size of the export, bytes.
    pub size: u64,
    /// Transmission flags of the export.
    pub flags: u16,
    /// Sizes of requests.
    pub block_sizes: BlockSizes,
    /// Structured replies were agreed on.
    pub structured: bool,
    /// `base:allocation` was selected.
    pub allocation: bool,
}

impl Rules {
    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

impl Request {
    /// Reads a header; `None` if its magic is wrong.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Request> {
        (u32_at(bytes, 0) == REQUEST_MAGIC).then(|| Request {
            flags: u16_at(bytes, 4),
            command: Command::of(u16_at(bytes, 6)),
            cookie: u64_at(bytes, 8),
            offset: u64_at(bytes, 16),
            length: u32_at(bytes, 24),
        })
    }

    /// The header as a client sends it.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.code().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Bytes that follow the header.
    pub fn payload(&self) -> u32 {
        if self.command == Command::Write { self.length } else { 0 }
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether its reply must be structured once that was agreed on.
    pub fn has_structured_reply(&self) -> bool {
        matches!(self.command, Command::Read | Command::BlockStatus)
    }

    /// Checks the request. An error is the reply to it. The payload of a refused request must still be read and dropped.
    pub fn check(&self, rules: &Rules) -> Result<(), NbdError> {
        if self.flags & !self.command.flags() != 0 || (self.has(command_flag::DF) && !rules.structured) {
            return Err(NbdError::Invalid);
        }
        match self.command {
            Command::Disconnect => return Ok(()),
            Command::Unknown(_) => return Err(NbdError::Invalid),
            Command::Flush if self.offset != 0 || self.length != 0 => return Err(NbdError::Invalid),
            Command::Flush => return Ok(()),
            Command::BlockStatus if !rules.allocation || self.length == 0 => return Err(NbdError::Invalid),
            Command::Trim if !rules.has(transmission::SEND_TRIM) && !rules.has(transmission::READ_ONLY) => {
                return Err(NbdError::Invalid);
            }
            Command::Cache if !rules.has(transmission::SEND_CACHE) => return Err(NbdError::Invalid),
            _ => {}
        }
        let writes = matches!(self.command, Command::Write | Command::Trim | Command::WriteZeroes);
        if writes && rules.has(transmission::READ_ONLY) {
            return Err(NbdError::Perm);
        }
        let carries_data = matches!(self.command, Command::Read | Command::Write);
        if carries_data && self.length > rules.block_sizes.maximum {
            return Err(NbdError::Invalid);
        }
        let beyond = self.offset.checked_add(u64::from(self.length)).is_none_or(|end| end > rules.size);
        if beyond {
            let no_space = matches!(self.command, Command::Write | Command::WriteZeroes);
            return Err(if no_space { NbdError::NoSpace } else { NbdError::Invalid });
        }
        let mask = u64::from(rules.block_sizes.minimum.max(1)) - 1;
        if (self.offset | u64::from(self.length)) & mask != 0 {
            return Err(NbdError::Invalid);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Command::*;
    use NbdError::*;

    const FLAGS: u16 = transmission::SEND_TRIM | transmission::SEND_CACHE;
    const RULES: Rules = Rules {
        size: 1 << 20,
        flags: FLAGS,
        block_sizes: BlockSizes { minimum: 512, preferred: 4096, maximum: 32 << 20 },
        structured: true,
        allocation: true,
    };

    fn check(command: Command, flags: u16, offset: u64, length: u32) -> Result<(), NbdError> {
        Request { flags, command, cookie: 1, offset, length }.check(&RULES)
    }

    #[test]
    fn ranges_beyond_the_end_fail_by_command() {
        let end = 1 << 20;
        for command in [Read, Trim, Cache, BlockStatus] {
            assert_eq!(check(command, 0, end, 512), Err(Invalid), "{command:?}");
            assert_eq!(check(command, 0, u64::MAX - 511, 1024), Err(Invalid), "{command:?} over 2^64");
        }
        for command in [Write, WriteZeroes] {
            assert_eq!(check(command, 0, end - 512, 1024), Err(NoSpace), "{command:?}");
        }
        assert_eq!(check(Read, 0, end - 512, 512), Ok(()));
    }

    #[test]
    fn a_length_of_nothing_is_no_error() {
        for command in [Read, Write, Trim, WriteZeroes, Cache, Flush] {
            assert_eq!(check(command, 0, 0, 0), Ok(()), "{command:?}");
        }
    }

    #[test]
    fn data_over_the_maximum_is_invalid_but_zeroes_may_be_longer() {
        let rules = Rules { size: 1 << 40, ..RULES };
        let long =
            |command| Request { flags: 0, command, cookie: 1, offset: 0, length: (32 << 20) + 512 }.check(&rules);
        assert_eq!((long(Read), long(Write)), (Err(Invalid), Err(Invalid)));
        assert_eq!((long(WriteZeroes), long(Trim), long(BlockStatus)), (Ok(()), Ok(()), Ok(())));
    }

    #[test]
    fn flags_must_be_known_and_belong_to_the_command() {
        assert_eq!(check(Read, command_flag::FUA, 0, 512), Ok(()), "FUA is taken everywhere");
        assert_eq!(check(Read, command_flag::DF, 0, 512), Ok(()));
        assert_eq!(check(Read, command_flag::NO_HOLE, 0, 512), Err(Invalid));
        assert_eq!(check(Write, command_flag::DF, 0, 512), Err(Invalid));
        assert_eq!(check(Read, 1 << 9, 0, 512), Err(Invalid));
        let simple = Rules { structured: false, ..RULES };
        let df = Request { flags: command_flag::DF, command: Read, cookie: 1, offset: 0, length: 512 };
        assert_eq!(df.check(&simple), Err(Invalid));
    }

    #[test]
    fn what_was_not_offered_is_invalid() {
        let none = Rules { flags: 0, allocation: false, ..RULES };
        for command in [Trim, Cache, BlockStatus, Unknown(8), Unknown(99)] {
            let request = Request { flags: 0, command, cookie: 1, offset: 0, length: 512 };
            assert_eq!(request.check(&none), Err(Invalid), "{command:?}");
        }
        assert_eq!(check(Flush, 0, 512, 0), Err(Invalid), "a flush has no range");
    }

    #[test]
    fn a_read_only_export_refuses_what_writes() {
        let rules = Rules { flags: transmission::READ_ONLY, ..RULES };
        for command in [Write, Trim, WriteZeroes] {
            let request = Request { flags: 0, command, cookie: 1, offset: 0, length: 512 };
            assert_eq!(request.check(&rules), Err(Perm), "{command:?}");
        }
    }

    #[test]
    fn parts_of_blocks_are_invalid() {
        assert_eq!(check(Read, 0, 1, 512), Err(Invalid));
        assert_eq!(check(Write, 0, 0, 100), Err(Invalid));
    }

    #[test]
    fn a_header_survives_the_wire() {
        let request = Request { flags: 3, command: WriteZeroes, cookie: u64::MAX - 5, offset: 1 << 40, length: 77 };
        assert_eq!(Request::parse(&request.encode()), Some(request));
        let mut wrong = request.encode();
        wrong[0] ^= 1;
        assert_eq!(Request::parse(&wrong), None);
    }
}
