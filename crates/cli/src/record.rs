//! `dumbwaiter record`: the block layer's events of a device, as a trace or as a dispatch recording.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::terminal::recording_text;
use anyhow::{Result, bail};
use dumbwaiter_linux::recording::{Options, check_files, record};
use dumbwaiter_linux::target::PathFacts;
use dumbwaiter_linux::undo;
use dumbwaiter_traces::Format;

use crate::args::Record;
use crate::{Ended, input, output};

pub(crate) fn run(args: &Record) -> Result<Ended> {
    let target = PathFacts::of(&args.device)?;
    let format = match Format::of_file_name(&args.output) {
        Some(format) if format.writable() => format,
        _ if args.dispatch => Options::default().format,
        _ => bail!(
            "{}: no writable format is known for this extension; expected one such as .dwt or .blkparse.zst",
            args.output.display()
        ),
    };
    let length = input::time_if("--for", args.length.as_ref())?.map(|length| Duration::from_nanos(length.0));
    let options = Options {
        output: args.output.clone(),
        format,
        dispatch: args.dispatch,
        length,
        buffer_kb: args.buffer_kb,
        most_bytes: args.memory_mb << 20,
    };
    check_files(&options, args.json.as_deref().filter(|path| !output::is_stdout(path)))?;
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
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
