//! Turns the records of a run into its result.

use std::collections::BTreeSet;

use super::{CpuFacts, Recorder, RunFacts, is_focus, is_waited};
use crate::Unfinished;
use crate::fairness::{fairness, ideal_shares, pv, reversed};
use crate::ledger::Ledger;
use crate::parts::{PartSums, TimeParts};
use crate::result::{
    Cdfs, Cpu, Energy, Fairness, FocusTasks, Latency, OpStats, Phases, RunResult, SchedulerSwitches, Series, TaskStats,
    TenantStats,
};
use crate::tally::{FineTally, Latencies, Tally};
use crate::tenants::TenantSpec;
use dumbwaiter_block::{Nanos, Op};

/// Most tasks listed in a result.
const TASKS_LISTED_MAX: usize = 256;

impl Recorder {
    /// Ends the run at `end`, or at its last event if that is later.
    pub fn finish(mut self, end: Nanos, facts: RunFacts) -> RunResult {
        let end = end.max(self.last);
        self.timeline.finish(end);
        self.take_waits();
        let duration_s = end.since(self.warmup).as_secs_f64();
        let rate = |amount: f64| if duration_s > 0.0 { amount / duration_s } else { 0.0 };
        let mut all = self.read.clone();
        all.join(&self.write);
        all.join(&self.other);
        let names: Vec<String> = self.tenant_specs.iter().map(|t| t.name.clone()).collect();
        let tenants = self.tenant_stats(end, all.bytes, rate);
        let ideal: Vec<f64> = tenants.iter().map(|t| t.ideal_share).collect();
        let moved: Vec<u64> = self.tenants.iter().map(|t| t.bytes).collect();
        let (interval_pv, reversals_s) = self.fairness_over_time(end);
        let (tasks, tasks_omitted) = self.task_stats(rate);
        let unfinished = self.unfinished.len() as u64;
        RunResult {
            device: facts.device,
            scheduler: facts.scheduler,
            variant: facts.variant,
            completion: facts.completion,
            world: facts.world,
            via: facts.via,
            replicate: facts.replicate,
            seed: facts.seed,
            same_load: false,
            requests: self.finished() + unfinished,
            warmup_completed: self.warmup_completed,
            completed: all.count,
            unfinished,
            oldest_unfinished_s: self.unfinished.iter().map(Unfinished::wait).max().map_or(0.0, Nanos::as_secs_f64),
            duration_s,
            started_unix_ns: None,
            ended_unix_ns: None,
            iops: rate(all.count as f64),
            mb_per_s: rate(all.bytes as f64 / 1e6),
            time_parts_us: parts(&all.parts, &all.latencies.latency()),
            latency_us: all.latencies.latency(),
            focus_latency_us: self.focus_latency(),
            focus_tasks: self.focus_tasks(rate),
            waited: self.waited.as_ref().map(|tally| op_stats(tally, rate)),
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
            cpu: cpu(&facts.cpu, all.count, duration_s),
            energy: facts.energy.map(|(joules, source)| energy(joules, source, &all)),
            series: Series { pv: interval_pv, ..self.timeline.series(end, &names) },
            depth: self.timeline.depths(),
            latency_nested_us: self.timeline.nested(|q| all.latencies.quantile_us(q)),
            latency_cdf: Cdfs {
                all: all.latencies.cdf(),
                read: self.read.latencies.cdf(),
                write: self.write.latencies.cdf(),
            },
            maps: (facts.replicate == 0).then(|| self.maps.finish(end)),
            merges: facts.merges,
            errors: facts.ledger.failed,
            rejected: facts.ledger.rejected,
            ledger: Ledger { outstanding: unfinished, ..facts.ledger },
            host_counters: facts.host_counters,
            switches: facts
                .switches
                .map(|(count, pause)| SchedulerSwitches { count, pause_ms: pause.as_us_f64() / 1e3 }),
            scheduler_counters: facts.scheduler_counters,
            device_counters: facts.device_counters,
        }
    }

    /// Latencies of the tenants of the focus together, where there are several.
    fn focus_latency(&self) -> Option<Latency> {
        let of_focus = || self.tenant_specs.iter().zip(&self.tenants).filter(|(spec, _)| spec.focus).map(|(_, of)| of);
        let mut all = of_focus().next()?.clone();
        of_focus().skip(1).for_each(|other| all.join(other));
        (of_focus().count() > 1).then(|| all.latencies.latency())
    }

    fn focus_tasks(&self, rate: impl Fn(f64) -> f64) -> Option<FocusTasks> {
        let tally = self.focus.as_ref()?;
        // Instances, and tasks of several tenants, may share a name.
        let mut seen = BTreeSet::new();
        let names =
            self.task_specs.iter().filter_map(|spec| spec.focus.clone()).filter(|name| seen.insert(name.clone()));
        let names = names.collect();
        Some(FocusTasks { names, stats: op_stats(tally, rate) })
    }

    /// Adds the waits of unfinished requests to the latencies of their groups. Their tenants had I/O all the time. Where
    /// the run did not reach the measured time there is nothing to add to.
    fn take_waits(&mut self) {
        for request in self.unfinished.iter().filter(|request| request.end > self.warmup) {
            let wait = request.wait().0;
            match request.op {
                Op::Read => self.read.latencies.waiting(wait),
                Op::Write => self.write.latencies.waiting(wait),
                _ => self.other.latencies.waiting(wait),
            }
            self.tenants[request.tenant.0 as usize].latencies.waiting(wait);
            if let Some(tally) = self.focus.as_mut().filter(|_| is_focus(&self.task_specs, request.task)) {
                tally.latencies.waiting(wait);
            }
            if let Some(tally) = self.waited.as_mut().filter(|_| is_waited(&self.task_specs, request.task)) {
                tally.latencies.waiting(wait);
            }
            if let Some(latencies) = self.task_latencies.get_mut(request.task.0 as usize) {
                latencies.waiting(wait);
            }
            self.timeline.mark_active(request.submit, request.tenant);
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

    fn tenant_stats(&self, end: Nanos, total: u64, rate: impl Fn(f64) -> f64) -> Vec<TenantStats> {
        // A tenant without I/O takes no part in shares; one of whose requests none finished was starved, and does.
        let takes_part: Vec<bool> = self.tenants.iter().map(|t| t.count > 0 || t.latencies.waits() > 0).collect();
        let ideal = self.ideal_over_time(end, &takes_part);
        let one = |(i, spec): (usize, &TenantSpec)| {
            let tally = &self.tenants[i];
            TenantStats {
                name: spec.name.clone(),
                weight: spec.weight,
                share: if total > 0 { tally.bytes as f64 / total as f64 } else { f64::NAN },
                ideal_share: ideal[i],
                focus: spec.focus,
                count: tally.count,
                iops: rate(tally.count as f64),
                mb_per_s: rate(tally.bytes as f64 / 1e6),
                time_parts_us: parts(&tally.parts, &tally.latencies.latency()),
                latency_us: tally.latencies.latency(),
                bandwidth: self.timeline.bandwidth(end, Some(i)),
            }
        };
        self.tenant_specs.iter().enumerate().map(one).collect()
    }

    fn task_stats(&self, rate: impl Fn(f64) -> f64) -> (Vec<TaskStats>, u64) {
        let mut reported: Vec<usize> = (0..self.task_specs.len()).collect();
        if reported.len() > TASKS_LISTED_MAX {
            // One with percentiles stays, however little it moved: it may be the one that waits.
            let with_percentiles = |i: usize| i < self.task_latencies.len();
            reported.sort_by_key(|&i| {
                (!with_percentiles(i), std::cmp::Reverse((self.tasks[i].bytes, self.tasks[i].count)), i)
            });
            reported.truncate(TASKS_LISTED_MAX);
            reported.sort_unstable();
        }
        let one = |&i: &usize| {
            let spec = &self.task_specs[i];
            let tenant = self.tenant_specs.get(spec.tenant.0 as usize);
            let tally = &self.tasks[i];
            TaskStats {
                name: spec.name.clone(),
                tenant: tenant.map(|t| t.name.clone()).unwrap_or_default(),
                count: tally.count,
                reads: tally.reads,
                iops: rate(tally.count as f64),
                mb_per_s: rate(tally.bytes as f64 / 1e6),
                latency_us: self.task_latencies.get(i).map_or_else(|| tally.latencies.latency(), Latencies::latency),
            }
        };
        (reported.iter().map(one).collect(), (self.task_specs.len() - reported.len()) as u64)
    }
}

/// Where the time of those goes whose latencies these are.
fn parts(of: &PartSums, latency: &Latency) -> Option<TimeParts> {
    of.means(latency.samples, latency.mean)
}

fn op_stats<const BITS: u32>(t: &Tally<BITS>, rate: impl Fn(f64) -> f64) -> OpStats {
    OpStats {
        count: t.count,
        iops: rate(t.count as f64),
        mb_per_s: rate(t.bytes as f64 / 1e6),
        time_parts_us: parts(&t.parts, &t.latencies.latency()),
        latency_us: t.latencies.latency(),
    }
}

fn energy(joules: f64, source: String, all: &FineTally) -> Energy {
    Energy { joules, source, j_per_mio: joules / all.count as f64 * 1e6, bytes_per_j: all.bytes as f64 / joules }
}

fn cpu(facts: &CpuFacts, completed: u64, duration_s: f64) -> Cpu {
    let busy_s: f64 = facts.busy.iter().map(|b| b.as_secs_f64()).sum();
    let utilisation = |busy: &Nanos| if duration_s > 0.0 { busy.as_secs_f64() / duration_s } else { 0.0 };
    Cpu {
        busy_s,
        usr_s: facts.usr.as_secs_f64(),
        sys_s: facts.sys.as_secs_f64(),
        us_per_io: if completed > 0 { busy_s * 1e6 / completed as f64 } else { f64::NAN },
        ctx_per_io: match facts.switches {
            Some(switches) if completed > 0 => switches as f64 / completed as f64,
            _ => f64::NAN,
        },
        submit_s: facts.submit.as_secs_f64(),
        scheduler_s: facts.scheduler.as_secs_f64(),
        irq_s: facts.irq.as_secs_f64(),
        poll_s: facts.poll.as_secs_f64(),
        utilisation: facts.busy.iter().map(utilisation).collect(),
    }
}
