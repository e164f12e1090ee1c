//! Simulated requests a second of real time.

use std::time::Instant;

use dumbwaiter_experiment::{Control, Failure};
use dumbwaiter_measure::median;
use dumbwaiter_report::{Align, Style, table};
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::Prepared;
use serde::Serialize;

/// One device, scheduler and load.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The device model.
    pub device: String,
    /// The scheduler.
    pub scheduler: String,
    /// The load.
    pub workload: String,
    /// Requests simulated in a run.
    pub requests: u64,
    /// Requests simulated in a second of real time (median of the runs).
    pub requests_per_s: f64,
    /// Most memory that the program held, in bytes; `None` where the system does not report it.
    pub peak_rss_bytes: Option<u64>,
}

/// (device, scheduler, depth, pattern, I/Os). One thread on one CPU; 4 KiB over the whole device.
const SIM_CASES: &[(&str, &str, u32, &str, u64)] = &[
    ("ull:optane-p4801x", "none", 32, "randread", 3_000_000),
    ("ull:optane-p4801x", "mq-deadline", 32, "randread", 2_000_000),
    ("ull:optane-p4801x", "kyber", 32, "randread", 2_000_000),
    ("ssd:850pro-256", "none", 32, "randread", 2_000_000),
    ("ssd:850pro-256", "mq-deadline", 32, "randread", 2_000_000),
    ("ssd:850pro-256", "mq-deadline", 32, "randrw", 2_000_000),
    ("ssd:850pro-256", "kyber", 32, "randread", 2_000_000),
    ("ssd:850pro-256", "bfq", 32, "randread", 2_000_000),
    ("hdd:st1000dm003", "none", 1, "randread", 2_000_000),
    ("hdd:st1000dm003", "mq-deadline", 32, "randread", 1_000_000),
    ("hdd:st1000dm003", "mq-deadline", 64, "randrw", 1_000_000),
    ("hdd:st1000dm003", "mq-deadline", 32, "read", 2_000_000),
];
/// Runs per case; the median counts.
const SIM_RUNS: usize = 3;

/// Measures the cases of these schedulers.
pub fn run(choices: &[Choice]) -> Result<Vec<Row>, Failure> {
    let wanted = |scheduler: &str| choices.iter().any(|c| c.entry().name == scheduler);
    SIM_CASES.iter().filter(|case| wanted(case.1)).map(case).collect()
}

fn case((device, scheduler, depth, rw, ios): &(&str, &str, u32, &str, u64)) -> Result<Row, Failure> {
    let text = format!(
        "limit = {ios}\n[host]\ncpus = 1\n[[task]]\nname = \"bench\"\nrw = \"{rw}\"\nbs = \"4k\"\niodepth = {depth}\nnorandommap = true\n"
    );
    let mut scenario = Scenario::from_toml(&text, "bench").map_err(Failure::refused)?;
    scenario.schedulers = vec![SchedulerSpec::named(scheduler)];
    let model = dumbwaiter_devices::load(device).map_err(Failure::refused)?;
    let choice = Choice::parse(scheduler).map_err(Failure::refused)?;
    let prepared = Prepared::new(&scenario).map_err(Failure::refused)?;
    let mut rates = Vec::new();
    let mut requests = 0;
    reset_peak_rss();
    for replicate in 0..SIM_RUNS as u32 {
        let started = Instant::now();
        let result = prepared.run(&model, &choice, replicate, &Control::default()).map_err(Failure::refused)?;
        requests = result.run.requests;
        rates.push(requests as f64 / started.elapsed().as_secs_f64());
    }
    Ok(Row {
        device: (*device).to_owned(),
        scheduler: (*scheduler).to_owned(),
        workload: format!("{rw} 4k depth {depth}"),
        requests,
        requests_per_s: median(rates),
        peak_rss_bytes: peak_rss(),
    })
}

/// The rows as a table.
pub fn text(rows: &[Row], style: Style) -> String {
    let best = rows.iter().map(|r| r.requests_per_s).fold(0.0, f64::max);
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|r| {
            vec![
                r.device.clone(),
                r.scheduler.clone(),
                r.workload.clone(),
                format!("{:.2} M/s", r.requests_per_s / 1e6),
                format!("{:.2}", r.requests_per_s / best),
                r.peak_rss_bytes.map_or("–".to_owned(), |b| format!("{:.0} MB", b as f64 / 1e6)),
            ]
        })
        .collect();
    let header = [
        ("device", Align::Left),
        ("scheduler", Align::Left),
        ("workload", Align::Left),
        ("simulated", Align::Right),
        ("of the fastest", Align::Right),
        ("peak memory", Align::Right),
    ];
    table(&header, &lines, style)
}

fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Lets the kernel count the peak anew; where it cannot, the peak is that of the whole program.
fn reset_peak_rss() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
