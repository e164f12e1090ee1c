//! The throughput table of `adaptive`: steady loads under each scheduler, measured in a world.

use std::sync::Arc;

use dumbwaiter_learn::shipped;
use dumbwaiter_load::Prepared;
use dumbwaiter_measure::RunResult;
use dumbwaiter_policy::{MeasuredLoad, Measurement, ScoreTable};
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_schedulers::adaptive::{OBSERVED_CLASSES, OBSERVED_LOAD, OBSERVED_OUTSTANDING};

use crate::{Cell, Control, Failure, Finished, Matrix, Stack, World};

/// The classifier whose posteriors a table holds.
const CLASSIFIER: &str = "classifier";

/// A device of a table.
#[derive(Clone, Debug)]
pub struct TableDevice {
    /// As it was given: `DEVICE` or `DEVICE@DEPTH`.
    pub text: String,
    /// The device model.
    pub name: String,
    /// It is a disk with a moving arm.
    pub rotational: bool,
    /// Requests that it may hold.
    pub depth: u32,
}

impl TableDevice {
    /// Reads `DEVICE` or `DEVICE@DEPTH`: a device model, and how many requests it may hold of those that it can.
    ///
    /// # Errors
    /// A model that does not load, or a depth that is none.
    pub fn parse(text: &str) -> Result<TableDevice, Failure> {
        let (name, depth) = match text.rsplit_once('@') {
            Some((name, depth)) => match depth.parse() {
                Ok(depth) if depth > 0 => (name, Some(depth)),
                _ => {
                    return Err(Failure::refused(format!(
                        "--device {text}: `{depth}` is not a depth; expected DEVICE@DEPTH with a depth of at least 1"
                    )));
                }
            },
            None => (text, None),
        };
        let facts = dumbwaiter_devices::load(name).map_err(|error| Failure::refused(error.to_string()))?.facts();
        Ok(TableDevice {
            text: text.to_owned(),
            name: name.to_owned(),
            rotational: facts.rotational,
            depth: depth.unwrap_or(facts.depth).min(facts.depth),
        })
    }
}

/// Devices, schedulers and replicates of a table.
#[derive(Clone, Debug)]
pub struct TablePlan {
    /// The devices.
    pub devices: Vec<TableDevice>,
    /// The schedulers, as `candidates` of `adaptive` takes them.
    pub schedulers: Vec<String>,
    /// Runs of each cell; a policy uses cells of at least five.
    pub replicates: u32,
}

impl TablePlan {
    /// The command that makes it, for [`ScoreTable::made_by`].
    pub fn command(&self) -> String {
        let devices: String = self.devices.iter().map(|device| format!(" --device {}", device.text)).collect();
        let schedulers = self.schedulers.join(",");
        format!(
            "dumbwaiter {} learn table{devices} --schedulers {schedulers} --replicates {}",
            env!("CARGO_PKG_VERSION"),
            self.replicates
        )
    }
}

/// A steady load.
struct Load {
    name: &'static str,
    /// The task's keys; empty for [`STREAMS_AND_RANDOM`].
    keys: &'static str,
    /// On a disk, few tasks more or less change which scheduler is best; on flash a few loads say as much.
    only_disks: bool,
}

const fn on_all(name: &'static str, keys: &'static str) -> Load {
    Load { name, keys, only_disks: false }
}

const fn on_disks(name: &'static str, keys: &'static str) -> Load {
    Load { name, keys, only_disks: true }
}

const LOADS: [Load; 34] = [
    on_all("random-1x32", "rw = \"randread\"\nbs = \"4k\"\niodepth = 32\n"),
    on_disks("random-1x8", "rw = \"randread\"\nbs = \"4k\"\niodepth = 8\n"),
    on_disks("random-2x8", "count = 2\nrw = \"randread\"\nbs = \"4k\"\niodepth = 8\n"),
    on_all("random-4x4", "count = 4\nrw = \"randread\"\nbs = \"4k\"\niodepth = 4\n"),
    on_disks("random-4x1", "count = 4\nrw = \"randread\"\nbs = \"8k\"\niodepth = 1\n"),
    on_disks("random-6x4", "count = 6\nrw = \"randread\"\nbs = \"4k\"\niodepth = 4\n"),
    on_all("random-8x4", "count = 8\nrw = \"randread\"\nbs = \"4k\"\niodepth = 4\n"),
    on_disks("random-8x1", "count = 8\nrw = \"randread\"\nbs = \"4k\"\niodepth = 1\n"),
    on_disks("random-12x2", "count = 12\nrw = \"randread\"\nbs = \"16k\"\niodepth = 2\n"),
    on_disks("random-16x4", "count = 16\nrw = \"randread\"\nbs = \"4k\"\niodepth = 4\n"),
    on_disks("random-16x1", "count = 16\nrw = \"randread\"\nbs = \"4k\"\niodepth = 1\n"),
    on_all("random-32x1", "count = 32\nrw = \"randread\"\nbs = \"4k\"\niodepth = 1\n"),
    on_all("random-64k-8x2", "count = 8\nrw = \"randread\"\nbs = \"64k\"\niodepth = 2\n"),
    on_disks("random-64k-4x4", "count = 4\nrw = \"randread\"\nbs = \"64k\"\niodepth = 4\n"),
    on_disks("random-mixed-3x4", "count = 3\nrw = \"randrw\"\nrwmixread = 70\nbs = \"4k\"\niodepth = 4\n"),
    on_disks("random-mixed-5x4", "count = 5\nrw = \"randrw\"\nrwmixread = 65\nbs = \"4k\"\niodepth = 4\n"),
    on_all("random-mixed-8x4", "count = 8\nrw = \"randrw\"\nrwmixread = 70\nbs = \"4k\"\niodepth = 4\n"),
    on_disks("random-mixed-8x1", "count = 8\nrw = \"randrw\"\nrwmixread = 60\nbs = \"8k\"\niodepth = 1\n"),
    on_disks("random-mixed-16x2", "count = 16\nrw = \"randrw\"\nrwmixread = 50\nbs = \"4k\"\niodepth = 2\n"),
    on_disks("random-write-3x4", "count = 3\nrw = \"randwrite\"\nbs = \"4k\"\niodepth = 4\n"),
    on_all("random-write-8x4", "count = 8\nrw = \"randwrite\"\nbs = \"4k\"\niodepth = 4\n"),
    on_all("streams-2", "count = 2\nrw = \"read\"\nbs = \"64k\"\noffset_increment = \"40%\"\nsize = \"20%\"\n"),
    on_disks("streams-3", "count = 3\nrw = \"read\"\nbs = \"128k\"\noffset_increment = \"30%\"\nsize = \"20%\"\n"),
    on_all("streams-4", "count = 4\nrw = \"read\"\nbs = \"64k\"\noffset_increment = \"24%\"\nsize = \"10%\"\n"),
    on_all("streams-8", "count = 8\nrw = \"read\"\nbs = \"64k\"\noffset_increment = \"12%\"\nsize = \"10%\"\n"),
    on_disks("streams-128k-12", "count = 12\nrw = \"read\"\nbs = \"128k\"\noffset_increment = \"8%\"\nsize = \"7%\"\n"),
    on_all("streams-16", "count = 16\nrw = \"read\"\nbs = \"64k\"\noffset_increment = \"6%\"\nsize = \"5%\"\n"),
    on_all("streams-256k-4", "count = 4\nrw = \"read\"\nbs = \"256k\"\noffset_increment = \"24%\"\nsize = \"10%\"\n"),
    on_disks("streams-256k-8", "count = 8\nrw = \"read\"\nbs = \"256k\"\noffset_increment = \"12%\"\nsize = \"10%\"\n"),
    on_disks(
        "stream-writes-2",
        "count = 2\nrw = \"write\"\nbs = \"64k\"\noffset_increment = \"40%\"\nsize = \"20%\"\n",
    ),
    on_all("stream-writes-4", "count = 4\nrw = \"write\"\nbs = \"64k\"\noffset_increment = \"24%\"\nsize = \"10%\"\n"),
    on_disks(
        "stream-writes-8",
        "count = 8\nrw = \"write\"\nbs = \"128k\"\noffset_increment = \"12%\"\nsize = \"10%\"\n",
    ),
    on_all("streams-and-random", ""),
    on_disks("random-write-16x2", "count = 16\nrw = \"randwrite\"\nbs = \"8k\"\niodepth = 2\n"),
];
const STREAMS_AND_RANDOM: &str = "[[task]]\nname = \"streams\"\ncount = 3\nrw = \"read\"\nbs = \"64k\"\n\
     offset_increment = \"30%\"\nsize = \"10%\"\n[[task]]\nname = \"random\"\ncount = 3\nrw = \"randread\"\nbs = \"4k\"\n\
     iodepth = 4\n";

impl TableDevice {
    fn loads(&self) -> impl Iterator<Item = &'static Load> {
        LOADS.iter().filter(|load| self.rotational || !load.only_disks)
    }
}

fn scenario(device: &TableDevice, keys: &str) -> Result<Scenario, Failure> {
    // A disk serves some hundred requests a second, flash some ten thousand.
    let (warmup, duration) = if device.rotational { ("3s", "10s") } else { ("200ms", "1s") };
    let tasks =
        if keys.is_empty() { STREAMS_AND_RANDOM.to_owned() } else { format!("[[task]]\nname = \"load\"\n{keys}") };
    let text = format!("queue_depth = {}\nwarmup = \"{warmup}\"\nduration = \"{duration}\"\n{tasks}", device.depth);
    Scenario::from_toml(&text, "table").map_err(|error| Failure::refused(error.to_string()))
}

/// Measures a throughput table. Each cell runs under `adaptive` with one candidate, which notes what the load looks like.
pub fn score_table(plan: &TablePlan, world: &dyn World, control: &Control) -> Result<ScoreTable, Failure> {
    let refused = |error: String| Failure::refused(format!("shipped:{CLASSIFIER}: {error}"));
    let model = shipped::model(CLASSIFIER).ok_or_else(|| refused("it is missing".to_owned()))?;
    let classes = model.map_err(|error| refused(error.to_string()))?.about.classes;
    let stack = world.about().stacks.last().copied().unwrap_or(Stack::Simulated);
    let mut cells = Vec::new();
    for device in &plan.devices {
        for load in device.loads() {
            let load = Arc::new(Prepared::new(&scenario(device, load.keys)?)?);
            for scheduler in &plan.schedulers {
                let text =
                    format!("adaptive:by=trial,candidates={},model=shipped:{CLASSIFIER}", scheduler.replace(',', ";"));
                let spec = SchedulerSpec::parse(&text).map_err(Failure::refused)?;
                let cell = Cell::of(&load, &device.name, stack, spec);
                cells.extend((0..plan.replicates).map(|replicate| Cell { replicate, ..cell.clone() }));
            }
        }
    }
    let mut matrix = Matrix::new(cells);
    match matrix.run(world, control) {
        Finished::All => {}
        Finished::Cancelled => return Err(Failure::interrupted("interrupted; no table was made")),
        Finished::Failed(failure) => return Err(failure),
    }
    let mut table = ScoreTable::new(plan.command(), format!("shipped:{CLASSIFIER}"), classes);
    let runs: Vec<&RunResult> = matrix.results().map(|result| &result.run).collect();
    let mut of_cell = runs.chunks(plan.replicates.max(1) as usize);
    for device in &plan.devices {
        for Load { name, .. } in device.loads() {
            let of_load: Vec<&[&RunResult]> = of_cell.by_ref().take(plan.schedulers.len()).collect();
            let cells = plan.schedulers.iter().zip(&of_load);
            table.loads.push(MeasuredLoad {
                name: (*name).to_owned(),
                device: device.name.clone(),
                rotational: device.rotational,
                depth: device.depth,
                signature: OBSERVED_LOAD.map(|part| mean(of_load.concat().iter().map(|run| counter(run, part)))),
                outstanding: outstanding(&of_load.concat()),
                cells: cells.map(|(scheduler, runs)| table_cell(scheduler, runs, table.classes.len())).collect(),
            });
        }
    }
    Ok(table)
}

fn table_cell(scheduler: &str, runs: &[&RunResult], classes: usize) -> Measurement {
    let of = |figure: fn(&RunResult) -> f64| {
        let values: Vec<f64> = runs.iter().map(|run| figure(run)).collect();
        let mean = mean(values.iter().copied());
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        [mean, (squares / (values.len() as f64 - 1.0).max(1.0)).sqrt()].map(rounded)
    };
    let classified: Vec<&&RunResult> =
        runs.iter().filter(|run| run.scheduler_counters.contains_key(OBSERVED_CLASSES[0])).collect();
    let share = |class: usize| mean(classified.iter().map(|run| counter(run, OBSERVED_CLASSES[class])));
    Measurement {
        scheduler: scheduler.to_owned(),
        runs: runs.len() as u32,
        mb_per_s: of(|run| run.mb_per_s),
        latency_ms: of(|run| run.latency_us.mean / 1e3),
        classes: if classified.is_empty() { Vec::new() } else { (0..classes).map(share).collect() },
    }
}

/// The mean over the runs that knew it.
fn outstanding(runs: &[&RunResult]) -> Option<f64> {
    let known = |run: &&&RunResult| run.scheduler_counters.contains_key(OBSERVED_OUTSTANDING);
    let known: Vec<f64> = runs.iter().filter(known).map(|run| counter(run, OBSERVED_OUTSTANDING)).collect();
    (!known.is_empty()).then(|| mean(known.into_iter()))
}

/// A counter in millionths.
fn counter(run: &RunResult, name: &str) -> f64 {
    run.scheduler_counters.get(name).copied().unwrap_or(0.0) / 1e6
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    rounded(sum / f64::from(count.max(1)))
}

/// Six digits: more than a table needs.
fn rounded(value: f64) -> f64 {
    let scale = 10f64.powi(6 - value.abs().max(1e-6).log10().ceil() as i32);
    (value * scale).round() / scale
}
