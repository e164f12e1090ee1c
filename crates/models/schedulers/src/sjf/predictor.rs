//! Where predictions come from.

use std::sync::Arc;

use dumbwaiter_block::{Nanos, Op, Request, ServiceOracle};
use dumbwaiter_learn::LatencyLine;
use dumbwaiter_learn::rotation::Platter;

use super::position::PositionCosts;

/// A model that predicts latencies. It may be wrong or hostile: its caller limits what a prediction can do.
pub trait Model: Send + Sync {
    /// Latency of a request that would be sent like this, ns.
    fn predict(&self, request: &Request, at: Dispatch) -> u64;

    /// Do its predictions depend on the position, so that they hold only at the moment of dispatch?
    fn positioned(&self) -> bool {
        false
    }

    /// A request took `latency`.
    fn completed(&mut self, request: &Request, latency: Nanos, now: Nanos);

    /// A copy with its whole state.
    fn clone_box(&self) -> Box<dyn Model>;
}

/// The device when a request could be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The time.
    pub now: Nanos,
    /// The sector behind the request sent last.
    pub position: u64,
    /// Requests in the device.
    pub in_device: u32,
}

impl Clone for Box<dyn Model> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

/// Source of predictions.
#[derive(Clone)]
pub enum Source {
    /// A line of latency over size for each operation, learned on line; for positions the mean latency by gap and region.
    Line,
    /// Exact service times, where the world knows them; the line where it does not.
    Oracle,
    /// The line's prediction for the request before: a control that must be no better than the order of arrival.
    Shuffled,
    /// A model.
    Model(Box<dyn Model>),
}

/// The predictor of one device.
#[derive(Clone)]
pub(super) struct Predictor {
    source: Source,
    oracle: Option<Arc<dyn ServiceOracle>>,
    line: LatencyLine,
    positions: PositionCosts,
    /// Of a disk that gets one request at a time.
    platter: Platter,
    /// Of the request that arrived before, ns.
    last: u64,
}

impl Predictor {
    pub(super) fn new(source: Source) -> Predictor {
        Predictor {
            source,
            oracle: None,
            line: LatencyLine::default(),
            positions: PositionCosts::default(),
            platter: Platter::default(),
            last: 0,
        }
    }

    pub(super) fn attach(&mut self, oracle: &Arc<dyn ServiceOracle>) {
        if matches!(self.source, Source::Oracle) {
            self.oracle = Some(Arc::clone(oracle));
        }
    }

    /// Latency of a request that arrives, whatever is sent before it, ns.
    pub(super) fn of_arrival(&mut self, request: &Request, at: Dispatch) -> u64 {
        match (&self.source, &self.oracle) {
            (Source::Model(model), _) => model.predict(request, at),
            (Source::Oracle, Some(oracle)) => oracle.service(at.now, request.sector, request).0,
            (Source::Shuffled, _) => {
                let own = self.by_line(request);
                std::mem::replace(&mut self.last, own)
            }
            _ => self.by_line(request),
        }
    }

    /// Latency of a request that goes next, `position` being the sector behind the one sent before, ns.
    pub(super) fn of_position(&self, request: &Request, at: Dispatch) -> u64 {
        let Dispatch { now, position, .. } = at;
        if let Some(oracle) = &self.oracle {
            return oracle.service(now, position, request).0;
        }
        if let Source::Model(model) = &self.source
            && model.positioned()
        {
            return model.predict(request, at);
        }
        let gap = request.sector.abs_diff(position);
        if self.platter.ready() && request.io.op == Op::Read {
            return self.platter.cost(request.end(), gap, now);
        }
        let by_position = self.positions.predict(request, gap);
        by_position.map_or_else(|| self.by_line(request), |ns| ns.saturating_add(self.size_cost(request)))
    }

    /// A request completed.
    pub(super) fn completed(&mut self, request: &Request, latency: Nanos, now: Nanos) {
        self.line.learn(request.io.op, u64::from(request.sectors), latency);
        if let Source::Model(model) = &mut self.source {
            model.completed(request, latency, now);
        }
    }

    /// A request that was sent for its position completed.
    pub(super) fn learn_position(&mut self, request: &Request, sent: Sent, latency: Nanos, now: Nanos) {
        let gap = request.sector.abs_diff(sent.position);
        self.positions.learn(request, gap, latency.0.saturating_sub(self.size_cost(request)));
        if sent.alone_on_a_disk && request.io.op == Op::Read {
            self.platter.learn(request.end(), gap, latency, sent.predicted, now);
        }
    }

    /// Cost of a request's size by the line, ns.
    fn size_cost(&self, request: &Request) -> u64 {
        self.line.slope(request.io.op).saturating_mul(u64::from(request.sectors)) >> LatencyLine::SLOPE_SHIFT
    }

    fn by_line(&self, request: &Request) -> u64 {
        self.line.predict(request.io.op, u64::from(request.sectors)).map_or(0, |latency| latency.0)
    }
}

/// How a request was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// The sector behind the request sent before.
    pub(super) position: u64,
    /// The latency that was predicted, ns.
    pub(super) predicted: u64,
    /// To a disk that holds one request at a time.
    pub(super) alone_on_a_disk: bool,
}
