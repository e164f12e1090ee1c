//! Rows of inputs from recorded runs.

use crate::{
    Device, FeatureSet, History, IssueOrder, LatencyLine, MAX_INPUTS, Place, Regions, RequestRecord, RequestVector,
    Rotation, Spindle, latency_row, ordered_row,
};
use dumbwaiter_block::Nanos;

use crate::training::data::{Run, Segment};

/// Consecutive requests of a sample, so that ordering inside a queue can be scored.
pub const STRETCH: usize = 64;

/// When a request's inputs are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When it arrives: what completes then or later is unknown.
    Arrival,
    /// When it is sent to the device: what completed until then is known.
    Issue,
}

impl Moment {
    /// The moment at which a feature set is used.
    pub fn of(set: FeatureSet) -> Moment {
        match set {
            FeatureSet::Positioned | FeatureSet::Ordered => Moment::Issue,
            _ => Moment::Arrival,
        }
    }
}

/// Properties of a device that inputs depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Geometry {
    /// Its size in sectors of 512 bytes.
    pub sectors: u64,
    /// Its rotation.
    pub rotation: Rotation,
}

impl Geometry {
    /// Of the device that a model was trained on.
    pub fn of(device: &Device) -> Geometry {
        Geometry { sectors: device.sectors, rotation: device.rotation }
    }
}

/// State of a device at one moment of a request.
pub struct View<'a> {
    /// The request.
    pub record: &'a RequestRecord,
    /// The last completions.
    pub history: &'a History,
    /// Latencies by region.
    pub regions: &'a Regions,
    /// Sectors from the start of the request issued before it.
    pub delta: i64,
    /// Sectors from the end of the request issued before it.
    pub gap: i64,
    /// The angle of the platter.
    pub spindle: &'a Spindle,
    /// Latencies over size.
    pub line: &'a LatencyLine,
    /// Latency of the request completed last.
    pub last_latency: Nanos,
}

impl View<'_> {
    /// Position of the request.
    pub fn place(&self) -> Place {
        Place {
            gap: self.gap,
            angle: self.spindle.angle(self.record.sector, self.record.issue),
            position: self.regions.position(self.record.sector),
            region: self.regions.relative(self.record.op, self.record.sector),
            depth: self.record.depth,
        }
    }
}

/// Calls `visit` for each read and write of a segment, in order of the moments.
pub fn walk(segment: &Segment, device: &Geometry, moment: Moment, mut visit: impl FnMut(&View)) {
    let records: Vec<&RequestRecord> = segment.iter().filter(|record| record.is_learnable()).collect();
    let mut order = IssueOrder::default();
    let mut steps = Vec::with_capacity(records.len());
    for record in &records {
        steps.push((order.delta(record.sector), order.gap(record.sector)));
        order.issued(record.sector, record.end());
    }
    let time = |index: usize| match moment {
        Moment::Arrival => records[index].arrive,
        Moment::Issue => records[index].issue,
    };
    let mut starts: Vec<usize> = (0..records.len()).collect();
    starts.sort_by_key(|&index| time(index));
    let mut ends: Vec<usize> = (0..records.len()).collect();
    ends.sort_by_key(|&index| records[index].complete);
    let mut ends = ends.into_iter().peekable();
    let (mut history, mut regions) = (History::new(), Regions::new(device.sectors));
    let (mut line, mut spindle, mut last_latency) = (LatencyLine::new(), Spindle::new(device.rotation), Nanos::ZERO);
    for index in starts {
        let now = time(index);
        let is_known = |complete: Nanos| match moment {
            Moment::Arrival => complete < now,
            Moment::Issue => complete <= now,
        };
        while let Some(done) = ends.next_if(|&done| is_known(records[done].complete)) {
            let record = records[done];
            history.push_record(record, steps[done].0);
            regions.push(record.op, record.sector, record.latency());
            spindle.completed(record.end(), record.complete, record.latency());
            line.learn(record.op, u64::from(record.bytes) / 512, record.latency());
            last_latency = record.latency();
        }
        let (delta, gap) = steps[index];
        visit(&View {
            record: records[index],
            history: &history,
            regions: &regions,
            spindle: &spindle,
            line: &line,
            delta,
            gap,
            last_latency,
        });
    }
}

/// Calls `visit` with the history after each completion of a segment that has 16 before it.
pub fn walk_windows(segment: &Segment, mut visit: impl FnMut(&History)) {
    let records: Vec<&RequestRecord> = segment.iter().filter(|record| record.is_learnable()).collect();
    let mut order = IssueOrder::default();
    let mut done: Vec<(&RequestRecord, i64)> = Vec::with_capacity(records.len());
    for record in records {
        done.push((record, order.delta(record.sector)));
        order.issued(record.sector, record.end());
    }
    done.sort_by_key(|(record, _)| record.complete);
    let mut history = History::new();
    for (record, delta) in done {
        history.push_record(record, delta);
        if !history.is_cold() {
            visit(&history);
        }
    }
}

/// Rows of inputs, with their targets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Inputs of a row.
    pub width: usize,
    /// All rows, one after the other.
    pub inputs: Vec<f32>,
    /// The class, or the latency in ln us.
    pub truths: Vec<f32>,
    /// Mean and deviation of the last 16 ln latencies; (0, 1) for classes.
    pub normals: Vec<(f32, f32)>,
}

impl Rows {
    /// None yet.
    pub fn new(width: usize) -> Rows {
        Rows { width, ..Rows::default() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.truths.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.truths.is_empty()
    }

    /// The inputs of a row.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.inputs[index * self.width..][..self.width]
    }

    /// Adds a row.
    pub fn push(&mut self, row: &[f32], truth: f32, normal: (f32, f32)) {
        self.inputs.extend_from_slice(row);
        self.truths.push(truth);
        self.normals.push(normal);
    }

    /// Latencies less their mean, over their deviation, at most `limit` away from 0.
    pub fn normalised(&self, limit: f32) -> Vec<f32> {
        let normalise =
            |(&truth, &(mean, deviation)): (&f32, &(f32, f32))| ((truth - mean) / deviation).clamp(-limit, limit);
        self.truths.iter().zip(&self.normals).map(normalise).collect()
    }
}

/// At most `limit` evenly spaced windows of a run, in order; the truth is the class.
pub fn window_rows(run: &Run, set: FeatureSet, limit: usize) -> Rows {
    let class = run.class().unwrap_or(usize::MAX) as f32;
    let mut count = 0;
    run.segments.iter().for_each(|segment| walk_windows(segment, |_| count += 1));
    let mut picks = Spaced::new(count, limit);
    let mut rows = Rows::new(set.inputs());
    let mut row = [0.0; MAX_INPUTS];
    for segment in &run.segments {
        walk_windows(segment, |history| {
            if picks.next_is_picked()
                && let Some(width) = history.window(set, &mut row)
            {
                rows.push(&row[..width], class, (0.0, 1.0));
            }
        });
    }
    rows
}

/// At most `limit` requests of a run, whole [`STRETCH`]es evenly spaced; the truth is ln latency in us.
pub fn latency_rows(run: &Run, set: FeatureSet, device: &Geometry, limit: usize) -> Rows {
    let mut rows = Rows::new(set.inputs());
    let mut row = [0.0; MAX_INPUTS];
    for_stretches(run, device, Moment::of(set), limit, |view, _| {
        if set == FeatureSet::Ordered {
            let inputs = ordered_row(view.record, view.delta, view.last_latency);
            rows.push(&inputs, crate::ln_us(view.record.total()), (0.0, 1.0));
        } else if let Some(normal) =
            latency_row(set, &RequestVector::of(view.record), &view.place(), view.history, &mut row)
        {
            rows.push(&row[..rows.width], crate::ln_us(view.record.latency()), normal);
        }
    });
    rows
}

/// Calls `visit` with the requests of evenly spaced stretches of a run, about `limit` requests in all, and `true` for the
/// first of a stretch. Requests with fewer than 16 completions before them are left out.
pub fn for_stretches(run: &Run, device: &Geometry, moment: Moment, limit: usize, mut visit: impl FnMut(&View, bool)) {
    let stretches_of = |count: usize| count.div_ceil(STRETCH);
    let mut total = 0;
    for segment in &run.segments {
        let mut count = 0;
        walk(segment, device, moment, |view| count += usize::from(!view.history.is_cold()));
        total += stretches_of(count);
    }
    let mut picks = Spaced::new(total, (limit / STRETCH).max(1));
    for segment in &run.segments {
        let (mut index, mut picked) = (0, false);
        walk(segment, device, moment, |view| {
            if view.history.is_cold() {
                return;
            }
            let is_first = index % STRETCH == 0;
            if is_first {
                picked = picks.next_is_picked();
            }
            index += 1;
            if picked {
                visit(view, is_first);
            }
        });
    }
}

/// Picks at most `limit` of `count` items, evenly spaced.
struct Spaced {
    count: usize,
    limit: usize,
    seen: usize,
}

impl Spaced {
    fn new(count: usize, limit: usize) -> Spaced {
        Spaced { count: count.max(1), limit: limit.min(count), seen: 0 }
    }

    fn next_is_picked(&mut self) -> bool {
        let before = self.seen * self.limit / self.count;
        self.seen += 1;
        self.seen * self.limit / self.count > before
    }
}
