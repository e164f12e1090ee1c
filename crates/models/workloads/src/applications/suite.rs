//! Background loads made of fio jobs: those of the S benchmark suite and of the SSD-proportionality paper.
//!
//! As of the suite's revision of April 2015. Its readers are buffered: sequential ones read a file each, random ones share a
//! file; at the block layer each issues one read of 128 KiB (the read-ahead) or 4 KiB at a time. Its writers are buffered and
//! limited in rate. Of sequential loads each process is a call of fio, of random ones all readers together are one, and all
//! writers. Each call has a launcher that reads at random for a moment, so that it becomes active with the load.

use super::{App, Component};
use crate::generate::{BuildError, Extent, JobSpec};
use dumbwaiter_text::units::Prefixes;

/// Threads of the YCSB loads.
pub(super) const YCSB_THREADS: u32 = 32;

/// Default size of each file of the suite, bytes; random readers, and random writers, share one of ten times that.
const FILE: u64 = 5000 << 20;
const SHARED_FILES: u64 = 10;
/// Combined default write rate of all writers of the suite, bytes per second.
const WRITERS_RATE: u64 = 16_500_000;
/// How long the launcher of a call of fio reads, at random.
const LAUNCH_TIME: &str = "150ms";

/// I/Os that each stand-in for a trace keeps outstanding.
pub(super) const TRACE_DEPTH: u32 = 32;

/// fio's pattern of a file server.
const FILE_SERVER: &str = "512/10:1k/5:2k/5:4k/60:8k/2:16k/4:32k/4:64k/10";

/// Sizes of the substitutes for the traces `msn`, `prj` and `prn`, reads and writes. The medians of `msn` and `prn` and the lengths of the phases of
/// `prn` are calibrated so that each load alone reaches the paper's rates (370, 460 and 270 MB/s within 10 %) on `ssd:sata-mlc` under
/// `none`; they are the sizes after merging in an upper layer, not those of the traces. `prj` needed no change.
const MSN: &str = "24k:1:4k-256k";
const PRJ: &str = "8k:1:4k-256k,64k:1:4k-256k";
const PRN_LARGE: &str = "32k:1:4k-256k";
const PRN_SMALL: &str = "4k";
/// Mean lengths of its phases, I/Os.
const PRN_LARGE_IOS: u32 = 250;
const PRN_SMALL_IOS: u32 = 800;

fn job(options: &[(&str, &str)]) -> JobSpec {
    let mut job = JobSpec::default();
    for (key, value) in options {
        let set = job.set(key, value, Prefixes::Plain);
        debug_assert!(set.is_ok(), "{key}={value}: {set:?}");
    }
    job
}

/// The phases of `prn` with their mean lengths in I/Os, in a region of the device: few large requests in runs, then many small ones at
/// random. The sizes of the real trace vary over time, which is what breaks BFQ's shares in the paper, and its replay never rests.
pub(super) fn prn_phases(start: u64, length: u64) -> [(JobSpec, u32); 2] {
    [(PRN_LARGE, "randrw:4", PRN_LARGE_IOS), (PRN_SMALL, "randrw", PRN_SMALL_IOS)].map(|(bs, rw, ios)| {
        let spec = job(&[("rw", rw), ("bs", bs), ("iodepth", "32"), ("rwmixread", "50"), ("norandommap", "1")]);
        (JobSpec { offset: Extent::Bytes(start), size: Some(Extent::Bytes(length)), ..spec }, ios)
    })
}

/// The components of an application made of jobs, on a device of `device` bytes.
pub(super) fn parts(app: &App, device: u64) -> Result<Vec<Component>, BuildError> {
    let name = app.name();
    if let Some(parts) = suite(app, device)? {
        return Ok(parts);
    }
    let random = |bs, more: &[(&str, &str)]| {
        let mut job = job(&[("rw", "randrw"), ("bs", bs), ("iodepth", "32")]);
        for (key, value) in more {
            let set = job.set(key, value, Prefixes::Plain);
            debug_assert!(set.is_ok(), "{key}={value}: {set:?}");
        }
        job
    };
    let spec = match name {
        "fileserver" => random(FILE_SERVER, &[("iodepth", "64")]),
        "fileserver-r" => random(FILE_SERVER, &[("iodepth", "64"), ("rw", "randread")]),
        "fileserver-w" => random(FILE_SERVER, &[("iodepth", "64"), ("rw", "randwrite")]),
        "msn" => random(MSN, &[("rw", "randrw:8"), ("rwmixread", "60")]),
        "prj" => random(PRJ, &[("rw", "randrw:16"), ("rwmixread", "25")]),
        "rand-4K" => random("4k", &[]),
        "rand-32K" => random("32k", &[]),
        "rand-256K" => random("256k", &[]),
        _ => {
            // The interference of the player: a shell starts and ends, with its files cold.
            let (start, length) = app.region(device, 60.0, 1 << 30)?;
            let spec = job(&[("rw", "randread"), ("bs", "32k"), ("ioengine", "psync"), ("thinktime_blocks", "10")]);
            let (offset, size) = (Extent::Bytes(start), Some(Extent::Bytes(length)));
            let spec = JobSpec { offset, size, norandommap: true, thinktime: app.every(), ..spec };
            return Ok(vec![Component::Job { name: "reader", count: 1, job: Box::new(spec) }]);
        }
    };
    let (start, length) = app.region(device, 0.0, 50_000_000_000)?;
    let spec = JobSpec { offset: Extent::Bytes(start), size: Some(Extent::Bytes(length)), norandommap: true, ..spec };
    Ok(vec![Component::Job { name: "", count: 1, job: Box::new(spec) }])
}

/// Loads with one file per process, from a tenth of the device on; raw ones from its start.
fn suite(app: &App, device: u64) -> Result<Option<Vec<Component>>, BuildError> {
    let start = app.offset_in(device, if app.raw() { 0.0 } else { 10.0 }) / (1 << 20) * (1 << 20);
    // On a small device the files are smaller, unless their size is given.
    let room = device.saturating_sub(start) / (2 * SHARED_FILES);
    let file = app.size_in(device).unwrap_or(FILE.min(room)) / (1 << 20) * (1 << 20);
    let (readers, writers, sequential) = match app.name() {
        "10r-seq" => (10, 0, true),
        "10r-rand" => (10, 0, false),
        "5r5w-seq" => (5, 5, true),
        "5r5w-rand" => (5, 5, false),
        "interleaved" => {
            let n = u64::from(app.readers());
            let zone = 16 << 10;
            let mut spec = job(&[("bs", "16k"), ("ioengine", "psync")]);
            spec.rw.modifier = ((n - 1) * zone) as i64;
            let spec = JobSpec {
                offset: Extent::Bytes(start),
                offset_increment: Extent::Bytes(zone),
                size: Some(Extent::Bytes(file)),
                ..spec
            };
            return Ok(Some(vec![Component::Job { name: "reader", count: app.readers(), job: Box::new(spec) }]));
        }
        _ => return Ok(None),
    };
    if app.raw() && writers > 0 {
        return Err(BuildError { key: "raw", reason: format!("{} writes; only readers go past files", app.name()) });
    }
    let place = |spec: JobSpec, first: u64| match sequential {
        true => JobSpec {
            offset: Extent::Bytes(start + first * file),
            offset_increment: Extent::Bytes(file),
            size: Some(Extent::Bytes(file)),
            ..spec
        },
        false => JobSpec {
            offset: Extent::Bytes(start + first.min(1) * SHARED_FILES * file),
            size: Some(Extent::Bytes(SHARED_FILES * file)),
            norandommap: true,
            ..spec
        },
    };
    let launch = job(&[("rw", "randread"), ("bs", "4k"), ("ioengine", "psync"), ("runtime", LAUNCH_TIME)]);
    let launch = JobSpec {
        offset: Extent::Bytes(start),
        size: Some(Extent::Bytes(SHARED_FILES * file)),
        norandommap: true,
        ..launch
    };
    let calls = if sequential { readers + writers } else { readers.min(1) + writers.min(1) };
    let launchers = Component::Job { name: "launcher", count: calls, job: Box::new(launch) };
    let reads = match sequential {
        true => job(&[("rw", "read"), ("bs", "128k"), ("ioengine", "psync")]),
        false => job(&[("rw", "randread"), ("bs", "4k"), ("ioengine", "psync")]),
    };
    let readers = Component::Job { name: "reader", count: readers, job: Box::new(place(reads, 0)) };
    let mut parts = vec![readers, launchers];
    if writers > 0 {
        let rw = if sequential { "write" } else { "randwrite" };
        let mut writes = job(&[("rw", rw), ("bs", "4k"), ("ioengine", "psync"), ("direct", "0")]);
        writes.rate.write = Some(app.maxrate().unwrap_or(WRITERS_RATE) / u64::from(writers));
        let job = Box::new(place(writes, u64::from(writers)));
        parts.push(Component::Job { name: "writer", count: writers, job });
    }
    Ok(Some(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sequential processes are a call of fio each; all random readers are one, and all random writers. So ten random readers with
    /// their launcher are a burst for BFQ, and five with their two are none.
    #[test]
    fn each_call_of_fio_has_a_launcher() {
        for (name, calls) in [("10r-seq", 10), ("10r-rand", 1), ("5r5w-seq", 10), ("5r5w-rand", 2)] {
            let parts = suite(&App::new(name).unwrap(), 1_000_000_000_000).unwrap().unwrap();
            let launchers = parts.iter().find_map(|part| match part {
                Component::Job { name: "launcher", count, .. } => Some(*count),
                _ => None,
            });
            assert_eq!(launchers, Some(calls), "{name}");
        }
    }
}
