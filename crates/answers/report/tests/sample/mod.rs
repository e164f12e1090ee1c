//! Results of made-up runs, for tests: two devices, four tenants, and schedulers whose figures differ
//! by known factors. No simulator is needed, so that a report can be tested by itself.

use std::collections::BTreeMap;
use std::sync::Mutex;

use dumbwaiter_advise::completion::Methods;
use dumbwaiter_advise::{Advice, Confidence, Document};
use dumbwaiter_block::{Nanos, Op, TaskId, TenantId};
use dumbwaiter_measure::{
    Completed, CpuFacts, Ledger, Merges, Recorder, RecorderConfig, RunFacts, RunResult, TaskSpec, TenantSpec,
};

/// Name, factor on the latency of the desktop's reads, on the latency of all, on the throughput.
const SCHEDULERS: [(&str, u64, u64, u64); 5] = [
    ("none", 100, 100, 100),
    ("mq-deadline", 35, 90, 98),
    ("kyber", 60, 95, 96),
    ("deadline", 38, 92, 97),
    ("sstf", 220, 70, 104),
];

/// Name, weight, percent of the requests, bytes of a request, reads in a hundred.
const TENANTS: [(&str, u32, u64, u64, u64); 4] = [
    ("scans", 200, 45, 65_536, 100),
    ("lookups", 100, 32, 4_096, 100),
    ("writers", 100, 20, 16_384, 0),
    ("desktop", 100, 3, 8_192, 100),
];

struct Draw(u64);

impl Draw {
    /// Uniform below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// `typical` ns with a long tail on the right.
    fn latency(&mut self, typical: u64) -> u64 {
        let body = typical * (40 + self.below(60) + self.below(60)) / 100;
        match self.below(1000) {
            0..=2 => body * 9,
            3..=19 => body * (3 + self.below(3)),
            _ => body,
        }
    }
}

/// The runs so far: tests share them, for each takes a moment to make.
static MADE: Mutex<BTreeMap<(&str, usize, u32), RunResult>> = Mutex::new(BTreeMap::new());

/// Runs of the first `schedulers` on both devices, `replicates` of each.
#[allow(unreachable_pub)] // Included by unit tests too.
pub fn runs(schedulers: usize, replicates: u32) -> Vec<RunResult> {
    let mut runs = Vec::new();
    let mut made = MADE.lock().unwrap();
    for (device, gap_us, typical_us) in [("hdd:st1000dm003", 4_000, 38_000), ("ssd:px-256m5s", 100, 900)] {
        for (index, scheduler) in SCHEDULERS.iter().take(schedulers).enumerate() {
            for replicate in 0..replicates {
                let make = || run(device, (gap_us, typical_us), index, *scheduler, replicate);
                runs.push(made.entry((device, index, replicate)).or_insert_with(make).clone());
            }
        }
    }
    runs
}

/// A possible result of a survey of a disk, with runs that `survey` holds.
#[allow(unreachable_pub)] // Included by unit tests too.
#[allow(dead_code)]
pub fn advice(mut survey: Document) -> Advice {
    survey.runs.iter_mut().for_each(|run| run.variant = "shared".to_string());
    survey.decide();
    let text = |text: &str| text.to_string();
    Advice {
        device: text("/dev/sda"),
        goal: text("balanced"),
        criterion: text("the lowest p99 of the interactive user, among those that keep 90 % of the best throughput"),
        current: text("none"),
        recommended: text("mq-deadline"),
        keep: false,
        confidence: Confidence::Clear,
        certainty: text("p = 0.003"),
        sentence: text("Use mq-deadline instead of none: p99 of the interactive user falls from 210 ms to 54 ms."),
        gain: None,
        ties: vec![],
        losses: vec![],
        commands: vec![text("echo mq-deadline | sudo tee /sys/block/sda/queue/scheduler")],
        undo: vec![text("echo none | sudo tee /sys/block/sda/queue/scheduler")],
        udev_rule: String::new(),
        completion: Methods {
            measured: vec![],
            sentence: text("Only interrupts are available on this device."),
            how: vec![],
        },
        interrupted: false,
        seconds: 118.0,
        survey,
    }
}

/// A recorder of 20 s after a second of warm-up.
fn recorder() -> Recorder {
    let tenant = |(name, weight, ..): &(&str, u32, u64, u64, u64)| TenantSpec {
        name: (*name).to_string(),
        weight: *weight,
        parent: None,
        focus: false,
    };
    let task = |i: u32| TaskSpec {
        name: format!("{}.0", TENANTS[i as usize].0),
        tenant: TenantId(i),
        focus: None,
        write_back: false,
    };
    Recorder::new(RecorderConfig {
        warmup: Nanos::from_secs(1),
        interval: Nanos::from_ms(500),
        tenants: TENANTS.iter().map(tenant).collect(),
        tasks: (0..4).map(task).collect(),
    })
}

fn run(
    device: &str,
    (gap_us, typical_us): (u64, u64),
    index: usize,
    scheduler: (&str, u64, u64, u64),
    replicate: u32,
) -> RunResult {
    let (name, desktop, all_factor, throughput) = scheduler;
    let mut recorder = recorder();
    let end = Nanos::from_secs(21);
    let mut draw = Draw(u64::from(replicate) * 977 + index as u64 + 1);
    let mut now = Nanos::from_ms(100);
    let mut submitted = [0u64; 4];
    let gap = gap_us * 1000 * 100 / throughput;
    while now < end {
        let at = draw.below(100);
        let mut below = 0;
        let who = TENANTS.iter().position(|t| {
            below += t.2;
            at < below
        });
        let who = who.expect("the percentages sum to 100");
        let (_, _, _, bytes, reads) = TENANTS[who];
        let factor = if who == 3 { desktop } else { all_factor };
        let ns = draw.latency(typical_us * 10 * factor);
        let device_ns = (typical_us * 100).min(ns / 2);
        let submit = Nanos(now.0.saturating_sub(ns));
        submitted[who] += 1;
        recorder.depth(now, 20 + draw.below(12), 1 + draw.below(4));
        recorder.record(&Completed {
            op: if reads == 100 { Op::Read } else { Op::Write },
            task: TaskId(who as u32),
            tenant: TenantId(who as u32),
            sector: sector(who, now),
            bytes,
            submit,
            insert: submit,
            issue: Nanos(now.0 - device_ns),
            device_done: now,
            complete: now,
        });
        now += Nanos(gap / 2 + draw.below(gap));
    }
    let requests: u64 = submitted.iter().sum();
    let cpu = Nanos(requests * (2_000 + 150 * index as u64 + draw.below(20)));
    recorder.finish(
        end,
        RunFacts {
            device: device.to_string(),
            scheduler: name.to_string(),
            completion: "interrupt".to_string(),
            replicate,
            seed: 42 + u64::from(replicate),
            merges: Merges { back: requests / 10, ..Merges::default() },
            ledger: Ledger { submitted: requests, completed: requests, ..Ledger::default() },
            cpu: CpuFacts { busy: vec![cpu, cpu], irq: cpu, scheduler: Nanos(cpu.0 / 2), ..CpuFacts::default() },
            ..RunFacts::default()
        },
    )
}

/// Scans and writers go on through the device, the others jump.
fn sector(who: usize, now: Nanos) -> u64 {
    let position = now.0 / 20_000;
    match who {
        0 => position,
        2 => 1_000_000 + position / 4,
        _ => Draw(now.0).below(1_600_000),
    }
}
