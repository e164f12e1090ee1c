//! Errors of requests, as the protocol numbers them.

/// An error as the protocol numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NbdError {
    /// Not permitted.
    Perm = 1,
    /// I/O error.
    Io = 5,
    /// Invalid request.
    Invalid = 22,
    /// No space left, or a write beyond the end.
    NoSpace = 28,
    /// The reply would be too large.
    Overflow = 75,
    /// Not supported, or not fast.
    NotSupported = 95,
    /// The server shuts down.
    Shutdown = 108,
}

impl NbdError {
    /// The number on the wire.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// The wire error of a Linux error number. `ENOTSUP` is only for clients that asked for fast zeroes, so it is not used here.
    pub fn of_errno(errno: i32) -> NbdError {
        match errno {
            1 | 13 | 30 => NbdError::Perm,
            27 | 28 | 122 => NbdError::NoSpace,
            22 => NbdError::Invalid,
            108 => NbdError::Shutdown,
            _ => NbdError::Io,
        }
    }

    /// A line for people, sent along in structured replies.
    pub fn text(self) -> &'static str {
        match self {
            NbdError::Perm => "not permitted: the export is read-only",
            NbdError::Io => "the disk failed the request",
            NbdError::Invalid => "invalid request: range, alignment, flags or command",
            NbdError::NoSpace => "no space left, or beyond the end of the export",
            NbdError::Overflow => "the reply would be too large",
            NbdError::NotSupported => "not supported, or not faster than writing",
            NbdError::Shutdown => "the server is shutting down",
        }
    }
}
