//! What `io.cost` needs to know of a drive: its model, from saturated loads as `iocost_coef_gen.py` of the kernel's tools runs
//! them, and a rate (`min` = `max`) that protects a service, as published solutions have it.

use std::sync::Arc;

use dumbwaiter_controllers::io_cost::Settings;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use serde::Serialize;

use crate::{Cell, Control, Failure, Finished, Matrix, Stack, World};

/// A key of the model, whether its figure is I/Os and not bytes, and the task.
type Saturated = (&'static str, bool, &'static str);

/// How many of the saturated loads read; they come first.
const READING: usize = 3;

/// The saturated loads. Sequential bandwidth is that of
/// one I/O of 128 MiB at a time, the rest 64 of 4 KiB at a time.
const SATURATED: [Saturated; 6] = [
    ("rbps", false, "rw = \"read\"\nbs = \"128MiB\"\n"),
    ("rseqiops", true, "rw = \"read\"\nbs = \"4k\"\niodepth = 64\n"),
    ("rrandiops", true, "rw = \"randread\"\nbs = \"4k\"\niodepth = 64\n"),
    ("wbps", false, "rw = \"write\"\nbs = \"128MiB\"\n"),
    ("wseqiops", true, "rw = \"write\"\nbs = \"4k\"\niodepth = 64\n"),
    ("wrandiops", true, "rw = \"randwrite\"\nbs = \"4k\"\niodepth = 64\n"),
];

/// What runs beside the service: each alone is able to fill the drive.
const NEIGHBOURS: [(&str, &str); 3] = [
    ("random reads", "rw = \"randread\"\nbs = \"4k\"\niodepth = 64\n"),
    ("a stream of writes", "rw = \"write\"\nbs = \"128k\"\niodepth = 16\n"),
    ("random writes", "rw = \"randwrite\"\nbs = \"4k\"\niodepth = 64\n"),
];

/// Rates that are tried, in percent of the model.
const RATES: [u32; 5] = [100, 80, 60, 40, 20];

/// The service asks for this part of the random reads that the drive serves: a twentieth.
const SERVICE_PART: u64 = 20;

/// By default the service's p99 may be this many times of that at the lowest rate.
const SLOWER: f64 = 1.5;

/// The drive at one rate.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// `min` and `max`, in percent.
    pub percent: u32,
    /// The service's p99 beside the neighbour that disturbs it most, µs.
    pub service_p99_us: f64,
    /// That neighbour.
    pub worst_beside: &'static str,
    /// What all move together beside each neighbour, as a part of what they move at 100 %; the least.
    pub throughput: f64,
    /// p99 of all reads and of all writes over the neighbours, the longest, µs; 0 where there were none.
    pub read_p99_us: f64,
    /// See `read_p99_us`.
    pub write_p99_us: f64,
}

/// `io.cost`'s parameters of a drive.
#[derive(Clone, Debug, Serialize)]
pub struct IoCostParameters {
    /// The device.
    pub device: String,
    /// As `io.cost.model` takes it.
    pub model: String,
    /// The longest p99 of the service that counts as protected, µs.
    pub service_p99_most_us: f64,
    /// What was tried, from the highest rate to the lowest.
    pub rates: Vec<Rate>,
    /// The highest rate that protects the service; `None` if none does.
    pub isolation_percent: Option<u32>,
    /// As `io.cost.qos` takes it: the drive's whole rate.
    pub qos_naive: String,
    /// As `io.cost.qos` takes it, at `isolation_percent`.
    pub qos_isolation: Option<String>,
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct IoCostPlan {
    /// The device, as the world names it.
    pub device: String,
    /// The longest p99 of a service that counts as protected, µs; `None`: one and a half times of that at the lowest rate.
    pub service_p99_most_us: Option<f64>,
}

/// Measures the parameters of a drive in a world.
///
/// # Errors
/// A device that the world does not have, runs that fail, or an interruption.
pub fn io_cost_parameters(
    plan: &IoCostPlan,
    world: &dyn World,
    control: &Control,
) -> Result<IoCostParameters, Failure> {
    let (model, results) = saturated(&plan.device, &SATURATED, world, control)?;
    let randiops = (results[2].iops.round() as u64).max(SERVICE_PART);

    let mut cells = Vec::new();
    for percent in RATES {
        let stack = SchedulerSpec::parse(&format!("none+io.cost:qos=min={percent} max={percent},model={model}"))
            .map_err(Failure::refused)?;
        for (_, neighbour) in NEIGHBOURS {
            let load = beside(randiops / SERVICE_PART, neighbour);
            cells.push(cell(&plan.device, world, &load, stack.clone())?);
        }
    }
    let results = run_all(cells, world, control)?;
    Ok(judge(plan, model, &results))
}

/// Measures what the loads that read say of the model, `rbps`, `rseqiops` and `rrandiops`, as `io.cost.model` takes them. The
/// kernel keeps what it has for writes.
///
/// # Errors
/// A device that the world does not have, runs that fail, or an interruption.
pub fn io_cost_reads(device: &str, world: &dyn World, control: &Control) -> Result<String, Failure> {
    saturated(device, &SATURATED[..READING], world, control).map(|(model, _)| model)
}

/// Runs loads that fill the drive: what they say of the model, and the runs.
fn saturated(
    device: &str,
    loads: &[Saturated],
    world: &dyn World,
    control: &Control,
) -> Result<(String, Vec<RunResult>), Failure> {
    let none = SchedulerSpec::named("none");
    let cells = loads.iter().map(|(_, _, task)| {
        let load = format!("[kernel]\nwbt = \"off\"\n[[task]]\nname = \"load\"\n{task}");
        cell(device, world, &load, none.clone())
    });
    let results = run_all(cells.collect::<Result<Vec<_>, _>>()?, world, control)?;
    let of = |((key, ios, _), run): (&Saturated, &RunResult)| {
        let rate = if *ios { run.iops } else { run.mb_per_s * 1e6 };
        format!("{key}={}", (rate.round() as u64).max(1))
    };
    Ok((loads.iter().zip(&results).map(of).collect::<Vec<_>>().join(" "), results))
}

/// A service of weight 500 that reads at a pace, and a neighbour of weight 100.
fn beside(service_iops: u64, neighbour: &str) -> String {
    let service = format!(
        "[[tenant]]\nname = \"service\"\nio_weight = 500\nfocus = true\n[[tenant.task]]\nname = \"reads\"\nrw = \"randread\"\nbs = \"4k\"\niodepth = 16\nrate_iops = {}\n",
        service_iops.max(1)
    );
    format!("{service}[[tenant]]\nname = \"neighbour\"\nio_weight = 100\n[[tenant.task]]\nname = \"load\"\n{neighbour}")
}

fn cell(device: &str, world: &dyn World, load: &str, scheduler: SchedulerSpec) -> Result<Cell, Failure> {
    // Without costs of a host: what is asked is what the drive can do.
    let text = format!("warmup = \"1s\"\nduration = \"2s\"\n{load}\n[host]\nprofile = \"free\"\n");
    let scenario = Scenario::from_toml(&text, "io.cost").map_err(|error| Failure::refused(error.to_string()))?;
    let stack = world.about().stacks.last().copied().unwrap_or(Stack::Simulated);
    Ok(Cell::of(&Arc::new(Prepared::new(&scenario)?), device, stack, scheduler))
}

fn run_all(cells: Vec<Cell>, world: &dyn World, control: &Control) -> Result<Vec<RunResult>, Failure> {
    let mut matrix = Matrix::new(cells);
    match matrix.run(world, control) {
        Finished::All => Ok(matrix.results().map(|result| result.run.clone()).collect()),
        Finished::Cancelled => Err(Failure::interrupted("interrupted; nothing was measured")),
        Finished::Failed(failure) => Err(failure),
    }
}

/// The rates' figures, from the runs in the order of [`RATES`] and, of each, of [`NEIGHBOURS`].
fn judge(plan: &IoCostPlan, model: String, runs: &[RunResult]) -> IoCostParameters {
    let most = |values: &mut dyn Iterator<Item = f64>| values.filter(|v| v.is_finite()).fold(0.0, f64::max);
    let p99_of = |run: &RunResult, tenant: &str| {
        run.tenants.iter().find(|t| t.name == tenant).map_or(f64::NAN, |tenant| tenant.latency_us.p99)
    };
    let full: Vec<f64> = runs[..NEIGHBOURS.len()].iter().map(|run| run.mb_per_s).collect();
    let rates: Vec<Rate> = RATES
        .iter()
        .zip(runs.chunks(NEIGHBOURS.len()))
        .map(|(percent, runs)| {
            let service: Vec<f64> = runs.iter().map(|run| p99_of(run, "service")).collect();
            let worst = (0..runs.len()).max_by(|a, b| service[*a].total_cmp(&service[*b])).unwrap_or(0);
            let throughput = runs.iter().zip(&full).map(|(run, full)| run.mb_per_s / full.max(1e-9));
            // The first neighbour reads, the others write.
            let reads = runs.iter().map(|run| p99_of(run, "service")).chain([p99_of(&runs[0], "neighbour")]);
            Rate {
                percent: *percent,
                service_p99_us: service[worst],
                worst_beside: NEIGHBOURS[worst].0,
                throughput: throughput.fold(f64::INFINITY, f64::min),
                read_p99_us: most(&mut reads.into_iter()),
                write_p99_us: most(&mut runs[1..].iter().map(|run| p99_of(run, "neighbour"))),
            }
        })
        .collect();
    let lowest = rates.last().map_or(f64::NAN, |rate| rate.service_p99_us);
    let service_p99_most_us = plan.service_p99_most_us.unwrap_or(lowest * SLOWER);
    let protected = rates.iter().find(|rate| rate.service_p99_us <= service_p99_most_us);
    IoCostParameters {
        device: plan.device.clone(),
        model,
        service_p99_most_us,
        isolation_percent: protected.map(|rate| rate.percent),
        qos_naive: qos(&rates[0]),
        qos_isolation: protected.map(qos),
        rates,
    }
}

/// A fixed rate. The percentiles are 0, so the latencies set the period alone: the kernel's default ones would keep it too short
/// or too long for the drive.
fn qos(rate: &Rate) -> String {
    let us = |latency: f64| (latency.round() as u64).clamp(1, u32::MAX.into());
    let Rate { percent, .. } = rate;
    format!(
        "rpct=0.00 rlat={} wpct=0.00 wlat={} min={percent}.00 max={percent}.00",
        us(rate.read_p99_us),
        us(rate.write_p99_us)
    )
}

impl IoCostParameters {
    /// The lines that set them through the files of the root cgroup, for a device that is named `MAJ:MIN` there; by default the
    /// rate that protects, else the whole.
    pub fn commands(&self, device: &str) -> Vec<String> {
        let qos = self.qos_isolation.as_ref().unwrap_or(&self.qos_naive);
        vec![
            format!("echo '{device} ctrl=user model=linear {}' > /sys/fs/cgroup/io.cost.model", self.model),
            format!("echo '{device} enable=1 ctrl=user {qos}' > /sys/fs/cgroup/io.cost.qos"),
        ]
    }

    /// An entry of udev's hardware database for drives of this model name, which systemd 254 and later apply (`iocost apply`).
    pub fn hwdb(&self, model_name: &str) -> String {
        let solutions = [("isolation", self.qos_isolation.as_ref()), ("naive", Some(&self.qos_naive))];
        let known: Vec<(&str, &String)> = solutions.into_iter().filter_map(|(name, qos)| Some((name, qos?))).collect();
        let names = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ");
        let of = |(name, qos): &(&str, &String)| {
            let upper = name.to_uppercase().replace('-', "_");
            format!("  IOCOST_MODEL_{upper}={}\n  IOCOST_QOS_{upper}={qos}\n", self.model)
        };
        let each: String = known.iter().map(of).collect();
        format!("block:*:name:{model_name}:fwrev:*:\n  IOCOST_SOLUTIONS={names}\n{each}")
    }

    /// The settings, as the simulator takes them, checked by the reader of the kernel's files.
    ///
    /// # Errors
    /// Never for parameters that were measured.
    pub fn settings(&self) -> Result<Settings, Failure> {
        let qos = self.qos_isolation.as_ref().unwrap_or(&self.qos_naive);
        let settings = Settings { enabled: true, ..Settings::default() };
        settings.with_model(&self.model).and_then(|s| s.with_qos(qos)).map_err(Failure::refused)
    }
}
