//! Builds and simulates the runs of a scenario.

use std::collections::BTreeMap;

use dumbwaiter_block::{BlockLayer, Config, Fault, Limits, Nanos, Setup};
use dumbwaiter_devices::DeviceModel;
use dumbwaiter_experiment::{BlockDevice, CellResult, Control, replacements};
use dumbwaiter_measure::{
    ApplicationStats, CpuFacts, Ledger, Merges, Recorder, RecorderConfig, RunFacts, RunResult, TaskSpec, TenantSpec,
};
use dumbwaiter_scenario::load::{RunLimit, applications};
use dumbwaiter_scenario::{HostCosts, Scenario};
use dumbwaiter_schedulers::Choice;

use crate::host::{self, Completion, Host};
use crate::power;
use crate::run::{Replacement, Run, RunParts};

/// Why a scenario could not be simulated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] dumbwaiter_scenario::Error),
    /// The load could not be built.
    #[error(transparent)]
    Load(#[from] dumbwaiter_scenario::load::Error),
    /// An unknown value of a setting of the simulator.
    #[error("{key}: `{value}` is not known; expected {expected}")]
    Setting {
        /// The key.
        key: &'static str,
        /// The value found.
        value: String,
        /// The values accepted.
        expected: String,
    },
    /// The scheduler violated its contract with the block layer, or scheduler or device make no progress.
    #[error("{device}, {scheduler}: {fault}. This is a defect; please report the scenario and seed")]
    Fault {
        /// The device.
        device: String,
        /// The scheduler.
        scheduler: String,
        /// The fault.
        fault: Fault,
    },
    /// Requests were lost or duplicated: a defect of this program.
    #[error(
        "{device}, {scheduler}: requests are not conserved: {what}. This is a defect; please report the scenario and seed"
    )]
    NotConserved {
        /// The device.
        device: String,
        /// The scheduler.
        scheduler: String,
        /// The imbalance.
        what: String,
    },
}

/// A scenario with its traces surveyed, ready to be simulated.
pub struct Prepared {
    load: dumbwaiter_scenario::load::Prepared,
}

impl Prepared {
    /// Surveys the traces of the scenario.
    pub fn new(scenario: &Scenario) -> Result<Prepared, Error> {
        scenario.host.profile.costs()?;
        Ok(Prepared { load: dumbwaiter_scenario::load::Prepared::new(scenario)? })
    }

    /// Simulates one cell with the first of the scenario's completion methods.
    pub fn run(
        &self,
        model: &DeviceModel,
        choice: &Choice,
        replicate: u32,
        control: &Control,
    ) -> Result<CellResult, Error> {
        let first = self.load.scenario().completion.first();
        self.run_as(model, choice, first.copied().unwrap_or_default(), replicate, control)
    }

    /// Simulates one cell.
    pub fn run_as(
        &self,
        model: &DeviceModel,
        choice: &Choice,
        completion: Completion,
        replicate: u32,
        control: &Control,
    ) -> Result<CellResult, Error> {
        run(&self.load, model, choice, completion, replicate, control)
    }
}

/// Simulates one run of a load.
pub(crate) fn run(
    prepared: &dumbwaiter_scenario::load::Prepared,
    model: &DeviceModel,
    choice: &Choice,
    completion: Completion,
    replicate: u32,
    control: &Control,
) -> Result<CellResult, Error> {
    let Started { run, replays, tasks, tenants, seed, profile, cpus, notes, .. } =
        start(prepared, model, choice, completion, replicate, control)?;
    let s = prepared.scenario();
    let mut outcome = run.finish();
    let applications = applications(std::mem::take(&mut outcome.applications), &tasks, &tenants);
    let skipped = replays.finish(outcome.issued_late)?;
    let cancelled = outcome.cancelled;
    if let Some(fault) = outcome.layers.iter().find_map(BlockLayer::fault) {
        let (device, scheduler) = (model.name().into(), choice.label().into());
        return Err(Error::Fault { device, scheduler, fault: *fault });
    }
    if let Some(what) = outcome.layers.iter().find_map(|layer| layer.ledger().imbalance()) {
        return Err(Error::NotConserved { device: model.name().into(), scheduler: choice.label().into(), what });
    }
    let energy = power::joules(&profile, model, cpus, &outcome, s.warmup);
    let mut run = result(model, choice, replicate, seed, energy, outcome, applications);
    run.same_load = prepared.is_recorded();
    Ok(CellResult { notes, skipped, cancelled, ..CellResult::of(run) })
}

/// A run that is set up, with what is needed beside it.
pub(crate) struct Started<'a> {
    pub(crate) run: Run<'a>,
    /// Setup of a scheduler that takes over.
    pub(crate) setup: Setup,
    replays: dumbwaiter_scenario::load::Replays,
    tasks: Vec<TaskSpec>,
    tenants: Vec<TenantSpec>,
    seed: u64,
    pub(crate) profile: HostCosts,
    cpus: u16,
    notes: Vec<String>,
}

/// Sets up one run of a load.
pub(crate) fn start<'a>(
    prepared: &dumbwaiter_scenario::load::Prepared,
    model: &DeviceModel,
    choice: &Choice,
    completion: Completion,
    replicate: u32,
    control: &'a Control,
) -> Result<Started<'a>, Error> {
    let s = prepared.scenario();
    let seed = s.seed.wrapping_add(u64::from(replicate));
    let facts = model.facts();
    let config = config(s, model, choice);
    let cpus = config.setup.cpus;
    let load = prepared.load(seed, facts.capacity_sectors.saturating_mul(u64::from(s.drives)), cpus)?;
    let tasks = load.task_specs.clone();
    let tenants = load.tenant_specs.clone();
    let recorder = Recorder::new(RecorderConfig {
        warmup: s.warmup,
        interval: s.series,
        tenants: load.tenant_specs,
        tasks: load.task_specs,
    });
    let profile = costs_of(&s.host)?;
    let smt = uses_smt(&s.host, &profile);
    let legacy_link = facts.rotational || facts.depth <= 32;
    let cost = host::scheduler_cost(&profile, choice.entry().name);
    let device_seed = seed ^ DEVICE_SEED;
    let exchanges = exchanges(s, config.setup, &profile)?;
    let classes = choice.uses_classes(config.setup)
        || exchanges.iter().flat_map(|(stacks, _)| stacks).any(|stack| stack.scheduler.class_weights().is_some());
    let slowest = model.slowest();
    let device = |number: u8| {
        let model = if s.drives > 1 && number == s.drives - 1 { &slowest } else { model };
        let seed = device_seed.wrapping_add(u64::from(number).wrapping_mul(OF_NEXT_DRIVE));
        if classes { model.build_with_classes(seed) } else { model.build(seed) }
    };
    let run = Run::new(RunParts {
        config,
        stacks: (0..s.drives).map(|_| choice.build(config.setup)).collect(),
        oracle: model.oracle(device_seed),
        tenants: load.tenants,
        devices: (0..s.drives).map(device).collect(),
        sectors: facts.capacity_sectors,
        host: Host::new(&profile, cost, cpus, smt, legacy_link, seed)
            .with_completion(completion)
            .with_tick(config.setup.clock.period),
        recorder,
        kernel: s.kernel_controls(choice.controls()),
        controls: s.tenant_controls(choice.controls(), load.controls),
        threads: load.threads,
        changes: s.tenant_changes(choice.controls(), load.changes),
        schedulers: exchanges,
        limit: RunLimit::of(s),
        kernel_latency: s.host.kernel_latency,
        control,
    });
    Ok(Started {
        run,
        setup: config.setup,
        replays: load.replays,
        tasks,
        tenants,
        seed,
        profile,
        cpus,
        notes: load.notes,
    })
}

/// Separates the random numbers of the device from those of the workloads.
const DEVICE_SEED: u64 = 0x6465_7669_6365_0001;
/// Separates those of one drive from those of the next.
const OF_NEXT_DRIVE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The host's costs, scaled to its clock.
fn costs_of(host: &dumbwaiter_scenario::Host) -> Result<HostCosts, Error> {
    let costs = host.profile.costs()?;
    Ok(host.cpu_mhz.map_or_else(|| (*costs).clone(), |mhz| costs.at(mhz)))
}

/// Do two CPUs share a core?
fn uses_smt(host: &dumbwaiter_scenario::Host, profile: &HostCosts) -> bool {
    host.smt.unwrap_or(profile.smt_from_cpus > 0 && host.cpus >= profile.smt_from_cpus)
}

/// Is it a drive at a SATA port?
fn is_sata(model: &DeviceModel) -> bool {
    let facts = model.facts();
    facts.queues == 1 && facts.depth <= SATA_TAGS && matches!(model.kind().name(), "hdd" | "ssd")
}

/// The schedulers of the scenario's exchanges, in order.
fn exchanges(s: &Scenario, setup: Setup, profile: &HostCosts) -> Result<Vec<Replacement>, Error> {
    let all = replacements(s, setup).map_err(|(change, why)| Error::Setting {
        key: "change.scheduler",
        value: change.scheduler.to_string(),
        expected: why.to_string(),
    })?;
    Ok(all.into_iter().map(|(choice, built)| (built, host::scheduler_cost(profile, choice.entry().name))).collect())
}

/// Tags of a SATA port, whatever the depth of the drive (Linux: AHCI).
const SATA_TAGS: u32 = 32;

fn config(s: &Scenario, model: &DeviceModel, choice: &Choice) -> Config {
    let facts = model.facts();
    let cpus = s.host.cpus.max(1);
    let hw_queues = s.host.hw_queues.unwrap_or(facts.queues).clamp(1, cpus);
    // Queues that no CPU uses own tags that nobody gets.
    let per_queue = facts.depth / u32::from(facts.queues.max(1));
    let depth = (per_queue * u32::from(hw_queues)).clamp(1, facts.depth);
    let device = BlockDevice {
        depth,
        used_depth: depth,
        host_tags: is_sata(model).then_some(SATA_TAGS),
        single_queue: choice.scheduler(Setup::default()).traits().single_queue,
        smt: s.host.profile.costs().is_ok_and(|costs| uses_smt(&s.host, &costs)),
        cpus,
        hw_queues,
        max_sectors: facts.max_sectors.min(Limits::default().max_sectors),
        rotational: facts.rotational,
        volatile_cache: facts.volatile_cache,
        fua: facts.fua,
        tasks_sleep: true,
    };
    device.config(s)
}

fn device_counters(counters: &[dumbwaiter_devices::Counters]) -> BTreeMap<String, f64> {
    let counters = counters.iter().fold(dumbwaiter_devices::Counters::default(), |sum, of_one| sum.plus(of_one));
    let named = [
        ("cache_hits", counters.cache_hits as f64),
        ("media_busy_s", counters.media_busy.as_secs_f64()),
        ("link_busy_s", counters.link_busy.as_secs_f64()),
        ("gc_runs", counters.gc_runs as f64),
        ("gc_moved_pages", counters.gc_moved_pages as f64),
        ("max_depth", f64::from(counters.max_depth)),
        ("flushes", counters.flushes as f64),
    ];
    named.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn result(
    model: &DeviceModel,
    choice: &Choice,
    replicate: u32,
    seed: u64,
    energy: Option<(f64, String)>,
    outcome: crate::RunOutput,
    applications: Vec<ApplicationStats>,
) -> RunResult {
    let mut ledger = dumbwaiter_block::Ledger::default();
    let mut scheduler_counters = BTreeMap::new();
    for layer in &outcome.layers {
        ledger.join(layer.ledger());
        // Counts add up; what is a percentage is one of all drives.
        let of = |name: &str| if name.ends_with("_percent") { outcome.layers.len() as f64 } else { 1.0 };
        layer.counters(&mut |name, count| {
            *scheduler_counters.entry(name.to_owned()).or_insert(0.0) += count as f64 / of(name);
        });
    }
    let counters = outcome.counters;
    let measured = &outcome.measured;
    // All drives exchange their schedulers together.
    let switches = outcome.layers[0].switches();
    let facts = RunFacts {
        device: model.name().into(),
        scheduler: choice.label().into(),
        variant: String::new(),
        completion: outcome.host.completion().to_string(),
        world: "sim".into(),
        via: "sim".into(),
        energy,
        replicate,
        seed,
        merges: Merges::from(&ledger),
        ledger: Ledger {
            submitted: ledger.submitted,
            completed: ledger.completed,
            failed: ledger.failed,
            rejected: ledger.rejected,
            ..Ledger::default()
        },
        cpu: CpuFacts {
            busy: measured.busy.iter().copied().map(Nanos).collect(),
            submit: Nanos(measured.spent.submit),
            scheduler: Nanos(measured.spent.scheduler),
            irq: Nanos(measured.spent.complete),
            poll: Nanos(measured.activity.poll),
            usr: Nanos(measured.spent.user),
            sys: Nanos(measured.busy.iter().sum::<u64>().saturating_sub(measured.spent.user)),
            switches: Some(measured.activity.switches),
        },
        applications,
        host_counters: power::host_counters(&measured.activity, &measured.spent),
        scheduler_counters,
        switches: (switches.count > 0).then_some((switches.count, switches.pause)),
        device_counters: device_counters(&counters),
    };
    outcome.recorder.finish(outcome.end, facts)
}
