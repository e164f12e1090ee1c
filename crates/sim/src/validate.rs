//! Published figures that contain host time: device and host model together.
//!
//! The constants of the host were fitted to these very tables (grade F): agreement shows that the simulator adds up what
//! it should, not that the model predicts.

use dumbwaiter_block::Op;
use dumbwaiter_devices::DeviceModel;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::Choice;

use crate::experiment::{Error, Prepared};
use crate::host::Completion;
use crate::run::Control;

/// One figure: what is measured, the paper's value and how far off it may be.
pub struct HostTarget {
    /// What is measured.
    pub measurement: String,
    /// Unit.
    pub unit: &'static str,
    /// The paper's value, or the middle of its range.
    pub target: f64,
    /// Relative tolerance, 0.03 for 3 %.
    pub tolerance: f64,
    /// Where it comes from.
    pub source: &'static str,
    scheduler: &'static str,
    op: Op,
    threads: u32,
    profile: &'static str,
    completion: Completion,
    iops: bool,
}

impl HostTarget {
    /// What the model gives.
    pub fn measure(&self, model: &DeviceModel) -> Result<f64, Error> {
        let rw = if self.op == Op::Read { "randread" } else { "randwrite" };
        let text = format!(
            "warmup = \"250ms\"\nduration = \"{}ms\"\n[host]\ncpus = 8\nprofile = \"{}\"\n[[task]]\nname = \"t\"\ncount = {}\nrw = \"{rw}\"\nbs = \"4k\"\nioengine = \"psync\"\nnorandommap = true\n",
            if self.threads > 1 { 200 } else { 400 },
            self.profile,
            self.threads,
        );
        let scenario = Scenario::from_toml(&text, "validation").expect("the text above is a scenario");
        let choice = Choice::parse(self.scheduler).expect("a core scheduler");
        let control = Control::default();
        let prepared = Prepared::new(&scenario)?;
        let result = prepared.run_as(model, &choice, self.completion, 0, &control)?.result;
        Ok(match (self.iops, self.threads) {
            (true, _) => result.iops,
            (false, 1) => result.latency_us.p50,
            (false, _) => result.latency_us.mean,
        })
    }

    /// Is this value near enough?
    pub fn met(&self, value: f64) -> bool {
        (value / self.target - 1.0).abs() <= self.tolerance
    }
}

fn paper_001(threads: u32, completion: Completion, name: &str, latency_us: f64, iops: f64) -> [HostTarget; 2] {
    let tolerances = if threads == 1 { (0.03, 0.02) } else { (0.05, 0.05) };
    let one = |unit, target, tolerance, iops| HostTarget {
        measurement: format!("4K read, {threads} thread{}, {name}", if threads > 1 { "s" } else { "" }),
        unit,
        target,
        tolerance,
        source: "polling and energy paper, Table 1 [P]",
        scheduler: "none",
        op: Op::Read,
        threads,
        profile: "r230-5.15",
        completion,
        iops,
    };
    [one("us", latency_us, tolerances.0, false), one("IOPS", iops, tolerances.1, true)]
}

fn paper_000(scheduler: &'static str, op: Op, completion: Completion, latency_us: f64, tolerance: f64) -> HostTarget {
    let how =
        if completion == Completion::Interrupt { "io_uring default" } else { "submission and completion polling" };
    HostTarget {
        measurement: format!("4K {op}, depth 1, {scheduler}, {how}"),
        unit: "us",
        target: latency_us,
        tolerance,
        source: "Optane schedulers paper, Table 1 [P]",
        scheduler,
        op,
        threads: 1,
        profile: "r230-5.18",
        completion,
        iops: false,
    }
}

/// The figures published for a device on a host; none for most.
pub fn host_targets(model: &DeviceModel) -> Vec<HostTarget> {
    use Completion::{Hybrid, Interrupt, Poll, Sqpoll};
    match model.name().split('?').next().unwrap_or_default() {
        "ull:optane-900p" => {
            let mut targets = Vec::new();
            for (threads, completion, name, latency, iops) in [
                (1, Poll, "classic polling", 8.1, 120_470.0),
                (1, Hybrid, "hybrid polling", 8.5, 113_846.0),
                (1, Interrupt, "interrupt", 10.1, 96_722.0),
                (8, Poll, "classic polling", 13.6, 571_659.0),
                (8, Hybrid, "hybrid polling", 13.9, 546_968.0),
                (8, Interrupt, "interrupt", 15.0, 511_895.0),
            ] {
                targets.extend(paper_001(threads, completion, name, latency, iops));
            }
            let [_, saturated] = paper_001(16, Interrupt, "interrupt", 0.0, 580_000.0);
            targets.push(HostTarget { tolerance: 0.0345, ..saturated });
            targets
        }
        "ull:optane-p4801x" => {
            let mut targets = Vec::new();
            for (scheduler, values) in [
                ("none", [12.52, 16.55, 7.81, 12.19]),
                ("mq-deadline", [13.39, 17.65, 8.32, 12.83]),
                ("kyber", [13.44, 17.24, 8.33, 12.90]),
            ] {
                for (i, latency) in values.into_iter().enumerate() {
                    let op = if i % 2 == 0 { Op::Read } else { Op::Write };
                    let completion = if i < 2 { Interrupt } else { Sqpoll };
                    let tolerance = match (scheduler, i) {
                        ("none", 0..2) => 0.015,
                        ("none", _) => 0.02,
                        _ => 0.03,
                    };
                    targets.push(paper_000(scheduler, op, completion, latency, tolerance));
                }
            }
            targets
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_latencies_with_a_host() {
        for name in ["ull:optane-900p", "ull:optane-p4801x"] {
            let model = dumbwaiter_devices::load(name).unwrap();
            for target in host_targets(&model) {
                let value = target.measure(&model).unwrap();
                assert!(
                    target.met(value),
                    "{name}, {}: {value:.2} {}, expected {} within {} %",
                    target.measurement,
                    target.unit,
                    target.target,
                    target.tolerance * 100.0
                );
            }
        }
    }

    #[test]
    fn polling_beats_hybrid_beats_interrupts_at_eight_threads() {
        let model = dumbwaiter_devices::load("ull:optane-900p").unwrap();
        let iops: Vec<f64> = host_targets(&model)
            .iter()
            .filter(|t| t.threads == 8 && t.iops)
            .map(|t| t.measure(&model).unwrap())
            .collect();
        assert!(iops[0] > iops[1] && iops[1] > iops[2], "{iops:?}");
    }
}
