//! The NBD protocol without I/O: bytes in, decisions out. It reads no clock, has no dependency and, beside [`socket`], opens no socket.
//!
//! A server greets with [`negotiation::greeting`] and feeds what a client sends to a [`Negotiation`], until the two agree on an
//! export. From then on a [`Receiver`] cuts the stream into [`Request`]s and payloads, [`Request::check`] decides which of them
//! are valid, and [`reply`] writes the answers. [`client`] is the other side, and [`socket`] a client of a real server, for loads.
//!
//! Source: the NBD project's `doc/proto.md` (May 2026): fixed newstyle negotiation, structured replies, `base:allocation`.
//! Extended headers are not offered. All integers on the wire are big-endian.
#![forbid(unsafe_code)]

pub mod client;
mod error;
mod export;
pub mod negotiation;
mod receiver;
pub mod reply;
mod request;
pub mod socket;
mod tls_policy;
pub mod wire;

pub use error::NbdError;
pub use export::{BlockSizes, Description, Exports};
pub use negotiation::{Agreement, Negotiation, Progress};
pub use receiver::{Receiver, Step};
pub use request::{Command, Request, Rules};
pub use tls_policy::TlsPolicy;
