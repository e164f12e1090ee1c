//! Records one run and turns it into a [`RunResult`].

mod join;

use crate::Completed;
use crate::application::ApplicationStats;
use crate::fairness::{fairness, ideal_shares, pv, reversed};
use crate::histogram::{Coarse, Fine};
use crate::result::{
    Cdfs, Cpu, Energy, Fairness, Ledger, Merges, OpStats, Phases, RunResult, SchedulerSwitches, Series, TaskStats,
    TenantStats,
};
use crate::series::Timeline;
use crate::tally::{CoarseTally, FineTally, Moments};
use crate::tenants::{TaskSpec, TenantSpec};
use dumbwaiter_block::{Nanos, Op, TenantId};
use std::collections::BTreeMap;

/// Runs with more tasks than this keep no histogram per task.
const TASKS_WITH_HISTOGRAM_MAX: usize = 64;
/// Most tasks listed in a result.
const TASKS_LISTED_MAX: usize = 256;

/// Configuration of a [`Recorder`].
#[derive(Clone, Debug)]
pub struct RecorderConfig {
    /// Length of the warm-up: requests submitted in it are not counted; rates are per second after it.
    pub warmup: Nanos,
    /// Interval of the time series and of nested percentiles; above 0.
    pub interval: Nanos,
    /// Tenants by [`TenantId`]; if empty, one tenant named `all`.
    pub tenants: Vec<TenantSpec>,
    /// Tasks by [`dumbwaiter_block::TaskId`]; requests of tasks beyond the list have no statistics by task.
    pub tasks: Vec<TaskSpec>,
}

/// CPU time of a whole run, from the host model or the meters.
#[derive(Clone, Debug, Default)]
pub struct CpuFacts {
    /// Busy time of each CPU.
    pub busy: Vec<Nanos>,
    /// Time over which `busy` was counted.
    pub span: Nanos,
    /// Submission path without the scheduler.
    pub submit: Nanos,
    /// Inside the scheduler.
    pub scheduler: Nanos,
    /// Interrupts and the completion path.
    pub irq: Nanos,
    /// Polling for completions.
    pub poll: Nanos,
    /// User time.
    pub usr: Nanos,
    /// System time.
    pub sys: Nanos,
    /// Context switches; `None` if not counted.
    pub switches: Option<u64>,
}

/// Facts that the world adds to a result at the end of a run.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// Name of the device.
    pub device: String,
    /// Name of the scheduler.
    pub scheduler: String,
    /// Name of the variant of the scenario, for example `queue-depth=8`; empty if it has none.
    pub variant: String,
    /// Completion method: `interrupt`, `poll`, `hybrid`.
    pub completion: String,
    /// The world it ran in: `sim` or `real`.
    pub world: String,
    /// The block layer that scheduled: `sim`, `engine` or `kernel`.
    pub via: String,
    /// Energy over the measured time, J, and its source; `None` without meter and model.
    pub energy: Option<(f64, String)>,
    /// Number of the replicate, from 0.
    pub replicate: u32,
    /// Seed of the run.
    pub seed: u64,
    /// Requests submitted by tenant; empty if unknown. A tenant that submitted nothing takes no part in shares and
    /// fairness; one that submitted requests of which none completed was starved, and takes part.
    pub submitted_by_tenant: Vec<u64>,
    /// Merge counts.
    pub merges: Merges,
    /// Conservation of requests.
    pub ledger: Ledger,
    /// CPU time.
    pub cpu: CpuFacts,
    /// Results of applications.
    pub applications: Vec<ApplicationStats>,
    /// Counters of the host model, such as memory operations.
    pub host_counters: BTreeMap<String, f64>,
    /// Counters of the scheduler.
    pub scheduler_counters: BTreeMap<String, f64>,
    /// How often the scheduler was exchanged, and how long no request was sent on account of that; `None` where it was not.
    pub switches: Option<(u64, Nanos)>,
    /// Counters of the device.
    pub device_counters: BTreeMap<String, f64>,
}

/// Records one run. [`Recorder::record`] and [`Recorder::depth`] do not allocate.
#[derive(Clone, Debug)]
pub struct Recorder {
    warmup: Nanos,
    tenant_specs: Vec<TenantSpec>,
    task_specs: Vec<TaskSpec>,
    /// Completed requests, warm-up included.
    finished: u64,
    read: FineTally,
    write: FineTally,
    other: FineTally,
    tenants: Vec<CoarseTally>,
    tasks: Vec<Moments>,
    task_bytes: Vec<u64>,
    task_histograms: Vec<Coarse>,
    queue: CoarseTally,
    device: CoarseTally,
    timeline: Timeline,
    last: Nanos,
    /// Completed requests by tenant, warm-up included, with the time of the last.
    finished_by_tenant: Vec<(u64, Nanos)>,
    /// Weight changes during the run: time, tenant, new weight.
    weights: Vec<(Nanos, usize, u32)>,
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
        let histograms = if config.tasks.len() <= TASKS_WITH_HISTOGRAM_MAX { config.tasks.len() } else { 0 };
        Recorder {
            warmup: config.warmup,
            finished: 0,
            read: FineTally::new(),
            write: FineTally::new(),
            other: FineTally::new(),
            tenants: tenant_specs.iter().map(|_| CoarseTally::new()).collect(),
            tasks: vec![Moments::default(); config.tasks.len()],
            task_bytes: vec![0; config.tasks.len()],
            task_histograms: (0..histograms).map(|_| Coarse::new()).collect(),
            queue: CoarseTally::new(),
            device: CoarseTally::new(),
            timeline: Timeline::new(config.warmup, config.interval, tenant_specs.len()),
            last: Nanos::ZERO,
            finished_by_tenant: vec![(0, Nanos::ZERO); tenant_specs.len()],
            weights: Vec::new(),
            tenant_specs,
            task_specs: config.tasks,
        }
    }

    /// Counts a completed request. Times of completion should not go backwards.
    ///
    /// # Panics
    /// If its tenant is not one of the configuration's.
    #[inline]
    pub fn record(&mut self, done: &Completed) {
        self.finished += 1;
        self.last = self.last.max(done.complete);
        let (finished, at) = &mut self.finished_by_tenant[done.tenant.0 as usize];
        (*finished, *at) = (*finished + 1, done.complete);
        if done.submit < self.warmup {
            return;
        }
        let ns = done.complete.since(done.submit).0;
        let bytes = if done.op.carries_data() { done.bytes } else { 0 };
        let (fine, coarse) = (Fine::bucket(ns), Coarse::bucket(ns));
        match done.op {
            Op::Read => self.read.add(ns, fine, bytes),
            Op::Write => self.write.add(ns, fine, bytes),
            _ => self.other.add(ns, fine, bytes),
        }
        self.tenants[done.tenant.0 as usize].add(ns, coarse, bytes);
        let task = done.task.0 as usize;
        if let Some(moments) = self.tasks.get_mut(task) {
            moments.add(ns);
            self.task_bytes[task] += bytes;
            if let Some(histogram) = self.task_histograms.get_mut(task) {
                histogram.add(coarse);
            }
        }
        let (queued, served) = (done.issue.since(done.insert).0, done.device_done.since(done.issue).0);
        self.queue.add(queued, Coarse::bucket(queued), 0);
        self.device.add(served, Coarse::bucket(served), 0);
        self.timeline.record(done.submit, done.complete, done.tenant, bytes, coarse);
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
        self.finished
    }

    /// For a progress line: bytes moved after the warm-up, and the 99th percentile of the latency in us of reads, or of
    /// writes if there are no reads (NaN without either).
    pub fn so_far(&self) -> (u64, f64) {
        let bytes = self.read.bytes + self.write.bytes;
        let shown = if self.read.moments.count > 0 { &self.read } else { &self.write };
        (bytes, shown.histogram.percentile_us(0.99))
    }

    /// Ends the run at `end`, or at its last event if that is later.
    pub fn finish(mut self, end: Nanos, facts: RunFacts) -> RunResult {
        let end = end.max(self.last);
        self.timeline.finish(end);
        self.mark_starved(&facts.submitted_by_tenant);
        let duration_s = end.since(self.warmup).as_secs_f64();
        let rate = |amount: f64| if duration_s > 0.0 { amount / duration_s } else { 0.0 };
        let mut all = self.read.clone();
        all.join(&self.write);
        all.join(&self.other);
        let names: Vec<String> = self.tenant_specs.iter().map(|t| t.name.clone()).collect();
        let tenants = self.tenant_stats(end, all.bytes, rate, &facts.submitted_by_tenant);
        let ideal: Vec<f64> = tenants.iter().map(|t| t.ideal_share).collect();
        let moved: Vec<u64> = self.tenants.iter().map(|t| t.bytes).collect();
        let (interval_pv, reversals_s) = self.fairness_over_time(end);
        let (tasks, tasks_omitted) = self.task_stats(rate);
        RunResult {
            device: facts.device,
            scheduler: facts.scheduler,
            variant: facts.variant,
            completion: facts.completion,
            world: facts.world,
            via: facts.via,
            replicate: facts.replicate,
            seed: facts.seed,
            requests: facts.ledger.submitted,
            completed: all.moments.count,
            duration_s,
            started_unix_ns: None,
            ended_unix_ns: None,
            iops: rate(all.moments.count as f64),
            mb_per_s: rate(all.bytes as f64 / 1e6),
            latency_us: all.latency(),
            read: op_stats(&self.read, rate),
            write: op_stats(&self.write, rate),
            other: op_stats(&self.other, rate),
            phases_us: Phases { queue: self.queue.latency(), device: self.device.latency() },
            tenants,
            tasks,
            tasks_omitted,
            applications: facts.applications,
            fairness: Fairness { reversals_s, ..fairness(&ideal, &moved) },
            bandwidth: self.timeline.bandwidth(end, None),
            cpu: cpu(&facts.cpu, self.finished),
            energy: facts.energy.map(|(joules, source)| energy(joules, source, &all)),
            series: Series { pv: interval_pv, ..self.timeline.series(end, &names) },
            depth: self.timeline.depths(),
            latency_nested_us: self.timeline.nested(|q| all.histogram.percentile_us(q).min(all.latency().max)),
            latency_cdf: Cdfs { all: all.cdf(), read: self.read.cdf(), write: self.write.cdf() },
            merges: facts.merges,
            errors: facts.ledger.failed,
            ledger: facts.ledger,
            host_counters: facts.host_counters,
            switches: facts
                .switches
                .map(|(count, pause)| SchedulerSwitches { count, pause_ms: pause.as_us_f64() / 1e3 }),
            scheduler_counters: facts.scheduler_counters,
            device_counters: facts.device_counters,
        }
    }

    /// Counts tenants with unfinished requests as active since their last completion.
    fn mark_starved(&mut self, submitted_by_tenant: &[u64]) {
        for (tenant, submitted) in submitted_by_tenant.iter().enumerate().take(self.tenant_specs.len()) {
            let (finished, at) = self.finished_by_tenant[tenant];
            if *submitted > finished {
                self.timeline.mark_active(at, TenantId(tenant as u32));
            }
        }
    }

    /// Tenants with their weights at a time.
    fn specs_at(&self, at: Nanos) -> Vec<TenantSpec> {
        let mut specs = self.tenant_specs.clone();
        for (_, tenant, weight) in self.weights.iter().filter(|(since, ..)| *since <= at) {
            specs[*tenant].weight = *weight;
        }
        specs
    }

    /// Ideal shares; if weights changed, their mean over the measured time.
    fn ideal_over_time(&self, end: Nanos, takes_part: &[bool]) -> Vec<f64> {
        let mut bounds = vec![self.warmup];
        bounds.extend(self.weights.iter().map(|(at, ..)| *at).filter(|at| *at > self.warmup && *at < end));
        if bounds.len() == 1 {
            return ideal_shares(&self.specs_at(self.warmup), takes_part);
        }
        bounds.push(end);
        let mut mean = vec![0.0; takes_part.len()];
        for span in bounds.windows(2) {
            let part = span[1].since(span[0]).as_secs_f64() / end.since(self.warmup).as_secs_f64();
            let ideal = ideal_shares(&self.specs_at(span[0]), takes_part);
            mean.iter_mut().zip(ideal).for_each(|(m, i)| *m += part * i);
        }
        mean
    }

    /// Proportionality variation of each interval, and the total time of the intervals in which a lighter tenant moved
    /// more than a heavier one, s. NaN with fewer than two tenants.
    fn fairness_over_time(&self, end: Nanos) -> (Vec<f64>, f64) {
        let mut reversals_s = 0.0;
        let pv_of = |(start, length, bytes, wants): (Nanos, f64, &[u64], &[bool])| {
            let middle = start + Nanos::from_secs_f64(length / 2.0);
            let ideal = ideal_shares(&self.specs_at(middle), wants);
            if reversed(&ideal, bytes) {
                reversals_s += length;
            }
            let taking_part = || ideal.iter().zip(bytes).filter(|(share, _)| **share > 0.0);
            let shares: Vec<f64> = taking_part().map(|(share, _)| *share).collect();
            let moved: Vec<f64> = taking_part().map(|(_, bytes)| *bytes as f64).collect();
            pv(&shares, &moved)
        };
        let each = self.timeline.slots(end).map(pv_of).collect();
        (each, if self.tenant_specs.len() < 2 { f64::NAN } else { reversals_s })
    }

    fn tenant_stats(&self, end: Nanos, total: u64, rate: impl Fn(f64) -> f64, submitted: &[u64]) -> Vec<TenantStats> {
        let specs = &self.tenant_specs;
        let is_parent = |i: usize| specs.iter().any(|t| t.parent.is_some_and(|p| p.0 as usize == i));
        let takes_part: Vec<bool> = (0..specs.len())
            .map(|i| match submitted.get(i) {
                Some(n) => *n > 0,
                None => self.tenants[i].moments.count > 0 || !is_parent(i),
            })
            .collect();
        let ideal = self.ideal_over_time(end, &takes_part);
        let one = |(i, spec): (usize, &TenantSpec)| {
            let tally = &self.tenants[i];
            TenantStats {
                name: spec.name.clone(),
                weight: spec.weight,
                share: if total > 0 { tally.bytes as f64 / total as f64 } else { f64::NAN },
                ideal_share: ideal[i],
                focus: spec.focus,
                count: tally.moments.count,
                iops: rate(tally.moments.count as f64),
                mb_per_s: rate(tally.bytes as f64 / 1e6),
                latency_us: tally.latency(),
                bandwidth: self.timeline.bandwidth(end, Some(i)),
            }
        };
        specs.iter().enumerate().map(one).collect()
    }

    fn task_stats(&self, rate: impl Fn(f64) -> f64) -> (Vec<TaskStats>, u64) {
        let mut told: Vec<usize> = (0..self.task_specs.len()).collect();
        if told.len() > TASKS_LISTED_MAX {
            told.sort_by_key(|&i| (std::cmp::Reverse((self.task_bytes[i], self.tasks[i].count)), i));
            told.truncate(TASKS_LISTED_MAX);
            told.sort_unstable();
        }
        let one = |&i: &usize| {
            let spec = &self.task_specs[i];
            let tenant = self.tenant_specs.get(spec.tenant.0 as usize);
            TaskStats {
                name: spec.name.clone(),
                tenant: tenant.map(|t| t.name.clone()).unwrap_or_default(),
                count: self.tasks[i].count,
                iops: rate(self.tasks[i].count as f64),
                mb_per_s: rate(self.task_bytes[i] as f64 / 1e6),
                latency_us: self.tasks[i].latency(self.task_histograms.get(i)),
            }
        };
        (told.iter().map(one).collect(), (self.task_specs.len() - told.len()) as u64)
    }
}

fn op_stats(t: &FineTally, rate: impl Fn(f64) -> f64) -> OpStats {
    OpStats {
        count: t.moments.count,
        iops: rate(t.moments.count as f64),
        mb_per_s: rate(t.bytes as f64 / 1e6),
        latency_us: t.latency(),
    }
}

fn energy(joules: f64, source: String, all: &FineTally) -> Energy {
    Energy {
        joules,
        source,
        j_per_mio: joules / all.moments.count as f64 * 1e6,
        bytes_per_j: all.bytes as f64 / joules,
    }
}

fn cpu(facts: &CpuFacts, finished: u64) -> Cpu {
    let busy_s: f64 = facts.busy.iter().map(|b| b.as_secs_f64()).sum();
    let span = facts.span.as_secs_f64();
    Cpu {
        busy_s,
        usr_s: facts.usr.as_secs_f64(),
        sys_s: facts.sys.as_secs_f64(),
        us_per_io: if finished > 0 { busy_s * 1e6 / finished as f64 } else { f64::NAN },
        ctx_per_io: match facts.switches {
            Some(switches) if finished > 0 => switches as f64 / finished as f64,
            _ => f64::NAN,
        },
        submit_s: facts.submit.as_secs_f64(),
        scheduler_s: facts.scheduler.as_secs_f64(),
        irq_s: facts.irq.as_secs_f64(),
        poll_s: facts.poll.as_secs_f64(),
        utilisation: facts.busy.iter().map(|b| if span > 0.0 { b.as_secs_f64() / span } else { 0.0 }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbwaiter_block::TaskId;
    use proptest::prelude::*;

    fn recorder(weights: &[u32], warmup: Nanos) -> Recorder {
        let tenant =
            |(i, w): (usize, &u32)| TenantSpec { name: format!("t{i}"), weight: *w, parent: None, focus: false };
        let task = |i| TaskSpec { name: format!("t{i}.0"), tenant: TenantId(i) };
        Recorder::new(RecorderConfig {
            warmup,
            interval: Nanos::from_ms(1),
            tenants: weights.iter().enumerate().map(tenant).collect(),
            tasks: (0..weights.len() as u32).map(task).collect(),
        })
    }

    /// Submitted at `at`: 10 us in the queue, 30 us in the device, 2 us until the task is notified.
    fn done(op: Op, tenant: u32, bytes: u64, at: Nanos) -> Completed {
        let us = |n| at + Nanos::from_us(n);
        Completed {
            op,
            task: TaskId(tenant),
            tenant: TenantId(tenant),
            bytes,
            submit: at,
            insert: at,
            issue: us(10),
            device_done: us(40),
            complete: us(42),
        }
    }

    #[test]
    fn a_result_matches_a_calculation_by_hand() {
        let mut r = recorder(&[100, 300], Nanos::ZERO);
        r.record(&done(Op::Read, 0, 1_000_000, Nanos::ZERO));
        r.record(&done(Op::Write, 1, 3_000_000, Nanos::from_us(100)));
        r.record(&done(Op::Discard, 1, 8_000_000, Nanos::from_us(200)));
        let cpu = CpuFacts { busy: vec![Nanos::from_us(30)], span: Nanos::from_ms(2), ..CpuFacts::default() };
        let out = r.finish(Nanos::from_ms(2), RunFacts { cpu, ..RunFacts::default() });
        assert_eq!((out.completed, out.duration_s, out.iops), (3, 0.002, 1500.0));
        assert_eq!(out.mb_per_s, 2000.0, "a discard moves no data");
        assert_eq!((out.read.count, out.write.count, out.other.count), (1, 1, 1));
        assert_eq!((out.read.latency_us.mean, out.read.latency_us.max), (42.0, 42.0));
        assert_eq!((out.phases_us.queue.mean, out.phases_us.device.mean), (10.0, 30.0));
        assert_eq!([out.tenants[0].share, out.tenants[1].share], [0.25, 0.75]);
        assert_eq!([out.tenants[0].ideal_share, out.tenants[1].ideal_share], [0.25, 0.75]);
        assert_eq!((out.fairness.pv, out.fairness.pv_share, out.fairness.jain), (0.0, 0.0, 1.0));
        assert_eq!((out.cpu.us_per_io, out.cpu.utilisation[0]), (10.0, 0.015));
        assert_eq!(out.series.mb_per_s, [4000.0, 0.0]);
        assert_eq!(out.tasks[1].count, 2);
        assert_eq!(out.latency_nested_us.intervals, 1);
    }

    #[test]
    fn requests_submitted_in_the_warm_up_do_not_count() {
        let mut r = recorder(&[100], Nanos::from_ms(1));
        r.record(&done(Op::Read, 0, 4096, Nanos::from_us(980)));
        r.record(&done(Op::Read, 0, 4096, Nanos::from_us(1000)));
        assert_eq!(r.finished(), 2);
        let out = r.finish(Nanos::from_ms(3), RunFacts::default());
        assert_eq!((out.completed, out.duration_s, out.iops), (1, 0.002, 500.0));
        assert_eq!(out.series.times, [0.001, 0.002]);
    }

    #[test]
    fn a_starved_tenant_is_unfair_and_an_idle_one_is_not() {
        let run = |submitted: Vec<u64>| {
            let mut r = recorder(&[100, 100, 100], Nanos::ZERO);
            r.record(&done(Op::Read, 0, 4096, Nanos::ZERO));
            r.record(&done(Op::Read, 1, 4096, Nanos::ZERO));
            r.finish(Nanos::from_ms(1), RunFacts { submitted_by_tenant: submitted, ..RunFacts::default() })
        };
        let idle = run(vec![1, 1, 0]);
        assert_eq!((idle.fairness.pv, idle.fairness.jain), (0.0, 1.0));
        assert_eq!(idle.tenants[2].ideal_share, 0.0);
        assert!(idle.tenants[2].latency_us.mean.is_nan());
        let starved = run(vec![1, 1, 9]);
        assert!(starved.fairness.jain < 0.7 && starved.fairness.pv > 0.3, "{:?}", starved.fairness);
    }

    #[test]
    fn fairness_follows_changes_of_weights_and_activity() {
        let ms = Nanos::from_ms;
        let mut r = recorder(&[100, 300, 100], Nanos::ZERO);
        r.record(&done(Op::Read, 0, 1000, Nanos::ZERO));
        r.record(&done(Op::Read, 1, 3000, Nanos::ZERO));
        r.weight(ms(1), TenantId(1), 50);
        r.record(&done(Op::Read, 0, 1000, ms(1)));
        r.record(&done(Op::Read, 1, 3000, ms(1)));
        r.record(&done(Op::Read, 1, 3000, ms(2)));
        // From 2 ms on the third tenant submits and nothing completes; the first is idle.
        let facts = RunFacts { submitted_by_tenant: vec![2, 3, 1], ..RunFacts::default() };
        r.finished_by_tenant[2].1 = ms(2);
        let out = r.finish(ms(3), facts);
        // 1 : 3 is ideal; then 100 : 50 by weight and 1 : 3 by bytes, relative to the second: |2 - 1/3| / 2; then 50 :
        // 100 by weight and all to one.
        let expected = [0.0, 5.0 / 6.0, 1.0];
        assert!(out.series.pv.iter().zip(expected).all(|(pv, e)| (pv - e).abs() < 1e-12), "{:?}", out.series.pv);
        assert_eq!(out.fairness.reversals_s, 0.002, "the second tenant is the lightest from 1 ms on");
        // Weights of 100, 300, 100 for 1 ms and 100, 50, 100 for 2 ms.
        let expected = (0.6 + 2.0 * 0.2) / 3.0;
        assert!((out.tenants[1].ideal_share - expected).abs() < 1e-12, "{}", out.tenants[1].ideal_share);
    }

    #[test]
    fn a_run_without_io_has_undefined_figures() {
        let out = recorder(&[], Nanos::ZERO).finish(Nanos::ZERO, RunFacts::default());
        assert_eq!((out.completed, out.iops, out.mb_per_s), (0, 0.0, 0.0));
        assert_eq!(out.tenants[0].name, "all");
        let text = serde_json::to_string(&out).unwrap();
        let back: RunResult = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }

    #[test]
    fn of_many_tasks_those_that_move_most_are_listed() {
        let task = |i| TaskSpec { name: format!("{i}"), tenant: TenantId(0) };
        let (tenants, tasks) = (Vec::new(), (0..1000).map(task).collect());
        let config = RecorderConfig { warmup: Nanos::ZERO, interval: Nanos::from_ms(1), tenants, tasks };
        let mut r = Recorder::new(config);
        for i in 0..1001 {
            r.record(&Completed { task: TaskId(i), ..done(Op::Read, 0, u64::from(i), Nanos::ZERO) });
        }
        let out = r.finish(Nanos::from_ms(1), RunFacts::default());
        assert_eq!((out.tasks.len(), out.tasks_omitted), (256, 744));
        assert_eq!((out.tasks[0].name.as_str(), out.completed), ("744", 1001));
        assert!(out.tasks[0].latency_us.p99.is_nan() && out.tasks[0].latency_us.mean == 42.0);
    }

    proptest! {
        #[test]
        fn shares_sum_to_one(requests in prop::collection::vec((0u32..4, 1u64..1_000_000, 0u64..100_000), 1..200)) {
            let mut r = recorder(&[1, 2, 4, 5], Nanos::ZERO);
            let mut now = Nanos::ZERO;
            for (tenant, bytes, gap) in &requests {
                now += Nanos(*gap);
                r.record(&done(Op::Write, *tenant, *bytes, now));
            }
            let out = r.finish(now, RunFacts::default());
            prop_assert!((out.tenants.iter().map(|t| t.share).sum::<f64>() - 1.0).abs() < 1e-9);
            prop_assert_eq!(out.tenants.iter().map(|t| t.count).sum::<u64>(), out.completed);
            let moved: f64 = out.tenants.iter().map(|t| t.mb_per_s).sum();
            prop_assert!((moved - out.mb_per_s).abs() <= 1e-9 * moved);
        }

        #[test]
        fn exact_proportions_have_no_variation(weights in prop::collection::vec(1u32..1000, 2..6)) {
            let mut r = recorder(&weights, Nanos::ZERO);
            for (i, w) in weights.iter().enumerate() {
                r.record(&done(Op::Read, i as u32, u64::from(*w) * 4096, Nanos::ZERO));
            }
            let out = r.finish(Nanos::from_ms(1), RunFacts::default());
            prop_assert!(out.fairness.pv.abs() < 1e-9 && out.fairness.pv_share.abs() < 1e-9);
        }
    }
}
