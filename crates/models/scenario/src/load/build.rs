//! Builds the threads of one run: one for each instance of a job, each part of an application, each trace, and one for
//! write-back where tasks are buffered.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::validate::INSTANCES_MAX;
use crate::{Affinity, Scenario, Task, Work};
use dumbwaiter_block::{Ioprio, Nanos, SECTOR_BYTES, Tenant, TenantId, Tenants};
use dumbwaiter_controllers::TenantControls;
use dumbwaiter_measure::{TaskSpec, TenantSpec};
use dumbwaiter_text::units::format_size;
use dumbwaiter_traces::Survey;
use dumbwaiter_workloads::Workload;
use dumbwaiter_workloads::applications::{App, AppContext, Component};
use dumbwaiter_workloads::generate::{Access, BuildContext, BuildError, JobSpec, SubmitMode, WRITEBACK_DEPTH};
use dumbwaiter_workloads::page_cache::{Advice, DEPTH, PageCache};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;

use crate::load::change::{self, Change};
use crate::load::error::Error;
use crate::load::replays::Replays;
use crate::load::thread::{Mode, Thread};
use crate::load::trace;

/// Properties of the run and its machine that a load needs.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    pub(crate) seed: u64,
    /// Size of the device in sectors of 512 bytes.
    pub(crate) capacity_sectors: u64,
    pub(crate) cpus: u16,
    /// Buffered jobs get a page cache also where the scenario names none.
    pub(crate) has_cache: bool,
}

impl Host {
    /// Most I/Os of a task of the page cache. Where it has to be shared out beforehand, as much as a buffered writer gets without.
    fn cache_depth(self) -> u32 {
        if self.has_cache { DEPTH } else { WRITEBACK_DEPTH }
    }
}

/// The load of one run: tenants, tasks, threads and scheduled changes.
pub struct Load {
    /// Tenants and tasks for the block layer.
    pub tenants: Tenants,
    /// Names and weights of the tenants for the recorder, by [`TenantId`](dumbwaiter_block::TenantId).
    pub tenant_specs: Vec<TenantSpec>,
    /// Names of the tasks for the recorder, by [`TaskId`](dumbwaiter_block::TaskId).
    pub task_specs: Vec<TaskSpec>,
    /// What controllers do for the tenants.
    pub controls: Vec<(TenantId, TenantControls)>,
    /// The threads that submit I/O.
    pub threads: Vec<Thread>,
    /// Scheduled changes, sorted by time.
    pub changes: Vec<(Nanos, Change)>,
    /// The replays, which report skipped records at the end of the run.
    pub replays: Replays,
    /// What the scenario left open, for the report.
    pub notes: Vec<String>,
}

/// Builds the load of one run; `surveys` are those of the scenario's traces, by [`trace::survey_key`].
pub(crate) fn load(s: &Scenario, surveys: &BTreeMap<String, Survey>, host: Host) -> Result<Load, Error> {
    let mut builder = Builder::new(s, host);
    let silence = silence_before(s);
    for (number, (tenant, task)) in s.tasks().enumerate() {
        let ioprio = tenant.ioprio_of(task);
        for instance in 0..task.count {
            let name = if task.count > 1 { format!("{}.{instance}", task.name) } else { task.name.clone() };
            let deadline = task.deadline.or(tenant.deadline);
            let to = Instance { task, tenant: builder.ids[tenant.name.as_str()], ioprio, deadline, instance };
            let Host { seed, capacity_sectors, .. } = host;
            // Replicates have consecutive seeds.
            let replicate = seed.wrapping_sub(s.seed);
            let job = number as u32;
            let context = BuildContext { seed, capacity_sectors, first_sector: 0, job, instance, replicate };
            match &task.work {
                Work::Job(job) => {
                    let context = on_drive(job, s.drives, context);
                    builder.add_job(&to, name, &started_earlier(job, silence), context)?;
                }
                Work::App(app) => builder.add_application(&to, &name, app, context)?,
                Work::Trace(spec) => {
                    let survey = surveys.get(&trace::survey_key(spec));
                    let (replay, depth) = trace::replay(spec, host.capacity_sectors, survey)?;
                    builder.replays.0.push(replay.status());
                    let closed = spec.options.depth.is_some() || spec.options.closed_per_task;
                    let (workload, mode) = (Box::new(replay), Mode::Each);
                    builder.add(&to, name, Thread { workload, depth, mode, closed, ..Thread::idle() });
                }
                Work::Fio(_) => builder.add(&to, name, Thread::idle()),
            }
            if builder.threads.len() > INSTANCES_MAX as usize {
                return Err(Error::Threads { task: task.name.clone(), most: INSTANCES_MAX });
            }
        }
    }
    builder.add_flushers();
    Ok(builder.finish())
}

/// Time before the first job may start. A run begins with its first job, as fio's rates do, unless something is scheduled by the clock.
fn silence_before(s: &Scenario) -> Nanos {
    let scheduled = !s.changes.is_empty() || s.tenants.iter().any(|tenant| !tenant.changes.is_empty());
    let start = |task: &Task| match &task.work {
        Work::Job(job) if task.changes.is_empty() && task.start == Nanos::ZERO => job.startdelay.0,
        _ => Nanos::ZERO,
    };
    if scheduled { Nanos::ZERO } else { s.tasks().map(|(_, task)| start(task)).min().unwrap_or(Nanos::ZERO) }
}

/// A job with that much less of a delay.
fn started_earlier(job: &JobSpec, time: Nanos) -> JobSpec {
    let (from, to) = job.startdelay;
    JobSpec { startdelay: (Nanos(from.0.saturating_sub(time.0)), Nanos(to.0.saturating_sub(time.0))), ..job.clone() }
}

/// One instance of a task, which gets one thread or, as an application, several.
struct Instance<'a> {
    task: &'a Task,
    tenant: TenantId,
    ioprio: Ioprio,
    deadline: Option<Nanos>,
    instance: u32,
}

impl Instance<'_> {
    fn refused(&self, cause: BuildError) -> Error {
        Error::Job { task: self.task.name.clone(), cause }
    }
}

/// I/Os that the flusher has ready for the block layer before it looks again for what to write.
const FLUSHER_BATCH: u32 = 8;

/// Time between the starts of two processes of fio, ns (in most recordings of Linux 6.12 and 6.18).
const FIO_START_GAPS: RangeInclusive<u64> = 300_000..=1_300_000;

struct Builder<'a> {
    scenario: &'a Scenario,
    host: Host,
    ids: BTreeMap<&'a str, TenantId>,
    controls: Vec<(TenantId, TenantControls)>,
    cache: Option<PageCache>,
    /// Each tenant's dirty pages are written back in its own group.
    by_group: bool,
    /// The tenants with tasks that go through the page cache.
    buffered: BTreeSet<TenantId>,
    tenants: Tenants,
    tenant_specs: Vec<TenantSpec>,
    task_specs: Vec<TaskSpec>,
    threads: Vec<Thread>,
    /// Threads of fio's jobs.
    fio_threads: Vec<usize>,
    changes: Vec<(Nanos, Change)>,
    replays: Replays,
    notes: Vec<String>,
}

impl<'a> Builder<'a> {
    fn new(scenario: &'a Scenario, host: Host) -> Builder<'a> {
        let (tenants, tenant_specs, ids) = tenants_of(scenario);
        let mut changes = Vec::new();
        change::of_scheduler(&mut changes, scenario);
        change::of_io_cost(&mut changes, scenario);
        for tenant in &scenario.tenants {
            change::of_tenant(&mut changes, tenant, ids[tenant.name.as_str()]);
        }
        Builder {
            scenario,
            host,
            controls: scenario.tenants.iter().map(|tenant| (ids[tenant.name.as_str()], tenant.controls)).collect(),
            ids,
            cache: (host.has_cache || scenario.host.page_cache.is_some())
                .then(|| PageCache::new(scenario.host.cache(), host.capacity_sectors)),
            by_group: scenario.has_cgroup_writeback(),
            buffered: BTreeSet::new(),
            tenants,
            tenant_specs,
            task_specs: Vec::new(),
            threads: Vec::new(),
            fio_threads: Vec::new(),
            changes,
            replays: Replays::default(),
            notes: Vec::new(),
        }
    }

    /// Adds a thread, with a block-layer task of its own and the scheduled changes of its task.
    fn add(&mut self, to: &Instance<'_>, name: String, thread: Thread) {
        let cpus = self.host.cpus;
        let cpu = to.task.cpu_of(to.instance).map_or(self.threads.len() as u16 % cpus, |c| c % cpus);
        let moves = self.scenario.host.affinity == Affinity::Free && to.task.cpu.is_empty();
        let task = self.tenants.add_task(to.tenant, to.ioprio);
        self.task_specs.push(TaskSpec {
            name,
            tenant: to.tenant,
            focus: to.task.focus.then(|| to.task.name.clone()),
            write_back: false,
        });
        change::of_task(&mut self.changes, to.task, self.threads.len() as u32, |name| self.ids[name]);
        let (tenant, ioprio, stage, start) = (to.tenant, to.ioprio, to.task.stage, to.task.start);
        self.threads.push(Thread { tenant, task, ioprio, cpu, moves, stage, start, deadline: to.deadline, ..thread });
    }

    fn add_job(&mut self, to: &Instance<'_>, name: String, job: &JobSpec, context: BuildContext) -> Result<(), Error> {
        if !job.direct {
            self.buffered.insert(to.tenant);
        }
        let cache = self.cache_of(to.tenant);
        let thread = job_thread(job, context, cache.as_ref(), self.host.cache_depth(), self.scenario.host.ring_sleeps)
            .map_err(|cause| to.refused(cause))?;
        self.add(to, name, thread);
        if job.io_submit_mode == SubmitMode::Inline {
            self.fio_threads.push(self.threads.len() - 1);
        }
        Ok(())
    }

    fn add_application(
        &mut self,
        to: &Instance<'_>,
        name: &str,
        app: &App,
        context: BuildContext,
    ) -> Result<(), Error> {
        let build = AppContext { build: context, warmup: self.scenario.warmup, cache: self.cache_of(to.tenant) };
        let parts = app.build(&build).map_err(|cause| to.refused(cause))?;
        let several = parts.len() > 1;
        if app.log() {
            self.buffered.insert(to.tenant);
        }
        for (part_number, part) in parts.into_iter().enumerate() {
            // The number of the job selects the random stream: each part has its own.
            let job_number = context.job | (part_number as u32) << 12 | to.instance << 20;
            match part {
                Component::Job { name: part, count, job } => {
                    for instance in 0..count {
                        let name = match (part, count) {
                            ("", 1) => name.to_string(),
                            (part, 1) => format!("{name}/{part}"),
                            (part, _) => format!("{name}/{part}.{instance}"),
                        };
                        let context = BuildContext { job: job_number, instance, ..context };
                        self.add_job(to, name, &job, context)?;
                    }
                }
                Component::Own { workload, depth } => {
                    let name = if several { format!("{name}/{part_number}") } else { name.to_string() };
                    self.add(to, name, own_thread(workload, depth));
                }
            }
        }
        Ok(())
    }

    /// The page cache as a tenant has it: with write-back in its own group where groups have that.
    fn cache_of(&self, tenant: TenantId) -> Option<PageCache> {
        let own = if self.by_group { tenant.0 } else { 0 };
        self.cache.as_ref().map(|cache| cache.of_group(own))
    }

    /// Adds the threads of write-back if tasks are buffered: one for each tenant where its group has one, or one that belongs to the
    /// root group, unless there is one tenant only.
    fn add_flushers(&mut self) {
        if self.buffered.is_empty() {
            return;
        }
        if self.scenario.host.page_cache.is_none() {
            self.notes.push(match self.cache {
                Some(_) => format!(
                    "buffered jobs share a page cache of {}, as host.page_cache is not given",
                    format_size(crate::Host::PAGE_CACHE_DEFAULT.0)
                ),
                None => format!(
                    "there is no page cache: buffered writes go to the drive, up to {WRITEBACK_DEPTH} at a time, and buffered reads as they are"
                ),
            });
        }
        if self.cache.is_none() {
            return;
        }
        if self.by_group {
            let tenants = self.buffered.clone();
            tenants.into_iter().for_each(|tenant| self.add_flusher(tenant));
            return;
        }
        let tenant = if self.tenant_specs.len() == 1 {
            TenantId(0)
        } else {
            let root = self.tenants.add_root(1);
            if self.tenant_specs.len() <= root.0 as usize {
                let name = crate::Tenant::ROOT.to_string();
                self.tenant_specs.push(TenantSpec { name, weight: 1, parent: None, focus: false });
            }
            root
        };
        self.add_flusher(tenant);
    }

    fn add_flusher(&mut self, tenant: TenantId) {
        let Some(cache) = self.cache_of(tenant) else { return };
        let task = self.tenants.add_task(tenant, Ioprio::DEFAULT);
        self.task_specs.push(TaskSpec { name: "flusher".to_string(), tenant, focus: None, write_back: true });
        let stage = self.threads.iter().map(|t| t.stage).min().unwrap_or(0);
        let cpu = self.threads.len() as u16 % self.host.cpus;
        let (mode, workload) = (Mode::Kernel { batch: FLUSHER_BATCH }, cache.flusher());
        let thread = Thread { workload, depth: self.host.cache_depth(), mode, ..Thread::idle() };
        self.threads.push(Thread { tenant, task, cpu, stage, background: true, ..thread });
    }

    /// Tasks of the root group compete with the tenants one by one: together they weigh what each of them weighs.
    fn weigh_root(&mut self) {
        let Some((root, _)) = self.tenants.tenants().find(|(id, _)| self.tenants.is_root(*id)) else { return };
        let tasks = self.tenants.tasks().filter(|(_, task)| task.tenant == root);
        let weight = tasks.map(|(_, task)| root_task_weight(task.ioprio)).sum::<u32>().clamp(1, Tenant::MAX_WEIGHT);
        self.tenants.add_root(weight);
        self.tenant_specs[root.0 as usize].weight = weight;
    }

    /// fio wakes its processes one after another. The first runs at once; in which order and how soon the others do varies from run to run.
    fn stagger_starts(&mut self) {
        let mut random = SplitMix64::seed_from_u64(self.host.seed);
        if let Some((_, others)) = self.fio_threads.split_first_mut() {
            others.shuffle(&mut random);
        }
        let mut delay = Nanos::ZERO;
        for thread in self.fio_threads.iter().skip(1) {
            delay += Nanos(random.random_range(FIO_START_GAPS));
            self.threads[*thread].start += delay;
        }
    }

    fn finish(mut self) -> Load {
        self.stagger_starts();
        self.weigh_root();
        let Builder { tenants, tenant_specs, task_specs, threads, mut changes, replays, controls, notes, .. } = self;
        changes.sort_by_key(|(at, _)| *at);
        Load { tenants, tenant_specs, task_specs, controls, threads, changes, replays, notes }
    }
}

/// Weight of a task of the root group beside the tenants: that of its queue in bfq.
fn root_task_weight(ioprio: Ioprio) -> u32 {
    10 * (8 - u32::from(ioprio.level().min(7)))
}

/// The part of the device that a job on one of `drives` sees.
fn on_drive(job: &JobSpec, drives: u8, context: BuildContext) -> BuildContext {
    let Some(drive) = job.drive else { return context };
    let capacity_sectors = context.capacity_sectors / u64::from(drives.max(1));
    BuildContext { capacity_sectors, first_sector: capacity_sectors * u64::from(drive.saturating_sub(1)), ..context }
}

/// The thread of one instance of a job.
fn job_thread(
    job: &JobSpec,
    context: BuildContext,
    cache: Option<&PageCache>,
    cache_depth: u32,
    ring_sleeps: bool,
) -> Result<Thread, BuildError> {
    let workload = job.build(context)?;
    Ok(match cache {
        Some(cache) if !job.direct => {
            let (start, length) =
                job.region(context.capacity_sectors.saturating_mul(SECTOR_BYTES), context.instance)?;
            let start = start.saturating_add(context.first_sector.saturating_mul(SECTOR_BYTES));
            let workload = cache.buffered(workload, (start, length), advice(job));
            Thread { workload, depth: cache_depth, mode: Mode::Each, ..Thread::idle() }
        }
        _ => {
            let mode = match job.depth() {
                1 => Mode::Each,
                // As a flusher would submit it.
                _ if job.writeback() => Mode::Kernel { batch: u32::MAX },
                _ if job.ioengine.sleeps() => Mode::Aio { batch: job.batch(), reaps: job.reaps() },
                _ => Mode::Ring { batch: job.batch(), reaps: job.reaps(), sleeps: ring_sleeps },
            };
            Thread { workload, depth: job.depth(), mode, closed: true, ..Thread::idle() }
        }
    })
}

/// What fio says about the reads of its job.
fn advice(job: &JobSpec) -> Advice {
    match job.fio_job {
        None => Advice::None,
        Some(_) if job.rw.access == Access::Random => Advice::Random,
        Some(_) => Advice::Sequential,
    }
}

/// The thread of a workload that does its own I/O, not through the page cache.
fn own_thread(workload: Box<dyn Workload>, depth: u32) -> Thread {
    let mode = if depth > 1 { Mode::Kernel { batch: u32::MAX } } else { Mode::Each };
    Thread { workload, depth, mode, closed: true, ..Thread::idle() }
}

fn tenants_of(s: &Scenario) -> (Tenants, Vec<TenantSpec>, BTreeMap<&str, TenantId>) {
    let ids: BTreeMap<&str, TenantId> =
        s.tenants.iter().enumerate().map(|(i, t)| (t.name.as_str(), TenantId(i as u32))).collect();
    let mut tenants = Tenants::default();
    let mut specs = Vec::new();
    for t in &s.tenants {
        let parent = t.parent.as_deref().and_then(|p| ids.get(p).copied());
        if t.is_root() {
            tenants.add_root(1);
        } else {
            tenants.add_tenant(Tenant { weight: t.weight, parent });
        }
        specs.push(TenantSpec { name: t.name.clone(), weight: t.weight, parent, focus: t.focus });
    }
    (tenants, specs, ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_on(host: Host, scenario: &Scenario) -> Mode {
        load(scenario, &BTreeMap::new(), host).unwrap_or_else(|e| panic!("{e}")).threads[0].mode
    }

    fn mode(job: &str) -> Mode {
        let scenario = Scenario::from_toml(&format!("[[task]]\nname = \"a\"\n{job}"), "test").unwrap();
        mode_on(Host { seed: 1, capacity_sectors: 1 << 30, cpus: 4, has_cache: false }, &scenario)
    }

    #[test]
    fn what_a_thread_does_without_a_tag_follows_its_engine() {
        let ring = |batch, reaps| Mode::Ring { batch, reaps, sleeps: false };
        assert_eq!(mode("rw = \"randread\"\niodepth = 4"), ring(1, 1));
        let batched = "rw = \"randread\"\niodepth = 8\niodepth_batch = 4\niodepth_batch_complete_min = 2";
        assert_eq!(mode(batched), ring(4, 2));
        assert_eq!(mode("rw = \"randread\"\niodepth = 4\nioengine = \"libaio\""), Mode::Aio { batch: 1, reaps: 1 });
        assert_eq!(mode("rw = \"randread\"\niodepth = 4\nioengine = \"psync\""), Mode::Each);
        assert_eq!(mode("rw = \"randread\""), Mode::Each);
    }

    #[test]
    fn buffered_writes_without_a_cache_are_submitted_as_by_a_flusher_whatever_the_engine() {
        for engine in ["io_uring", "libaio", "psync"] {
            let job = format!("rw = \"write\"\ndirect = false\nioengine = \"{engine}\"");
            assert_eq!(mode(&job), Mode::Kernel { batch: u32::MAX });
        }
    }

    #[test]
    fn groups_of_cgroup_v2_write_back_what_they_dirtied() {
        let flushers = |host: &str, control: &str| {
            let tenant = |name: &str, control: &str| {
                format!(
                    "[[tenant]]\nname = \"{name}\"\n{control}\n[[tenant.task]]\nname = \"w\"\nrw = \"write\"\ndirect = false\n"
                )
            };
            let text = format!("{host}\n{}{}", tenant("a", control), tenant("b", ""));
            let scenario = Scenario::from_toml(&text, "test").unwrap();
            let host = Host { seed: 1, capacity_sectors: 1 << 30, cpus: 4, has_cache: true };
            let load = load(&scenario, &BTreeMap::new(), host).unwrap();
            let tasks = load.task_specs.iter().filter(|task| task.name == "flusher");
            tasks.map(|task| load.tenant_specs[task.tenant.0 as usize].name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(flushers("", ""), ["/"]);
        assert_eq!(flushers("", "io_max = \"wbps=1000000\""), ["a", "b"]);
        assert_eq!(flushers("[host]\ncgroup_writeback = true", ""), ["a", "b"]);
        assert_eq!(flushers("[host]\ncgroup_writeback = false", "io_weight = 50"), ["/"]);
    }

    #[test]
    fn buffered_jobs_get_a_page_cache_and_a_note_says_so() {
        let text = |host: &str, direct| format!("{host}\n[[task]]\nname = \"a\"\nrw = \"write\"\ndirect = {direct}");
        let host = Host { seed: 1, capacity_sectors: 1 << 30, cpus: 4, has_cache: true };
        let of = |host, text: &str| load(&Scenario::from_toml(text, "test").unwrap(), &BTreeMap::new(), host).unwrap();
        let default = of(host, &text("", false));
        assert!(default.threads.len() == 2 && default.threads[1].background);
        assert_eq!(default.notes, ["buffered jobs share a page cache of 8GiB, as host.page_cache is not given"]);
        let given = of(host, &text("[host]\npage_cache = \"64MiB\"", false));
        assert!(given.threads.len() == 2 && given.notes.is_empty());
        let direct = of(host, &text("", true));
        assert!(direct.threads.len() == 1 && direct.notes.is_empty());
        let without = of(Host { has_cache: false, ..host }, &text("", false));
        assert!(without.threads.len() == 1 && without.notes[0].contains("up to 128 at a time"));
    }
}
