//! An ultra-low-latency drive: media channels without a buffer behind one link.

use dumbwaiter_devices::DeviceModel;

use crate::fit::parameters::{Parameters, rounded};
use crate::fit::plan::{Role, names};
use crate::fit::predict::{host_us, predict_rate};
use crate::fit::search::least;
use crate::fit::{Error, Survey};

/// The built-in device whose values stand in for what a survey cannot determine.
const LIKE: &str = "ull:optane-900p";
/// Shortest time from the last chunk to the end of the transfer in the model, µs.
const LAST_CHUNK_US: f64 = 0.05;
/// Numbers of channels that are tried.
const CHANNELS: [i64; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32];
/// Evaluations of each search.
const EVALUATIONS: u32 = 11;
const SMALL_BYTES: f64 = 4096.0;
const LARGE_BYTES: f64 = 131_072.0;

/// Fits the link to the saturated rates, then channels and media time to the depths in between.
pub(crate) fn fit(survey: &Survey) -> Result<Parameters, Error> {
    let single = survey.needed(names::SINGLE)?;
    let mut p = Parameters::like(LIKE)?;
    let latency = (single.p50_us - single.host_us).max(0.2);
    p.driver("capacity_sectors", survey.facts.capacity_sectors as i64, "its size");
    let queues = survey.facts.queues.unwrap_or(1).clamp(1, 1024);
    let per_queue = (survey.facts.depth.unwrap_or(128) / queues).clamp(1, 65_536);
    p.driver("queues", i64::from(queues), "the driver");
    p.driver("queue_depth", i64::from(per_queue), "the driver");
    p.measured("t_err_us", rounded(latency), "as a single read");
    link(survey, &mut p);
    // The front is what the media and the rest leave of the latency.
    let back = p.number("back_us").min(latency / 10.0);
    p.assumed("back_us", rounded(back), "latency is determined only as a whole");
    let most = (latency - back - LAST_CHUNK_US).max(0.01);
    let with = |p: &mut Parameters, channels: i64, media: f64| -> Result<DeviceModel, Error> {
        p.change("channels", channels);
        p.change("media_read_us", media);
        p.change("front_us", (most - media).max(0.0));
        p.model()
    };
    let shape: Vec<_> = survey.of(Role::Fit).filter(|m| m.load.name == names::depth(m.load.depth)).collect();
    let shape: Vec<_> =
        shape.into_iter().filter(|m| m.load.depth <= 16).map(|m| (m, host_us(survey, m.load.depth))).collect();
    let cost = |p: &mut Parameters, channels, media| {
        let Ok(model) = with(p, channels, media) else { return f64::MAX };
        let square = |(m, host): &(&crate::fit::Measured, f64)| {
            let error = predict_rate(&model, &m.load, *host) / m.point.iops - 1.0;
            error * error
        };
        shape.iter().map(square).sum::<f64>()
    };
    let mut best = (f64::MAX, 1, most);
    for channels in CHANNELS {
        let media = least(most * 0.1, most, EVALUATIONS, |media| cost(&mut p, channels, media));
        let error = cost(&mut p, channels, media);
        if error < best.0 {
            best = (error, channels, media);
        }
    }
    let (_, channels, media) = best;
    with(&mut p, channels, media)?;
    let how = "throughput by depth";
    p.measured("channels", channels, how);
    p.measured("media_read_us", rounded(media), how);
    p.measured("front_us", rounded((most - media).max(0.0)), "latency at depth 1, less media and back");
    writes(survey, &mut p, media, latency);
    Ok(p)
}

/// Time of the link per command and per byte, from the saturated rates of small and large reads.
fn link(survey: &Survey, p: &mut Parameters) {
    let rate = |m: &crate::fit::Measured| (m.load.name == names::depth(m.load.depth)).then_some(m.point.iops);
    let small = survey.of(Role::Fit).filter_map(rate).fold(0.0, f64::max);
    let large = survey.point(names::LARGE_DEEP).map_or(0.0, |point| point.iops);
    if small <= 0.0 || large <= 0.0 {
        return;
    }
    let (small, large) = (1e6 / small, 1e6 / large);
    let per_byte = ((large - small) / (LARGE_BYTES - SMALL_BYTES)).max(1e-6);
    let command = (small - SMALL_BYTES * per_byte).max(0.0);
    p.measured("link_read_mb_per_s", rounded(1.0 / per_byte), "throughput of large and small reads at saturation");
    p.measured("link_command_us", rounded(command), "throughput of small reads at saturation");
}

fn writes(survey: &Survey, p: &mut Parameters, media_read: f64, latency_read: f64) {
    let read_link = p.number("link_read_mb_per_s");
    let Some(write) = survey.point(names::WRITE) else {
        p.assumed("media_write_us", rounded(media_read), "as reads: nothing was written");
        p.assumed("link_write_mb_per_s", rounded(read_link), "as reads: nothing was written");
        return;
    };
    let media = (media_read + write.mean_us - write.host_us - latency_read).max(0.1);
    p.measured("media_write_us", rounded(media), "latency of a write beside that of a read");
    if let Some(large) = survey.point(names::WRITE_LARGE) {
        let per_byte = ((1e6 / large.iops - p.number("link_command_us")) / LARGE_BYTES).max(1e-6);
        p.measured("link_write_mb_per_s", rounded(1.0 / per_byte), "throughput of large writes");
    }
}
