//! Block devices that this process serves, `/dev/ublkbN`, through the kernel's ublk driver (Linux 6.5 or later).
//!
//! The crate has no loop: its owner sends [`Queue::fetch`] and [`Queue::answer`] to the driver from the thread that serves, in the ring in
//! which it waits for everything else. The driver completes such a command when the kernel has a request for its tag.
//!
//! ```text
//! Control::add ─► Control::describe ─► Queue::open ─► fetch every tag ─► Control::start ─► requests come
//! completion of a tag ─► Queue::request ─► the owner's I/O ─► Queue::answer, which also waits for the tag's next request
//! ```
//!
//! [`Control`] blocks: use it on a thread of its own. A device with [`Features::USER_RECOVERY`] outlives a server that dies:
//! its requests wait, and [`Control::begin_recovery`] and [`Control::end_recovery`] give them to the next one.
//!
//! Source: the kernel's documentation of the ublk driver, and its interface of Linux 6.5 to 6.18.
#![deny(unsafe_code)]

pub mod abi;
mod control;
mod error;
mod queue;
mod request;

pub use abi::{Attributes, DeviceInfo, Features, Parameters};
pub use control::Control;
pub use error::Error;
pub use queue::{Command, Queue, TagMemory, is_served, serve_from_here};
pub use request::{Operation, Refusal, Request};
