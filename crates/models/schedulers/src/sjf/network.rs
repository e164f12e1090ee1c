//! A model of the `learn` crate as a predictor: its history, regions and spindle follow the completions of one device.

use std::sync::Arc;

use dumbwaiter_block::{IoTag, Nanos, Op, Request};
use dumbwaiter_learn::{History, IssueOrder, LatencyModel, Model as File, ModelError, Moment, Place, Regions};
use dumbwaiter_learn::{RequestVector, Rotation, Spindle};

use super::predictor::{Dispatch, Model};

/// See the module documentation.
#[derive(Clone)]
pub struct LearnedModel {
    model: Arc<LatencyModel>,
    history: History,
    order: IssueOrder,
    regions: Regions,
    spindle: Spindle,
    /// Inputs that all predictions until the next completion share.
    moment: Moment,
}

impl LearnedModel {
    /// A predictor from a model file's content.
    ///
    /// # Errors
    ///
    /// As [`File::from_bytes`], and for a model that predicts no latency.
    pub fn from_file(file: &File) -> Result<LearnedModel, ModelError> {
        let device = &file.about.device;
        Ok(LearnedModel::new(file.latency()?, device.sectors, device.rotation))
    }

    /// A predictor for a device of this many sectors that turns so.
    pub fn new(model: LatencyModel, sectors: u64, rotation: Rotation) -> LearnedModel {
        let history = History::new();
        LearnedModel {
            moment: model.moment(&history),
            model: Arc::new(model),
            history,
            order: IssueOrder::default(),
            regions: Regions::new(sectors),
            spindle: Spindle::new(rotation),
        }
    }
}

fn vector_of(request: &Request) -> RequestVector {
    let bytes = request.bytes().min(u64::from(u32::MAX)) as u32;
    RequestVector::new(request.io.op, bytes, IoTag::of_io(&request.io))
}

impl Model for LearnedModel {
    fn positioned(&self) -> bool {
        self.model.is_positioned()
    }

    fn predict(&self, request: &Request, at: Dispatch) -> u64 {
        let Dispatch { now, position, in_device } = at;
        let gap = request.sector.abs_diff(position).min(i64::MAX as u64) as i64;
        let place = Place {
            gap: if request.sector < position { -gap } else { gap },
            angle: self.spindle.angle(request.sector, now),
            position: self.regions.position(request.sector),
            region: self.regions.relative(request.io.op, request.sector),
            depth: in_device,
        };
        self.model.predict(&self.moment, &vector_of(request), &place).latency.0
    }

    fn completed(&mut self, request: &Request, latency: Nanos, now: Nanos) {
        if !matches!(request.io.op, Op::Read | Op::Write) {
            return;
        }
        self.history.push(vector_of(request), self.order.delta(request.sector), latency);
        self.order.issued(request.sector, request.end());
        self.regions.push(request.io.op, request.sector, latency);
        self.spindle.completed(request.end(), now, latency);
        self.moment = self.model.moment(&self.history);
    }

    fn clone_box(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
