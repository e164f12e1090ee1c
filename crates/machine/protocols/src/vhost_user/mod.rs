//! vhost-user-blk: a virtual machine's disk, served by another process through shared memory (QEMU's "Vhost-user Protocol", Virtio 1.2).
//!
//! The crate has the parts of a device and no loop: its owner receives messages from the socket, waits for kicks, does the I/O and decides
//! when. Nothing that a guest or front end writes makes it panic, read outside the memory that it was given, or spin.
//!
//! ```text
//! socket ──► Assembler ──► Message ──► Device: features, memory, rings
//! ring:  Ring::take ──► Chain (descriptors, copied and checked) ──► BlockRequest ──► the owner's I/O on Pieces of guest memory
//!        Ring::complete, Ring::publish ◄── Inflight: what a restarted server must do again ◄── result
//! ```
//!
//! [`front_end`] is the other side: a driver in this process, for tests and benchmarks.
#![deny(unsafe_code)]

pub mod chain;
pub mod config;
pub mod device;
pub mod front_end;
pub mod inflight;
mod mapping;
pub mod memory;
pub mod message;
pub mod request;
pub mod ring;
mod signal;
pub mod socket;
pub mod truncation;
pub mod wire;

pub use chain::{Chain, ChainError};
pub use config::{BlockFacts, ConfigSpace};
pub use device::{Device, Failure, Queue, Reply};
pub use memory::{GuestPlace, Memory, Piece, Region};
pub use message::{Assembler, Message, ProtocolError};
pub use request::{BlockRequest, Operation, Refusal, Status};
pub use ring::{Broken, Ring};
pub use signal::Signal;
