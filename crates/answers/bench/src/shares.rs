//! Shares of a served drive: what each tenant gets of it beside others and alone, in real time, with clients in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{Control, Failure};
use dumbwaiter_linux::filesystem::TemporaryFolder;
use dumbwaiter_linux::loops::OwnLoop;
use dumbwaiter_measure::pv;
use dumbwaiter_report::{Align, Style, table};
use dumbwaiter_serve::bench::ClosedLoop;
use dumbwaiter_serve::{DeviceDepth, ExportSettings, ServeSettings, Server, TargetSettings};
use serde::Serialize;

type Result<T> = std::result::Result<T, Failure>;

/// 8 requests of 1 ms at a time: 8,000 IOPS, far below what any machine serves.
const EMULATED: &str = "emulate:null:0us?latency_ns=1000000&depth=8";
const EMULATED_IOPS: f64 = 8000.0;
/// Bytes of a device or file, and of each slice of it.
const DISK_BYTES: u64 = 1 << 30;
const SLICE_BYTES: u64 = DISK_BYTES / 4;
const WEIGHTS: [u32; 4] = [100, 200, 400, 500];
/// Requests that a memory device is given at a time.
const MEMORY_DEPTH: u32 = 8;
/// Turns in which a scheduler is compared with `none`, for each window, and how many times shorter than a window one is.
const TURNS_PER_WINDOW: u32 = 3;
const TURNS_IN_WINDOW: u64 = 5;
/// Time within which a cancelled measurement ends.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Bounds of the figures.
const MOST_PV: f64 = 0.05;
const LEAST_THROUGHPUT: f64 = 0.95;
const LEAST_ALONE: f64 = 0.97;
const RESERVATION_ERROR: f64 = 0.02;
const LIMIT_ERROR: f64 = 0.01;

/// Set-up of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A file or block device whose data may be read; an emulated drive, a memory device and a file in `folder` if `None`.
    pub on: Option<PathBuf>,
    /// Folder for the file.
    pub folder: PathBuf,
    /// The scheduler that shares.
    pub scheduler: String,
    /// Length of a window. The first one of each run is not counted.
    pub window: Nanos,
    /// Windows that are counted.
    pub windows: u32,
}

impl Plan {
    /// A plan with `headway` and two windows of 5 s unless others are given, and the file in the folder for temporary files.
    pub fn new(on: Option<PathBuf>, scheduler: Option<String>, window: Option<Nanos>, windows: Option<u32>) -> Plan {
        Plan {
            on,
            folder: std::env::temp_dir(),
            scheduler: scheduler.unwrap_or_else(|| "headway".to_owned()),
            window: window.unwrap_or(Nanos::from_secs(5)),
            windows: windows.unwrap_or(2),
        }
    }
}

/// One figure with its bound.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `emulated`, `memory`, `file`, or the target that was given.
    pub target: String,
    /// Size and pattern of the clients' reads.
    pub load: &'static str,
    /// The measured figure.
    pub figure: &'static str,
    /// Its value; infinite (`null`) where a tenant got nothing.
    pub value: f64,
    /// The value may be no larger; `null` where there is no such bound.
    pub at_most: Option<f64>,
    /// The value may be no smaller.
    pub at_least: Option<f64>,
    /// The bounds hold.
    pub met: bool,
}

/// A closed loop of reads on an export.
#[derive(Clone, Copy)]
struct Reader {
    tenant: usize,
    bytes: u32,
    depth: u32,
    sequential: bool,
}

fn random(tenant: usize, bytes: u32, depth: u32) -> Reader {
    Reader { tenant, bytes, depth, sequential: false }
}

fn loads() -> [(&'static str, [Reader; 4]); 3] {
    let in_a_row = |tenant| Reader { sequential: true, ..random(tenant, 64 << 10, 32) };
    [
        ("randread 4k", [0, 1, 2, 3].map(|tenant| random(tenant, 4096, 32))),
        ("read 64k", [0, 1, 2, 3].map(in_a_row)),
        ("mixed", [random(0, 4096, 64), random(1, 64 << 10, 16), random(2, 16 << 10, 32), random(3, 128 << 10, 24)]),
    ]
}

/// Exports by weight, each a quarter of the disk.
fn by_weight() -> Vec<ExportSettings> {
    let export = |(place, weight): (usize, &u32)| ExportSettings {
        weight: *weight,
        readonly: true,
        offset: place as u64 * SLICE_BYTES,
        size: Some(SLICE_BYTES),
        ..ExportSettings::whole(&format!("weight{weight}"))
    };
    WEIGHTS.iter().enumerate().map(export).collect()
}

/// The target that is served: its name in results, the settings without exports, and the loop device removed with it.
struct Subject {
    name: String,
    settings: TargetSettings,
    _memory: Option<OwnLoop>,
}

/// Bytes and I/Os of one run.
struct Moved {
    /// Bytes of each reader, by window.
    windows: Vec<Vec<f64>>,
    ios: Vec<f64>,
    /// 99th percentile of the first reader's latencies, us; infinite where it got no answer.
    p99_us: f64,
    /// Bytes and I/Os of the windows that count took so long, s.
    seconds: f64,
}

impl Moved {
    fn bytes_per_s(&self) -> f64 {
        self.windows.iter().flatten().sum::<f64>() / self.seconds
    }

    fn iops(&self, reader: usize) -> f64 {
        self.ios[reader] / self.seconds
    }
}

/// Measures until `control` cancels; `progress` receives lines for people.
pub fn run(plan: &Plan, control: &Control, progress: &dyn Fn(&str)) -> Result<Vec<Row>> {
    if plan.window < Nanos::from_ms(100) || plan.windows == 0 {
        return Err(Failure::refused("--time: expected windows of 100ms at least, and one of them"));
    }
    let folder = TemporaryFolder::inside(&plan.folder).map_err(Failure::refused)?;
    let mut rows = Vec::new();
    for subject in subjects(plan, folder.dir(), progress)? {
        let work = Work { plan, folder: folder.dir(), subject: &subject, control };
        match work.all(&mut rows, progress) {
            // I/Os in flight when it was cancelled are no figure.
            Err(_) if control.cancelled() => break,
            ended => ended?,
        }
    }
    Ok(rows)
}

fn subjects(plan: &Plan, folder: &Path, progress: &dyn Fn(&str)) -> Result<Vec<Subject>> {
    let subject = |name: &str, target: &str| Subject {
        name: name.to_owned(),
        settings: TargetSettings::new(target),
        _memory: None,
    };
    if let Some(on) = &plan.on {
        let target = on.display().to_string();
        return Ok(vec![subject(&target, &target)]);
    }
    let mut all = vec![subject("emulated", EMULATED)];
    match OwnLoop::new(Path::new("/dev/shm"), fill) {
        Ok(device) => {
            let mut memory = subject("memory", &device.device().display().to_string());
            memory.settings.device_depth = DeviceDepth::Fixed(MEMORY_DEPTH);
            memory._memory = Some(device);
            all.push(memory);
        }
        Err(e) => progress(&format!("no device in memory: {e}")),
    }
    let file = folder.join("disk.img");
    let failed = |e: std::io::Error| Failure::refused(format!("{}: {e}", file.display()));
    let mut made = std::fs::File::create_new(&file).map_err(failed)?;
    fill(&mut made).and_then(|()| made.sync_all()).map_err(failed)?;
    all.push(subject("file", &file.display().to_string()));
    Ok(all)
}

/// Writes all of a disk, so that nothing of it is a hole.
fn fill(file: &mut std::fs::File) -> std::io::Result<()> {
    let block = vec![0x5a; 1 << 20];
    (0..DISK_BYTES >> 20).try_for_each(|_| std::io::Write::write_all(file, &block))
}

/// PV of a window; infinite where the lightest tenant got nothing.
fn window_pv(weights: &[f64], bytes: &[f64]) -> f64 {
    let value = pv(weights, bytes);
    if value.is_nan() { f64::INFINITY } else { value }
}

/// One target under measurement.
#[derive(Clone, Copy)]
struct Work<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    subject: &'a Subject,
    control: &'a Control,
}

impl Work<'_> {
    fn row(&self, load: &'static str, figure: &'static str, value: f64, bounds: (Option<f64>, Option<f64>)) -> Row {
        let (at_least, at_most) = bounds;
        let met = at_least.is_none_or(|least| value >= least) && at_most.is_none_or(|most| value <= most);
        Row { target: self.subject.name.clone(), load, figure, value, at_most, at_least, met }
    }

    fn all(&self, rows: &mut Vec<Row>, progress: &dyn Fn(&str)) -> Result<()> {
        let name = &self.subject.name;
        for (load, readers) in loads() {
            progress(&format!("{name}, {load}"));
            self.shares(load, &readers, rows)?;
        }
        progress(&format!("{name}: one tenant alone, a light one beside others"));
        self.light_tenant(rows)?;
        self.one_tenant(rows)?;
        if self.subject.settings.target == EMULATED {
            progress(&format!("{name}: reservation and limit"));
            self.reservation(rows)?;
            self.limit(rows)?;
        }
        Ok(())
    }

    /// Waits until then, or until it is cancelled.
    fn wait_until(&self, then: Instant) {
        while !self.control.cancelled() && Instant::now() < then {
            std::thread::sleep(then.saturating_duration_since(Instant::now()).min(CANCEL_POLL_INTERVAL));
        }
    }

    /// Shares in each window, and what they cost.
    fn shares(&self, load: &'static str, readers: &[Reader], rows: &mut Vec<Row>) -> Result<()> {
        let ours = self.serve(&self.plan.scheduler, by_weight(), readers)?;
        let none = self.serve("none", by_weight(), readers)?;
        let weights = WEIGHTS.map(f64::from);
        let worst = |moved: &Moved| moved.windows.iter().map(|window| window_pv(&weights, window)).fold(0.0, f64::max);
        rows.push(self.row(load, "PV, worst window", worst(&ours), (None, Some(MOST_PV))));
        rows.push(self.row(load, "PV of none", worst(&none), (None, None)));
        // Under `none` sizes are mixed in other proportions, and bytes cannot be compared.
        let (ratio, least) = match load {
            "mixed" => (ours.bytes_per_s() / none.bytes_per_s(), None),
            _ => (self.beside_none(readers)?, Some(LEAST_THROUGHPUT)),
        };
        rows.push(self.row(load, "throughput, of none", ratio, (least, None)));
        Ok(())
    }

    /// Throughput, of that of `none`, in short turns: a drive whose speed changes meanwhile does not favour one of them.
    fn beside_none(&self, readers: &[Reader]) -> Result<f64> {
        let plan = Plan { window: Nanos(self.plan.window.0 / TURNS_IN_WINDOW), windows: 1, ..self.plan.clone() };
        let work = Work { plan: &plan, ..*self };
        let (mut ours, mut none) = (0.0, 0.0);
        for turn in 0..TURNS_PER_WINDOW * self.plan.windows {
            let mut turns = [(self.plan.scheduler.as_str(), &mut ours), ("none", &mut none)];
            if turn % 2 == 1 {
                turns.reverse();
            }
            for (scheduler, sum) in turns {
                *sum += work.serve(scheduler, by_weight(), readers)?.bytes_per_s();
            }
        }
        Ok(ours / none)
    }

    /// The tail of a tenant with few requests grows by no more than its share explains.
    fn light_tenant(&self, rows: &mut Vec<Row>) -> Result<()> {
        let own = random(0, 4096, 8);
        let solo = self.serve(&self.plan.scheduler, by_weight(), &[own])?.p99_us;
        let all = [own, random(1, 4096, 32), random(2, 4096, 32), random(3, 4096, 32)];
        let beside = self.serve(&self.plan.scheduler, by_weight(), &all)?.p99_us;
        let explained = f64::from(WEIGHTS.iter().sum::<u32>()) / f64::from(WEIGHTS[0]);
        rows.push(self.row("randread 4k", "p99 alone, us", solo, (None, None)));
        let most = Some(2.0 * solo * explained);
        rows.push(self.row("randread 4k", "light tenant's p99, us", beside, (None, most)));
        Ok(())
    }

    fn one_tenant(&self, rows: &mut Vec<Row>) -> Result<()> {
        let ratio = self.beside_none(&[random(0, 16 << 10, 32)])?;
        rows.push(self.row("randread 16k", "one active tenant, of none", ratio, (Some(LEAST_ALONE), None)));
        Ok(())
    }

    fn reservation(&self, rows: &mut Vec<Row>) -> Result<()> {
        const RESERVED: u32 = 1000;
        let mut exports = by_weight();
        exports.iter_mut().for_each(|export| export.weight = 5000);
        (exports[0].weight, exports[0].reservation_iops) = (100, Some(u64::from(RESERVED)));
        let readers = [random(0, 4096, 32), random(1, 4096, 32), random(2, 64 << 10, 64), random(3, 4096, 64)];
        let part = self.serve(&self.plan.scheduler, exports, &readers)?.iops(0) / f64::from(RESERVED);
        let bounds = (Some(1.0 - RESERVATION_ERROR), Some(1.0 + RESERVATION_ERROR));
        rows.push(self.row("mixed", "IOPS of a reservation, of it", part, bounds));
        Ok(())
    }

    fn limit(&self, rows: &mut Vec<Row>) -> Result<()> {
        const LIMIT: u32 = 2000;
        let mut exports = by_weight();
        exports.truncate(2);
        exports[0].limit_iops = Some(u64::from(LIMIT));
        exports[0].weight = 1000;
        let moved = self.serve(&self.plan.scheduler, exports, &[random(0, 4096, 32), random(1, 4096, 32)])?;
        let bounds = (Some(1.0 - LIMIT_ERROR), Some(1.0 + LIMIT_ERROR));
        rows.push(self.row("randread 4k", "IOPS of a limit, of it", moved.iops(0) / f64::from(LIMIT), bounds));
        let rest = moved.iops(1) / (EMULATED_IOPS - f64::from(LIMIT));
        rows.push(self.row("randread 4k", "what it leaves, to others", rest, (Some(LEAST_THROUGHPUT), None)));
        Ok(())
    }

    /// Serves `exports` to `readers` for all windows.
    fn serve(&self, scheduler: &str, exports: Vec<ExportSettings>, readers: &[Reader]) -> Result<Moved> {
        let names: Vec<String> = exports.iter().map(|export| export.name.clone()).collect();
        let exports = exports.into_iter().map(Arc::new).collect();
        let target = TargetSettings { scheduler: scheduler.to_owned(), exports, ..self.subject.settings.clone() };
        let settings = ServeSettings {
            targets: vec![target],
            unix: Some(self.folder.to_owned()),
            forget_writes: true,
            ..ServeSettings::default()
        };
        let (name, mib) = (&self.subject.name, DISK_BYTES >> 20);
        let refused = |e: dumbwaiter_serve::Error| match e {
            dumbwaiter_serve::Error::Export { .. } => {
                Failure::refused(format!("{name}: expected at least {mib} MiB: {e}"))
            }
            _ => Failure::refused(e),
        };
        let failed = |e: dumbwaiter_serve::Error| Failure::device(format!("{name}: {e}"));
        let server = Server::start(settings, |_| {}).map_err(refused)?;
        let moved = self.measure(&names, readers);
        server.shut_down(|| true).map_err(failed)?;
        if self.control.cancelled() {
            return Err(Failure::device("cancelled"));
        }
        moved
    }

    fn measure(&self, names: &[String], readers: &[Reader]) -> Result<Moved> {
        let (stop, counts) = (AtomicBool::new(false), readers.iter().map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
        let read = || counts.iter().map(|count| count.load(Ordering::Relaxed) as f64).collect::<Vec<_>>();
        let mut moved = Moved { windows: Vec::new(), ios: vec![0.0; readers.len()], p99_us: 0.0, seconds: 0.0 };
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..readers.len())
                .map(|at| {
                    let Reader { tenant, bytes, depth, sequential } = readers[at];
                    let load = ClosedLoop::reads(self.folder.join("nbd.sock"), &names[tenant], depth, at as u64);
                    let load = ClosedLoop { sequential, block_bytes: bytes, ..load };
                    let (stop, count) = (&stop, &counts[at]);
                    scope.spawn(move || load.run(stop, count))
                })
                .collect();
            let window = Duration::from_nanos(self.plan.window.0);
            self.wait_until(Instant::now() + window);
            let begun = Instant::now();
            let mut before = read();
            for number in 1..=self.plan.windows {
                self.wait_until(begun + window * number);
                let now = read();
                let ios: Vec<f64> = now.iter().zip(&before).map(|(now, before)| now - before).collect();
                moved.windows.push(ios.iter().zip(readers).map(|(ios, own)| ios * f64::from(own.bytes)).collect());
                moved.ios.iter_mut().zip(&ios).for_each(|(all, ios)| *all += ios);
                before = now;
                if self.control.cancelled() {
                    break;
                }
            }
            moved.seconds = begun.elapsed().as_secs_f64();
            stop.store(true, Ordering::Relaxed);
            for (at, client) in clients.into_iter().enumerate() {
                let report = client.join().map_err(|_| Failure::device("a client ended badly"))?;
                let report = report.map_err(|e| Failure::device(e.to_string()))?;
                if report.errors > 0 {
                    return Err(Failure::device(format!(
                        "{}: {} requests failed",
                        names[readers[at].tenant], report.errors
                    )));
                }
                if at == 0 {
                    moved.p99_us = report.latency.quantile(0.99).map_or(f64::INFINITY, |p99| p99.0 as f64 / 1e3);
                }
            }
            Ok(moved)
        })
    }
}

/// The rows as a table.
pub fn text(rows: &[Row], style: Style) -> String {
    let header = [
        ("target", Align::Left),
        ("load", Align::Left),
        ("figure", Align::Left),
        ("value", Align::Right),
        ("bound", Align::Left),
        ("", Align::Left),
    ];
    let number = |value: f64| if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") };
    let cells = rows.iter().map(|row| {
        let bounds = [
            row.at_least.map(|least| format!(">= {}", number(least))),
            row.at_most.map(|most| format!("<= {}", number(most))),
        ];
        let bounds: Vec<String> = bounds.into_iter().flatten().collect();
        vec![
            row.target.clone(),
            row.load.to_owned(),
            row.figure.to_owned(),
            number(row.value),
            bounds.join(", "),
            if row.met { String::new() } else { "missed".to_owned() },
        ]
    });
    table(&header, &cells.collect::<Vec<_>>(), style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_in_which_the_lightest_tenant_got_nothing_meets_no_bound() {
        let weights = WEIGHTS.map(f64::from);
        assert!(window_pv(&weights, &[100.0, 200.0, 400.0, 500.0]) < 1e-9);
        assert!(window_pv(&weights, &[0.0, 200.0, 400.0, 500.0]) > MOST_PV);
        assert!(window_pv(&weights, &[0.0; 4]) > MOST_PV);
    }
}
