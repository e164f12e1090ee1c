//! Records one run and turns it into a [`RunResult`].

mod facts;
mod finish;
mod join;
#[cfg(test)]
mod tests;

pub use self::facts::{CpuFacts, RunFacts};
use crate::histogram::{Coarse, Fine};
use crate::maps::MapRecorder;
use crate::parts::Parts;
use crate::series::Timeline;
use crate::tally::{CoarseTally, FineTally, Latencies, Moments};
use crate::tenants::{TaskSpec, TenantSpec};
use crate::{Completed, Unfinished};
use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};

/// The first tasks, which have a histogram each; the others have sums only.
const TASKS_WITH_HISTOGRAM_MAX: usize = 64;

/// Configuration of a [`Recorder`].
#[derive(Clone, Debug)]
pub struct RecorderConfig {
    /// Length of the warm-up. Rates and shares are of the requests that finish after it, latencies of those that are
    /// submitted after it.
    pub warmup: Nanos,
    /// Interval of the time series and of nested percentiles; above 0.
    pub interval: Nanos,
    /// Tenants by [`TenantId`]; if empty, one tenant named `all`.
    pub tenants: Vec<TenantSpec>,
    /// Tasks by [`dumbwaiter_block::TaskId`]; requests of tasks beyond the list have no statistics by task.
    pub tasks: Vec<TaskSpec>,
}

/// Records one run. [`Recorder::record`] and [`Recorder::depth`] do not allocate; [`Recorder::unfinished`], at the end of
/// the run, does.
#[derive(Clone, Debug)]
pub struct Recorder {
    warmup: Nanos,
    tenant_specs: Vec<TenantSpec>,
    task_specs: Vec<TaskSpec>,
    /// Requests that finished in the warm-up.
    warmup_completed: u64,
    read: FineTally,
    write: FineTally,
    other: FineTally,
    tenants: Vec<CoarseTally>,
    tasks: Vec<TaskTally>,
    /// Of the tasks of the focus together, where there are such.
    focus: Option<Box<CoarseTally>>,
    /// Of all requests but write-back, where there is some.
    waited: Option<Box<CoarseTally>>,
    /// Of the first tasks.
    task_latencies: Vec<Latencies<{ Coarse::BITS }>>,
    queue: Latencies<{ Coarse::BITS }>,
    device: Latencies<{ Coarse::BITS }>,
    timeline: Timeline,
    maps: MapRecorder,
    last: Nanos,
    /// Requests that are unfinished at the end.
    unfinished: Vec<Unfinished>,
    /// Weight changes during the run: time, tenant, new weight.
    weights: Vec<(Nanos, usize, u32)>,
}

/// Is this task's latency one that decides?
fn is_focus(specs: &[TaskSpec], task: TaskId) -> bool {
    specs.get(task.0 as usize).is_some_and(|spec| spec.focus.is_some())
}

fn is_waited(specs: &[TaskSpec], task: TaskId) -> bool {
    specs.get(task.0 as usize).is_none_or(|spec| !spec.write_back)
}

/// Sums of each task, whatever the number of tasks.
#[derive(Clone, Debug, Default)]
struct TaskTally {
    /// Requests that finished in the measured time.
    count: u64,
    reads: u64,
    bytes: u64,
    latencies: Moments,
}

impl Recorder {
    /// A recorder of one run that starts at time 0.
    ///
    /// # Panics
    /// If the interval is 0, which readers of a configuration refuse.
    pub fn new(config: RecorderConfig) -> Recorder {
        assert!(config.interval > Nanos::ZERO, "the interval of a series is above 0");
        let mut tenant_specs = config.tenants;
        if tenant_specs.is_empty() {
            tenant_specs.push(TenantSpec { name: "all".to_string(), weight: 100, parent: None, focus: false });
        }
        let histograms = config.tasks.len().min(TASKS_WITH_HISTOGRAM_MAX);
        Recorder {
            warmup: config.warmup,
            warmup_completed: 0,
            read: FineTally::new(),
            write: FineTally::new(),
            other: FineTally::new(),
            tenants: tenant_specs.iter().map(|_| CoarseTally::new()).collect(),
            tasks: vec![TaskTally::default(); config.tasks.len()],
            focus: config.tasks.iter().any(|task| task.focus.is_some()).then(|| Box::new(CoarseTally::new())),
            waited: config.tasks.iter().any(|task| task.write_back).then(|| Box::new(CoarseTally::new())),
            task_latencies: (0..histograms).map(|_| Latencies::new()).collect(),
            queue: Latencies::new(),
            device: Latencies::new(),
            timeline: Timeline::new(config.warmup, config.interval, tenant_specs.len()),
            maps: MapRecorder::new(config.warmup),
            last: Nanos::ZERO,
            unfinished: Vec::new(),
            weights: Vec::new(),
            tenant_specs,
            task_specs: config.tasks,
        }
    }

    /// Counts a completed request: its data if it finishes after the warm-up, its latency if it was submitted after that.
    /// Times of completion should not go backwards.
    ///
    /// # Panics
    /// If its tenant is not one of the configuration's.
    #[inline]
    pub fn record(&mut self, done: &Completed) {
        self.record_parts(done, None);
    }

    /// [`Recorder::record`], with the parts of its latency that the world knows.
    ///
    /// # Panics
    /// If its tenant is not one of the configuration's.
    #[inline]
    pub fn record_parts(&mut self, done: &Completed, parts: Option<&Parts>) {
        self.last = self.last.max(done.complete);
        if done.complete < self.warmup {
            self.warmup_completed += 1;
            return;
        }
        let bytes = if done.op.carries_data() { done.bytes } else { 0 };
        let sector = (bytes > 0).then_some(done.sector);
        if self.focus.is_some() || self.waited.is_some() {
            self.record_groups(done, bytes, parts);
        }
        let of_op = match done.op {
            Op::Read => &mut self.read,
            Op::Write => &mut self.write,
            _ => &mut self.other,
        };
        let of_tenant = &mut self.tenants[done.tenant.0 as usize];
        of_op.finished(bytes);
        of_tenant.finished(bytes);
        let task = done.task.0 as usize;
        if let Some(tally) = self.tasks.get_mut(task) {
            tally.count += 1;
            tally.reads += u64::from(done.op == Op::Read);
            tally.bytes += bytes;
        }
        if done.submit < self.warmup {
            self.timeline.record(done.submit, done.complete, done.tenant, bytes, None);
            self.maps.record(done.complete, None, sector);
            return;
        }
        let ns = done.complete.since(done.submit).0;
        let coarse = Coarse::bucket(ns);
        of_op.latencies.add(ns, Fine::bucket(ns));
        of_tenant.latencies.add(ns, coarse);
        of_op.parts.add(done, parts);
        of_tenant.parts.add(done, parts);
        if let Some(tally) = self.tasks.get_mut(task) {
            tally.latencies.add(ns);
            if let Some(latencies) = self.task_latencies.get_mut(task) {
                latencies.add(ns, coarse);
            }
        }
        let (queued, served) = (done.issue.since(done.insert).0, done.device_done.since(done.issue).0);
        self.queue.add(queued, Coarse::bucket(queued));
        self.device.add(served, Coarse::bucket(served));
        self.timeline.record(done.submit, done.complete, done.tenant, bytes, Some(coarse));
        self.maps.record(done.complete, Some(ns), sector);
    }

    /// Counts it for the focus and for what is waited for, if it belongs to them. Apart, as most runs have neither.
    #[inline(never)]
    fn record_groups(&mut self, done: &Completed, bytes: u64, parts: Option<&Parts>) {
        let focus = self.focus.as_mut().filter(|_| is_focus(&self.task_specs, done.task));
        let waited = self.waited.as_mut().filter(|_| is_waited(&self.task_specs, done.task));
        for tally in focus.into_iter().chain(waited) {
            tally.finished(bytes);
            if done.submit >= self.warmup {
                let ns = done.complete.since(done.submit).0;
                tally.latencies.add(ns, Coarse::bucket(ns));
                tally.parts.add(done, parts);
            }
        }
    }

    /// Counts a request that is not finished when the run ends. Call it for each of them, once.
    pub fn unfinished(&mut self, request: Unfinished) {
        self.last = self.last.max(request.end);
        self.unfinished.push(request);
    }

    /// Sets the number of requests in the scheduler and the device from `now` on. Call it at every change.
    #[inline]
    pub fn depth(&mut self, now: Nanos, scheduler: u64, device: u64) {
        self.last = self.last.max(now);
        self.timeline.depth(now, scheduler, device);
    }

    /// Sets the weight of a tenant from `now` on. Times should not go backwards.
    pub fn weight(&mut self, now: Nanos, tenant: TenantId, weight: u32) {
        self.weights.push((now, tenant.0 as usize, weight));
    }

    /// Requests completed so far, warm-up included.
    pub fn finished(&self) -> u64 {
        self.warmup_completed + self.completed()
    }

    /// Requests completed after the warm-up.
    fn completed(&self) -> u64 {
        self.read.count + self.write.count + self.other.count
    }
}
