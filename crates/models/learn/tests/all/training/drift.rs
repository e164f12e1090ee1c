//! A latency model on a device that changes: alarm, challenger, and the way back.

use dumbwaiter_block::{IoTag, Nanos, Op};
use dumbwaiter_learn::drift::{Alarm, Verdict};
use dumbwaiter_learn::training::data::{DataSet, Run};
use dumbwaiter_learn::training::drift::{DriftStep, ModelWatch, Notice, Tracker, watch_recorded};
use dumbwaiter_learn::training::task::Task;
use dumbwaiter_learn::training::train::{Method, Request, train_model};
use dumbwaiter_learn::{Model, RequestRecord};

/// Microseconds of a read and of a write.
type Costs = [f64; 2];

const USUAL: Costs = [200.0, 800.0];
/// Writes are fast now and reads slow: the queue would be ordered wrongly.
const OTHER: Costs = [2400.0, 150.0];

/// A device that serves reads and writes of 4 and 64 KiB one at a time.
struct Device {
    state: u64,
    now: Nanos,
}

impl Device {
    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 40) as f64 / (1u64 << 24) as f64
    }

    fn serve(&mut self, costs: Costs) -> RequestRecord {
        let op = if self.draw() < 0.5 { Op::Read } else { Op::Write };
        let bytes = if self.draw() < 0.5 { 4096 } else { 65_536 };
        let us = costs[usize::from(op == Op::Write)] * (1.0 + bytes as f64 / 65_536.0) * (0.7 + 0.6 * self.draw());
        let issue = self.now;
        self.now += Nanos((us * 1e3) as u64);
        let complete = self.now;
        self.now += Nanos::from_us(50);
        let sector = (self.draw() * 1e6) as u64 * 8;
        RequestRecord { arrive: issue, issue, complete, op, sector, bytes, tag: IoTag::UNKNOWN, depth: 0 }
    }

    fn run(&mut self, count: usize, costs: Costs) -> Vec<RequestRecord> {
        (0..count).map(|_| self.serve(costs)).collect()
    }
}

fn device(seed: u64) -> Device {
    Device { state: seed, now: Nanos::ZERO }
}

fn run_of(repeat: &str, records: Vec<RequestRecord>) -> Run {
    Run { repeat: repeat.to_owned(), workload: "oltp".to_owned(), segments: vec![records], checksum: 0 }
}

/// A model of the usual device.
fn trained() -> Model {
    let runs = ["a", "b"].iter().zip(1..).map(|(repeat, seed)| run_of(repeat, device(seed).run(4_000, USUAL)));
    let request = Request {
        task: Task::Latency,
        method: Method::Network,
        features: Task::Latency.features(),
        train: vec!["a".to_owned()],
        validate: vec!["b".to_owned()],
        seed: 0,
        device: None,
        args: "learn train".to_owned(),
    };
    train_model(&DataSet { runs: runs.collect() }, &request).unwrap()
}

/// Serves requests and reviews the model, until a notice comes.
fn until_notice(
    watch: &mut ModelWatch,
    tracker: &mut Tracker,
    device: &mut Device,
    costs: Costs,
    limit: usize,
) -> Option<(usize, Notice)> {
    (0..limit).find_map(|i| {
        let record = device.serve(costs);
        tracker.issue(&record);
        if let Some(outcome) = tracker.complete(record.op, record.sector, record.complete) {
            watch.complete(&outcome, Some(record.wait()));
        }
        if i % 64 == 0 { watch.review(device.now).map(|notice| (i, notice)) } else { None }
    })
}

#[test]
fn a_device_that_changes_is_found_and_its_model_is_trained_and_a_sabotaged_one_goes_again() {
    let model = trained();
    let mut device = device(7);
    let (mut watch, mut tracker) =
        (ModelWatch::new(model.clone(), Nanos::ZERO).unwrap(), Tracker::new(&model).unwrap());
    assert_eq!(until_notice(&mut watch, &mut tracker, &mut device, USUAL, 20_000), None, "nothing has changed");
    let found = until_notice(&mut watch, &mut tracker, &mut device, OTHER, 2_000);
    assert!(matches!(found, Some((_, Notice::Alarm(Alarm::Jump)))), "{found:?}");
    // The newest fifth of the samples, by which challengers are judged, has to be of the device as it is now.
    assert!(matches!(watch.review(device.now), Some(Notice::Train(_))));
    until_notice(&mut watch, &mut tracker, &mut device, OTHER, 12_000);
    let challenger = watch.lesson().train().unwrap();
    assert!(challenger.judged.pair_order > challenger.champion.pair_order + 0.1, "{challenger:?}");
    assert_eq!(watch.conclude(device.now, Some(challenger)), Verdict::Publish);
    let better = watch.model().clone();
    assert_ne!(better.weights, model.weights);
    assert_eq!(until_notice(&mut watch, &mut tracker, &mut device, OTHER, 4_000), None, "it fits");
    // What it was judged by is not what comes now.
    let gone = until_notice(&mut watch, &mut tracker, &mut device, [20.0, 9000.0], 4_000);
    assert!(matches!(gone, Some((_, Notice::RolledBack))), "{gone:?}");
    assert_eq!(watch.model().weights, model.weights);
}

#[test]
fn recorded_runs_give_the_same_events_each_time_and_the_model_that_serves_at_the_end() {
    let model = trained();
    let mut device = device(9);
    let runs = vec![run_of("r1", device.run(6_000, USUAL)), run_of("r2", device.run(30_000, OTHER))];
    let data = DataSet { runs };
    let mut seen = 0;
    let (report, last) = watch_recorded("m", model.clone(), &data, |_| seen += 1).unwrap();
    assert_eq!(seen, report.events.len());
    assert!(matches!(report.events[0].step, DriftStep::Alarm { kind: "jump" }), "{report:?}");
    assert_eq!(report.events[0].run, "r2/oltp");
    assert!(report.events.iter().any(|event| matches!(event.step, DriftStep::Trained { .. })), "{report:?}");
    let (again, same) = watch_recorded("m", model, &data, |_| {}).unwrap();
    assert_eq!((report, last.to_bytes().unwrap()), (again, same.to_bytes().unwrap()));
}

#[test]
fn a_classifier_is_refused() {
    let classifier = dumbwaiter_learn::training::store::open("shipped:classifier").unwrap();
    let error = ModelWatch::new(classifier, Nanos::ZERO).unwrap_err().to_string();
    assert!(error.contains("latency"), "{error}");
}
