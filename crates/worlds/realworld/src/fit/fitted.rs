//! From a survey to a model: chooses the kind, fits it, and predicts the points that were held back.

use dumbwaiter_devices::{DeviceModel, Kind};
use serde::Serialize;

use crate::fit::kinds::{disk, fixed, flash, low_latency};
use crate::fit::parameters::Parameters;
use crate::fit::plan::{Role, names};
use crate::fit::predict::{host_us, predict};
use crate::fit::{Error, Facts, Load, Origin, Parameter, Point, Survey};

/// A drive whose single read takes less is of ultra-low latency, µs; flash takes longer for the cells alone.
const ULTRA_LOW_US: f64 = 22.0;
/// A drive whose single read takes longer is flash, µs. Between the two the better fit decides.
const FLASH_US: f64 = 45.0;
/// Median error of a fixed latency, where large and small reads take the same time, that is good enough to leave all other kinds
/// aside.
const FIXED_ERROR: f64 = 0.12;
/// Median error of the fit beyond which other kinds are tried.
const DOUBTFUL_ERROR: f64 = 0.12;
/// A fixed latency is preferred up to this times the error of another kind.
const FIXED_PREFERENCE: f64 = 4.0;
/// I/Os of a final prediction.
const PREDICTED_IOS: u64 = 4_000;

/// A measured point with its prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The load.
    pub load: Load,
    /// Measured on the drive.
    pub measured: Point,
    /// Of the fitted model, with the host's time per I/O.
    pub model: Point,
    /// Throughput of the model relative to the measured one, less 1.
    pub error: f64,
}

/// How well the points that the fit did not see were predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldBack {
    /// Number of points.
    pub points: usize,
    /// Median of the absolute errors in throughput.
    pub median_error: f64,
    /// Largest absolute error.
    pub worst_error: f64,
    /// Name of the load with that error.
    pub worst: String,
}

/// Times of single commands, without the host's CPU time, µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServiceTime {
    /// A random 4 KiB read.
    pub read_4k: f64,
    /// A random 128 KiB read, if the drive takes one.
    pub read_128k: Option<f64>,
    /// A random 4 KiB write, if the survey wrote.
    pub write_4k: Option<f64>,
    /// A flush after one write, if the survey wrote.
    pub flush: Option<f64>,
}

/// A fitted model, and how good it is.
#[derive(Clone, Debug, Serialize)]
pub struct Fitted {
    /// The drive.
    pub facts: Facts,
    /// The kind of the model.
    pub kind: Kind,
    /// Commands that the drive serves at once, if that is known.
    pub depth: Option<u32>,
    /// Where the depth is from.
    pub depth_from: String,
    /// Times of single commands.
    pub service_us: ServiceTime,
    /// CPU time of the surveying host per I/O at depth 1, µs; it is not part of the model.
    pub host_us: f64,
    /// Every parameter, with its origin.
    #[serde(serialize_with = "by_name")]
    pub parameters: Vec<Parameter>,
    /// By how much the rounds of a point differ in throughput: the median over all points. No fit is better than that.
    pub spread: f64,
    /// Part of its time for which the survey waited for a CPU, 0 to 1.
    pub cpu_wait: f64,
    /// Prediction of the points that the fit did not see.
    pub held_back: HeldBack,
    /// Those points.
    pub held_back_points: Vec<Compared>,
    /// The points that were fitted, with their residuals.
    pub fitted_points: Vec<Compared>,
    /// The model, as `devices --json` shows one.
    pub model: DeviceModel,
}

/// An object with the parameters' names as keys.
fn by_name<S: serde::Serializer>(parameters: &[Parameter], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(parameters.iter().map(|p| (p.name, p)))
}

/// Median error of the held-back points beyond which a model says little of its drive.
const POOR_ERROR: f64 = 0.15;
/// Part of its time for which a survey may wait for a CPU; a longer wait is in what it measured.
const CPU_WAIT: f64 = 0.1;

impl Fitted {
    /// Why the model is doubtful, and what to do.
    pub fn warning(&self) -> Option<String> {
        let (error, spread) = (self.held_back.median_error * 100.0, self.spread * 100.0);
        if self.cpu_wait > CPU_WAIT {
            return Some(format!(
                "the CPUs were busy: the survey waited for one for {:.0} % of its time, so the drive seems slower than it is (median error {error:.0} %); do not rely on the model, and repeat the survey on an idle machine",
                self.cpu_wait * 100.0
            ));
        }
        match self.held_back.median_error > POOR_ERROR {
            false => None,
            true if self.spread > POOR_ERROR => Some(format!(
                "the model predicts poorly (median error {error:.0} %), and the drive's own rounds differ by {spread:.0} %: another program used the drive or the CPUs (then repeat the survey on an idle machine), or the drive is memory or a virtual disk, as fast as the CPUs that serve it, which no built-in kind of model behaves like; do not rely on the model"
            )),
            true => Some(format!(
                "the model predicts poorly (median error {error:.0} %): no built-in kind of model behaves like this drive; try a longer survey (--for 10m), and do not rely on the model"
            )),
        }
    }

    /// The parameters that the survey could not determine.
    pub fn undetermined(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|p| matches!(p.origin, Origin::Assumed(_) | Origin::Doubtful(_)))
    }

    /// Measured parameters of a model that predicts poorly, or of a survey that waited for the CPUs, are doubtful.
    fn judge(mut self) -> Fitted {
        if self.warning().is_some() {
            for parameter in &mut self.parameters {
                if let Origin::Measured(how) = &mut parameter.origin {
                    parameter.origin = Origin::Doubtful(std::mem::take(how));
                }
            }
        }
        self
    }
}

/// Fits a model of the drive's kind to a survey.
///
/// # Errors
/// The survey lacks a point that every fit needs, or the fitted parameters are not those of any device.
pub fn fit(survey: &Survey) -> Result<Fitted, Error> {
    let (parameters, model) = match survey.rotates {
        true => disk::fit(survey).and_then(modelled)?,
        false => solid(survey)?,
    };
    let fitted_points = compare(survey, Role::Fit, &model)?;
    let held_back_points = compare(survey, Role::HeldBack, &model)?;
    let (kind, parameters) = parameters.into_parts();
    let (depth, depth_from) = depth(survey, kind, &model);
    let single = survey.needed(names::SINGLE)?;
    let of = |name: &str| survey.point(name).map(|point| (point.mean_us - point.host_us).max(0.0));
    let read_4k = match model.params() {
        dumbwaiter_devices::Params::Null(p) => p.latency_ns as f64 / 1e3,
        dumbwaiter_devices::Params::Hdd(_) => (single.mean_us - single.host_us).max(0.0),
        _ => (single.p50_us - single.host_us).max(0.0),
    };
    let service_us =
        ServiceTime { read_4k, read_128k: of(names::LARGE), write_4k: of(names::WRITE), flush: of(names::FLUSH) };
    let fitted = Fitted {
        facts: survey.facts.clone(),
        kind,
        depth,
        depth_from,
        service_us,
        host_us: single.host_us,
        parameters,
        spread: median_spread(survey),
        cpu_wait: survey.cpu_wait,
        held_back: summary(&held_back_points),
        held_back_points,
        fitted_points,
        model,
    };
    Ok(fitted.judge())
}

fn modelled(parameters: Parameters) -> Result<(Parameters, DeviceModel), Error> {
    let model = parameters.model()?;
    Ok((parameters, model))
}

/// The best kind for a drive that does not rotate.
fn solid(survey: &Survey) -> Result<(Parameters, DeviceModel), Error> {
    let single = survey.needed(names::SINGLE)?;
    let median =
        |fit: &(Parameters, DeviceModel)| compare(survey, Role::Fit, &fit.1).map(|all| summary(&all).median_error);
    let fixed = fixed::fit(survey).map(modelled).transpose()?;
    let fixed = fixed.map(|found| median(&found).map(|error| (found, error))).transpose()?;
    let fixed_error = fixed.as_ref().map_or(f64::INFINITY, |(_, error)| *error);
    if let Some((found, error)) = &fixed
        && *error <= FIXED_ERROR
    {
        return Ok(found.clone());
    }
    let latency = single.p50_us - single.host_us;
    let mut orders = [flash::fit as fn(&Survey) -> Result<Parameters, Error>, low_latency::fit];
    if latency < ULTRA_LOW_US {
        orders.reverse();
    }
    let first = orders[0](survey).and_then(modelled)?;
    let clear = !(ULTRA_LOW_US..FLASH_US).contains(&latency);
    let error = median(&first)?;
    if clear && error <= DOUBTFUL_ERROR {
        return Ok(first);
    }
    // A disturbed survey: size made no difference, so that another kind must fit clearly better.
    if let Some((found, _)) = fixed
        && fixed_error <= error * FIXED_PREFERENCE
    {
        return Ok(found);
    }
    let second = orders[1](survey).and_then(modelled)?;
    // A kind that contradicts its latency must fit clearly better.
    let handicap = if clear { 2.0 } else { 1.0 };
    Ok(if median(&second)? * handicap < error { second } else { first })
}

fn compare(survey: &Survey, role: Role, model: &DeviceModel) -> Result<Vec<Compared>, Error> {
    let compared = survey.of(role).map(|m| {
        let host = host_us(survey, m.load.depth);
        let ios = PREDICTED_IOS + 40 * u64::from(m.load.depth);
        let predicted = predict(model, &m.load, host, ios)
            .ok_or_else(|| Error::NoFit(format!("{}: the fitted model completes too few I/Os", m.load.name)))?;
        let error = predicted.iops / m.point.iops - 1.0;
        Ok(Compared { load: m.load.clone(), measured: m.point, model: predicted, error })
    });
    compared.collect()
}

fn summary(points: &[Compared]) -> HeldBack {
    let mut errors: Vec<f64> = points.iter().map(|p| p.error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let worst = points.iter().max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()));
    HeldBack {
        points: points.len(),
        median_error: errors.get(errors.len() / 2).copied().unwrap_or(0.0),
        worst_error: errors.last().copied().unwrap_or(0.0),
        worst: worst.map(|p| p.load.name.clone()).unwrap_or_default(),
    }
}

fn median_spread(survey: &Survey) -> f64 {
    let mut spreads: Vec<f64> = survey.points.iter().map(|m| m.spread).collect();
    spreads.sort_by(f64::total_cmp);
    spreads.get(spreads.len() / 2).copied().unwrap_or(0.0)
}

/// Commands served at once. A device of fixed latency shows them in its throughput; of others only the driver tells.
fn depth(survey: &Survey, kind: Kind, model: &DeviceModel) -> (Option<u32>, String) {
    match (kind, survey.facts.depth) {
        (Kind::Null, _) => match fixed::parallel(survey) {
            Some(found) => (Some(found.depth), found.how),
            None => (survey.facts.depth, "the driver; the survey stayed below it".into()),
        },
        (_, Some(depth)) => (Some(depth.min(model.facts().depth)), "the driver".into()),
        (_, None) => (None, "the driver does not say, and the survey cannot determine it".into()),
    }
}
