//! Tracks requests between issue and completion: the inputs of a model for each, and its latency.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    FeatureSet, History, IssueOrder, MAX_INPUTS, Model, ModelError, Place, Regions, RequestRecord, RequestVector,
    Spindle, latency_row,
};
use dumbwaiter_block::{Nanos, Op};

/// Most requests tracked at a time; a device holds fewer.
const OPEN_MAX: usize = 8_192;

/// A completed request with the inputs that a model had when it was issued.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub(crate) op: Op,
    pub(crate) bytes: u32,
    pub(crate) row: [f32; MAX_INPUTS],
    pub(crate) normal: (f32, f32),
    pub(crate) latency: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    /// Without `complete`.
    record: RequestRecord,
    delta: i64,
    /// `None` while fewer than 16 requests had completed.
    inputs: Option<([f32; MAX_INPUTS], (f32, f32))>,
}

/// Tracks the requests of one device in order of time, for a model's inputs.
#[derive(Clone, Debug)]
pub struct Tracker {
    features: FeatureSet,
    history: History,
    regions: Regions,
    spindle: Spindle,
    order: IssueOrder,
    /// By direction and first sector; the oldest first.
    open: BTreeMap<(bool, u64), VecDeque<Open>>,
    in_device: usize,
}

impl Tracker {
    /// A tracker for a model.
    ///
    /// # Errors
    ///
    /// A model whose inputs are not known.
    pub fn new(model: &Model) -> Result<Tracker, ModelError> {
        let device = &model.about.device;
        Ok(Tracker {
            features: model.features()?,
            history: History::new(),
            regions: Regions::new(device.sectors),
            spindle: Spindle::new(device.rotation),
            order: IssueOrder::default(),
            open: BTreeMap::new(),
            in_device: 0,
        })
    }

    /// A request is sent to the device. Its `complete` and `depth` are ignored.
    pub fn issue(&mut self, record: &RequestRecord) {
        if !matches!(record.op, Op::Read | Op::Write) {
            return;
        }
        if self.in_device >= OPEN_MAX {
            self.gap();
        }
        let place = Place {
            gap: self.order.gap(record.sector),
            angle: self.spindle.angle(record.sector, record.issue),
            position: self.regions.position(record.sector),
            region: self.regions.relative(record.op, record.sector),
            depth: self.in_device as u32,
        };
        let mut row = [0.0; MAX_INPUTS];
        let normal = latency_row(self.features, &RequestVector::of(record), &place, &self.history, &mut row);
        let open = Open {
            record: *record,
            delta: self.order.delta(record.sector),
            inputs: normal.map(|normal| (row, normal)),
        };
        self.order.issued(record.sector, record.end());
        self.open.entry((record.op == Op::Write, record.sector)).or_default().push_back(open);
        self.in_device += 1;
    }

    /// A request is complete. `None` for one whose issue was missed, that had no history, or that models do not learn
    /// from.
    pub fn complete(&mut self, op: Op, sector: u64, at: Nanos) -> Option<Outcome> {
        let key = (op == Op::Write, sector);
        let of_sector = self.open.get_mut(&key)?;
        let Open { record, delta, inputs } = of_sector.pop_front()?;
        if of_sector.is_empty() {
            self.open.remove(&key);
        }
        self.in_device = self.in_device.saturating_sub(1);
        let record = RequestRecord { complete: at, ..record };
        if !self.history.push_record(&record, delta) {
            return None;
        }
        let latency = record.latency();
        self.regions.push(record.op, record.sector, latency);
        self.spindle.completed(record.end(), record.complete, latency);
        let (row, normal) = inputs?;
        Some(Outcome { op: record.op, bytes: record.bytes, row, normal, latency })
    }

    /// Some requests were missed: clears the history.
    pub fn gap(&mut self) {
        self.history.clear();
        self.open.clear();
        self.order = IssueOrder::default();
        self.in_device = 0;
    }
}
