//! wbt, window by window: reads, counted requests and the sleeps of dirtiers go in; verdicts, steps and limits are compared.

use std::collections::BTreeMap;

use dumbwaiter_block::{Flags, Nanos, Op, RequestId, TickClock};
use dumbwaiter_controllers::kernel_timer::Jiffies;
use dumbwaiter_controllers::wbt::{Class, Throttle, class_of};

use super::score::Tally;
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

/// What is under way.
#[derive(Default)]
struct UnderWay {
    /// Rows say when each I/O asked.
    asks_told: bool,
    /// The place and the flags of the I/O with which each process asked last.
    asked: BTreeMap<i32, (u64, Flags)>,
    requests: BTreeMap<u32, Request>,
}

/// Replays a recording of wbt.
///
/// # Errors
///
/// A row of wbt without its details; with the line.
pub(super) fn score(recording: &Events, explain: Option<u64>) -> Result<ControllerScore, Error> {
    let number = |at: &str| recording.about.pointer(at).and_then(as_number);
    let told = number("/device/attributes/queue_depth");
    let depth = told.or_else(|| match recording.about.pointer("/device/kind").and_then(|kind| kind.as_str()) {
        Some("null_blk") => number("/device/attributes/hw_queue_depth"),
        _ if recording.about.get("controllers").is_some() => number("/device/attributes/hw_queue_depth"),
        _ => None,
    });
    let cache = recording.about.pointer("/queue/write_cache").and_then(|cache| cache.as_str());
    let jiffies = Jiffies { clock: recording.clock.map_or(TickClock::HZ_250, |(clock, _)| clock), offset: 0 };
    let depth = depth.unwrap_or(LOOP_DEPTH).min(u64::from(u32::MAX)) as u32;
    let mut throttle = Throttle::new(jiffies, depth, cache == Some("write back"));
    throttle.set_target(Nanos::from_us(number("/queue/wbt_lat_usec").unwrap_or(0)), Nanos::ZERO, &mut |_, _| {});
    let mut tally = Tally::of(&["timer", "step"], explain);
    let mut under_way =
        UnderWay { asks_told: recording.rows.iter().any(|row| row.name == "wbt_ask"), ..UnderWay::default() };
    for row in &recording.rows {
        replay(row, &mut throttle, &mut under_way, &mut tally).map_err(|what| recording.fail(row.line, what))?;
    }
    Ok(tally.score("wbt"))
}

fn replay(row: &Event, throttle: &mut Throttle, under_way: &mut UnderWay, tally: &mut Tally) -> Result<(), String> {
    let id = RequestId(row.req);
    let UnderWay { asks_told, asked, requests: under_way } = under_way;
    match row.name.as_str() {
        "wbt_ask" => {
            if row.op == Op::Read {
                throttle.read_asks(row.at);
            }
            asked.insert(row.pid, (row.sector, flags_of(&row.details)));
        }
        "getrq" => {
            let flags = asked.remove(&row.pid).filter(|(sector, _)| *sector == row.sector).map(|(_, flags)| flags);
            let request = request_of(row, flags.unwrap_or_default());
            if request.op == Op::Read && !*asks_told {
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
            let ended = if row.req == 0 && row.op == Op::Write && row.bytes == 0 { flush() } else { Some(row.req) };
            if let Some(request) = ended.and_then(|req| under_way.remove(&req)) {
                let service = request.started.map(|started| row.at.since(started));
                throttle.ended(id, request.op, service, row.at);
                free(throttle, &request, row.at);
            }
        }
        "rq_merge" => {
            if let Some(request) = under_way.remove(&(row.number("absorbs")? as u32)) {
                free(throttle, &request, row.at);
            }
        }
        "balance_dirty_pages" if row.number("pause")? > 0 => throttle.writer_paused(row.at),
        "wbt_timer" => {
            let kernel = (row.number("step")?, row.number("status")?);
            let ours = (i64::from(throttle.step()), throttle.tick(row.at, &mut |_, _| {}).map_or(0, |v| v as i64));
            tally.count("timer", row.line, kernel, ours, |(step, status)| {
                let word = ["no verdict", "OK", "UNKNOWN", "WRITES_ONLY", "EXCEEDED"].get(*status as usize);
                format!("{} at step {step}", word.unwrap_or(&"no verdict"))
            });
        }
        "wbt_step" => {
            let limits = throttle.limits();
            let kernel = (row.number("step")?, row.number("max")?, row.number("normal")?, row.number("bg")?);
            let ours = (throttle.step().into(), limits.max.into(), limits.normal.into(), limits.background.into());
            tally.count("step", row.line, kernel, ours, |(step, max, normal, background)| {
                format!("step {step}, limits {max}/{normal}/{background}")
            });
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

/// Without the row in which it asked, every write is counted: the flags of its request do not tell a direct write from one of fsync,
/// and recordings without such rows have no direct writers.
fn request_of(row: &Event, flags: Flags) -> Request {
    let op = if row.op == Op::Write && row.bytes == 0 { Op::Flush } else { row.op };
    Request { op, class: class_of(op, flags), started: None }
}

/// The flags of an I/O by their letters.
fn flags_of(letters: &str) -> Flags {
    let of = |letter| match letter {
        'S' => Flags::SYNC,
        'I' => Flags::IDLE,
        'B' => Flags::BACKGROUND,
        _ => Flags::NONE,
    };
    letters.chars().map(of).fold(Flags::NONE, Flags::with)
}
