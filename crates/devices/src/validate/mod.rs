//! Models against data sheets, measurements and the reference implementation.
//!
//! Every figure is measured on the device alone, by a closed loop. Figures that contain host time are listed by
//! [`needs_host`]: the simulator checks those.

mod hdd;
mod ssd;
mod ull;

use crate::drive::{Job, Outcome, run as drive};
use crate::{DeviceModel, Kind, load};

/// What a measurement should give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    /// A value, within a relative tolerance.
    Near(f64, f64),
    /// Anything in a closed range.
    Between(f64, f64),
    /// Zero.
    Nothing,
}

impl Wanted {
    fn met(self, value: f64) -> bool {
        match self {
            Wanted::Near(target, tolerance) => (value - target).abs() <= tolerance * target.abs(),
            Wanted::Between(low, high) => (low..=high).contains(&value),
            Wanted::Nothing => value == 0.0,
        }
    }

    fn tolerance(self) -> String {
        match self {
            Wanted::Near(_, tolerance) => format!("±{} %", (tolerance * 1000.0 + 0.5).floor() / 10.0),
            Wanted::Between(..) => "range".to_owned(),
            Wanted::Nothing => "exact".to_owned(),
        }
    }

    fn target(self) -> String {
        match self {
            Wanted::Near(target, _) => format!("{target}"),
            Wanted::Between(low, high) => format!("{low}–{high}"),
            Wanted::Nothing => "0".to_owned(),
        }
    }
}

type Measure = Box<dyn Fn(&DeviceModel) -> f64 + Send + Sync>;

/// One figure to be met.
pub struct Target {
    /// What is measured.
    pub measurement: String,
    /// Its unit.
    pub unit: &'static str,
    /// What it should be.
    pub wanted: Wanted,
    /// Where that comes from.
    pub source: &'static str,
    /// Grade of the source: P paper, D document read, R recalled, F fitted, E estimate; "ref" reference implementation.
    pub grade: &'static str,
    measure: Measure,
}

impl Target {
    fn new(
        measurement: impl Into<String>,
        unit: &'static str,
        wanted: Wanted,
        (source, grade): (&'static str, &'static str),
        measure: impl Fn(&DeviceModel) -> f64 + Send + Sync + 'static,
    ) -> Target {
        Target { measurement: measurement.into(), unit, wanted, source, grade, measure: Box::new(measure) }
    }

    /// Measures it on a model.
    pub fn check(&self, model: &DeviceModel) -> Check {
        let value = (self.measure)(model);
        Check {
            measurement: self.measurement.clone(),
            target: self.wanted.target(),
            unit: self.unit,
            model: value,
            tolerance: self.wanted.tolerance(),
            ok: self.wanted.met(value),
            source: self.source,
            grade: self.grade,
        }
    }
}

/// One figure, measured.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Check {
    /// What was measured.
    pub measurement: String,
    /// What it should be.
    pub target: String,
    /// Unit of both.
    pub unit: &'static str,
    /// What the model gives.
    pub model: f64,
    /// How far off it may be.
    pub tolerance: String,
    /// Is it within that?
    pub ok: bool,
    /// Where the target comes from.
    pub source: &'static str,
    /// Grade of the source.
    pub grade: &'static str,
}

/// The figures for a device, by its name (overrides are left aside); for a file only what holds for any device.
///
/// Empty for a name that does not load.
pub fn targets(name: &str) -> Vec<Target> {
    let bare = name.split_once('?').map_or(name, |(bare, _)| bare);
    load(bare).map_or_else(|_| Vec::new(), |model| targets_of(&model, bare))
}

fn targets_of(model: &DeviceModel, name: &str) -> Vec<Target> {
    let mut targets = match model.kind() {
        Kind::Hdd => hdd::targets(name),
        Kind::Ssd => ssd::targets(name),
        Kind::Ull => ull::targets(name),
        Kind::Null => Vec::new(),
    };
    let theory = ("conservation of time", "theory");
    let mixed = |model: &DeviceModel, depth| {
        let job = Job { reads: 0.5, ..Job::reads_4k(depth, capacity(model), 20_000) };
        drive(&mut *model.build(1), &job)
    };
    targets.push(Target::new("breakdowns that do not sum to the latency", "commands", Wanted::Nothing, theory, {
        move |m| mixed(m, 16).unaccounted as f64
    }));
    targets.push(Target::new("deviation from Little's law, depth 16", "share", Wanted::Between(0.0, 0.005), theory, {
        move |m| if m.kind() == Kind::Null { 0.0 } else { mixed(m, 16).little_error }
    }));
    targets
}

/// Measures all figures of a model.
pub fn run(model: &DeviceModel) -> Vec<Check> {
    let bare = model.name().split_once('?').map_or(model.name(), |(bare, _)| bare);
    targets_of(model, bare).iter().map(|target| target.check(model)).collect()
}

/// Published figures of a device that contain host time, and so are not measured here.
pub fn needs_host(name: &str) -> &'static [&'static str] {
    let bare = name.split_once('?').map_or(name, |(bare, _)| bare);
    match bare {
        "ull:optane-900p" => &[
            "4K read, 1 thread, classic / hybrid / interrupt: 8.1 / 8.5 / 10.1 µs ±3 % [P]",
            "4K read, 1 thread: 120,470 / 113,846 / 96,722 IOPS ±2 % [P]",
            "4K read, 8 threads: 13.6 / 13.9 / 15.0 µs ±5 % [P]",
            "4K read, 8 threads: 571,659 / 546,968 / 511,895 IOPS ±5 %, order strict [P]",
            "4K read, 16 threads and more, interrupt: 560–600 K IOPS [P][D]",
        ],
        "ull:optane-p4801x" => &[
            "4K, depth 1, io_uring default, none, read / write: 12.52 / 16.55 µs ±1.5 % [P]",
            "4K, depth 1, 'performance', none, read / write: 7.81 / 12.19 µs ±2 % [P]",
            "4K, depth 1, all schedulers, 12 values of Table 1 ±3 % [P]",
        ],
        "ull:zssd-sz985" | "ull:zssd-sz985-steady" => &["4K read, depth 1, host included: 12–20 µs [D]"],
        "hdd:hts541010a9e662" => &["readseq: 3505–3598 op/s, at ~39 entries per 4 KiB block [P]"],
        _ => &[],
    }
}

fn capacity(model: &DeviceModel) -> u64 {
    model.facts().capacity_sectors
}

/// The model with overrides that its kind is known to have.
fn with(model: &DeviceModel, overrides: &str) -> DeviceModel {
    model.with(overrides).expect("the kind of the device has these parameters")
}

fn measure(model: &DeviceModel, job: &Job) -> Outcome {
    drive(&mut *model.build(1), job)
}
