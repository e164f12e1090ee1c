//! Training from data to a model and its evaluation.

use dumbwaiter_learn::training::data::{CLASSES, DataSet, Run};
use dumbwaiter_learn::training::evaluate::{Times, evaluate};
use dumbwaiter_learn::training::store;
use dumbwaiter_learn::training::task::Task;
use dumbwaiter_learn::training::train::{Method, Request, train_model};
use dumbwaiter_learn::{Model, RequestRecord};

use crate::training::samples::{record, run};

/// A repeat: each class has its own step between sectors, and latency follows the request's sector.
fn repeat(name: &str, shift: u64) -> Vec<Run> {
    let of_class = |(class, workload): (usize, &&str)| {
        let records: Vec<RequestRecord> = (0..100u64)
            .map(|i| {
                let sector = shift + i * (8 << (2 * class));
                let latency = if sector.is_multiple_of(3) { 400 } else { 100 };
                record(i * 1_000, 5, latency + (i * 7 + shift) % 13, sector)
            })
            .collect();
        Run { repeat: name.to_owned(), ..run(workload, vec![records]) }
    };
    CLASSES.iter().enumerate().map(of_class).collect()
}

fn data() -> DataSet {
    DataSet { runs: [repeat("a", 1), repeat("b", 2)].concat() }
}

fn request(task: Task, method: Method) -> Request {
    Request {
        task,
        method,
        features: task.features(),
        train: vec!["a".to_owned()],
        validate: vec!["b".to_owned()],
        seed: 0,
        device: None,
        args: "learn train".to_owned(),
    }
}

#[test]
fn every_method_of_every_task_gives_a_model_that_can_be_evaluated() {
    for task in Task::ALL {
        for method in Method::ALL {
            if task == Task::Classify && matches!(method, Method::Ridge | Method::RidgeOfRequest) {
                assert!(
                    train_model(&data(), &request(task, method))
                        .unwrap_err()
                        .to_string()
                        .contains("is not a classifier")
                );
                continue;
            }
            let model = train_model(&data(), &request(task, method)).unwrap();
            let bytes = model.to_bytes().unwrap();
            let again = train_model(&data(), &request(task, method)).unwrap().to_bytes().unwrap();
            assert_eq!(bytes, again, "{} {}: other bytes", task.name(), method.name());
            let read = Model::from_bytes(&bytes).unwrap();
            let evaluation = evaluate(("m", &read), &[], &data(), Times::Recorded).unwrap();
            assert!(evaluation.rows > 0 && !evaluation.baselines.is_empty());
            if let Some(accuracy) = evaluation.accuracy {
                assert!(accuracy.raw > 0.6, "{}: {}", method.name(), accuracy.raw);
            }
        }
    }
}

#[test]
fn a_repeat_is_not_on_both_sides() {
    let both = Request { train: vec!["a".to_owned(), "b".to_owned()], ..request(Task::Latency, Method::Ridge) };
    assert!(train_model(&data(), &both).unwrap_err().to_string().contains("cannot be both"));
}

#[test]
fn a_device_model_gives_its_own_times_to_the_same_requests() {
    let device = "hdd:hts541010a9e662?ncq_depth=1";
    let (served, facts) = dumbwaiter_learn::training::serve::serve(&data(), device).unwrap();
    assert!(facts.rotational);
    for (before, after) in data().runs.iter().zip(&served.runs) {
        let (before, after) = (&before.segments[0], &after.segments[0]);
        assert_eq!(before.len(), after.len());
        for (a, b) in before.iter().zip(after) {
            assert_eq!((a.sector, a.bytes, a.arrive), (b.sector, b.bytes, b.arrive));
        }
        // One at a time: each starts when it has arrived and the one before it is complete.
        assert!(after.windows(2).all(|pair| pair[1].issue == pair[0].complete.max(pair[1].arrive)));
    }
    let wrong = dumbwaiter_learn::training::serve::serve(&data(), "hdd:nothing").unwrap_err().to_string();
    assert!(wrong.contains("hdd:nothing"), "{wrong}");
}

#[test]
fn a_saved_model_leaves_the_one_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let first = train_model(&data(), &request(Task::Latency, Method::Ridge)).unwrap();
    let second = train_model(&data(), &request(Task::Latency, Method::Tree)).unwrap();
    store::save(&first, &path).unwrap();
    store::save(&second, &path).unwrap();
    let name = path.display().to_string();
    assert_eq!(store::open(&name).unwrap().about.trained, second.about.trained);
    assert_eq!(store::open(&format!("{name}.prev")).unwrap().weights, first.weights);
    let missing = store::open("shipped:nothing").unwrap_err().to_string();
    assert!(missing.contains("shipped:classifier"), "{missing}");
}

/// Random reads of 4 KiB, one after the other.
fn random_reads() -> DataSet {
    let mut state = 7u64;
    let records: Vec<RequestRecord> = (0..4_000)
        .map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            record(i, 0, 100, (state >> 40) % 1_500_000 / 8 * 8 * 3 + 1)
        })
        .collect();
    DataSet { runs: vec![run("readrandom", vec![records])] }
}

#[test]
fn the_rotation_of_a_disk_is_found_and_none_where_nothing_turns() {
    let (served, _) =
        dumbwaiter_learn::training::serve::serve(&random_reads(), "hdd:hts541010a9e662?ncq_depth=1").unwrap();
    let rotation = dumbwaiter_learn::rotation::find(served.segments()).expect("a disk turns");
    assert!((rotation.period_ns - 60e9 / 5400.0).abs() < 1.0, "{rotation:?}");
    // 2,824 sectors a track, and a skew of about a tenth of a revolution to the next.
    assert!((2_450.0..2_700.0).contains(&rotation.sectors), "{rotation:?}");
    assert_eq!(dumbwaiter_learn::rotation::find(random_reads().segments()), None);
}
