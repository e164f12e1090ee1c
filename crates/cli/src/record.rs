//! `dumbwaiter record`: the block layer's events of a device, as a trace or as a dispatch recording.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use dumbwaiter_linux::target::Target;
use dumbwaiter_linux::undo;
use dumbwaiter_recording::{Options, beside, record};
use dumbwaiter_terminal::recording_text;
use dumbwaiter_traces::Format;

use crate::args::Record;
use crate::{Ended, input, output};

pub(crate) fn run(args: &Record) -> Result<Ended> {
    let target = Target::of(&args.device)?;
    let format = match Format::of_file_name(&args.output) {
        Some(format) if format.writable() => format,
        _ if args.dispatch => Options::default().format,
        _ => bail!(
            "{}: no writable format is known for this extension; expected one such as .dwt or .blkparse.zst",
            args.output.display()
        ),
    };
    let length = input::time_if("--for", args.length.as_ref())?.map(|length| Duration::from_nanos(length.0));
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
    crate::tell!("{}", recording_text(&summary));
    if let Some(path) = &args.json {
        output::write_json(path, &summary.to_json())?;
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
        if path.is_some_and(|path| !output::is_stdout(json) && dumbwaiter_output::same_file(&path, json)) {
            bail!("--json: {} is {role}; choose another name", json.display());
        }
    }
    Ok(())
}
