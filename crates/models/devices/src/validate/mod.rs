//! Validation of the models against data sheets, measurements and the reference implementation.
//!
//! Every figure is measured on the device alone, by a closed loop. The simulator checks those that contain
//! time of the host.

mod beside;
mod hdd;
mod ssd;
mod ull;
mod volume;

use crate::closed_loop::{Job, Measurement, run as run_closed_loop};
use crate::{DeviceModel, Kind, load};

/// The expected value of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// A value, within a relative tolerance.
    Near(f64, f64),
    /// A closed range.
    Between(f64, f64),
    /// Zero.
    Nothing,
}

impl Expected {
    fn met(self, value: f64) -> bool {
        match self {
            Expected::Near(target, tolerance) => (value - target).abs() <= tolerance * target.abs(),
            Expected::Between(low, high) => (low..=high).contains(&value),
            Expected::Nothing => value == 0.0,
        }
    }

    fn tolerance(self) -> String {
        match self {
            Expected::Near(_, tolerance) => format!("±{} %", (tolerance * 1000.0 + 0.5).floor() / 10.0),
            Expected::Between(..) => "range".to_owned(),
            Expected::Nothing => "exact".to_owned(),
        }
    }

    fn target(self) -> String {
        match self {
            Expected::Near(target, _) => format!("{target}"),
            Expected::Between(low, high) => format!("{low}–{high}"),
            Expected::Nothing => "0".to_owned(),
        }
    }
}

type Measure = Box<dyn Fn(&DeviceModel) -> f64 + Send + Sync>;

/// An expected figure: what to measure and what it should be.
pub struct Expectation {
    /// The measured quantity.
    pub measurement: String,
    /// Its unit.
    pub unit: &'static str,
    /// The expected value.
    pub expected: Expected,
    /// The source of the expected value.
    pub source: &'static str,
    /// Grade of the source: P paper, D document read, R recalled, F fitted, E estimate; "ref" reference implementation.
    pub grade: &'static str,
    measure: Measure,
}

impl Expectation {
    fn new(
        measurement: impl Into<String>,
        unit: &'static str,
        expected: Expected,
        (source, grade): (&'static str, &'static str),
        measure: impl Fn(&DeviceModel) -> f64 + Send + Sync + 'static,
    ) -> Expectation {
        Expectation { measurement: measurement.into(), unit, expected, source, grade, measure: Box::new(measure) }
    }

    /// Measures the figure on a model.
    pub fn check(&self, model: &DeviceModel) -> Check {
        let value = (self.measure)(model);
        Check {
            measurement: self.measurement.clone(),
            target: self.expected.target(),
            unit: self.unit,
            model: value,
            tolerance: self.expected.tolerance(),
            ok: self.expected.met(value),
            source: self.source,
            grade: self.grade,
        }
    }
}

/// A measured figure.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Check {
    /// The measured quantity.
    pub measurement: String,
    /// The expected value.
    pub target: String,
    /// Unit of both.
    pub unit: &'static str,
    /// The value measured.
    pub model: f64,
    /// The tolerance.
    pub tolerance: String,
    /// Whether the value is within the tolerance.
    pub ok: bool,
    /// The source of the expected value.
    pub source: &'static str,
    /// Grade of the source.
    pub grade: &'static str,
}

/// The expected figures of a device by its name, without overrides; for other devices only those that hold for any
/// device.
/// Empty for a name that does not load.
pub fn expectations(name: &str) -> Vec<Expectation> {
    let bare = name.split_once('?').map_or(name, |(bare, _)| bare);
    load(bare).map_or_else(|_| Vec::new(), |model| expectations_of(&model, bare))
}

fn expectations_of(model: &DeviceModel, name: &str) -> Vec<Expectation> {
    let mut expectations = match model.kind() {
        Kind::Hdd => hdd::expectations(name),
        Kind::Ssd => ssd::expectations(name),
        Kind::Ull => ull::expectations(name),
        Kind::Volume => volume::expectations(name),
        Kind::Null => Vec::new(),
    };
    expectations.extend(beside::expectations(name));
    let theory = ("conservation of time", "theory");
    let mixed = |model: &DeviceModel, depth| {
        let job = Job { reads: 0.5, ..Job::reads_4k(depth, capacity(model), 20_000) };
        run_closed_loop(&mut *model.build(1), &job)
    };
    expectations.push(Expectation::new(
        "breakdowns that do not sum to the latency",
        "commands",
        Expected::Nothing,
        theory,
        move |m| mixed(m, 16).unaccounted as f64,
    ));
    expectations.push(Expectation::new(
        "deviation from Little's law, depth 16",
        "share",
        Expected::Between(0.0, 0.005),
        theory,
        move |m| if m.kind() == Kind::Null { 0.0 } else { mixed(m, 16).little_error },
    ));
    expectations
}

/// Measures all expected figures of a model.
pub fn run(model: &DeviceModel) -> Vec<Check> {
    let bare = model.name().split_once('?').map_or(model.name(), |(bare, _)| bare);
    expectations_of(model, bare).iter().map(|target| target.check(model)).collect()
}

/// A figure with four significant digits, as validations print it.
pub fn four_digits(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize };
    format!("{value:.digits$}")
}

fn capacity(model: &DeviceModel) -> u64 {
    model.facts().capacity_sectors
}

/// The model with overrides that its kind supports.
fn with(model: &DeviceModel, overrides: &str) -> DeviceModel {
    model.with(overrides).expect("the kind of the device has these parameters")
}

fn measure(model: &DeviceModel, job: &Job) -> Measurement {
    run_closed_loop(&mut *model.build(1), job)
}
