//! What `sjf` and `sptf` promise for any predictor, also a hostile one.

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
