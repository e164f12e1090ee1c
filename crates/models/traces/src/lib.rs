//! Block traces: readers of all common formats, statistics, conversion and replay.
//!
//! [`open`] detects the format, decompresses gzip and zstd, and streams [`Record`]s; [`TraceStat`] computes statistics;
//! [`TraceWriter`] writes; [`Replay`] turns a trace into a workload.

mod blkparse;
mod blktrace;
mod columnar;
mod columns;
mod detect;
mod error;
mod etw;
mod filter;
mod footprint;
mod format;
mod ftrace;
mod guess;
mod header;
mod histogram;
mod histogram_figures;
mod hp_srt;
mod input;
mod iolog;
mod known_headers;
mod load_figures;
mod number;
mod operation;
mod reader;
mod record;
mod record_writer;
mod replay;
mod stat;
mod summaries;
mod table;
mod text;
mod vscsi;
mod window;
mod write;

pub use columns::{COLUMN_NAMES, Columns};
pub use error::Error;
pub use filter::Filter;
pub use format::Format;
pub use reader::{Options, SORT_WINDOW, TraceReader, open, open_reader};
pub use record::{Arrival, Known, NAMED, Record, Skipped};
pub use replay::{
    Fit, LOOK_AHEAD_RECORDS, REPLAY_TASKS_MAX, Replay, ReplayMode, ReplayOptions, ReplayStatus, StatusHandle, Survey,
};
pub use stat::{InterArrival, Measured, OverTime, Quantiles, SizeShare, StatBuilder, StatOptions, TraceStat};
pub use write::{TraceWriter, Written, convert};
