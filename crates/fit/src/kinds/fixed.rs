//! A device that takes the same time for everything, a fixed number of commands at once: `null_blk`, an emulated or throttled drive.

use crate::parameters::Parameters;
use crate::plan::{Role, names};
use crate::{Measured, Survey};

/// How much longer a large read may take than a small one.
const SIZE_TOLERANCE: f64 = 0.12;
/// Throughputs closer than this are on one plateau.
const PLATEAU_TOLERANCE: f64 = 0.08;
/// How near the driver's depth must be to the measured one to be the exact value of it.
const DRIVER_TOLERANCE: f64 = 0.25;

/// Commands served at once.
pub(crate) struct Parallel {
    pub(crate) depth: u32,
    pub(crate) how: String,
}

/// Random 4 KiB reads over the whole device, by depth.
fn by_depth(survey: &Survey) -> Vec<&Measured> {
    let name = |m: &Measured| m.load.name == names::depth(m.load.depth) || m.load.name == names::SINGLE;
    let mut found: Vec<&Measured> = survey.of(Role::Fit).filter(|m| name(m)).collect();
    found.sort_by_key(|m| m.load.depth);
    found
}

/// Throughput that more depth does not raise, if the survey reached it.
fn plateau(survey: &Survey) -> Option<f64> {
    let points = by_depth(survey);
    let [.., before, last] = points[..] else { return None };
    let (a, b) = (before.point.iops, last.point.iops);
    (b < a * (1.0 + PLATEAU_TOLERANCE)).then_some(a.max(b))
}

/// Commands served at once, from the throughput and the time of a single one.
pub(crate) fn parallel(survey: &Survey) -> Option<Parallel> {
    let single = survey.point(names::SINGLE)?;
    let measured = plateau(survey)? * (single.p50_us - single.host_us) / 1e6;
    let rounded = measured.round().max(1.0);
    let agrees = |driver: u32| (measured / f64::from(driver) - 1.0).abs() <= DRIVER_TOLERANCE;
    Some(match survey.facts.depth {
        Some(driver) if agrees(driver) => {
            Parallel { depth: driver, how: "throughput at saturation and latency; the driver says the same".into() }
        }
        _ => Parallel { depth: rounded as u32, how: "throughput at saturation and latency".into() },
    })
}

/// The fit, where small and large reads take the same time.
pub(crate) fn fit(survey: &Survey) -> Option<Parameters> {
    let single = survey.point(names::SINGLE)?;
    let large = survey.point(names::LARGE)?;
    if large.p50_us > single.p50_us * (1.0 + SIZE_TOLERANCE) {
        return None;
    }
    let mut parameters = Parameters::like("null:0us").ok()?;
    let alone = single.p50_us - single.host_us;
    let (latency_us, how) = match (parallel(survey), plateau(survey)) {
        // With a command waiting in the driver the host's time is hidden behind the device's.
        (Some(found), Some(rate)) => {
            let busy = f64::from(found.depth) * 1e6 / rate;
            parameters.measured("depth", i64::from(found.depth), &found.how);
            (alone.min(busy), "latency at depth 1 and throughput at saturation")
        }
        _ => {
            let depth = survey.facts.depth.unwrap_or(1024);
            parameters.driver("depth", i64::from(depth), "the survey did not saturate it");
            (alone, "latency at depth 1, less the host's time")
        }
    };
    parameters.measured("latency_ns", (latency_us.max(0.001) * 1e3).round() as i64, how);
    parameters.driver("queues", i64::from(survey.facts.queues.unwrap_or(1).clamp(1, 1024)), "the driver");
    parameters.driver("capacity_sectors", survey.facts.capacity_sectors as i64, "its size");
    parameters.driver("max_sectors", i64::from(survey.facts.max_sectors), "largest request of the driver");
    parameters.assumed("t_err_ns", 5_000, "the survey stays within the drive");
    Some(parameters)
}
