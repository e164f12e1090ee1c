//! Joins the recorders of several rings of one run.

use super::Recorder;

impl Recorder {
    /// Adds the records of another ring of the same run.
    ///
    /// Counts, bytes and all latency figures over the whole run stay exact: by operation, tenant and task; so do the
    /// slots of the series except p99, and mean depths. The nested table counts the intervals of each ring separately,
    /// and p99 of a slot is the higher of both, an upper bound of the joint p99. The distribution of depths is left out,
    /// and the largest depth is the sum of both, an upper bound.
    ///
    /// # Panics
    /// If the two have different warm-ups, intervals, tenants or tasks.
    pub fn join(&mut self, other: Recorder) {
        let shape = |r: &Recorder| (r.warmup, r.timeline.interval(), r.tenants.len(), r.tasks.len());
        assert_eq!(shape(self), shape(&other), "recorders of different runs");
        self.last = self.last.max(other.last);
        self.warmup_completed += other.warmup_completed;
        self.read.join(&other.read);
        self.write.join(&other.write);
        self.other.join(&other.other);
        self.tenants.iter_mut().zip(&other.tenants).for_each(|(tally, more)| tally.join(more));
        for (tally, more) in self.tasks.iter_mut().zip(&other.tasks) {
            tally.count += more.count;
            tally.reads += more.reads;
            tally.bytes += more.bytes;
            tally.latencies.join(&more.latencies);
        }
        if let (Some(all), Some(more)) = (&mut self.focus, &other.focus) {
            all.join(more);
        }
        if let (Some(all), Some(more)) = (&mut self.waited, &other.waited) {
            all.join(more);
        }
        self.task_latencies.iter_mut().zip(&other.task_latencies).for_each(|(all, more)| all.join(more));
        self.queue.join(&other.queue);
        self.device.join(&other.device);
        self.timeline.join(other.timeline, self.last);
        self.maps.join(other.maps, self.last);
        self.unfinished.extend(other.unfinished);
        // Both may have the same change: applying it twice does no harm.
        self.weights.extend(other.weights);
        self.weights.sort_by_key(|(at, ..)| *at);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Completed, Recorder, RecorderConfig, RunFacts, RunResult, TaskSpec, TenantSpec, Unfinished};
    use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};
    use proptest::prelude::*;

    const TENANTS: u32 = 3;

    fn recorder() -> Recorder {
        let tenant = |i| TenantSpec { name: format!("t{i}"), weight: 100 + i, parent: None, focus: false };
        let task = |i| TaskSpec {
            name: format!("t{i}.0"),
            tenant: TenantId(i),
            focus: (i == 1).then(|| "t".into()),
            write_back: i == 0,
        };
        Recorder::new(RecorderConfig {
            warmup: Nanos::from_ms(2),
            interval: Nanos::from_ms(1),
            tenants: (0..TENANTS).map(tenant).collect(),
            tasks: (0..TENANTS).map(task).collect(),
        })
    }

    /// The figures that do not depend on the division of requests between rings, as text.
    fn exact(r: &RunResult) -> String {
        let mut r = r.clone();
        r.series.p99_us.clear();
        for depth in [&mut r.depth.scheduler, &mut r.depth.device] {
            depth.distribution.clear();
            depth.max = 0;
        }
        r.latency_nested_us.rows.clear();
        r.latency_nested_us.intervals = 0;
        serde_json::to_string(&r).unwrap()
    }

    proptest! {
        #[test]
        fn joined_recorders_equal_a_single_one(
            steps in prop::collection::vec(
                (0u64..9_000_000, 0u64..5_000_000, 0usize..5, 0u32..TENANTS, 1u64..1 << 20, 0usize..3),
                1..300,
            ),
        ) {
            let ops = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::Read];
            let mut whole = recorder();
            let mut parts = [recorder(), recorder(), recorder()];
            let mut queued = [0u64; 3];
            let mut now = Nanos::ZERO;
            for (gap, latency, op, tenant, bytes, part) in steps {
                now += Nanos(gap);
                let submit = Nanos(now.0.saturating_sub(latency));
                let (insert, issue) = (submit, submit + Nanos(now.since(submit).0 / 3));
                let (task, tenant) = (TaskId(tenant), TenantId(tenant));
                let sector = bytes << 20;
                let done = Completed { op: ops[op], task, tenant, sector, bytes, submit, insert, issue, device_done: now, complete: now };
                queued[part] = bytes % 50;
                for one in [&mut whole, &mut parts[part]] {
                    one.record(&done);
                }
                whole.depth(now, queued.iter().sum(), 1);
                parts[part].depth(now, queued[part], u64::from(part == 0));
                parts[0].depth(now, queued[0], 1);
            }
            let end = now + Nanos::from_us(300);
            for (part, number) in parts.iter_mut().zip(0..) {
                let (task, tenant) = (TaskId(number), TenantId(number));
                let request = Unfinished { op: Op::Read, task, tenant, submit: Nanos(now.0 / 2), end };
                whole.unfinished(request);
                part.unfinished(request);
            }
            let facts = RunFacts::default();
            let [mut joined, second, third] = parts;
            joined.join(second);
            joined.join(third);
            prop_assert_eq!(joined.finished(), whole.finished());
            let (joined, whole) = (joined.finish(end, facts.clone()), whole.finish(end, facts));
            prop_assert_eq!(exact(&joined), exact(&whole));
            // Figures that are not exact are upper bounds.
            for (joined, whole) in joined.series.p99_us.iter().zip(&whole.series.p99_us) {
                prop_assert!(joined >= whole || (joined.is_nan() && whole.is_nan()), "{joined} {whole}");
            }
            prop_assert!(joined.depth.scheduler.max >= whole.depth.scheduler.max);
            prop_assert!(joined.depth.scheduler.distribution.is_empty());
            prop_assert!(joined.latency_nested_us.intervals >= whole.latency_nested_us.intervals);
        }
    }

    #[test]
    #[should_panic(expected = "different runs")]
    fn recorders_of_different_runs_do_not_join() {
        let other = RecorderConfig { warmup: Nanos::ZERO, interval: Nanos::from_ms(1), tenants: vec![], tasks: vec![] };
        recorder().join(Recorder::new(other));
    }
}
