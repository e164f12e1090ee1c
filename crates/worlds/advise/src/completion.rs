//! Gain and cost of polling compared with interrupts, under the recommended scheduler.

use dumbwaiter_measure::{RunResult, SIGNIFICANCE, Sample, holm};
use serde::Serialize;

use crate::Metric;
use crate::race::{Gain, gain};

/// I/Os in flight at which the methods are compared.
pub const DEPTHS: [u32; 3] = [1, 8, 32];
/// A median must be lower by this share to be worth changing the application.
const WORTH: f64 = 0.05;

/// One method at one depth.
#[derive(Clone, Debug, Serialize)]
pub struct Method {
    /// I/Os in flight.
    pub depth: u32,
    /// The method.
    pub completion: String,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the latency in microseconds.
    pub p99_us: f64,
    /// I/Os a second.
    pub iops: f64,
    /// CPU time of an I/O in microseconds.
    pub cpu_us_per_io: f64,
    /// Its median against the interrupt's; none for the interrupt itself.
    pub median: Option<Gain>,
    /// Is it better than the interrupt by more than chance, and enough to be worth it?
    pub better: bool,
}

/// Results for the completion methods.
#[derive(Clone, Debug, Serialize)]
pub struct Methods {
    /// Figures by depth and method.
    pub measured: Vec<Method>,
    /// The recommendation, in a sentence.
    pub sentence: String,
    /// How to do it, or what is in the way; one line each.
    pub how: Vec<String>,
}

/// Name of the point in the survey.
pub fn point(depth: u32) -> String {
    format!("completion, 4k-{depth}")
}

/// The figures of each depth and method, where each has run twice or more.
fn measured(results: &[RunResult], methods: &[String]) -> Vec<Method> {
    let mut all = Vec::new();
    for depth in DEPTHS {
        let of = |method: &str| -> Vec<&RunResult> {
            results.iter().filter(|r| r.variant == point(depth) && r.completion == method).collect()
        };
        if methods.iter().any(|m| of(m).len() < 2) {
            continue;
        }
        let medians = |runs: &[&RunResult]| runs.iter().map(|r| (r.seed, r.latency_us.p50)).collect::<Vec<_>>();
        let interrupt = medians(&of("interrupt"));
        for method in methods {
            let runs = of(method);
            let mean =
                |figure: fn(&RunResult) -> f64| Sample::of(&runs.iter().map(|r| figure(r)).collect::<Vec<f64>>()).mean;
            let median = (method != "interrupt").then(|| gain(&point(depth), Metric::P50, &interrupt, &medians(&runs)));
            all.push(Method {
                depth,
                completion: method.clone(),
                p50_us: mean(|r| r.latency_us.p50),
                p99_us: mean(|r| r.latency_us.p99),
                iops: mean(|r| r.iops),
                cpu_us_per_io: mean(|r| r.cpu.us_per_io),
                median,
                better: false,
            });
        }
    }
    // Several methods at several depths: this many tests may find a difference where there is none.
    let p: Vec<f64> = all.iter().map(|m: &Method| m.median.as_ref().map_or(f64::NAN, |gain| gain.p)).collect();
    for (method, p) in all.iter_mut().zip(holm(&p)) {
        if let Some(gain) = &mut method.median {
            gain.p = p;
            method.better = p <= SIGNIFICANCE && gain.change <= -WORTH;
        }
    }
    all
}

/// Compares the methods by the runs of a survey. `available`: can the kernel poll the device, and why or what it needs.
pub fn compare_methods(results: &[RunResult], methods: &[String], available: (bool, &str)) -> Methods {
    let measured = measured(results, methods);
    let (sentence, how) = advice(&measured, available.0, available.1);
    Methods { measured, sentence, how }
}

/// Advice.
fn advice(measured: &[Method], can_poll: bool, about: &str) -> (String, Vec<String>) {
    let mut how = Vec::new();
    if !can_poll {
        how.push(format!("the kernel cannot poll this device: {about}"));
    }
    if measured.is_empty() {
        let text = if can_poll {
            "There was no time left to compare completion methods."
        } else {
            "Only interrupts are available on this device."
        };
        return (text.to_owned(), how);
    }
    let mut parts = Vec::new();
    for depth in DEPTHS {
        let at = || measured.iter().filter(move |m| m.depth == depth);
        let Some(interrupt) = at().find(|m| m.completion == "interrupt") else { continue };
        let Some(best) = at().filter(|m| m.better).min_by(|a, b| a.p50_us.total_cmp(&b.p50_us)) else { continue };
        let Some(median) = &best.median else { continue };
        let many = if depth == 1 { "one at a time".to_owned() } else { format!("{depth} at a time") };
        parts.push(format!(
            "{many}, {} answers in {:.1} us in place of {:.1} ({:+.0} %, p = {:.3}) for {:.1} us of CPU each in place of {:.1}",
            best.completion,
            best.p50_us,
            interrupt.p50_us,
            median.change * 100.0,
            median.p,
            best.cpu_us_per_io,
            interrupt.cpu_us_per_io,
        ));
    }
    if parts.is_empty() {
        let text = "Leave completions to interrupts: no other method has a significantly lower median, by 5 % or more.";
        return (text.to_owned(), how);
    }
    let used = |name: &str| measured.iter().any(|m| m.better && m.completion == name);
    if can_poll && (used("poll") || used("hybrid")) {
        how.push(format!("the kernel polls for programs that ask for it ({about}): in fio --ioengine=io_uring --hipri; in a program of your own IORING_SETUP_IOPOLL with O_DIRECT (RWF_HIPRI with preadv2 no longer polls)"));
    }
    if used("hybrid") {
        how.push("hybrid: with IORING_SETUP_HYBRID_IOPOLL (Linux 6.13) where the kernel can poll; else a sleep of half of the usual time in the program, then looking at the ring without waiting".into());
    }
    (format!("If there is CPU to spare: {}.", parts.join("; ")), how)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(depth: u32, completion: &str, p50: f64, change: f64, p: f64) -> Method {
        let median = (completion != "interrupt").then(|| Gain {
            point: point(depth),
            metric: "latency_p50_us".into(),
            now: p50 / (1.0 + change),
            then: p50,
            change,
            ci95: [change - 0.01, change + 0.01],
            p,
        });
        let better = median.is_some() && p <= SIGNIFICANCE && change <= -WORTH;
        Method {
            depth,
            completion: completion.into(),
            p50_us: p50,
            p99_us: p50,
            iops: 1e6 / p50,
            cpu_us_per_io: p50,
            median,
            better,
        }
    }

    #[test]
    fn polling_is_told_with_its_gain_its_price_and_its_setting() {
        let all = [
            method(1, "interrupt", 10.0, 0.0, 1.0),
            method(1, "poll", 8.0, -0.2, 0.001),
            method(1, "hybrid", 9.0, -0.1, 0.01),
        ];
        let (said, how) = advice(&all, true, "nvme.poll_queues=2");
        assert!(said.contains("one at a time, poll answers in 8.0 us in place of 10.0 (-20 %, p = 0.001)"), "{said}");
        assert!(how.iter().any(|h| h.contains("nvme.poll_queues=2") && h.contains("--hipri")), "{how:?}");
    }

    #[test]
    fn what_may_be_chance_or_is_too_little_changes_nothing() {
        for (change, p) in [(-0.2, 0.2), (-0.02, 0.001), (0.3, 0.001)] {
            let all = [method(32, "interrupt", 10.0, 0.0, 1.0), method(32, "hybrid", 10.0 * (1.0 + change), change, p)];
            let (said, how) = advice(&all, false, "needs nvme.poll_queues=N");
            assert!(said.starts_with("Leave completions to interrupts"), "{said}");
            assert!(how[0].contains("nvme.poll_queues=N"), "{how:?}");
        }
        assert!(advice(&[], true, "").0.contains("no time left"));
    }
}
