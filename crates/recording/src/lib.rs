//! Recording the block layer of a running kernel by its tracepoints: as a block trace, or as a dispatch recording that
//! `dumbwaiter-fidelity` replays.
//!
//! Everything happens in a trace instance of our own, which nobody else sees and which is removed at the end. Events
//! stay in memory until then, so that the recorder's own writing is not recorded.

mod describe;
mod event;
mod infer;
mod pages;
mod rows;
mod text;
mod tracefs;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_traces as traces;

pub use describe::beside;

use dumbwaiter_linux::target::Target;
use dumbwaiter_linux::{Error, Roots};
use tracefs::Instance;

/// How often the kernel's buffers are emptied.
const BEAT: Duration = Duration::from_millis(25);

/// How to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file to write. A dispatch recording is `NAME.csv` or `NAME.csv.zst`, and gets a `NAME.json` beside it.
    pub output: PathBuf,
    /// Format of a trace (ignored for a dispatch recording).
    pub format: traces::Format,
    /// Record what the scheduler was told and what it answered.
    pub dispatch: bool,
    /// Ends by itself after this time; `None`: when it is told to.
    pub length: Option<Duration>,
    /// Size of the kernel's buffer for each CPU in KiB.
    pub buffer_kb: u64,
    /// Ends by itself when so many bytes of events were taken.
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

/// How the answers of a scheduler were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Return probes on the scheduler's dispatch function: every call, also those that returned nothing.
    Probes,
    /// From the driver's taking of requests: their order is certain, the moment of a call is inferred, and calls that
    /// returned nothing are unknown.
    Issues,
}

/// What was recorded.
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
    /// Events that the kernel had no room for.
    pub lost: u64,
    /// Rows whose request is unknown, for instance because it was there before the recording.
    pub unmatched: u64,
    /// Requests without an end.
    pub unfinished: u64,
    /// How dispatches were seen; `None` for a trace.
    pub method: Option<Method>,
    /// What a reader should know, one line each.
    pub notes: Vec<String>,
}

/// Records what happens on a device until `stop` is set, the time is over, or the memory is full. For a partition, only
/// its own sectors are kept (in sectors of the whole disk). `began` is called once events are recorded: a load that is
/// to be followed from its first request starts then.
pub fn record(target: &Target, options: &Options, stop: &AtomicBool, began: impl FnOnce()) -> Result<Summary, Error> {
    let Some(disk) = &target.disk else {
        let path = target.path.display();
        return Err(Error::Refused(format!("{path} is a file: only a block device can be recorded")));
    };
    let roots = Roots::default();
    let about = describe::About::of(target, disk, &roots)?;
    if options.dispatch {
        describe::check_name(&options.output)?;
    }
    let mut notes = Vec::new();
    let method = options.dispatch.then(|| tracefs::Probes::new(&about.scheduler, &roots, &mut notes));
    let probes = match method {
        Some(made) => made?,
        None => None,
    };
    let instance = Instance::new(options.buffer_kb, probes.as_ref(), &about)?;
    let mut pages = pages::Pages::new(instance.cpus()?);
    instance.start()?;
    let start = Instant::now();
    began();
    loop {
        std::thread::sleep(BEAT);
        instance.take(&mut pages)?;
        if stop.load(Ordering::Relaxed) || options.length.is_some_and(|l| start.elapsed() >= l) {
            break;
        }
        if pages.bytes() >= options.most_bytes {
            let mib = options.most_bytes >> 20;
            notes
                .push(format!("ended after {:.1} s: {mib} MiB of events are in memory", start.elapsed().as_secs_f64()));
            break;
        }
    }
    instance.stop()?;
    let seconds = start.elapsed().as_secs_f64();
    instance.take(&mut pages)?;
    let lost = instance.lost()?;
    let events = pages.events(instance.formats(probes.as_ref())?, &about)?;
    drop(instance);
    let seen = probes.as_ref().map_or(Method::Issues, |_| Method::Probes);
    drop(probes);
    let mut summary = Summary {
        seconds,
        events: events.len() as u64,
        lost,
        method: options.dispatch.then_some(seen),
        ..Summary::default()
    };
    if lost > 0 {
        notes.push(format!(
            "{lost} events were lost: more than {} KiB of buffer for each CPU are needed",
            options.buffer_kb
        ));
    }
    if options.dispatch {
        dispatch_recording(&events, &about, options, &mut summary)?;
    } else {
        let written = text::write(&events, &about, options).map_err(|e| Error::Refused(e.to_string()))?;
        summary.requests = events.iter().filter(|e| e.kind == event::Kind::Issue).count() as u64;
        if let Some(written) = written {
            summary.records = written.records;
            summary.files = vec![options.output.clone()];
            notes.extend(written.left_out.iter().map(|s| format!("left out: {} ({})", s.reason, s.count)));
        }
    }
    notes.append(&mut summary.notes);
    summary.notes = notes;
    Ok(summary)
}

fn dispatch_recording(
    events: &[event::Event],
    about: &describe::About,
    options: &Options,
    summary: &mut Summary,
) -> Result<(), Error> {
    let mut built = rows::rows(events);
    if summary.method == Some(Method::Issues) && about.scheduler != "none" {
        built.rows = infer::with_dispatches(built.rows, about.hw_queues);
        summary.notes.push(
            "dispatches are inferred from the order in which the driver took the requests; calls that returned \
             nothing are unknown"
                .into(),
        );
    }
    summary.records = built.rows.len() as u64;
    summary.requests = built.rows.iter().filter(|r| r.event == "rq_issue").count() as u64;
    summary.unmatched = built.unmatched;
    summary.unfinished = built.unfinished;
    if built.unmatched > 0 {
        summary.notes.push(format!(
            "{} events of requests that were there before the recording: start it before the load",
            built.unmatched
        ));
    }
    summary.files = describe::write(events, &built, about, options, summary)?;
    Ok(())
}

/// Reads a folder's entry names, sorted.
fn names(dir: &Path) -> Result<Vec<String>, Error> {
    let entries = std::fs::read_dir(dir).map_err(|e| Error::file("read", dir, e))?;
    let mut all: Vec<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    all.sort();
    Ok(all)
}
