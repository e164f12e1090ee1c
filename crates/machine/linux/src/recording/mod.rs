//! Recording the block layer of a running kernel by its tracepoints: as a block trace, or as a dispatch recording that
//! `dumbwaiter-fidelity` replays.
//!
//! All is done in a trace instance of our own, which no other user of tracing sees and which is removed at the end. Events
//! stay in memory until then, so that the recorder's own writing is not recorded.
#![forbid(unsafe_code)]

mod about;
mod capture;
mod check;
mod controllers;
mod dispatch_file;
mod event;
mod groups;
mod infer;
mod live;
mod live_instance;
mod options;
mod pages;
mod probes;
mod rows;
mod text;
mod tracefs;

pub use capture::record;
pub use check::check_files;
pub use live::{LiveEvent, LiveEvents, LiveKind};
pub use options::{Method, Options, Summary};
