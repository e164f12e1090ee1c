//! Converts a scenario's trace settings to the options of the trace readers.

use std::path::Path;

use crate::TraceSpec;
use dumbwaiter_traces::{
    self as traces, Arrival, Columns, Fit, Format, Options, Replay, ReplayMode, ReplayOptions, Survey, TraceReader,
};

use crate::load::error::Error;

/// Most outstanding I/Os of an open loop: a bound of memory, not of the load.
pub(crate) const OPEN_LOOP_DEPTH: u32 = 65_536;

fn reader_options(spec: &TraceSpec) -> Result<Options, Error> {
    let format = match &spec.options.format {
        Some(name) => Some(name.parse::<Format>()?),
        None => None,
    };
    let columns = match &spec.options.columns {
        Some(text) => Some(Columns::parse(text)?),
        None => None,
    };
    let arrival = match &spec.options.arrival {
        Some(event) => Some(Arrival::parse(event)?),
        None => None,
    };
    Ok(Options { format, columns, arrival, assume_bytes: spec.options.assume_bytes, ..Options::default() })
}

/// The file of a trace and its further parts.
fn files(spec: &TraceSpec) -> Vec<&Path> {
    std::iter::once(&spec.path).chain(&spec.options.parts).map(Path::new).collect()
}

pub(crate) fn survey_key(spec: &TraceSpec) -> String {
    format!("{}\n{:?}", spec.path, spec.options)
}

pub(crate) fn fit(spec: &TraceSpec) -> Result<Fit, Error> {
    let Some(name) = spec.options.fit.as_deref() else { return Ok(Fit::default()) };
    Fit::parse(name).ok_or_else(|| Error::Setting { key: "fit", value: name.into(), expected: Fit::NAMES.into() })
}

pub(crate) fn open(spec: &TraceSpec) -> Result<TraceReader, Error> {
    let options = reader_options(spec)?;
    Ok(match &spec.rows {
        Some(rows) => traces::open_reader(&spec.path, rows.open(), &options)?,
        None => traces::open(&files(spec), &options)?,
    })
}

/// Opens a trace for replay. Returns the replay and its queue depth.
pub(crate) fn replay(spec: &TraceSpec, capacity: u64, survey: Option<&Survey>) -> Result<(Replay, u32), Error> {
    let o = &spec.options;
    let (mode, depth) = match (o.depth, o.closed_per_task) {
        (depth, true) => (ReplayMode::ClosedPerTask { depth: depth.unwrap_or(1) }, u32::MAX),
        (Some(depth), false) => (ReplayMode::Closed { depth }, depth),
        (None, false) => (ReplayMode::Open { speed: o.speed.unwrap_or(1.0) }, OPEN_LOOP_DEPTH),
    };
    let options = ReplayOptions { mode, capacity, fit: fit(spec)?, limit: o.limit };
    Ok((Replay::new(open(spec)?, &options, survey)?, depth))
}
