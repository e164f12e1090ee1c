//! The throughput table of `adaptive`: steady loads under each scheduler, measured in a world.

use std::sync::Arc;

use dumbwaiter_controllers::adaptive::{OBSERVED_CLASSES, OBSERVED_LOAD, OBSERVED_OUTSTANDING};
use dumbwaiter_controllers::switching::{MeasuredLoad, Measurement, ScoreTable};
use dumbwaiter_learn::shipped;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Scenario, SchedulerSpec};

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

/// Tasks and outstanding I/Os of the random loads on disks: powers of two and, of the tasks, what lies halfway between.
const RANDOM_TASKS: [u32; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 32];
const RANDOM_DEPTHS: [u32; 4] = [1, 2, 4, 8];
/// More outstanding I/Os together wait for the same tags.
const RANDOM_OUTSTANDING_MAX: u32 = 64;
/// Tasks and outstanding I/Os of the random loads on flash, where a few say as much.
const RANDOM_ON_FLASH: [(u32, u32); 3] = [(4, 4), (8, 4), (32, 1)];
/// Random loads by the share of their reads.
const RANDOM_MIXES: [(&str, &str); 4] = [
    ("reads", "rw = \"randread\"\n"),
    ("mixed-75", "rw = \"randrw\"\nrwmixread = 75\n"),
    ("mixed-50", "rw = \"randrw\"\nrwmixread = 50\n"),
    ("writes", "rw = \"randwrite\"\n"),
];

/// A steady load.
struct Load {
    name: String,
    /// Its tasks, as a scenario has them.
    tasks: String,
}

/// A load of one kind of task: its name, the task's keys, and whether it is of disks only.
type Listed = (&'static str, &'static str, bool);

/// Random loads of other sizes, and streams.
const OTHERS: [Listed; 19] = [
    ("random-1x32", "rw = \"randread\"\nbs = \"4k\"\niodepth = 32\n", false),
    ("random-8k-4x1", "count = 4\nrw = \"randread\"\nbs = \"8k\"\niodepth = 1\n", true),
    ("random-16k-12x2", "count = 12\nrw = \"randread\"\nbs = \"16k\"\niodepth = 2\n", true),
    ("random-64k-8x2", "count = 8\nrw = \"randread\"\nbs = \"64k\"\niodepth = 2\n", false),
    ("random-64k-4x4", "count = 4\nrw = \"randread\"\nbs = \"64k\"\niodepth = 4\n", true),
    ("random-8k-mixed-50-8x1", "count = 8\nrw = \"randrw\"\nrwmixread = 50\nbs = \"8k\"\niodepth = 1\n", true),
    ("random-8k-writes-16x2", "count = 16\nrw = \"randwrite\"\nbs = \"8k\"\niodepth = 2\n", true),
    ("streams-2", "count = 2\nrw = \"read\"\nbs = \"64k\"\noffset_increment = \"40%\"\nsize = \"20%\"\n", false),
    ("streams-128k-3", "count = 3\nrw = \"read\"\nbs = \"128k\"\noffset_increment = \"30%\"\nsize = \"20%\"\n", true),
    ("streams-4", "count = 4\nrw = \"read\"\nbs = \"64k\"\noffset_increment = \"24%\"\nsize = \"10%\"\n", false),
    ("streams-8", "count = 8\nrw = \"read\"\nbs = \"64k\"\noffset_increment = \"12%\"\nsize = \"10%\"\n", false),
    ("streams-128k-12", "count = 12\nrw = \"read\"\nbs = \"128k\"\noffset_increment = \"8%\"\nsize = \"7%\"\n", true),
    ("streams-16", "count = 16\nrw = \"read\"\nbs = \"64k\"\noffset_increment = \"6%\"\nsize = \"5%\"\n", false),
    ("streams-256k-4", "count = 4\nrw = \"read\"\nbs = \"256k\"\noffset_increment = \"24%\"\nsize = \"10%\"\n", false),
    ("streams-256k-8", "count = 8\nrw = \"read\"\nbs = \"256k\"\noffset_increment = \"12%\"\nsize = \"10%\"\n", true),
    ("stream-writes-2", "count = 2\nrw = \"write\"\nbs = \"64k\"\noffset_increment = \"40%\"\nsize = \"20%\"\n", true),
    ("stream-writes-4", "count = 4\nrw = \"write\"\nbs = \"64k\"\noffset_increment = \"24%\"\nsize = \"10%\"\n", false),
    ("stream-writes-8", "count = 8\nrw = \"write\"\nbs = \"128k\"\noffset_increment = \"12%\"\nsize = \"10%\"\n", true),
    ("random-64k-writes-4x4", "count = 4\nrw = \"randwrite\"\nbs = \"64k\"\niodepth = 4\n", true),
];
const STREAMS_AND_RANDOM: &str = "[[task]]\nname = \"streams\"\ncount = 3\nrw = \"read\"\nbs = \"64k\"\n\
     offset_increment = \"30%\"\nsize = \"10%\"\n[[task]]\nname = \"random\"\ncount = 3\nrw = \"randread\"\nbs = \"4k\"\n\
     iodepth = 4\n";

impl TableDevice {
    fn loads(&self) -> Vec<Load> {
        let one_kind = |name: String, keys: &str| Load { name, tasks: format!("[[task]]\nname = \"load\"\n{keys}") };
        let mut loads = Vec::new();
        for (mix, keys) in RANDOM_MIXES {
            for (tasks, depth) in self.random() {
                let keys = format!("count = {tasks}\n{keys}bs = \"4k\"\niodepth = {depth}\n");
                loads.push(one_kind(format!("random-{mix}-{tasks}x{depth}"), &keys));
            }
        }
        let listed = OTHERS.iter().filter(|(.., only_disks)| self.rotational || !only_disks);
        loads.extend(listed.map(|(name, keys, _)| one_kind((*name).to_owned(), keys)));
        loads.push(Load { name: "streams-and-random".to_owned(), tasks: STREAMS_AND_RANDOM.to_owned() });
        loads
    }

    /// Tasks and outstanding I/Os of the random loads.
    fn random(&self) -> Vec<(u32, u32)> {
        if !self.rotational {
            return RANDOM_ON_FLASH.to_vec();
        }
        let all = RANDOM_TASKS.iter().flat_map(|tasks| RANDOM_DEPTHS.map(|depth| (*tasks, depth)));
        all.filter(|(tasks, depth)| tasks * depth <= RANDOM_OUTSTANDING_MAX).collect()
    }
}

fn scenario(device: &TableDevice, load: &Load) -> Result<Scenario, Failure> {
    // A disk serves some hundred requests a second, flash some ten thousand.
    let (warmup, duration) = if device.rotational { ("3s", "20s") } else { ("200ms", "1s") };
    let depth = device.depth;
    let text = format!("queue_depth = {depth}\nwarmup = \"{warmup}\"\nduration = \"{duration}\"\n{}", load.tasks);
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
            let load = Arc::new(Prepared::new(&scenario(device, &load)?)?);
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
                name,
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
