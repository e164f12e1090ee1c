//! `dumbwaiter record`: the block layer's events of a device, as a trace or as a dispatch recording.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use dumbwaiter_linux::target::Target;
use dumbwaiter_linux::undo;
use dumbwaiter_measure::grouped;
use dumbwaiter_recording::{Method, Options, Summary, beside, record};
use serde_json::json;

use crate::args::Record;
use crate::{Ended, input, output, trace};

pub(crate) fn run(args: &Record) -> Result<Ended> {
    let target = Target::of(&args.device)?;
    let format = match trace::format_of_name(&args.output) {
        Some(format) if format.writable() => format,
        _ if args.dispatch => Options::default().format,
        _ => bail!(
            "{}: no writable format is known for this extension; expected one such as .dwt or .blkparse.zst",
            args.output.display()
        ),
    };
    let length = match &args.length {
        Some(text) => Some(Duration::from_nanos(input::time("--for", text)?.0)),
        None => None,
    };
    check_outputs(args)?;
    let options = Options {
        output: args.output.clone(),
        format,
        dispatch: args.dispatch,
        length,
        buffer_kb: args.buffer_kb,
        most_bytes: args.memory_mb << 20,
    };
    let stop = Arc::new(AtomicBool::new(false));
    undo::on_signals(Some(Arc::clone(&stop)))?;
    let until = args.length.as_ref().map_or("until Ctrl-C".to_owned(), |l| format!("for {l}"));
    let began = || crate::tell!("recording {} {until}", args.device.display());
    let summary = record(&target, &options, &stop, began)?;
    tell(&summary);
    if let Some(path) = &args.json {
        output::write_json(path, &json_of(&summary))?;
    }
    Ok(match summary.requests {
        0 => Ended::Failed,
        _ if stop.load(Ordering::Relaxed) => Ended::Interrupted,
        _ => Ended::Done,
    })
}

/// All files that will be written can be, and are different ones.
fn check_outputs(args: &Record) -> Result<()> {
    output::check_writable(&args.output)?;
    if args.output.exists() && !args.output.is_file() {
        bail!("{}: not a regular file; expected the name of a file", args.output.display());
    }
    let description = beside(&args.output).filter(|_| args.dispatch);
    if let Some(path) = &description {
        output::check_writable(path)?;
    }
    let Some(json) = &args.json else { return Ok(()) };
    output::check_writable(json)?;
    let roles = [(Some(args.output.clone()), "the recording itself"), (description, "the recording's description")];
    for (path, role) in roles {
        if path.is_some_and(|path| !output::is_stdout(json) && output::same_file(&path, json)) {
            bail!("--json: {} is {role}; choose another name", json.display());
        }
    }
    Ok(())
}

fn tell(s: &Summary) {
    let what = if s.method.is_some() { "rows" } else { "I/Os" };
    if s.requests == 0 {
        let kept = if s.files.is_empty() { "; nothing is written" } else { "" };
        crate::tell!(
            "dumbwaiter: no request in {:.1} s, so there is nothing to compare{kept}; record while the device is used",
            s.seconds
        );
    }
    let files: Vec<String> = s.files.iter().map(|f| f.display().to_string()).collect();
    if !files.is_empty() {
        crate::tell!(
            "{} {what} and {} requests in {:.1} s, {} events lost: {}",
            grouped(s.records),
            grouped(s.requests),
            s.seconds,
            grouped(s.lost),
            files.join(", ")
        );
    }
    for note in &s.notes {
        crate::tell!("note: {note}");
    }
}

fn json_of(s: &Summary) -> serde_json::Value {
    json!({
        "files": s.files,
        "seconds": s.seconds,
        "events": s.events,
        "records": s.records,
        "requests": s.requests,
        "lost_events": s.lost,
        "unmatched_rows": s.unmatched,
        "unfinished_requests": s.unfinished,
        "dispatches": s.method.map(|m| match m {
            Method::Probes => "probes",
            Method::Issues => "inferred from issues",
        }),
        "notes": s.notes,
    })
}
