//! The simulator as a world: cells on device models, in virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use dumbwaiter_block::hint::did_you_mean;
use dumbwaiter_devices::DeviceModel;
use dumbwaiter_experiment::{About, Cell, CellResult, Concurrency, Control, Failure, Refusal, Stack, Work, World};
use dumbwaiter_scenario::SchedulerSpec;
use dumbwaiter_schedulers::{Choice, ChoiceError, Entry, Factory, REGISTRY};

use crate::experiment::run;

/// Most pairs of a CPU and a hardware queue: state is kept for each.
const CPU_QUEUES_MAX: u64 = 65_536;

/// Runs cells on models of devices. One seed gives one result, whatever the number of jobs.
pub struct Simulator {
    jobs: usize,
    /// Models by name. A parameter file is read once, so that it cannot change between runs.
    models: Mutex<BTreeMap<String, Arc<DeviceModel>>>,
    /// Schedulers beside the registry's, by name.
    own: BTreeMap<String, (&'static Entry, Factory)>,
}

impl Simulator {
    /// A simulator that runs `jobs` cells at a time (at least 1).
    pub fn new(jobs: usize) -> Simulator {
        Simulator { jobs: jobs.max(1), models: Mutex::default(), own: BTreeMap::new() }
    }

    /// A simulator that uses every CPU.
    pub fn on_all_cpus() -> Simulator {
        Simulator::new(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// The same simulator, with a scheduler that is not in the registry. Cells choose it by `name`, without settings. It
    /// costs as much CPU time as `like`.
    #[must_use]
    pub fn with_scheduler(mut self, name: &str, like: &'static Entry, factory: Factory) -> Simulator {
        self.own.insert(name.to_owned(), (like, factory));
        self
    }

    /// The scheduler; `kernel`: the release that the host runs, if it is known.
    fn choice(&self, scheduler: &SchedulerSpec, kernel: Option<&str>) -> Result<Choice, ChoiceError> {
        let text = scheduler.to_string();
        match self.own.get(&text) {
            Some((like, factory)) => Ok(Choice::own(&text, like, Arc::clone(factory))),
            None => Choice::parse_stack(&text).map(|choice| kernel.into_iter().fold(choice, Choice::on_kernel)),
        }
    }

    fn model(&self, name: &str) -> Result<Arc<DeviceModel>, Refusal> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = models.get(name) {
            return Ok(Arc::clone(model));
        }
        let model = Arc::new(dumbwaiter_devices::load(name).map_err(|e| Refusal(e.to_string()))?);
        models.insert(name.to_owned(), Arc::clone(&model));
        Ok(model)
    }
}

impl World for Simulator {
    fn about(&self) -> About {
        About { name: "simulator".into(), stacks: vec![Stack::Simulated], ..About::default() }
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Independent(self.jobs)
    }

    fn capacity_sectors(&self, device: &str) -> Option<u64> {
        self.model(device).ok().map(|model| model.facts().capacity_sectors)
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        let Some(scenario) = cell.scenario() else {
            return Err(Refusal("a database runs on real devices only".into()));
        };
        let costs = scenario.host.profile.costs().map_err(|e| Refusal(e.to_string()))?;
        if let Some(unknown) = costs.schedulers.keys().find(|name| !REGISTRY.iter().any(|entry| entry.name == **name)) {
            let hint = did_you_mean(unknown, REGISTRY.iter().map(|entry| entry.name));
            return Err(Refusal(format!(
                "host profile {:?}: [schedulers.{unknown}]: no such scheduler{hint}",
                costs.name
            )));
        }
        self.choice(&cell.scheduler, costs.kernel.as_deref()).map_err(|e| Refusal(e.to_string()))?;
        let model = self.model(&cell.device)?;
        let cpus = u64::from(scenario.host.cpus.max(1));
        let queues = u64::from(scenario.host.hw_queues.unwrap_or(model.facts().queues)).clamp(1, cpus);
        if cpus * queues > CPU_QUEUES_MAX {
            let name = model.name();
            return Err(Refusal(format!(
                "{name}: {cpus} CPUs with {queues} queues are more than {CPU_QUEUES_MAX} pairs; set fewer host.hw_queues"
            )));
        }
        Ok(())
    }

    fn run(&self, cell: &Cell, control: &Control) -> Result<CellResult, Failure> {
        let Work::Scenario(load) = &cell.work else {
            return Err(Failure::refused("a database runs on real devices only"));
        };
        let model = self.model(&cell.device).map_err(Failure::refused)?;
        let (model, grown) = grown(model, load.grown_sectors())?;
        let costs = load.scenario().host.profile.costs().map_err(Failure::refused)?;
        let choice = self.choice(&cell.scheduler, costs.kernel.as_deref()).map_err(Failure::refused)?;
        let mut result =
            run(load, &model, &choice, cell.completion, cell.replicate, control).map_err(Failure::refused)?;
        let (depth, wanted) = (model.facts().depth, load.scenario().queue_depth.unwrap_or(0));
        if depth < wanted {
            let name = model.name();
            result.notes.push(format!("{name} holds {depth} commands: a queue depth of {wanted} is cut to that"));
        }
        let drives = load.scenario().drives;
        if drives > 1 {
            let name = model.name();
            result.notes.push(format!("{drives} drives {name} behind one host, each with a scheduler of its own"));
        }
        result.notes.extend(grown);
        Ok(result)
    }
}

/// The model made large enough for `sectors`, under its own name, with a remark.
fn grown(model: Arc<DeviceModel>, sectors: Option<u64>) -> Result<(Arc<DeviceModel>, Option<String>), Failure> {
    let capacity = model.facts().capacity_sectors;
    let Some(sectors) = sectors.filter(|sectors| *sectors > capacity) else { return Ok((model, None)) };
    let larger = model.grown(sectors).map_err(|e| Failure::refused(format!("fit = \"grow\": {e}")))?;
    let gib = |sectors: u64| sectors.div_ceil(2 << 20);
    let note = format!(
        "{} was made larger for the trace: {} GiB instead of {} GiB (--fit grow)",
        model.name(),
        gib(sectors),
        gib(capacity)
    );
    Ok((Arc::new(larger), Some(note)))
}
