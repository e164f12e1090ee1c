//! Vocabulary of block I/O and the block layer as a sans-IO state machine.
//!
//! Nothing here reads a clock, sleeps, opens a file or draws a random number: time and events are
//! handed in, decisions are handed out. The same code therefore runs in the simulator, on a real
//! device and behind a served disk.
#![forbid(unsafe_code)]

mod config;
mod context;
pub mod controller;
mod errno;
mod finished;
mod flush;
mod forward;
pub mod hint;
mod io_tag;
pub mod layer;
mod ledger;
pub mod merge;
mod op;
mod plug;
mod poll_stats;
mod request;
mod request_tags;
pub mod scheduler;
mod sequence;
mod sorted;
mod tags;
mod tenant;
mod time;

pub use config::Config;
pub use context::Context;
pub use controller::{Adjustment, BioAnswer, ControlSetting, Controller, Effects, RequestAnswer, Scope, Stack};
pub use errno::Errno;
pub use finished::Finished;
pub use io_tag::IoTag;
pub use layer::{BlockLayer, Fault, Part, Submitted, Switches};
pub use ledger::Ledger;
pub use merge::{Join, Limits, MergeIndex, Side};
pub use op::{Dir, Flags, IoClass, Ioprio, Op};
pub use plug::Plug;
pub use poll_stats::PollStats;
pub use request::{Io, Request, RequestId, Requests, SECTOR_BYTES, State};
pub use request_tags::RequestTags;
pub use scheduler::{
    AtAttach, Event, Handover, Merging, Next, Place, QueueMap, Replayable, Scheduler, ServiceOracle, Setup, Traits,
    Tunable, TunableError, set_tunable,
};
pub use sorted::Sorted;
pub use tags::TagMap;
pub use tenant::{Task, TaskId, Tenant, TenantError, TenantId, Tenants};
pub use time::{Nanos, TickClock};
