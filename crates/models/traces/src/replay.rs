//! Replays a trace as a workload: at its own times (open loop), or at a fixed depth (closed loop, as a whole or by
//! task).
//!
//! Records of several trace devices go to separate regions of the device, equal in size and in order of first
//! appearance. Requests beyond the end of their region are skipped and counted, wrapped, or scaled ([`Fit`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};

use dumbwaiter_block::{IoTag, Nanos, Op};

use super::blkparse::{NO_DATA, NO_SECTOR};
use super::error::Error;
use super::reader::{Options, TraceReader, open};
use super::record::{Counts, Record, Skipped};
use dumbwaiter_workloads::{Next, Want, Workload};

/// Most distinct tasks; further ones share numbers.
pub const REPLAY_TASKS_MAX: u16 = 4096;
/// Look-ahead of a replay by task, in records.
pub const LOOK_AHEAD_RECORDS: usize = 1 << 16;
/// Unit that scaling moves as a whole, in sectors (1 MiB), so that neighbouring blocks stay neighbours.
const SCALE_UNIT: u64 = 2048;
/// Regions of trace devices begin at multiples of this many sectors (4 KiB).
const REGION_ALIGNMENT: u64 = 8;
/// Reasons of readers for records that are no I/O of the block layer: leaving them out changes no load.
const NO_IO: [&str; 2] = [NO_SECTOR, NO_DATA];
/// The reason counted for records beyond the end of their region.
const BEYOND: &str = "beyond the device";
/// The reason counted for records that cross it.
const CUT: &str = "cut at the end of the device";

/// When a replay issues requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplayMode {
    /// Open loop: at the recorded times, `speed` times as fast. Requests do not wait for each other.
    Open {
        /// 1 for the recorded pace, 2 for twice as fast.
        speed: f64,
    },
    /// Closed loop: in order with at most `depth` outstanding; times are ignored.
    Closed {
        /// Queue depth.
        depth: u32,
    },
    /// Closed loop by task: each task in its own order with at most `depth` outstanding; times are ignored. Requests of
    ClosedPerTask {
        /// Queue depth of each task.
        depth: u32,
    },
}

/// How to handle requests beyond the end of their region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Leave them out and count them; cut those that cross the end.
    #[default]
    Truncate,
    /// Wrap them: sector modulo the size of the region.
    Wrap,
    /// Scale all sectors down by one factor (in units of 1 MiB), so that the highest fits. Never scales up.
    Scale,
    /// The device is made large enough beforehand ([`Survey::sectors`]), which only a simulated one can be.
    Grow,
}

impl Fit {
    /// The accepted names, for messages.
    pub const NAMES: &str = "scale, wrap, truncate or grow";

    /// The fit of this name; `skip` is an old name of `truncate`.
    pub fn parse(name: &str) -> Option<Fit> {
        Some(match name {
            "truncate" | "skip" => Fit::Truncate,
            "wrap" => Fit::Wrap,
            "scale" => Fit::Scale,
            "grow" => Fit::Grow,
            _ => return None,
        })
    }
}

/// Options of a replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// When requests are issued.
    pub mode: ReplayMode,
    /// Size of the device in sectors of 512 bytes.
    pub capacity: u64,
    /// How to handle requests beyond the device.
    pub fit: Fit,
    /// Stop after this many records of the trace.
    pub limit: Option<u64>,
}

/// Facts of the whole trace that a replay needs: its devices and the highest sector of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Device numbers of the trace in order of first appearance, with the end of their highest request in sectors.
    pub devices: Vec<(u32, u64)>,
    /// Number of records.
    pub records: u64,
    /// Arrival of the last record.
    pub last: Nanos,
    /// Records that the reader left out although they are I/Os, by reason: lines that do not parse, impossible lengths.
    pub unusable: Vec<Skipped>,
    /// The first of them that is a line.
    pub example: Option<String>,
}

/// Records between two looks at whether a reading to the end should be given up.
pub(crate) const STOP_CHECK_RECORDS: u64 = 1 << 14;

impl Survey {
    /// Surveys a trace to its end (or to `limit` records), unless `stopped` answers yes.
    ///
    /// # Errors
    /// A trace that cannot be read, or [`Error::Interrupted`].
    pub fn of(reader: &mut TraceReader, limit: Option<u64>, stopped: &dyn Fn() -> bool) -> Result<Survey, Error> {
        let mut survey =
            Survey { devices: Vec::new(), records: 0, last: Nanos(0), unusable: Vec::new(), example: None };
        let mut index: BTreeMap<u32, usize> = BTreeMap::new();
        let mut at = (0, usize::MAX);
        while limit.is_none_or(|l| survey.records < l) {
            if survey.records.is_multiple_of(STOP_CHECK_RECORDS) && stopped() {
                return Err(Error::Interrupted);
            }
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
        survey.unusable = reader.skipped();
        survey.unusable.retain(|s| !NO_IO.contains(&s.reason.as_str()));
        survey.example = reader.example().filter(|_| !survey.unusable.is_empty());
        Ok(survey)
    }

    /// Sectors that a device needs to hold the whole trace.
    pub fn sectors(&self) -> u64 {
        let highest = self.devices.iter().map(|(_, end)| *end).max().unwrap_or(0).max(8);
        match self.devices.len() as u64 {
            0 | 1 => highest,
            n => highest.div_ceil(REGION_ALIGNMENT).saturating_mul(REGION_ALIGNMENT).saturating_mul(n),
        }
    }

    /// How many of the first `limit` records of the surveyed trace, read again from `reader`, lie beyond the end of their
    /// region of a device of `capacity` sectors.
    ///
    /// # Errors
    /// As [`Survey::of`]; a device too small for one region each.
    pub fn beyond(
        &self,
        reader: &mut TraceReader,
        limit: Option<u64>,
        capacity: u64,
        stopped: &dyn Fn() -> bool,
    ) -> Result<u64, Error> {
        if self.sectors() <= capacity {
            return Ok(0);
        }
        let mut regions = Regions::new(Some(self), capacity, Fit::Truncate)?;
        let (mut beyond, mut read) = (0, 0);
        while limit.is_none_or(|l| read < l) {
            if read.is_multiple_of(STOP_CHECK_RECORDS) && stopped() {
                return Err(Error::Interrupted);
            }
            let Some(record) = reader.next_record()? else { break };
            read += 1;
            beyond += u64::from(record.op != Op::Flush && regions.place(&record).is_err());
        }
        Ok(beyond)
    }
}

/// Progress of a replay, and the records that it skipped or changed.
#[derive(Clone, Debug, Default)]
pub struct ReplayStatus {
    /// Requests issued.
    pub issued: u64,
    /// Records read.
    pub records: u64,
    /// Whether the trace has ended, at its end, the limit or an error.
    pub done: bool,
    /// Records skipped by the reader and the replay, by reason.
    pub skipped: Vec<Skipped>,
    /// Records changed, by reason.
    pub changed: Vec<Skipped>,
    /// The error that ended the replay early, for the end of the run.
    pub error: Option<Arc<Error>>,
}

/// A handle on a replay's status while the world owns the replay. Current once the replay has ended or is dropped.
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
        let size = if n == 1 { capacity } else { capacity / n / REGION_ALIGNMENT * REGION_ALIGNMENT };
        if size == 0 {
            let expected = format!("a device of at least {n} × 4 KiB for {n} trace devices");
            return Err(Error::option("capacity", format!("{capacity} sectors"), expected));
        }
        let of = devices.iter().enumerate().map(|(i, (d, _))| (*d, i as u64 * size)).collect();
        let highest = devices.iter().map(|(_, h)| *h).max().unwrap_or(0);
        Ok(Regions { of, last: (devices.first().map_or(0, |d| d.0), 0), size, fit, highest })
    }

    /// First sector and length of a request on the device.
    fn place(&mut self, r: &Record) -> Result<(u64, u32), &'static str> {
        if r.device != self.last.0 {
            self.last = (r.device, self.of.get(&r.device).copied().unwrap_or(0));
        }
        let n = u64::from(r.sectors);
        if matches!(self.fit, Fit::Truncate | Fit::Grow) {
            let left = self.size.saturating_sub(r.sector);
            return match left {
                0 => Err(BEYOND),
                left => Ok((self.last.1 + r.sector, n.min(left) as u32)),
            };
        }
        if n > self.size {
            return Err("larger than the device");
        }
        let room = self.size - n;
        let sector = match self.fit {
            Fit::Truncate | Fit::Grow => r.sector,
            Fit::Wrap => (r.sector % self.size).min(room),
            Fit::Scale if self.highest <= self.size => r.sector,
            Fit::Scale => {
                let (from, to) = (self.highest.div_ceil(SCALE_UNIT), (self.size / SCALE_UNIT).max(1));
                let piece = (u128::from(r.sector / SCALE_UNIT) * u128::from(to) / u128::from(from)) as u64;
                (piece * SCALE_UNIT + r.sector % SCALE_UNIT).min(room)
            }
        };
        Ok((self.last.1 + sector, r.sectors))
    }
}

/// Small numbers for the trace's tasks, in order of first appearance.
struct Tasks {
    of: BTreeMap<u32, u16>,
    last: (u32, u16),
}

impl Tasks {
    fn number(&mut self, task: u32) -> u16 {
        if self.of.is_empty() || self.last.0 != task {
            let next = self.of.len();
            // Beyond a million processes the number itself is the key, so that memory stays bounded.
            let number = match self.of.get(&task) {
                Some(n) => *n,
                None if next >= 1 << 20 => (task % u32::from(REPLAY_TASKS_MAX)) as u16,
                None => {
                    let n = (next % usize::from(REPLAY_TASKS_MAX)) as u16;
                    self.of.insert(task, n);
                    n
                }
            };
            self.last = (task, number);
        }
        self.last.1
    }
}

/// A task of a replay by task: its requests within the look-ahead, and its outstanding I/Os.
#[derive(Default)]
struct Lane {
    queue: VecDeque<(u64, Want)>,
    outstanding: u32,
    ready: bool,
}

/// A replay of a trace.
pub struct Replay {
    reader: TraceReader,
    options: ReplayOptions,
    regions: Regions,
    tasks: Tasks,
    start: Option<Nanos>,
    /// The next request, read but not issued (open loop).
    ahead: Option<(Nanos, Want)>,
    outstanding: u32,
    lanes: Vec<Lane>,
    /// Lanes that may issue, by the order of their first request in the trace.
    ready: BinaryHeap<Reverse<(u64, u16)>>,
    held: usize,
    records: u64,
    issued: u64,
    skipped: Counts,
    changed: Counts,
    done: bool,
    error: Option<Arc<Error>>,
    status: StatusHandle,
}

impl Replay {
    /// Opens a trace for replay. A trace with several devices, or with [`Fit::Scale`], is first read once to its end,
    /// unless `survey` is given.
    ///
    /// # Errors
    /// A trace that cannot be read, or options that do not fit it.
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
        let survey = Survey::of(&mut open(paths, options)?, replay.limit, &|| false)?;
        Replay::new(reader, replay, Some(&survey))
    }

    /// Replays an open trace. Without a survey, all its devices share one region and [`Fit::Scale`] is impossible.
    ///
    /// # Errors
    /// Options that do not fit the trace.
    pub fn new(reader: TraceReader, options: &ReplayOptions, survey: Option<&Survey>) -> Result<Replay, Error> {
        match options.mode {
            ReplayMode::Open { speed } if !(speed.is_finite() && speed > 0.0) => {
                return Err(Error::option("speed", speed.to_string(), "a number over 0"));
            }
            ReplayMode::Open { .. } if !reader.known().times => {
                let trace = reader.paths()[0].display().to_string();
                let expected =
                    "a trace with arrival times for open-loop replay; replay this one closed-loop with --depth N";
                return Err(Error::option("trace", trace, expected));
            }
            ReplayMode::Closed { depth: 0 } | ReplayMode::ClosedPerTask { depth: 0 } => {
                return Err(Error::option("depth", "0", "at least 1"));
            }
            _ => {}
        }
        if options.fit == Fit::Scale && survey.is_none() {
            return Err(Error::option("fit", "scale", "a survey of the trace"));
        }
        let regions = Regions::new(survey, options.capacity, options.fit)?;
        let status = ReplayStatus::default();
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
            changed: Counts::default(),
            done: false,
            error: None,
            status: Arc::new(Mutex::new(status)),
        })
    }

    /// A handle on the status, for the time after the run.
    pub fn status(&self) -> StatusHandle {
        Arc::clone(&self.status)
    }

    /// The next request of the trace with its arrival; `None` at the end or at an error.
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
            let place = if record.op == Op::Flush { Ok((0, record.sectors)) } else { self.regions.place(&record) };
            match place {
                Ok((sector, sectors)) => {
                    let task = self.tasks.number(record.task);
                    let (op, flags) = (record.op, record.flags);
                    // A caller's hint: schedulers that learn see it, and requests of different tags do not merge.
                    let stream = record.tag.map_or(0, IoTag::stream);
                    self.changed.add(CUT, u64::from(sectors < record.sectors));
                    return Some((record.time, Want { op, sector, sectors, flags, ioprio: None, stream, task }));
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
        // A panic of another lock holder leaves the numbers usable.
        let mut status = self.status.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        status.issued = self.issued;
        status.records = self.records;
        status.done = self.done;
        status.skipped = skipped;
        status.changed = self.reader.changed();
        status.changed.extend(self.changed.report());
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
        // The recorded pace keeps whole nanoseconds exactly.
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
        while self.ready.is_empty() && self.held < LOOK_AHEAD_RECORDS {
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

    /// Adds a lane to the ready ones if it may issue.
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
        match self.options.mode {
            ReplayMode::Open { speed } => self.open_loop(now, speed),
            ReplayMode::Closed { depth } => self.closed_loop(depth),
            ReplayMode::ClosedPerTask { depth } => self.per_task(depth),
        }
    }

    fn completed(&mut self, _now: Nanos, task: u16, _lat: Nanos) {
        match self.options.mode {
            ReplayMode::Open { .. } => {}
            ReplayMode::Closed { .. } => self.outstanding = self.outstanding.saturating_sub(1),
            ReplayMode::ClosedPerTask { depth } => {
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
