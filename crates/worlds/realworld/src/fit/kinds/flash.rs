//! A flash SSD on SATA or NVMe: dies and channels behind a serial firmware and a link.

use crate::fit::parameters::{Parameters, rounded};
use crate::fit::plan::{Role, names};
use crate::fit::predict::{host_us, predict_rate};
use crate::fit::search::least;
use crate::fit::{Error, Measured, Survey};

/// Deepest SATA queue; a drive with one queue of at most this depth is taken for SATA.
const SATA_DEPTH_MAX: u32 = 32;
/// Mapped space of the models that are tried, GiB: reads do not depend on it, and a small one is built quickly.
const TRIAL_GIB: f64 = 0.25;
/// Evaluations of each search.
const EVALUATIONS: u32 = 12;
/// A drive whose rate still grows by this much from the second deepest load to the deepest is not saturated.
const SATURATED: f64 = 1.08;
/// A drive reads ahead if its sequential reads take less than this share of random ones.
const PREFETCHED: f64 = 0.7;
const SMALL_BYTES: f64 = 4096.0;
const LARGE_BYTES: f64 = 131_072.0;

/// Fits the link to the rate of large reads, the firmware to that of small ones, and cells and channels to depths and sizes.
pub(crate) fn fit(survey: &Survey) -> Result<Parameters, Error> {
    let single = survey.needed(names::SINGLE)?;
    let latency = (single.p50_us - single.host_us).max(1.0);
    let mut p = interface(survey)?;
    let gib = p.number("ftl_gib");
    p.change("ftl_gib", TRIAL_GIB);
    link(survey, &mut p);
    prefetch(survey, &mut p);
    firmware(survey, &mut p, latency);
    // Cells by depth, channels by size, and again, for each depends a little on the other.
    for _ in 0..2 {
        cells(survey, &mut p, latency);
        channels(survey, &mut p, latency);
    }
    cells(survey, &mut p, latency);
    p.measured("t_read_us", rounded(p.number("t_read_us")), "throughput at depths 2 to 32");
    p.measured("latency_read_us", rounded(p.number("latency_read_us")), "latency at depth 1, less the other parts");
    p.measured("channel_mb_per_s", rounded(p.number("channel_mb_per_s")), "latency of large reads at depth 1");
    writes(survey, &mut p);
    p.change("ftl_gib", gib);
    Ok(p)
}

/// SATA or NVMe, with the properties that the driver reports.
fn interface(survey: &Survey) -> Result<Parameters, Error> {
    let facts = &survey.facts;
    let (depth, queues) = (facts.depth.unwrap_or(SATA_DEPTH_MAX), facts.queues.unwrap_or(1).clamp(1, 1024));
    let sata = depth <= SATA_DEPTH_MAX && queues == 1;
    let mut p = Parameters::like(if sata { "ssd:850pro-256" } else { "ssd:nvme-tlc" })?;
    p.driver("capacity_sectors", facts.capacity_sectors as i64, "its size");
    p.driver("max_sectors", i64::from(facts.max_sectors.clamp(1, 65_536)), "largest request of the driver");
    match facts.depth {
        Some(_) => p.driver("ncq_depth", i64::from((depth / queues).max(1)), "the driver"),
        None => p.assumed("ncq_depth", i64::from(depth), "the driver does not say"),
    }
    p.driver("queues", i64::from(queues), "the driver");
    let why = "one queue of at most 32 commands is SATA";
    p.driver("interface", if sata { "sata" } else { "nvme" }, why);
    p.driver("duplex", if sata { "half" } else { "full" }, "as the interface");
    Ok(p)
}

fn by_depth(survey: &Survey) -> Vec<&Measured> {
    survey.of(Role::Fit).filter(|m| m.load.name == names::depth(m.load.depth)).collect()
}

fn link(survey: &Survey, p: &mut Parameters) {
    let rates = [names::LARGE_DEEP, names::STREAM_DEEP].map(|name| survey.point(name).map_or(0.0, |point| point.iops));
    let rate = rates[0].max(rates[1]);
    if rate <= 0.0 {
        return;
    }
    let per_io = 1e6 / rate;
    let command = p.number("link_command_us").min(per_io / 10.0);
    p.change("link_command_us", rounded(command));
    p.measured(
        "link_mb_per_s",
        rounded(LARGE_BYTES / (per_io - command)),
        "throughput of 128 KiB reads at depth 32, random or in order",
    );
}

fn prefetch(survey: &Survey, p: &mut Parameters) {
    let (Some(single), Some(in_order)) = (survey.point(names::SINGLE), survey.point(names::IN_ORDER)) else { return };
    if in_order.p50_us - in_order.host_us < PREFETCHED * (single.p50_us - single.host_us) {
        p.measured(
            "prefetch_kib",
            p.number("prefetch_kib") as i64,
            "sequential reads are faster; the amount is assumed",
        );
    } else {
        p.measured("prefetch_kib", 0, "sequential reads take as long as random ones");
    }
}

/// The serial part of a read: what is left between two completions at saturation.
fn firmware(survey: &Survey, p: &mut Parameters, latency: f64) {
    let points = by_depth(survey);
    let rate = points.iter().map(|m| m.point.iops).fold(0.0, f64::max);
    if rate <= 0.0 {
        return;
    }
    let link = p.number("link_command_us") + SMALL_BYTES / p.number("link_mb_per_s");
    let per_io = 1e6 / rate;
    let saturated = matches!(points[..], [.., a, b] if b.point.iops < a.point.iops * SATURATED);
    if saturated && per_io > link * 1.02 {
        p.measured("firmware_read_us", rounded(per_io.min(latency * 0.9)), "throughput of 4 KiB reads at saturation");
    } else {
        let least = p.number("firmware_read_us").min(per_io * 0.5).min(latency * 0.1);
        p.assumed("firmware_read_us", rounded(least), "the link or the deepest load limits the rate, not the firmware");
    }
}

/// Part of a single 4 KiB read's latency that cells and pipelined latency take, µs.
fn rest(p: &Parameters, latency: f64) -> f64 {
    let link = p.number("link_command_us") + SMALL_BYTES / p.number("link_mb_per_s");
    let channel = p.number("channel_command_us") + SMALL_BYTES / p.number("channel_mb_per_s");
    (latency - p.number("firmware_read_us") - link - channel).max(0.2)
}

fn set_cells(p: &mut Parameters, t_read: f64, latency: f64) {
    let rest = rest(p, latency);
    let t_read = t_read.min(rest);
    p.change("t_read_us", t_read);
    p.change("latency_read_us", (rest - t_read).max(0.0));
}

/// Sum of the squared errors in throughput over these points.
fn cost(p: &Parameters, points: &[(&Measured, f64)]) -> f64 {
    let Ok(model) = p.model() else { return f64::MAX };
    let square = |(m, host): &(&Measured, f64)| {
        let error = predict_rate(&model, &m.load, *host) / m.point.iops - 1.0;
        error * error
    };
    points.iter().map(square).sum()
}

/// The time of a cell read: the longer, the more often reads meet on a die.
fn cells(survey: &Survey, p: &mut Parameters, latency: f64) {
    let points: Vec<_> = by_depth(survey).into_iter().filter(|m| (2..=32).contains(&m.load.depth)).collect();
    let points: Vec<_> = points.into_iter().map(|m| (m, host_us(survey, m.load.depth))).collect();
    let most = rest(p, latency);
    let t_read = least(most * 0.02, most, EVALUATIONS, |t_read| {
        set_cells(p, t_read, latency);
        cost(p, &points)
    });
    set_cells(p, t_read, latency);
}

/// The rate of a channel: the lower, the longer a large read takes alone.
fn channels(survey: &Survey, p: &mut Parameters, latency: f64) {
    let alone = |m: &Measured| m.load.depth == 1 && m.load.max_sectors() > 8 && !m.load.writes();
    let large = |m: &&Measured| alone(m) || m.load.name == names::LARGE_DEEP;
    let points: Vec<_> = survey.of(Role::Fit).filter(large).map(|m| (m, host_us(survey, m.load.depth))).collect();
    if points.is_empty() {
        return;
    }
    let t_read = p.number("t_read_us");
    // Rates in logarithms: they span three decades.
    let rate = least(3.0, 9.5, EVALUATIONS + 2, |log| {
        p.change("channel_mb_per_s", log.exp());
        set_cells(p, t_read, latency);
        cost(p, &points)
    });
    p.change("channel_mb_per_s", rate.exp());
    set_cells(p, t_read, latency);
}

/// The write side, from the points that wrote.
fn writes(survey: &Survey, p: &mut Parameters) {
    let Some(single) = survey.point(names::WRITE) else { return };
    let link = p.number("link_command_us") + SMALL_BYTES / p.number("link_mb_per_s");
    let whole = (single.p50_us - single.host_us - link).max(0.1);
    let per_io = survey.point(names::WRITE_DEEP).map_or(whole, |deep| 1e6 / deep.iops);
    let firmware = per_io.min(whole * 0.9);
    p.measured("firmware_write_us", rounded(firmware), "throughput of 4 KiB writes at depth 32");
    p.measured("latency_write_us", rounded((whole - firmware).max(0.0)), "latency of a single write");
    if let Some(large) = survey.point(names::WRITE_LARGE) {
        let dies = p.number("channels") * p.number("dies_per_channel");
        let unit = p.number("planes") * p.number("page_bytes");
        let rate = large.mb_per_s.min(p.number("link_mb_per_s") * 0.98);
        let transfer = p.number("channel_command_us") + unit / p.number("channel_mb_per_s");
        let per_program = (dies * unit / rate - transfer).max(1.0);
        p.measured("t_program_us", rounded(per_program), "throughput of large writes, all dies at work");
    }
    if let Some(flush) = survey.point(names::FLUSH) {
        let ms = ((flush.mean_us - p.number("t_program_us")) / 1e3).max(0.0);
        p.measured("t_flush_ms", rounded(ms), "a flush after one write, less its program");
    }
}
