//! A device that takes the same time for everything, a fixed number of commands at once: `null_blk`, an emulated or throttled drive.

use crate::fit::parameters::Parameters;
use crate::fit::plan::{Role, names};
use crate::fit::{Measured, Survey};

/// How much longer a large read may take than a small one.
const SIZE_TOLERANCE: f64 = 0.12;
/// How much lower the rate of large reads may be than that of small ones, many at once.
const DEEP_TOLERANCE: f64 = 0.3;
/// Depths from which a plateau is read, and by how much their rates may differ: four times the depth would give four
/// times the rate on a device that is not saturated.
const PLATEAU_DEPTHS: std::ops::RangeInclusive<u32> = 32..=128;
const PLATEAU_RATIO: f64 = 1.6;
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
    let rates: Vec<f64> =
        points.iter().filter(|m| PLATEAU_DEPTHS.contains(&m.load.depth)).map(|m| m.point.iops).collect();
    let (first, last) = (rates.first()?, rates.last()?);
    let most = points.iter().map(|m| m.point.iops).fold(0.0, f64::max);
    (rates.len() > 1 && *last < first * PLATEAU_RATIO).then_some(most)
}

/// The time of a single command: of the fast ones, less the least CPU time that an I/O took. Both grow when something else uses the
/// CPUs, and the device's own time does not vary.
fn alone_us(survey: &Survey) -> Option<f64> {
    let single = survey.point(names::SINGLE)?;
    let alone = survey.of(Role::Fit).filter(|m| m.load.depth == 1 && !m.load.writes());
    let host = alone.map(|m| m.point.host_us).fold(f64::INFINITY, f64::min);
    Some((single.p5_us - host).max(0.001))
}

/// Commands served at once, from the throughput and the time of a single one.
pub(crate) fn parallel(survey: &Survey) -> Option<Parallel> {
    let measured = plateau(survey)? * alone_us(survey)? / 1e6;
    let rounded = measured.round().max(1.0);
    // The tags of some of the driver's queues: of a polled queue none are used here.
    let queues = survey.facts.queues.unwrap_or(1).max(1);
    let of_queues = |n: u32| survey.facts.depth.map(|depth| depth / queues * n).filter(|depth| *depth > 0);
    let error = |depth: u32| (measured / f64::from(depth) - 1.0).abs();
    let nearest = (1..=queues).filter_map(of_queues).min_by(|a, b| error(*a).total_cmp(&error(*b)));
    Some(match nearest {
        Some(tags) if error(tags) <= DRIVER_TOLERANCE || (tags == 1 && rounded < 2.0) => Parallel {
            depth: tags,
            how: "throughput at saturation and latency, which agree with the driver's tags".into(),
        },
        _ => Parallel { depth: rounded as u32, how: "throughput at saturation and latency".into() },
    })
}

/// The fit, where small and large reads take the same time.
pub(crate) fn fit(survey: &Survey) -> Option<Parameters> {
    let single = survey.point(names::SINGLE)?;
    // Where the driver takes no 128 KiB, half of it.
    let large = survey.point(names::LARGE).or_else(|| survey.point("64 KiB random reads, depth 1"))?;
    // The fast ones: what disturbs a survey changes the others.
    if large.p5_us > single.p5_us * (1.0 + SIZE_TOLERANCE) {
        return None;
    }
    let deep = [names::LARGE_DEEP, &names::depth(32)].map(|name| survey.point(name).map(|point| point.iops));
    if let [Some(large), Some(small)] = deep
        && large < small * (1.0 - DEEP_TOLERANCE)
    {
        return None;
    }
    let mut parameters = Parameters::like("null:0us").ok()?;
    let alone = alone_us(survey)?;
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
