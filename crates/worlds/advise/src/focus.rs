//! The requests whose latency decides.

use dumbwaiter_measure::{Latency, RunResult, TenantStats, TimeParts};

/// The requests whose latency the recommendation looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Focus {
    /// Requests of these tenants, of several together.
    Tenants(Vec<String>),
    /// Requests of these tasks, of several together.
    Tasks(Vec<String>),
    /// All reads: applications usually wait for them.
    Reads,
    /// Reads and synchronous writes, beside write-back, for which nobody waits.
    Waited,
    /// No request: what is written is written back, and the throughput alone counts.
    Nobody,
    /// Every request.
    All,
}

impl Focus {
    /// Chooses the focus of runs of one device and load: the tenants or tasks that the scenario marks; else the tenant
    /// that uses the smallest part of its weight's share over all runs, if below one half (an interactive
    /// or starved tenant); else reads where they are at least 5 % of the requests; else all requests but write-back.
    pub fn of(runs: &[&RunResult]) -> Focus {
        let Some(first) = runs.first() else { return Focus::All };
        let marked: Vec<String> = first.tenants.iter().filter(|t| t.focus).map(|t| t.name.clone()).collect();
        if !marked.is_empty() {
            return Focus::Tenants(marked);
        }
        if let Some(tasks) = &first.focus_tasks {
            return Focus::Tasks(tasks.names.clone());
        }
        // A run that moved nothing says nothing of shares.
        let moving: Vec<&RunResult> = runs.iter().copied().filter(|r| r.mb_per_s > 0.0).collect();
        let used_share = |i: usize| -> f64 {
            let tenants = moving.iter().filter_map(|r| r.tenants.get(i));
            tenants.map(|t| if t.ideal_share > 0.0 { t.share / t.ideal_share } else { f64::NAN }).sum::<f64>()
                / moving.len() as f64
        };
        let least = (0..first.tenants.len())
            .map(|i| (i, used_share(i)))
            .filter(|(_, a)| *a < 0.5)
            .reduce(|a, b| if b.1 < a.1 { b } else { a });
        if let Some((i, _)) = least {
            return Focus::Tenants(vec![first.tenants[i].name.clone()]);
        }
        // Reads that wait for ever are reads too.
        let starved = |run: &&RunResult| run.read.count == 0 && run.read.latency_us.unfinished > 0;
        if runs.iter().any(starved) {
            return Focus::Reads;
        }
        let (reads, all) = runs.iter().fold((0u64, 0u64), |(r, a), run| (r + run.read.count, a + run.completed));
        match first.waited {
            _ if reads > 0 && reads.saturating_mul(20) >= all => Focus::Reads,
            // A flush at the end of what is written back says nothing of latency.
            Some(_) if is_mere_write_back(runs) => Focus::Nobody,
            Some(_) => Focus::Waited,
            None => Focus::All,
        }
    }

    fn tenants<'a>(&'a self, run: &'a RunResult) -> impl Iterator<Item = &'a TenantStats> {
        let names: &[String] = if let Focus::Tenants(names) = self { names } else { &[] };
        run.tenants.iter().filter(|t| names.contains(&t.name))
    }

    /// Finished requests and latencies of each group of these requests that did or wanted any.
    fn groups<'a>(&'a self, run: &'a RunResult) -> impl Iterator<Item = (u64, &'a Latency)> {
        let (all, reads) = ((run.completed, &run.latency_us), (run.read.count, &run.read.latency_us));
        let whole = match self {
            Focus::Tenants(_) | Focus::Nobody => None,
            Focus::Tasks(_) => run.focus_tasks.as_ref().map(|tasks| (tasks.stats.count, &tasks.stats.latency_us)),
            Focus::Reads => Some(reads),
            Focus::Waited => run.waited.as_ref().map(|waited| (waited.count, &waited.latency_us)),
            Focus::All => Some(all),
        };
        let groups = whole.into_iter().chain(self.tenants(run).map(|t| (t.count, &t.latency_us)));
        groups.filter(|(count, latency)| count + latency.unfinished > 0)
    }

    /// Their latencies.
    pub(crate) fn latencies<'a>(&'a self, run: &'a RunResult) -> impl Iterator<Item = &'a Latency> {
        self.groups(run).map(|(_, latency)| latency)
    }

    /// Their latencies in a run, those of several tenants together: as the recorder has merged them, else without the shape of their
    /// sum.
    pub(crate) fn pooled(&self, run: &RunResult) -> Latency {
        let (mut parts, mut finished): (Vec<&Latency>, u64) = (Vec::new(), 0);
        for (count, latency) in self.groups(run) {
            parts.push(latency);
            finished += count;
        }
        let marked = || run.tenants.iter().filter(|tenant| tenant.focus).map(|tenant| tenant.name.as_str());
        let pooled = match (parts.as_slice(), self, &run.focus_latency_us) {
            ([], ..) => Latency::default(),
            ([one], ..) => (*one).clone(),
            (_, Focus::Tenants(names), Some(merged)) if marked().eq(names.iter().map(String::as_str)) => merged.clone(),
            (parts, ..) => joined(parts),
        };
        Latency { samples: if finished == 0 { 0 } else { pooled.samples }, ..pooled }
    }

    /// Where the time of its requests goes: what the parts are called in sentences, and their means over the runs, us; `None` where a
    /// run does not say it.
    pub fn time_parts(&self, runs: &[&RunResult]) -> Option<[(&'static str, f64); 11]> {
        let of = |run: &RunResult| -> Option<(TimeParts, f64)> {
            match self {
                Focus::Reads => Some((run.read.time_parts_us?, run.read.latency_us.samples as f64)),
                Focus::Waited => {
                    let waited = run.waited.as_ref()?;
                    Some((waited.time_parts_us?, waited.latency_us.samples as f64))
                }
                Focus::Nobody => None,
                Focus::All => Some((run.time_parts_us?, run.latency_us.samples as f64)),
                Focus::Tasks(_) => {
                    let stats = &run.focus_tasks.as_ref()?.stats;
                    Some((stats.time_parts_us?, stats.latency_us.samples as f64))
                }
                Focus::Tenants(names) => {
                    let tenant = run.tenants.iter().find(|tenant| names.contains(&tenant.name))?;
                    Some((tenant.time_parts_us?, tenant.latency_us.samples as f64))
                }
            }
        };
        let known: Vec<(TimeParts, f64)> = runs.iter().filter_map(|run| of(run)).collect();
        let all: f64 = known.iter().map(|(_, samples)| samples).sum();
        let mut sums = known.first()?.0.named();
        for (i, (_, sum)) in sums.iter_mut().enumerate() {
            *sum = known.iter().map(|(parts, samples)| parts.named()[i].1 * samples).sum::<f64>() / all;
        }
        Some(sums)
    }

    /// The 99th percentile of the latency of these requests in a run, us: of several tenants the worst. Infinite if one of
    /// them waits and got nothing, NaN if none wanted anything.
    pub fn p99_us(&self, run: &RunResult) -> f64 {
        let p99 = |(count, latency): (u64, &Latency)| if count == 0 { f64::INFINITY } else { latency.p99 };
        self.groups(run).map(p99).fold(f64::NAN, f64::max)
    }

    /// Completed requests in a run; of several tenants the smallest count.
    pub fn count(&self, run: &RunResult) -> u64 {
        match self {
            Focus::Tenants(_) => self.tenants(run).map(|t| t.count).min().unwrap_or(0),
            Focus::Tasks(_) => run.focus_tasks.as_ref().map_or(0, |tasks| tasks.stats.count),
            Focus::Reads => run.read.count,
            Focus::Waited => run.waited.as_ref().map_or(0, |waited| waited.count),
            Focus::Nobody => 0,
            Focus::All => run.completed,
        }
    }

    /// Its name in texts: `reads`, `all requests`, `desktop`.
    pub fn name(&self) -> String {
        match self {
            Focus::Tenants(names) | Focus::Tasks(names) => names.join(", "),
            Focus::Reads => "reads".to_string(),
            Focus::Waited => "reads and synchronous writes".to_string(),
            Focus::Nobody => "nobody".to_string(),
            Focus::All => "all requests".to_string(),
        }
    }
}

/// Whether all data of these runs is written back: beside it there are at most flushes. One that waits for most of a run is there too.
fn is_mere_write_back(runs: &[&RunResult]) -> bool {
    let without_data = |run: &RunResult| run.waited.as_ref().is_some_and(|waited| waited.count <= run.other.count);
    runs.iter().all(|run| without_data(run) && run.oldest_unfinished_s < run.duration_s / 2.0)
}

/// Latencies of several groups: the mean is exact, percentiles are the worst of theirs.
fn joined(parts: &[&Latency]) -> Latency {
    let (samples, unfinished) = (parts.iter().map(|l| l.samples).sum(), parts.iter().map(|l| l.unfinished).sum());
    let weighted = |of: fn(&Latency) -> f64| {
        let of_all = parts.iter().filter(|l| l.samples > 0).map(|l| of(l) * l.samples as f64);
        of_all.sum::<f64>() / samples as f64
    };
    let worst = |of: fn(&Latency) -> f64| parts.iter().map(|l| of(l)).fold(f64::NAN, f64::max);
    Latency {
        samples,
        unfinished,
        known_to: parts.iter().map(|l| l.known_to).fold(f64::NAN, f64::min),
        mean: weighted(|l| l.mean),
        p50: worst(|l| l.p50),
        p95: worst(|l| l.p95),
        p99: worst(|l| l.p99),
        p99_9: worst(|l| l.p99_9),
        max: worst(|l| l.max),
        stddev: worst(|l| l.stddev),
    }
}
