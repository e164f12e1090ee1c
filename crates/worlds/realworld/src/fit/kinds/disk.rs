//! A rotating disk: revolution, track densities, seek curve, command reordering and read-ahead.

use crate::fit::parameters::{Parameters, rounded};
use crate::fit::plan::{Role, names};
use crate::fit::predict::{host_us, predict_rate};
use crate::fit::{Error, Pattern, Point, Survey};

const LIKE: &str = "hdd:st1000dm003";
/// Speeds at which disks are sold.
const SPEEDS: [f64; 6] = [4_200.0, 5_400.0, 5_900.0, 7_200.0, 10_000.0, 15_000.0];
/// How near a measured speed must be to one of them to be it.
const SPEED_TOLERANCE: f64 = 0.03;
/// Track switch as a part of a revolution, that of the drives whose data sheets give both.
const SKEW_REVOLUTIONS: f64 = 0.075;
/// Tracks of one surface, about, from which the number of surfaces is guessed.
const TRACKS_PER_SURFACE: f64 = 400_000.0;
/// Windows of reordering that are tried.
const WINDOWS: [i64; 8] = [1, 2, 4, 8, 12, 16, 24, 32];
/// Amounts of read-ahead that are tried, KiB.
const READ_AHEADS: [i64; 7] = [0, 128, 256, 512, 1024, 2048, 4096];
/// Small sequential reads that take longer are not served by a read-ahead, µs.
const READ_AHEAD_US: f64 = 1_500.0;
const SECTOR: f64 = 512.0;
const SMALL_SECTORS: f64 = 8.0;

/// Fits in the order in which the parts depend on each other: rotation, densities, overhead, seeks, reordering, read-ahead.
pub(crate) fn fit(survey: &Survey) -> Result<Parameters, Error> {
    let mut p = Parameters::like(LIKE)?;
    let facts = &survey.facts;
    p.driver("capacity_sectors", facts.capacity_sectors as i64, "its size");
    p.driver("max_sectors", i64::from(facts.max_sectors.clamp(1, 65_536)), "largest request of the driver");
    let depth = facts.depth.unwrap_or(32).clamp(1, 32);
    p.driver("ncq_depth", i64::from(depth), "the driver; at most 32");
    let revolution_ms = rotation(survey, &mut p)?;
    let density = densities(survey, &mut p, revolution_ms)?;
    overhead(survey, &mut p);
    seeks(survey, &mut p, &density, revolution_ms)?;
    choose(survey, &mut p, "rpo_window", &WINDOWS, "throughput at depths 8 and 32", |m| {
        m.load.pattern == Pattern::Random && m.load.depth > 1
    });
    if facts.depth.is_some_and(|depth| i64::from(depth) < p.number("rpo_window") as i64) {
        p.measured("rpo_window", i64::from(depth), "as the depth");
    }
    choose(survey, &mut p, "read_ahead_min_kib", &READ_AHEADS, "throughput of two streams that take turns", |m| {
        m.load.name == names::TWO_STREAMS
    });
    write_cache(survey, &mut p)?;
    Ok(p)
}

/// The revolution, ms: a backward read just misses its place and waits for almost all of it.
fn rotation(survey: &Survey, p: &mut Parameters) -> Result<f64, Error> {
    let backward = survey.point(names::BACKWARD).map(|point| point.p50_us / 1e3);
    let near = survey.needed(names::NEAR)?;
    // Latencies of near reads spread over one revolution.
    let spread = (near.p95_us - near.p5_us) / 0.9 / 1e3;
    let (ms, how) = match backward {
        Some(ms) if (3.0..15.0).contains(&ms) && (0.4..2.5).contains(&(ms / spread)) => (ms, "backward reads"),
        _ => (spread, "spread of the latencies of near reads"),
    };
    let measured = 60_000.0 / ms;
    let sold = SPEEDS.into_iter().find(|speed| (measured / speed - 1.0).abs() < SPEED_TOLERANCE);
    let rpm = sold.unwrap_or(measured.clamp(1_000.0, 30_000.0));
    p.measured("rpm", rounded(rpm), how);
    Ok(60_000.0 / rpm)
}

/// Sectors per track as a linear function of the radius, and the drive's size.
struct Density {
    outer: f64,
    inner: f64,
    capacity: f64,
    cylinders: f64,
}

impl Density {
    /// Share of the cylinders outside of a sector.
    fn radius(&self, sector: f64) -> f64 {
        let share = (sector / self.capacity).clamp(0.0, 1.0);
        let (slope, mean) = ((self.inner - self.outer) / 2.0, (self.outer + self.inner) / 2.0);
        if slope.abs() < 1e-6 * mean {
            return share;
        }
        ((self.outer * self.outer + 4.0 * slope * share * mean).sqrt() - self.outer) / (2.0 * slope)
    }

    /// Cylinders between two sectors.
    fn distance(&self, from: f64, to: f64) -> f64 {
        (self.radius(to) - self.radius(from)).abs() * self.cylinders
    }
}

fn densities(survey: &Survey, p: &mut Parameters, revolution_ms: f64) -> Result<Density, Error> {
    let skew_ms = SKEW_REVOLUTIONS * revolution_ms;
    let capacity = survey.facts.capacity_sectors as f64;
    let streams = survey.of(Role::Fit).filter(|m| {
        m.load.pattern == Pattern::Sequential { streams: 1 } && m.load.max_sectors() > 8 && !m.load.writes()
    });
    let rates: Vec<(f64, f64)> = streams
        .map(|m| {
            let sectors = m.point.mb_per_s * 1e6 / SECTOR * (revolution_ms + skew_ms) / 1e3;
            (m.load.start as f64 + (m.point.ios as f64 * 128.0).min(m.load.span as f64 / 2.0), sectors)
        })
        .collect();
    if rates.len() < 2 {
        return Err(Error::NoFit("the survey has no sequential reads at several positions".into()));
    }
    let mean = rates.iter().map(|r| r.1).sum::<f64>() / rates.len() as f64;
    let mut density = Density { outer: mean, inner: mean, capacity, cylinders: 1.0 };
    // Radii follow from the densities, and the densities from the radii.
    for _ in 0..8 {
        let points: Vec<(f64, f64)> = rates.iter().map(|(at, sectors)| (density.radius(*at), *sectors)).collect();
        let (intercept, slope) = line(&points);
        density.outer = intercept.max(1.0);
        density.inner = (intercept + slope).max(1.0);
    }
    let tracks = capacity / ((density.outer + density.inner) / 2.0);
    let surfaces = (tracks / TRACKS_PER_SURFACE).round().max(1.0);
    let zones = p.number("zones");
    // A little more than the capacity needs, for densities are whole sectors.
    density.cylinders = ((tracks / surfaces * 1.003) / zones).ceil() * zones;
    let how = "sequential throughput by position";
    p.measured("sectors_per_track_outer", density.outer.round() as i64, how);
    p.measured("sectors_per_track_inner", density.inner.round() as i64, how);
    p.assumed("surfaces", surfaces as i64, "about 400,000 tracks per surface");
    p.assumed("cylinders", density.cylinders as i64, "what the capacity needs with these surfaces and densities");
    p.assumed("t_skew_ms", rounded(skew_ms), "a usual part of a revolution; the densities depend on it");
    p.assumed("t_head_ms", rounded(p.number("t_head_ms").max(skew_ms)), "as hdd:st1000dm003, at least t_skew_ms");
    Ok(density)
}

/// Intercept and slope of the least-squares line.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (mx, my) = (mean(|p| p.0), mean(|p| p.1));
    let (sxy, sxx) =
        points.iter().fold((0.0, 0.0), |(sxy, sxx), (x, y)| (sxy + (x - mx) * (y - my), sxx + (x - mx) * (x - mx)));
    let slope = if sxx > 0.0 { sxy / sxx } else { 0.0 };
    (my - slope * mx, slope)
}

/// The command overhead: a read from the buffer takes it and the link.
fn overhead(survey: &Survey, p: &mut Parameters) {
    let Some(in_order) = survey.point(names::IN_ORDER) else { return };
    let us = in_order.p50_us - in_order.host_us;
    if us > READ_AHEAD_US {
        p.measured("lookahead", false, "small sequential reads wait for the medium");
        return;
    }
    p.measured("lookahead", true, "small sequential reads come from a buffer");
    let link_us = SMALL_SECTORS * SECTOR / p.number("link_mb_per_s");
    p.measured("t_cmd_ms", rounded((us - link_us).max(1.0) / 1e3), "latency of buffered reads");
}

/// The seek curve through the mean times of jumps over known distances.
fn seeks(survey: &Survey, p: &mut Parameters, density: &Density, revolution_ms: f64) -> Result<(), Error> {
    let bend = (density.cylinders / 3.0).round().max(1.0);
    let spt = (density.outer + density.inner) / 2.0;
    let rest_ms = p.number("t_cmd_ms") + revolution_ms / 2.0 + SMALL_SECTORS / spt * revolution_ms;
    let jump = |m: &crate::fit::Measured| match m.load.pattern {
        Pattern::Alternate { distance } => {
            let varies = (m.load.span - distance) as f64 / 2.0;
            let from = m.load.start as f64 + varies;
            let d = density.distance(from, from + distance as f64);
            // The tangent at the bend continues the root.
            let root = if d <= bend { d.sqrt() } else { bend.sqrt() / 2.0 + d / (2.0 * bend.sqrt()) };
            Some((root, (m.point.mean_us - m.point.host_us) / 1e3 - rest_ms))
        }
        _ => None,
    };
    let points: Vec<(f64, f64)> = survey.of(Role::Fit).filter_map(jump).collect();
    if points.len() < 2 {
        return Err(Error::NoFit("the survey has no jumps over known distances".into()));
    }
    let (a, b) = line(&points);
    let (a, b) = (a.clamp(0.05, 100.0), b.clamp(0.0, 10.0));
    let how = "mean times of jumps over six distances, less half a revolution and the overhead";
    p.measured("seek_a_ms", rounded(a), how);
    p.measured("seek_b_ms", rounded(b), how);
    p.assumed("seek_d0_cylinders", bend as i64, "a third of the cylinders");
    let track = p.number("t_track_ms").min((a + b) * 0.99);
    p.assumed("t_track_ms", rounded(track), "as hdd:st1000dm003, at most the curve");
    Ok(())
}

/// Sets a parameter to the candidate that comes nearest to the points.
fn choose(
    survey: &Survey,
    p: &mut Parameters,
    name: &str,
    candidates: &[i64],
    how: &str,
    of: impl Fn(&crate::fit::Measured) -> bool,
) {
    let points: Vec<_> = survey.of(Role::Fit).filter(|m| !m.load.writes() && of(m)).collect();
    if points.is_empty() {
        return;
    }
    let mut best = (f64::MAX, candidates[0]);
    for &candidate in candidates {
        p.change(name, candidate);
        let Ok(model) = p.model() else { continue };
        let square = |m: &&crate::fit::Measured| {
            let error = predict_rate(&model, &m.load, host_us(survey, m.load.depth)) / m.point.iops - 1.0;
            error * error
        };
        let cost: f64 = points.iter().map(square).sum();
        if cost < best.0 {
            best = (cost, candidate);
        }
    }
    p.measured(name, best.1, how);
}

/// Whether writes are acknowledged before they are on the medium.
fn write_cache(survey: &Survey, p: &mut Parameters) -> Result<(), Error> {
    let Some(write) = survey.point(names::WRITE) else { return Ok(()) };
    let read: &Point = survey.needed(names::SINGLE)?;
    let cached = write.p5_us < read.p5_us / 2.0;
    p.measured("cache", if cached { "on" } else { "off" }, "fastest writes beside fastest reads");
    Ok(())
}
