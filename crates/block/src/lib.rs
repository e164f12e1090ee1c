//! Vocabulary of block I/O and the block layer as a sans-IO state machine.
//!
//! Nothing here reads a clock, sleeps, opens a file or draws a random number: time and events are
//! handed in, decisions are handed out. The same code therefore runs in the simulator, on a real
//! device and behind a served disk.
#![forbid(unsafe_code)]

mod flush;
mod op;
mod request;
mod tenant;
mod time;

pub use op::{Dir, Flags, IoClass, Ioprio, Op};
pub use request::{Io, Request, RequestId, Requests, SECTOR_BYTES, State};
pub use tenant::{Task, TaskId, Tenant, TenantId, Tenants};
pub use time::{Nanos, TickClock};
