//! Guarantees of `sjf` and `sptf` for any predictor, also a hostile one.

use dumbwaiter_block::{
    Config, Context, Io, Ioprio, Nanos, Next, Op, Place, Request, RequestId, Requests, Scheduler, Setup, State, TaskId,
    Tenants,
};
use dumbwaiter_schedulers::sjf::{Dispatch, Model, Sjf, Source};
use dumbwaiter_testkit::Harness;
use proptest::prelude::*;

/// Predicts what the request's sector says, to do as much harm as it can.
#[derive(Clone)]
struct Hostile(Vec<u64>);

impl Model for Hostile {
    fn predict(&self, request: &Request, _at: Dispatch) -> u64 {
        self.0[(request.sector / 8) as usize % self.0.len()]
    }

    fn positioned(&self) -> bool {
        true
    }

    fn completed(&mut self, _request: &Request, _latency: Nanos, _now: Nanos) {}

    fn clone_box(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

fn prediction() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), 0u64..1_000_000, any::<u64>()]
}

fn scheduler(predictions: Vec<u64>, positions: bool, settings: &[(&str, i128)]) -> Sjf {
    let setup = Setup { device_depth: u32::MAX, ..Setup::default() };
    let source = Source::Model(Box::new(Hostile(predictions)));
    let mut sjf = if positions { Sjf::by_position(setup, source) } else { Sjf::new(setup, source) };
    sjf.set("fallback", 0);
    for (name, value) in settings {
        sjf.set(name, *value);
    }
    sjf
}

fn queued_request(requests: &mut Requests, io: Io, now: Nanos) -> RequestId {
    let mut request = Request::new(io, now);
    request.state = State::Queued;
    requests.insert(request)
}

/// The mean latency before any completion, on flash.
const MEAN: u64 = 100_000;

proptest! {
    #![proptest_config(super::conformance::cases(200))]

    /// No request is overtaken by more than ⌈(P_max − P_min) / δ⌉ − 1 later ones.
    #[test]
    fn no_predictor_breaks_the_bound(predictions in prop::collection::vec(prediction(), 300),
                                     takes in prop::collection::vec(0u8..3, 300),
                                     delta_fraction in 1u64..40, clamp in 1u64..20) {
        let settings = [("delta_fraction", delta_fraction.into()), ("clamp", clamp.into()), ("age_ms", 600_000)];
        let mut sjf = scheduler(predictions, false, &settings);
        let bound = (MEAN * clamp - 1_000).div_ceil(MEAN / delta_fraction) - 1;
        let (mut requests, tenants) = (Requests::default(), Tenants::default());
        let mut arrived: Vec<RequestId> = Vec::new();
        let mut gone: Vec<bool> = Vec::new();
        for (i, takes) in takes.iter().enumerate() {
            let io = Io { op: Op::Read, sector: i as u64 * 8, sectors: 4, ioprio: Ioprio::DEFAULT, ..Io::default() };
            let id = queued_request(&mut requests, io, Nanos::ZERO);
            arrived.push(id);
            gone.push(false);
            let ctx = Context { now: Nanos::ZERO, requests: &requests, tenants: &tenants, busy: false };
            sjf.insert(id, Place::Tail, &ctx);
            for _ in 0..*takes {
                let ctx = Context { now: Nanos::ZERO, requests: &requests, tenants: &tenants, busy: false };
                if let Next::Dispatch(id) = if sjf.has_work(0) { sjf.next(0, &ctx) } else { Next::Empty } {
                    gone[arrived.iter().position(|a| *a == id).unwrap()] = true;
                }
            }
        }
        for (i, _) in gone.iter().enumerate().filter(|(_, gone)| !**gone) {
            let overtook = gone[i + 1..].iter().filter(|gone| **gone).count() as u64;
            prop_assert!(overtook <= bound, "{} by {} of {}", i, overtook, bound);
        }
    }

    /// Under endless arrivals that seem to be free, a request that seems endless goes once it is as old as the limit.
    #[test]
    fn the_age_limit_holds_under_endless_short_arrivals(positions in any::<bool>(), age in 1u64..200, first in 0usize..50) {
        let mut predictions = vec![0; 5000];
        predictions[first] = u64::MAX;
        let settings = [("delta_fraction", 1_000_000), ("clamp", 10_000), ("age_ms", age.into())];
        let mut sjf = scheduler(predictions, positions, &settings);
        let (mut requests, tenants) = (Requests::default(), Tenants::default());
        let mut slow = None;
        let mut queued = 0;
        for i in 0..1000u64 {
            let now = Nanos::from_ms(i);
            let io = Io { op: Op::Read, sector: i * 8, sectors: 4, ioprio: Ioprio::DEFAULT, ..Io::default() };
            let id = queued_request(&mut requests, io, now);
            if i == first as u64 {
                slow = Some((id, now));
            }
            let ctx = Context { now, requests: &requests, tenants: &tenants, busy: false };
            sjf.insert(id, Place::Tail, &ctx);
            queued += 1;
            // One in, one out, with a few queued.
            if queued < 4 {
                continue;
            }
            queued -= 1;
            let Next::Dispatch(id) = sjf.next(0, &ctx) else { panic!("nothing") };
            if let Some((_, since)) = slow.filter(|(slow, _)| *slow == id) {
                prop_assert!(now.since(since) <= Nanos::from_ms(age + 5), "{}", now.since(since));
                return Ok(());
            }
        }
        prop_assert!(false, "it never went");
    }

    /// Overlapping requests have the effect of their order of arrival, merges included: every read sees what it would have
    /// seen, and so does the end.
    #[test]
    fn overlapping_requests_keep_their_order(steps in prop::collection::vec((0u8..4, 0u64..60, 1u32..12), 1..120),
                                             predictions in prop::collection::vec(prediction(), 64),
                                             positions in any::<bool>()) {
        let setup = Setup { nr_requests: 256, device_depth: 1, ..Setup::default() };
        let mut harness = Harness::new(Config { setup, ..Config::default() }, |setup| {
            let source = Source::Model(Box::new(Hostile(predictions.clone())));
            let mut sjf = if positions { Sjf::by_position(setup, source) } else { Sjf::new(setup, source) };
            sjf.set("fallback", 0);
            Box::new(sjf)
        });
        harness.hold();
        let mut expected = vec![0u64; 80];
        let mut seen_in_order: Vec<(u64, Vec<u64>)> = Vec::new();
        for (i, (kind, sector, sectors)) in steps.iter().enumerate() {
            // The harness counts submissions.
            let token = i as u64 + 1;
            let op = if kind % 2 == 0 { Op::Write } else { Op::Read };
            let range = *sector as usize..*sector as usize + *sectors as usize;
            match op {
                Op::Write => expected[range].fill(token),
                _ => seen_in_order.push((token, expected[range].to_vec())),
            }
            harness.submit_io(Io { op, sector: *sector, sectors: *sectors, task: TaskId(0), ..Io::default() });
            harness.issue_all();
            if kind / 2 == 1 && harness.in_device().len() > 0 {
                harness.complete_nth(0, false);
                harness.issue_all();
            }
        }
        harness.release();
        let mut content = vec![0u64; 80];
        let mut seen: Vec<(u64, Vec<u64>)> = Vec::new();
        for part in harness.all_parts().iter().flatten() {
            let range = part.sector as usize..part.sector as usize + part.sectors as usize;
            match part.io.op {
                Op::Write => content[range].fill(part.io.token + 1),
                _ => seen.push((part.io.token + 1, content[range].to_vec())),
            }
        }
        seen.sort();
        prop_assert_eq!(content, expected);
        prop_assert_eq!(seen, seen_in_order);
    }
}

/// Shipped models can be used, and what is none is refused by name.
#[test]
fn models_are_checked_when_they_are_chosen() {
    use dumbwaiter_schedulers::Choice;
    for choice in ["sjf:model=shipped:latency-flash", "sptf:model=shipped:latency-disk"] {
        assert_eq!(Choice::parse(choice).err().map(|e| e.to_string()), None, "{choice}");
    }
    for choice in ["sjf:model=shipped:classifier", "sjf:model=shipped:best", "sptf:model=Cargo.toml"] {
        let refusal = Choice::parse(choice).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(refusal.contains("shipped:latency-disk or shipped:latency-flash"), "{choice}: {refusal}");
    }
}

/// A decision tree of scikit-learn: writes take 5 ms, reads 0.2 ms or 0.9 ms by their size.
const SKLEARN: &str = r#"{"combine": "mean", "rate": 1.0, "base": [], "trees": [{"children_left": [1, 3, -1, -1, -1],
    "children_right": [2, 4, -1, -1, -1], "feature": [0, 1, -2, -2, -2], "threshold": [0.5, 0.7, -2.0, -2.0, -2.0],
    "value": [[[0.0]], [[0.0]], [[8.517]], [[5.298]], [[6.802]]]}]}"#;

fn sklearn_model() -> Vec<u8> {
    use dumbwaiter_learn::import::{Format, Purpose, import};
    use dumbwaiter_learn::{FeatureSet, Kind, OutputKind};
    let purpose =
        Purpose { kind: Kind::Latency, features: FeatureSet::Unordered, target: OutputKind::Ln, classes: Vec::new() };
    import(SKLEARN.as_bytes(), Format::Sklearn, &purpose).unwrap().to_bytes().unwrap()
}

fn model_file(name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("dumbwaiter-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A model of scikit-learn orders a queue: short reads first, writes last.
#[test]
fn a_model_file_of_another_program_orders_the_queue() {
    use dumbwaiter_schedulers::Choice;
    let path = model_file("sklearn", &sklearn_model());
    let choice = Choice::parse(&format!("sjf:fallback=0,delta_fraction=1000000,model={}", path.display())).unwrap();
    std::fs::remove_file(&path).unwrap();
    let setup = Setup { device_depth: 1, ..Setup::default() };
    let mut harness = Harness::new(Config { setup, ..Config::default() }, |setup| choice.build(setup));
    harness.service(Nanos::from_ms(1));
    let mut ask = |op, sector, sectors| {
        harness.submit_io(Io { op, sector, sectors, task: TaskId(0), ..Io::default() });
    };
    for i in 0..4u64 {
        ask(Op::Write, i * 1_000_000, 8);
        ask(Op::Read, (10 + i) * 1_000_000, 512);
        ask(Op::Read, (20 + i) * 1_000_000, 8);
    }
    harness.issue_all();
    harness.release();
    while harness.next_event().is_some() {
        harness.step();
        harness.issue_all();
    }
    let order: Vec<(Op, u32)> =
        harness.all_done().iter().flat_map(|done| done.ios.iter().map(|f| (f.io.op, f.io.sectors))).collect();
    // The first one left before the others came.
    let rank = |(op, sectors): &(Op, u32)| (*op == Op::Write, *sectors > 8);
    assert_eq!(order.len(), 12);
    assert!(order[1..].windows(2).all(|pair| rank(&pair[0]) <= rank(&pair[1])), "{order:?}");
}

/// A model file that is cut off, or of which any byte is another one, is refused or used; nothing panics.
#[test]
fn damaged_model_files_are_refused_when_they_are_chosen() {
    use dumbwaiter_schedulers::Choice;
    let sound = sklearn_model();
    let path = model_file("damaged", &[]);
    let choice = format!("sjf:model={}", path.display());
    for length in (0..sound.len()).step_by(97) {
        std::fs::write(&path, &sound[..length]).unwrap();
        let refusal = Choice::parse(&choice).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(refusal.contains("the path of a latency model"), "{length}: {refusal}");
    }
    for at in (0..sound.len()).step_by(61) {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&path, &damaged).unwrap();
        if let Ok(choice) = Choice::parse(&choice) {
            choice.build(Setup::default());
        }
    }
    std::fs::remove_file(&path).unwrap();
}

proptest! {
    #![proptest_config(super::conformance::cases(40))]

    /// Whatever numbers a model has, every request is served, and the age limit holds.
    #[test]
    fn any_weights_serve_every_request(weights in prop::collection::vec(prop_oneof![-1e4f32..1e4, Just(0.0)], 102),
                                       bias in -1e4f32..1e4, positions in any::<bool>()) {
        use dumbwaiter_learn::{Dense, FeatureSet, LatencyModel, LayerWeights, Network, Scaling, OutputKind};
        use dumbwaiter_schedulers::sjf::LearnedModel;
        let set = FeatureSet::Unordered;
        let scaling = Scaling { mean: vec![0.0; set.inputs()], std: vec![1.0; set.inputs()] };
        let own = LatencyModel::own_inputs(set);
        let net = Dense::new(&[LayerWeights { weight: weights, bias: vec![bias] }], &scaling, 0.01, own).unwrap();
        let cold = vec![0.0; set.inputs() - own];
        let model = LatencyModel::new(Network::Dense(net), set, OutputKind::Normalised, cold, (5.0, 1.0)).unwrap();
        let source = Source::Model(Box::new(LearnedModel::new(model, 1 << 30, Default::default())));
        let setup = Setup { device_depth: 4, ..Setup::default() };
        let mut harness = Harness::new(Config { setup, ..Config::default() }, |setup| {
            let mut sjf = if positions { Sjf::by_position(setup, source) } else { Sjf::new(setup, source) };
            sjf.set("age_ms", 100);
            Box::new(sjf)
        });
        harness.service(Nanos::from_ms(1));
        for i in 0..200u64 {
            let op = if i % 3 == 0 { Op::Write } else { Op::Read };
            let sectors = 8 << (i % 5);
            harness.submit_io(Io { op, sector: i * 7_368_787 % 1_000_000 * 64, sectors, task: TaskId(0), ..Io::default() });
            if i % 20 == 19 {
                harness.issue_all();
                for _ in 0..5 {
                    if harness.next_event().is_some() {
                        harness.step();
                    }
                }
            }
        }
        harness.issue_all();
        harness.release();
        while harness.next_event().is_some() {
            harness.step();
            harness.issue_all();
        }
        prop_assert_eq!((harness.layer().queued(), harness.layer().ledger().imbalance()), (0, None));
        let ios: usize = harness.all_done().iter().map(|done| done.ios.len()).sum();
        prop_assert_eq!(ios, 200);
    }
}
