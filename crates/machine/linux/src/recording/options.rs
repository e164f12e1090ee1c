//! How to record, and what was recorded.

use std::path::PathBuf;
use std::time::Duration;

use dumbwaiter_traces as traces;
use serde_json::{Value, json};

/// How to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file to write. A dispatch recording is `NAME.csv` or `NAME.csv.zst`, and gets a `NAME.json` beside it.
    pub output: PathBuf,
    /// Format of a trace (ignored for a dispatch recording).
    pub format: traces::Format,
    /// Record the scheduler's inputs and decisions, as a dispatch recording.
    pub dispatch: bool,
    /// Ends after this time; `None`: only when `stop` is set or the memory is full.
    pub length: Option<Duration>,
    /// Size of the kernel's buffer for each CPU in KiB.
    pub buffer_kb: u64,
    /// Ends when this many bytes of events are in memory.
    pub most_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            output: PathBuf::new(),
            format: traces::Format::Columnar,
            dispatch: false,
            length: None,
            buffer_kb: 16 << 10,
            most_bytes: 256 << 20,
        }
    }
}

/// How the decisions of a scheduler were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Return probes on the scheduler's dispatch function: every call, also those that returned nothing.
    Probes,
    /// Inferred from the requests that the driver took: their order is certain, the moment of a call is inferred, and calls that
    /// returned nothing are unknown.
    Issues,
}

/// Summary of a recording.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Files that were written: none where a trace would hold no I/O.
    pub files: Vec<PathBuf>,
    /// Seconds from start to stop.
    pub seconds: f64,
    /// Events of this device.
    pub events: u64,
    /// Records of the trace, or rows of the dispatch recording.
    pub records: u64,
    /// Requests that the driver took.
    pub requests: u64,
    /// Events for which the kernel's buffer had no room.
    pub lost: u64,
    /// Rows whose request is unknown, for instance because it was submitted before the recording.
    pub unmatched: u64,
    /// Requests without an end.
    pub unfinished: u64,
    /// How dispatches were recorded; `None` for a trace.
    pub method: Option<Method>,
    /// Controllers before the scheduler that were recorded too, such as `wbt`.
    pub controllers: Vec<&'static str>,
    /// Remarks, one line each.
    pub notes: Vec<String>,
}

impl Summary {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "files": self.files,
            "seconds": self.seconds,
            "events": self.events,
            "records": self.records,
            "requests": self.requests,
            "lost_events": self.lost,
            "unmatched_rows": self.unmatched,
            "unfinished_requests": self.unfinished,
            "dispatches": self.method.map(|m| match m {
                Method::Probes => "probes",
                Method::Issues => "inferred from issues",
            }),
            "controllers": self.controllers,
            "notes": self.notes,
        })
    }
}
