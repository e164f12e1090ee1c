//! Prediction of a load by a model.

use std::sync::atomic::AtomicBool;

use dumbwaiter_block::Nanos;
use dumbwaiter_devices::DeviceModel;

use crate::fit::plan::Role;
use crate::fit::{Limits, Load, Model, Point, Subject, Survey};

/// I/Os of one prediction.
const IOS: u64 = 4_000;
/// Seed of the predictions: another one than a survey's.
const SEED: u64 = 77;

/// The point that `model` gives under this load on a host that needs `host_us` per I/O; `None` if it completes too few I/Os.
pub(crate) fn predict(model: &DeviceModel, load: &Load, host_us: f64, ios: u64) -> Option<Point> {
    let mut subject = Model::new(model.clone(), SEED).with_host(host_us);
    let limits = Limits { time: Nanos::from_secs(100_000), ios };
    subject.measure(load, limits, &AtomicBool::new(false)).ok()
}

/// The same with as many I/Os as a fit needs.
pub(crate) fn predict_rate(model: &DeviceModel, load: &Load, host_us: f64) -> f64 {
    predict(model, load, host_us, IOS + 20 * u64::from(load.depth)).map_or(0.0, |point| point.iops)
}

/// CPU time per I/O at about this depth, from the points that the fit may see: held-back points do not tell it.
pub(crate) fn host_us(survey: &Survey, depth: u32) -> f64 {
    let distance = |other: u32| (f64::from(other) / f64::from(depth)).ln().abs();
    let seen = survey.of(Role::Fit).filter(|m| m.load.max_sectors() == 8 && !m.load.writes());
    let nearest = seen.min_by(|a, b| distance(a.load.depth).total_cmp(&distance(b.load.depth)));
    // The host of a simulation is never slower than what was measured as a whole.
    nearest.map_or(0.0, |m| m.point.host_us.min(0.9e6 / m.point.iops))
}
