//! The version of the model, and figures that show when it must be raised.

/// Raised whenever the same cell gives other figures than before: results of an older model are not used again.
///
/// A test compares the figures of some small cells with those in `model.txt`, which are of this version.
pub const MODEL: u32 = 18;

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use dumbwaiter_experiment::{Control, World};
    use dumbwaiter_measure::RunResult;
    use dumbwaiter_sim::Simulator;
    use serde_json::{Value, json};

    use super::MODEL;
    use crate::Sweep;
    use crate::axis::AxisKind;
    use crate::cell::Resolver;

    /// The version, and a line for each cell.
    const PINNED: &str = include_str!("model.txt");

    /// Neighbours that merge, random reads that wait, and writes, of tenants with weights.
    fn base() -> Value {
        json!({"devices": ["null:0us"], "schedulers": ["none"], "duration": "1s", "warmup": 0, "limit": 300, "seed": 7, "queue_depth": 4,
            "replicates": 1, "host": {"cpus": 2},
            "tenant": [
                {"name": "user", "weight": 300, "focus": true, "task": [
                    {"name": "lookups", "rw": "randread", "bs": "4k", "iodepth": 1, "thinktime": "100us", "size": "1g"}]},
                {"name": "batch", "weight": 100, "task": [
                    {"name": "scan", "rw": "read", "bs": "16k", "iodepth": 4, "size": "1g", "offset": "10g", "rate_iops": 200},
                    {"name": "update", "rw": "randrw", "bs": "8k", "iodepth": 12, "size": "40g", "offset": "20g"}]}]})
    }

    /// Counts, and times in whole microseconds: other CPUs and compilers give the same.
    fn line(cell: &str, run: &RunResult) -> String {
        let (all, moved) = (&run.latency_us, run.read.count + run.write.count);
        format!(
            "{cell}: {} finished of {}, {moved} reads and writes, {} merged; p50 {:.0}, p99 {:.0}, max {:.0} us; CPUs busy \
             {:.0} us; share error {:.0} in 1,000",
            run.completed,
            run.requests,
            run.merges.back + run.merges.front,
            all.p50,
            all.p99,
            all.max,
            run.cpu.busy_s * 1e6,
            run.fairness.share_error * 1e3,
        )
    }

    fn figures() -> String {
        let current = json!(["none", "mq-deadline", "kyber", "bfq", "headway"]);
        let older = json!(["deadline", "cfq", "a-cfq", "anticipatory", "wf2q+", "mclock", "sptf", "adaptive"]);
        let grids = [
            json!({"device": ["hdd:st1000dm003", "ssd:850pro-256"], "scheduler": current}),
            json!({"device": ["hdd:st1000dm003"], "scheduler": older}),
            json!({"device": ["null:0us", "ull:optane-p4801x"], "completion": ["interrupt", "poll", "hybrid"]}),
        ];
        let mut text = format!("model {MODEL}\n");
        let (world, control) = (Simulator::new(1), Control::default());
        for axes in grids {
            let axes = axes.as_object().unwrap().clone();
            let sweep = Sweep::new(base(), axes, None, Vec::new(), &control).unwrap();
            let mut resolver = Resolver::new(&sweep, &control);
            for index in 0..sweep.len() {
                let cell = sweep.cell(index);
                let names = [AxisKind::Device, AxisKind::Scheduler, AxisKind::Completion];
                let name = names.map(|kind| sweep.value(kind, &cell.places)).join(" ");
                let ran = world.run(&resolver.cell(&cell.places, cell.replicate).unwrap(), &control).unwrap();
                writeln!(text, "{}", line(&name, &ran.run)).unwrap();
            }
        }
        text
    }

    #[test]
    fn figures_change_only_with_the_number_of_the_model() {
        let figures = figures();
        if figures == PINNED {
            return;
        }
        let is_raised = PINNED.lines().next() != figures.lines().next();
        let what = if is_raised {
            format!("MODEL is {MODEL}, and crates/answers/sweep/src/model.txt has the figures of another version")
        } else {
            let differs = figures.lines().zip(PINNED.lines()).find(|(now, before)| now != before);
            let (now, before) = differs.unwrap_or_default();
            format!(
                "the figures of cells changed, so results in the folders of sweeps must not be used again: raise MODEL in \
                 crates/answers/sweep/src/model.rs to {}\n  before: {before}\n  now:    {now}",
                MODEL + 1
            )
        };
        panic!("{what}\nThen put this into crates/answers/sweep/src/model.txt (with the new number):\n\n{figures}");
    }
}
