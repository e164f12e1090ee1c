//! A trace as a workload: at its own times (open loop), or as fast as a depth allows (closed loop, as a whole or
//! by task).
//!
//! Records of several trace devices go to separate regions of the device, equal in size and in order of first
//! sight. What is behind the end of its region is skipped and counted, wrapped or scaled ([`Fit`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};

use dumbwaiter_block::{Nanos, Op};

use super::error::Error;
use super::reader::{Options, TraceReader, open};
use super::record::{Counts, Record, Skipped};
use dumbwaiter_workloads::{Next, Want, Workload};

/// Tasks that are told apart; more share numbers.
pub const MOST_TASKS: u16 = 4096;
/// Records that a replay by task looks ahead.
pub const LOOK_AHEAD: usize = 1 << 16;
/// Piece that scaling moves as a whole, in sectors (1 MiB), so that neighbours stay neighbours.
const PIECE: u64 = 2048;

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At their own times, `speed` times as fast. Requests do not wait for one another.
    Open {
        /// 1 is the traced pace, 2 twice as fast.
        speed: f64,
    },
    /// In order, never more than `depth` outstanding; times do not matter.
    Closed {
        /// Outstanding requests.
        depth: u32,
    },
    /// Each task in its own order, never more than `depth` of it outstanding; times do not matter. Requests of
    /// other tasks are looked for up to [`LOOK_AHEAD`] records ahead.
    ClosedPerTask {
        /// Outstanding requests of each task.
        depth: u32,
    },
}

/// What becomes of a request behind the end of its region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// It is left out and counted.
    #[default]
    Skip,
    /// It goes to its place modulo the region.
    Wrap,
    /// All places shrink by one factor (in pieces of 1 MiB), so that the highest fits. Nothing is stretched.
    Scale,
}

/// How to replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// When to issue.
    pub pace: Pace,
    /// Size of the device in sectors of 512 bytes.
    pub capacity: u64,
    /// What to do with what does not fit.
    pub fit: Fit,
    /// Stop after so many records of the trace.
    pub limit: Option<u64>,
}

/// What a replay has to know of the whole trace: its devices, and how far each reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Device numbers of the trace in order of first sight, with the end of their highest request in sectors.
    pub devices: Vec<(u32, u64)>,
    /// Records.
    pub records: u64,
    /// Arrival of the last record.
    pub last: Nanos,
}

impl Survey {
    /// Reads a trace to its end (or to `limit` records).
    pub fn of(reader: &mut TraceReader, limit: Option<u64>) -> Result<Survey, Error> {
        let mut survey = Survey { devices: Vec::new(), records: 0, last: Nanos(0) };
        let mut index: BTreeMap<u32, usize> = BTreeMap::new();
        let mut at = (0, usize::MAX);
        while limit.is_none_or(|l| survey.records < l) {
            let Some(r) = reader.next_record()? else { break };
            if at.1 == usize::MAX || at.0 != r.device {
                let next = survey.devices.len();
                at = (r.device, *index.entry(r.device).or_insert(next));
                if at.1 == next {
                    if next >= 1 << 20 {
                        return Err(Error::option("trace", "more than 1,048,576 devices", "fewer trace devices"));
                    }
                    survey.devices.push((r.device, 0));
                }
            }
            let highest = &mut survey.devices[at.1].1;
            *highest = (*highest).max(r.end());
            survey.records += 1;
            survey.last = r.time;
        }
        Ok(survey)
    }
}

/// How far a replay came, and what it had to leave out; shared with whoever started it.
#[derive(Clone, Debug, Default)]
pub struct ReplayStatus {
    /// Requests handed out.
    pub issued: u64,
    /// Records of the trace used up.
    pub records: u64,
    /// Is the trace at its end (or at the limit, or at an error)?
    pub done: bool,
    /// Records left out, by reason: the reader's and the replay's.
    pub skipped: Vec<Skipped>,
    /// Records changed, by reason.
    pub changed: Vec<Skipped>,
    /// What the reader says about the trace.
    pub notes: Vec<String>,
    /// Why the trace ended early. Replays stop at an error; look here after the run.
    pub error: Option<Arc<Error>>,
}

/// A look at a replay's status while the simulator owns it. Up to date once the replay is done or dropped.
pub type StatusHandle = Arc<Mutex<ReplayStatus>>;

/// Regions of the device, one for each trace device.
struct Regions {
    /// Trace device to region.
    of: BTreeMap<u32, u64>,
    last: (u32, u64),
    size: u64,
    fit: Fit,
    /// Highest end over all devices, for scaling.
    highest: u64,
}

impl Regions {
    fn new(survey: Option<&Survey>, capacity: u64, fit: Fit) -> Result<Regions, Error> {
        let devices: &[(u32, u64)] = survey.map_or(&[], |s| &s.devices);
        let n = devices.len().max(1) as u64;
        let size = if n == 1 { capacity } else { capacity / n / 8 * 8 };
        if size == 0 {
            let expected = format!("a device of at least {n} × 4 KiB for {n} trace devices");
            return Err(Error::option("capacity", format!("{capacity} sectors"), expected));
        }
        let of = devices.iter().enumerate().map(|(i, (d, _))| (*d, i as u64 * size)).collect();
        let highest = devices.iter().map(|(_, h)| *h).max().unwrap_or(0);
        Ok(Regions { of, last: (devices.first().map_or(0, |d| d.0), 0), size, fit, highest })
    }

    /// Where the request goes on the device.
    fn place(&mut self, r: &Record) -> Result<u64, &'static str> {
        if r.device != self.last.0 {
            self.last = (r.device, self.of.get(&r.device).copied().unwrap_or(0));
        }
        let n = u64::from(r.sectors);
        if n > self.size {
            return Err("larger than the device");
        }
        let room = self.size - n;
        let sector = match self.fit {
            Fit::Skip if r.sector > room => return Err("beyond the device"),
            Fit::Skip => r.sector,
            Fit::Wrap => (r.sector % self.size).min(room),
            Fit::Scale if self.highest <= self.size => r.sector,
            Fit::Scale => {
                let (from, to) = (self.highest.div_ceil(PIECE), (self.size / PIECE).max(1));
                let piece = (u128::from(r.sector / PIECE) * u128::from(to) / u128::from(from)) as u64;
                (piece * PIECE + r.sector % PIECE).min(room)
            }
        };
        Ok(self.last.1 + sector)
    }
}

/// Small numbers for the trace's tasks, in order of first sight.
struct Tasks {
    of: BTreeMap<u32, u16>,
    last: (u32, u16),
}

impl Tasks {
    fn number(&mut self, task: u32) -> u16 {
        if self.of.is_empty() || self.last.0 != task {
            let next = self.of.len();
            // Beyond a million processes the number itself decides, so that memory stays bounded.
            let number = match self.of.get(&task) {
                Some(n) => *n,
                None if next >= 1 << 20 => (task % u32::from(MOST_TASKS)) as u16,
                None => {
                    let n = (next % usize::from(MOST_TASKS)) as u16;
                    self.of.insert(task, n);
                    n
                }
            };
            self.last = (task, number);
        }
        self.last.1
    }
}

/// One task of a replay by task: its requests within the look-ahead, and how many are outstanding.
#[derive(Default)]
struct Lane {
    queue: VecDeque<(u64, Want)>,
    outstanding: u32,
    ready: bool,
}

/// A trace being replayed.
pub struct Replay {
    reader: TraceReader,
    options: ReplayOptions,
    regions: Regions,
    tasks: Tasks,
    start: Option<Nanos>,
    /// Read, and not issued yet (open loop).
    ahead: Option<(Nanos, Want)>,
    outstanding: u32,
    lanes: Vec<Lane>,
    /// Lanes that may issue, by the order of their first request in the trace.
    ready: BinaryHeap<Reverse<(u64, u16)>>,
    held: usize,
    records: u64,
    issued: u64,
    skipped: Counts,
    done: bool,
    error: Option<Arc<Error>>,
    status: StatusHandle,
}

impl Replay {
    /// Opens a trace for replay. Where it names devices, or for [`Fit::Scale`], it is read once to its end first
    /// (give `survey` to spare that).
    pub fn open<P: AsRef<Path>>(
        paths: &[P],
        options: &Options,
        replay: &ReplayOptions,
        survey: Option<&Survey>,
    ) -> Result<Replay, Error> {
        let reader = open(paths, options)?;
        if survey.is_some() || !(reader.known().devices || replay.fit == Fit::Scale) {
            return Replay::new(reader, replay, survey);
        }
        let survey = Survey::of(&mut open(paths, options)?, replay.limit)?;
        Replay::new(reader, replay, Some(&survey))
    }

    /// Replays an open trace. Without a survey all its devices share one region and [`Fit::Scale`] is not possible.
    pub fn new(reader: TraceReader, options: &ReplayOptions, survey: Option<&Survey>) -> Result<Replay, Error> {
        match options.pace {
            Pace::Open { speed } if !(speed.is_finite() && speed > 0.0) => {
                return Err(Error::option("speed", speed.to_string(), "a number over 0"));
            }
            Pace::Open { .. } if !reader.known().times => {
                let trace = reader.paths()[0].display().to_string();
                let expected =
                    "a trace with arrival times for open-loop replay; replay this one closed-loop with --depth N";
                return Err(Error::option("trace", trace, expected));
            }
            Pace::Closed { depth: 0 } | Pace::ClosedPerTask { depth: 0 } => {
                return Err(Error::option("depth", "0", "at least 1"));
            }
            _ => {}
        }
        if options.fit == Fit::Scale && survey.is_none() {
            return Err(Error::option("fit", "scale", "a survey of the trace"));
        }
        let regions = Regions::new(survey, options.capacity, options.fit)?;
        let status = ReplayStatus { notes: reader.notes().to_vec(), ..ReplayStatus::default() };
        Ok(Replay {
            reader,
            options: options.clone(),
            regions,
            tasks: Tasks { of: BTreeMap::new(), last: (0, 0) },
            start: None,
            ahead: None,
            outstanding: 0,
            lanes: Vec::new(),
            ready: BinaryHeap::new(),
            held: 0,
            records: 0,
            issued: 0,
            skipped: Counts::default(),
            done: false,
            error: None,
            status: Arc::new(Mutex::new(status)),
        })
    }

    /// A handle to look at after the run, when the simulator owns the replay.
    pub fn status(&self) -> StatusHandle {
        Arc::clone(&self.status)
    }

    /// The next request of the trace that can be issued, with its arrival; `None` at the end or at an error.
    fn pull(&mut self) -> Option<(Nanos, Want)> {
        while !self.done {
            if self.options.limit.is_some_and(|l| self.records >= l) {
                break;
            }
            let record = match self.reader.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    self.error = Some(Arc::new(error));
                    break;
                }
            };
            self.records += 1;
            let sector = if record.op == Op::Flush { Ok(0) } else { self.regions.place(&record) };
            match sector {
                Ok(sector) => {
                    let task = self.tasks.number(record.task);
                    let (op, sectors, flags) = (record.op, record.sectors, record.flags);
                    return Some((record.time, Want { op, sector, sectors, flags, ioprio: None, stream: 0, task }));
                }
                Err(reason) => self.skipped.add(reason, 1),
            }
        }
        if !self.done {
            self.done = true;
            self.publish();
        }
        None
    }

    fn publish(&self) {
        let mut skipped = self.reader.skipped();
        skipped.extend(self.skipped.report());
        // A panic elsewhere while the lock was held leaves the numbers usable.
        let mut status = self.status.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        status.issued = self.issued;
        status.records = self.records;
        status.done = self.done;
        status.skipped = skipped;
        status.changed = self.reader.changed();
        status.error = self.error.clone();
    }

    fn issue(&mut self, want: Want) -> Next {
        self.issued += 1;
        Next::Issue(want)
    }

    fn open_loop(&mut self, now: Nanos, speed: f64) -> Next {
        if self.ahead.is_none() {
            self.ahead = self.pull();
        }
        let Some((time, want)) = self.ahead else { return Next::Done };
        let start = *self.start.get_or_insert(now);
        // Whole nanoseconds of the traced pace stay exact.
        let after = if speed == 1.0 { time.0 } else { (time.0 as f64 / speed) as u64 };
        let due = Nanos(start.0.saturating_add(after));
        if due > now {
            return Next::Wait(due);
        }
        self.ahead = None;
        self.issue(want)
    }

    fn closed_loop(&mut self, depth: u32) -> Next {
        if self.outstanding >= depth {
            return Next::Blocked;
        }
        match self.pull() {
            Some((_, want)) => {
                self.outstanding += 1;
                self.issue(want)
            }
            None => Next::Done,
        }
    }

    fn per_task(&mut self, depth: u32) -> Next {
        while self.ready.is_empty() && self.held < LOOK_AHEAD {
            let order = self.records;
            let Some((_, want)) = self.pull() else { break };
            let task = usize::from(want.task);
            if self.lanes.len() <= task {
                self.lanes.resize_with(task + 1, Lane::default);
            }
            self.held += 1;
            self.lanes[task].queue.push_back((order, want));
            self.wake(want.task, depth);
        }
        let Some(Reverse((_, task))) = self.ready.pop() else {
            return if self.held == 0 { Next::Done } else { Next::Blocked };
        };
        let lane = &mut self.lanes[usize::from(task)];
        lane.ready = false;
        lane.outstanding += 1;
        let (_, want) = lane.queue.pop_front().expect("a ready lane has a request");
        self.held -= 1;
        self.wake(task, depth);
        self.issue(want)
    }

    /// Puts a lane among the ready ones if it may issue.
    fn wake(&mut self, task: u16, depth: u32) {
        let Some(lane) = self.lanes.get_mut(usize::from(task)) else { return };
        if !lane.ready
            && lane.outstanding < depth
            && let Some((order, _)) = lane.queue.front()
        {
            lane.ready = true;
            self.ready.push(Reverse((*order, task)));
        }
    }
}

impl Workload for Replay {
    fn next(&mut self, now: Nanos) -> Next {
        match self.options.pace {
            Pace::Open { speed } => self.open_loop(now, speed),
            Pace::Closed { depth } => self.closed_loop(depth),
            Pace::ClosedPerTask { depth } => self.per_task(depth),
        }
    }

    fn completed(&mut self, _now: Nanos, task: u16, _lat: Nanos) {
        match self.options.pace {
            Pace::Open { .. } => {}
            Pace::Closed { .. } => self.outstanding = self.outstanding.saturating_sub(1),
            Pace::ClosedPerTask { depth } => {
                if let Some(lane) = self.lanes.get_mut(usize::from(task)) {
                    lane.outstanding = lane.outstanding.saturating_sub(1);
                }
                self.wake(task, depth);
            }
        }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.publish();
    }
}
