//! How long a request may be passed by, counted in dispatches, for those schedulers that promise something.

use std::collections::VecDeque;

use dumbwaiter_block::{
    Context, Dir, Io, Ioprio, Nanos, Next, Op, Place, Request, RequestId, Requests, Scheduler, Setup, State, Tenants,
};
use dumbwaiter_schedulers::Choice;
use proptest::prelude::*;

/// A scheduler without a block layer: what it is asked is exactly what is written here.
struct Bare {
    scheduler: Box<dyn Scheduler>,
    requests: Requests,
    tenants: Tenants,
    now: Nanos,
}

impl Bare {
    fn new(choice: &str) -> Bare {
        let scheduler = Choice::parse(choice).unwrap().scheduler(Setup::default());
        Bare { scheduler, requests: Requests::default(), tenants: Tenants::default(), now: Nanos::ZERO }
    }

    fn insert(&mut self, op: Op, sector: u64) -> RequestId {
        let io = Io { op, sector, sectors: 8, ioprio: Ioprio::DEFAULT, ..Io::default() };
        let mut request = Request::new(io, self.now);
        request.state = State::Queued;
        let id = self.requests.insert(request);
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.insert(id, Place::Tail, &ctx);
        id
    }

    /// The next request, which the device finishes at once.
    fn next(&mut self) -> Option<Request> {
        if !self.scheduler.has_work(0) {
            return None;
        }
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        let Next::Dispatch(id) = self.scheduler.next(0, &ctx) else { panic!("nothing, although it holds something") };
        self.scheduler.complete(id, &ctx);
        Some(self.requests.remove(id))
    }
}

/// An arrival (operation, place), or a request for the next.
type Move = Option<(Op, u64)>;

fn moves(ops: Vec<Op>) -> impl Strategy<Value = Vec<Move>> {
    let arrival = (proptest::sample::select(ops), 0u64..500).prop_map(|(op, place)| Some((op, place * 16)));
    proptest::collection::vec(prop_oneof![arrival, Just(None)], 1..400)
}

proptest! {
    #![proptest_config(super::cases(200))]

    /// Bounds 5 and 6 of the specification: with everything expired, the oldest write waits for at most (k-1) + s*k
    /// further dispatches and the oldest read for (k-1) + k, k being a batch and s the read batches that writes allow.
    #[test]
    fn mq_deadline_reaches_the_oldest(moves in moves(vec![Op::Read, Op::Write]), batch in 0u64..6, starved in 1u64..4,
                                      kernel in proptest::sample::select(vec!["6.18", "6.5"])) {
        let mut bare = Bare::new(&format!(
            "mq-deadline:kernel={kernel},fifo_batch={batch},writes_starved={starved},read_expire=0,write_expire=0"
        ));
        // A fresh scheduler may begin with a whole batch; afterwards at most the rest of one is left.
        bare.insert(Op::Write, 0);
        bare.next();
        let k = batch.max(1);
        let bound = [(k - 1) + k, (k - 1) + starved * k];
        let mut fifo = [VecDeque::new(), VecDeque::new()];
        let mut passed = [0u64; 2];
        for step in moves {
            if let Some((op, sector)) = step {
                let dir = op.dir() as usize;
                fifo[dir].push_back((sector, bare.insert(op, sector).0));
                if fifo[dir].len() == 1 {
                    passed[dir] = 0;
                }
            } else if let Some(request) = bare.next() {
                for dir in Dir::BOTH.map(|d| d as usize) {
                    let front = fifo[dir].front().copied();
                    if request.io.op.dir() as usize == dir {
                        let at = fifo[dir].iter().position(|(sector, _)| *sector == request.sector).unwrap();
                        fifo[dir].remove(at);
                    }
                    if fifo[dir].front().copied() != front {
                        passed[dir] = 0;
                    } else if front.is_some() {
                        passed[dir] += 1;
                        prop_assert!(passed[dir] <= bound[dir], "direction {dir} passed {} times", passed[dir]);
                    }
                }
            }
        }
    }

    /// Kyber serves no domain for longer than its batch while another waits, and each within a round.
    #[test]
    fn kyber_goes_round(moves in moves(vec![Op::Read, Op::Write, Op::Discard, Op::WriteZeroes])) {
        const BATCH: [usize; 4] = [16, 8, 1, 1];
        let domain = |op| match op { Op::Read => 0, Op::Write => 1, Op::Discard => 2, _ => 3 };
        let mut bare = Bare::new("kyber");
        let mut fifo: [VecDeque<u64>; 4] = Default::default();
        let mut passed = [0usize; 4];
        let (mut run, mut last) = (0, 4);
        for step in moves {
            if let Some((op, sector)) = step {
                bare.insert(op, sector);
                fifo[domain(op)].push_back(sector);
            } else if let Some(request) = bare.next() {
                let d = domain(request.io.op);
                prop_assert_eq!(fifo[d].pop_front(), Some(request.sector), "in order of arrival");
                run = if d == last { run + 1 } else { 1 };
                last = d;
                let others: Vec<usize> = (0..4).filter(|o| *o != d && !fifo[*o].is_empty()).collect();
                if others.is_empty() {
                    run = 0; // batches follow each other
                }
                prop_assert!(run <= BATCH[d], "{run} of domain {d} on end");
                for o in 0..4 {
                    passed[o] = if others.contains(&o) { passed[o] + 1 } else { 0 };
                    prop_assert!(passed[o] <= 16 + 8 + 1 + 1 - BATCH[o] + 16, "domain {o} passed {} times", passed[o]);
                }
            }
        }
    }

    /// C-LOOK reaches every request within one sweep: it turns back at most once while a request waits. (Of requests
    /// that overlap it takes one a sweep.)
    #[test]
    fn c_look_sweeps(moves in moves(vec![Op::Read, Op::Write])) {
        let mut bare = Bare::new("c-look");
        let mut waiting: Vec<(u64, u64)> = Vec::new(); // (sector, turns when it came)
        let (mut turns, mut position) = (0, 0);
        for step in moves {
            if let Some((op, sector)) = step {
                if waiting.iter().all(|w| w.0 != sector) {
                    bare.insert(op, sector);
                    waiting.push((sector, turns));
                }
            } else if let Some(request) = bare.next() {
                if request.sector < position {
                    turns += 1;
                    prop_assert_eq!(Some(request.sector), waiting.iter().map(|w| w.0).min());
                }
                position = request.end();
                let at = waiting.iter().position(|w| w.0 == request.sector).unwrap();
                waiting.remove(at);
                prop_assert!(waiting.iter().all(|w| turns - w.1 <= 1));
            }
        }
    }

    /// SSTF always takes the nearest, NOOP and NONE always the oldest.
    #[test]
    fn nearest_and_oldest(moves in moves(vec![Op::Read, Op::Write])) {
        for name in ["sstf", "noop", "none"] {
            let mut bare = Bare::new(name);
            let mut waiting: Vec<u64> = Vec::new();
            let mut position = 0u64;
            for step in &moves {
                if let Some((op, sector)) = *step {
                    bare.insert(op, sector);
                    waiting.push(sector);
                } else if let Some(request) = bare.next() {
                    let want = match name {
                        "sstf" => waiting.iter().map(|s| s.abs_diff(position)).min() == Some(request.sector.abs_diff(position)),
                        _ => waiting.first() == Some(&request.sector),
                    };
                    prop_assert!(want, "{name} took {} at {position} of {waiting:?}", request.sector);
                    position = request.end();
                    let at = waiting.iter().position(|s| *s == request.sector).unwrap();
                    waiting.remove(at);
                }
            }
        }
    }
}
