//! wbt, window by window: reads, counted requests and the sleeps of dirtiers go in; verdicts, steps and limits are compared.

use std::collections::BTreeMap;

use dumbwaiter_block::{Flags, Nanos, Op, RequestId, TickClock};
use dumbwaiter_controllers::kernel_timer::Jiffies;
use dumbwaiter_controllers::wbt::{Class, Throttle, class_of};

use super::{ControllerScore, Event, Events};
use crate::recording::{Error, as_number};

/// Requests that a loop device accepts: the depth with which its wbt is set up.
const LOOP_DEPTH: u64 = 128;

/// What a request was, until it completes.
struct Request {
    op: Op,
    class: Option<Class>,
    started: Option<Nanos>,
}

/// Replays a recording of wbt.
///
/// # Errors
///
/// A row of wbt without its details; with the line.
pub(super) fn score(recording: &Events) -> Result<ControllerScore, Error> {
    let number = |at: &str| recording.about.pointer(at).and_then(as_number);
    let depth = match recording.about.pointer("/device/kind").and_then(|kind| kind.as_str()) {
        Some("null_blk") => number("/device/attributes/hw_queue_depth"),
        _ => None,
    };
    let cache = recording.about.pointer("/queue/write_cache").and_then(|cache| cache.as_str());
    let jiffies = Jiffies { clock: TickClock::HZ_250, offset: 0 };
    let depth = depth.unwrap_or(LOOP_DEPTH).min(u64::from(u32::MAX)) as u32;
    let mut throttle = Throttle::new(jiffies, depth, cache == Some("write back"));
    throttle.set_target(Nanos::from_us(number("/queue/wbt_lat_usec").unwrap_or(0)), Nanos::ZERO, &mut |_, _| {});
    let mut score = ControllerScore::of("wbt", &["timer", "step"]);
    let mut under_way = BTreeMap::new();
    for row in &recording.rows {
        replay(row, &mut throttle, &mut under_way, &mut score).map_err(|what| recording.fail(row.line, what))?;
    }
    Ok(score)
}

fn replay(
    row: &Event,
    throttle: &mut Throttle,
    under_way: &mut BTreeMap<u32, Request>,
    score: &mut ControllerScore,
) -> Result<(), String> {
    let id = RequestId(row.req);
    match row.name.as_str() {
        "getrq" => {
            let request = request_of(row);
            if request.op == Op::Read {
                throttle.read_asks(row.at);
            }
            // The row comes after the sleep: the kernel let it pass.
            if let Some(class) = request.class.filter(|_| throttle.target() > Nanos::ZERO) {
                throttle.admitted(class, row.at);
            }
            under_way.insert(row.req, request);
        }
        "rq_issue" => {
            if let Some(request) = under_way.get_mut(&row.req) {
                throttle.started(id, request.op, row.at);
                request.started = Some(row.at);
            }
        }
        "rq_complete" => {
            // The end of a flush without data names no request: it is the oldest.
            let flush = || under_way.iter().find(|(_, request)| request.op == Op::Flush).map(|(req, _)| *req);
            let ended = if row.req == 0 && row.op == "W" && row.bytes == 0 { flush() } else { Some(row.req) };
            if let Some(request) = ended.and_then(|req| under_way.remove(&req)) {
                let service = request.started.map(|started| row.at.since(started));
                throttle.ended(id, request.op, service, row.at);
                free(throttle, &request, row.at);
            }
        }
        "rq_merge" => {
            let absorbed = row.details.split(';').find_map(|part| part.trim().strip_prefix("absorbs=")?.parse().ok());
            if let Some(request) = absorbed.and_then(|absorbed: u32| under_way.remove(&absorbed)) {
                free(throttle, &request, row.at);
            }
        }
        "balance_dirty_pages" if row.number("pause")? > 0 => throttle.writer_paused(row.at),
        "wbt_timer" => {
            let ours = (throttle.step(), throttle.tick(row.at, &mut |_, _| {}).map_or(0, |verdict| verdict as i64));
            score.count("timer", row.line, &(row.number("step")? as i32, row.number("status")?), &ours);
        }
        "wbt_step" => {
            let limits = throttle.limits();
            let kernel = (row.number("step")?, row.number("max")?, row.number("normal")?, row.number("bg")?);
            let ours = (throttle.step().into(), limits.max.into(), limits.normal.into(), limits.background.into());
            score.count("step", row.line, &kernel, &ours);
        }
        _ => {}
    }
    Ok(())
}

fn free(throttle: &mut Throttle, request: &Request, now: Nanos) {
    if let Some(class) = request.class.filter(|_| throttle.target() > Nanos::ZERO) {
        throttle.freed(class, now, &mut |_, _| {});
    }
}

/// Recordings have no direct writers: every write is counted.
fn request_of(row: &Event) -> Request {
    let op = match row.op.as_str() {
        "W" if row.bytes == 0 => Op::Flush,
        "W" => Op::Write,
        "D" => Op::Discard,
        "F" => Op::Flush,
        _ => Op::Read,
    };
    Request { op, class: class_of(op, Flags::NONE), started: None }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_window_of_the_recordings_is_judged_as_the_kernel_did() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/kernel-throttling");
        let Ok(files) = std::fs::read_dir(&folder) else { return eprintln!("skipped: no shared data") };
        let mut names: Vec<_> = files.flatten().map(|file| file.path()).collect();
        names.retain(|path| path.to_string_lossy().ends_with(".csv.zst") && path.to_string_lossy().contains("-lat"));
        names.sort();
        assert!(!names.is_empty());
        let mut verdicts = (0, 0);
        for path in names {
            let found = score(&Events::open(&path).unwrap()).unwrap();
            let agreed: u64 = found.kinds.iter().map(|kind| kind.agreed).sum();
            eprintln!(
                "{}: {agreed} of {}: {:?}",
                path.file_name().unwrap().display(),
                found.verdicts,
                found.first_difference
            );
            verdicts = (verdicts.0 + found.verdicts, verdicts.1 + agreed);
        }
        assert_eq!(verdicts.1, verdicts.0, "all verdicts, steps and limits");
    }
}
