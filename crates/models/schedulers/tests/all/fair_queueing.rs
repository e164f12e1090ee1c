//! The bounds that the papers of `wf2q+`, `mqfq` and `mclock` give, for tenants that always have a backlog.

use dumbwaiter_block::{
    Context, Io, Nanos, Next, Op, Place, Request, RequestId, Requests, Scheduler, Setup, State, Tenant, TenantId,
    Tenants,
};
use dumbwaiter_schedulers::Choice;
use proptest::prelude::*;

/// A scheduler without a block layer, and tenants of given weights.
struct Lab {
    scheduler: Box<dyn Scheduler>,
    requests: Requests,
    tenants: Tenants,
    weights: Vec<u32>,
    now: Nanos,
    sector: u64,
    /// Sectors and requests served, by tenant.
    sectors: Vec<u64>,
    count: Vec<u64>,
    /// Requests waiting, by tenant.
    waiting: Vec<u32>,
}

impl Lab {
    fn new(choice: &str, weights: &[u32], hw_queues: u16) -> Lab {
        let setup = Setup { hw_queues, cpus: hw_queues, ..Setup::default() };
        Lab {
            scheduler: Choice::parse(choice).unwrap().scheduler(setup),
            requests: Requests::default(),
            tenants: weights.iter().map(|weight| Tenant { weight: *weight, ..Tenant::default() }).collect(),
            weights: weights.to_vec(),
            now: Nanos::ZERO,
            sector: 0,
            sectors: vec![0; weights.len()],
            count: vec![0; weights.len()],
            waiting: vec![0; weights.len()],
        }
    }

    fn insert(&mut self, tenant: usize, sectors: u32, cpu: u16) {
        self.sector += 10_000;
        let io =
            Io { op: Op::Read, sector: self.sector, sectors, cpu, tenant: TenantId(tenant as u32), ..Io::default() };
        let mut request = Request::new(io, self.now);
        request.state = State::Queued;
        let id = self.requests.insert(request);
        self.waiting[tenant] += 1;
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.insert(id, Place::Tail, &ctx);
    }

    fn ask(&mut self, hw: usize) -> Next {
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        if self.scheduler.has_work(hw) { self.scheduler.next(hw, &ctx) } else { Next::Empty }
    }

    /// The request is served at once. Returns its tenant.
    fn serve(&mut self, id: RequestId) -> usize {
        let ctx = Context { now: self.now, requests: &self.requests, tenants: &self.tenants, busy: false };
        self.scheduler.complete(id, &ctx);
        let request = self.requests.remove(id);
        let tenant = request.io.tenant.0 as usize;
        self.sectors[tenant] += u64::from(request.sectors);
        self.count[tenant] += 1;
        self.waiting[tenant] -= 1;
        tenant
    }

    fn share(&self, tenant: usize) -> f64 {
        f64::from(self.weights[tenant]) / f64::from(self.weights.iter().sum::<u32>())
    }

    /// Sectors served over the share.
    fn normalized(&self, tenant: usize) -> f64 {
        self.sectors[tenant] as f64 / self.share(tenant)
    }
}

fn weights() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(proptest::sample::select(vec![1u32, 2, 5, 10, 40, 100, 1000]), 2..7)
}

/// The length of a tenant's `n`-th request, up to its longest.
fn length(draws: &[u32], tenant: usize, n: usize) -> u32 {
    let longest = 1 << (draws[tenant % draws.len()] % 10);
    1 + draws[n % draws.len()] % longest
}

fn longest(draws: &[u32], tenant: usize) -> f64 {
    f64::from(1u32 << (draws[tenant % draws.len()] % 10))
}

proptest! {
    #![proptest_config(crate::conformance::cases(200))]

    /// WF2Q+: ahead of the share by at most a request of one's own, less its share, and behind by at most one of one's own and the share of
    /// the longest.
    #[test]
    fn wf2q_plus_leads_and_lags_by_a_request(weights in weights(), draws in proptest::collection::vec(any::<u32>(), 60..120)) {
        let mut lab = Lab::new("wf2q+", &weights, 1);
        let n = weights.len();
        for i in 0..2 * n {
            lab.insert(i % n, length(&draws, i % n, i), 0);
        }
        let all = (0..n).map(|t| longest(&draws, t)).fold(0.0, f64::max);
        for step in 0..600 {
            let Next::Dispatch(id) = lab.ask(0) else { panic!("nothing, although requests are queued") };
            let served = lab.serve(id);
            let total: u64 = lab.sectors.iter().sum();
            for t in 0..n {
                let (share, own) = (lab.share(t), longest(&draws, t));
                let ahead = lab.sectors[t] as f64 - share * total as f64;
                prop_assert!(ahead <= own * (1.0 - share) + 0.01, "tenant {t} leads by {ahead}, requests up to {own}");
                prop_assert!(-ahead <= own + share * all + 0.01, "tenant {t} lags by {}", -ahead);
            }
            lab.insert(served, length(&draws, served, step), 0);
        }
    }

    /// MQFQ: over any interval, service over share of two tenants differs by at most twice the threshold and a request of each.
    #[test]
    fn mqfq_differs_by_two_thresholds(weights in weights(), threshold_kib in 0u32..2048, hw in 1u16..4,
                                      draws in proptest::collection::vec(any::<u32>(), 60..120)) {
        let mut lab = Lab::new(&format!("mqfq:threshold_kib={threshold_kib}"), &weights, hw);
        let n = weights.len();
        for i in 0..n * 3 {
            lab.insert(i % n, length(&draws, i % n, i), i as u16 % hw);
        }
        let mut range = vec![(0f64, 0f64); n * n];
        let mut served = 0;
        for step in 0..1500 {
            let Next::Dispatch(id) = lab.ask(draws[step % draws.len()] as usize % usize::from(hw)) else { continue };
            served += 1;
            let tenant = lab.serve(id);
            for a in 0..n {
                for b in 0..a {
                    let difference = lab.normalized(a) - lab.normalized(b);
                    let (least, most) = &mut range[a * n + b];
                    (*least, *most) = (least.min(difference), most.max(difference));
                    let bound = 4.0 * f64::from(threshold_kib)
                        + longest(&draws, a) / lab.share(a)
                        + longest(&draws, b) / lab.share(b);
                    prop_assert!(*most - *least <= bound * 1.0001 + 1.0, "{a} and {b}: {} of {bound}", *most - *least);
                }
            }
            // A backlog in each hardware queue, so that none is idle while it is behind.
            lab.insert(tenant, length(&draws, tenant, step), id.0 as u16 % hw);
        }
        prop_assert!(served > 0);
    }

    /// mClock by weight alone: service over share of two tenants differs by a request of each at most.
    #[test]
    fn mclock_without_rates_is_fair(weights in weights()) {
        let mut lab = Lab::new("mclock", &weights, 1);
        let n = weights.len();
        for i in 0..2 * n {
            lab.insert(i % n, 8, 0);
        }
        for _ in 0..1000 {
            let Next::Dispatch(id) = lab.ask(0) else { panic!("nothing, although requests are queued") };
            let served = lab.serve(id);
            for a in 0..n {
                for b in 0..a {
                    let difference = (lab.normalized(a) - lab.normalized(b)).abs();
                    let bound = 8.0 / lab.share(a) + 8.0 / lab.share(b);
                    prop_assert!(difference <= bound * 1.001, "{a} and {b}: {difference} of {bound}");
                }
            }
            lab.insert(served, 8, 0);
        }
    }

    /// On a device of 10,000 requests a second that can meet all reservations, each is met in every 100 ms, and no tenant gets more than
    /// its limit.
    #[test]
    fn mclock_meets_reservations_and_limits(rates in proptest::collection::vec((0u64..3000, 0u64..2000, any::<bool>(), 1u32..1000), 2..6)) {
        let whole: u64 = rates.iter().map(|r| r.0).sum::<u64>().max(1);
        // Reservations of 90 % of the device at most.
        let reserved: Vec<u64> = rates.iter().map(|r| if whole > 9000 { r.0 * 9000 / whole } else { r.0 }).collect();
        let limits: Vec<u64> = rates.iter().zip(&reserved).map(|(r, own)| if r.2 { own + r.1 + 1 } else { 0 }).collect();
        let text = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join("+");
        let choice = format!("mclock:reservations={},limits={}", text(&reserved), text(&limits));
        let weights: Vec<u32> = rates.iter().map(|r| r.3).collect();
        let mut lab = Lab::new(&choice, &weights, 1);
        let n = weights.len();
        for i in 0..2 * n {
            lab.insert(i % n, 8, 0);
        }
        let window = Nanos::from_ms(100);
        let (mut before, mut boundary) = (lab.count.clone(), window);
        while lab.now < Nanos::from_ms(1000) {
            match lab.ask(0) {
                Next::Dispatch(id) => {
                    let served = lab.serve(id);
                    lab.now += Nanos::from_us(100);
                    lab.insert(served, 8, 0);
                }
                Next::WaitUntil(at) => {
                    prop_assert!(at > lab.now);
                    lab.now = at;
                }
                Next::Empty => prop_assert!(false, "nothing, although requests are queued"),
            }
            if lab.now >= boundary {
                let seconds = (lab.now.0 - (boundary.0 - window.0)) as f64 / 1e9;
                for t in 0..n {
                    let got = (lab.count[t] - before[t]) as f64;
                    let late = 2.0 + reserved[t] as f64 * (n as f64 + 1.0) * 1e-4;
                    // A request of 4 KiB costs 65/64.
                    let due = reserved[t] as f64 * 0.1 * 64.0 / 65.0 - late;
                    prop_assert!(got >= due, "tenant {t} got {got} of {due} in {seconds} s");
                    let most = limits[t] as f64 * seconds * 64.0 / 65.0 + 3.0 + reserved[t] as f64 * 1e-4 * n as f64;
                    prop_assert!(limits[t] == 0 || got <= most, "tenant {t} got {got}, limit {most} in {seconds} s");
                }
                before.clone_from(&lab.count);
                boundary = lab.now + window;
            }
        }
    }
}

#[test]
fn a_tenant_that_was_idle_has_saved_nothing() {
    for choice in ["wf2q+", "mqfq:threshold_kib=0", "mclock"] {
        let mut lab = Lab::new(choice, &[100, 100], 1);
        for i in 0..100 {
            lab.insert(0, 8, 0);
            if i >= 50 {
                let Next::Dispatch(id) = lab.ask(0) else { panic!("{choice}") };
                lab.serve(id);
            }
        }
        lab.now = Nanos::from_secs(1);
        for _ in 0..50 {
            lab.insert(1, 8, 0);
        }
        let before = lab.count.clone();
        for _ in 0..40 {
            let Next::Dispatch(id) = lab.ask(0) else { panic!("{choice}") };
            lab.serve(id);
        }
        let got = [lab.count[0] - before[0], lab.count[1]];
        assert!(got[0].abs_diff(got[1]) <= 2, "{choice}: {got:?}");
    }
}

#[test]
fn a_limit_holds_a_lone_tenant_back() {
    let mut lab = Lab::new("mclock:limits=100", &[100], 1);
    lab.insert(0, 8, 0);
    lab.insert(0, 8, 0);
    let Next::Dispatch(first) = lab.ask(0) else { panic!("the first may go at once") };
    lab.serve(first);
    let cost_ns = 10_000_000 * 65 / 64;
    assert_eq!(lab.ask(0), Next::WaitUntil(Nanos(cost_ns)));
    lab.now = Nanos(cost_ns);
    assert!(matches!(lab.ask(0), Next::Dispatch(_)));
}

#[test]
fn an_mclock_limit_set_while_a_tenant_is_busy_holds_from_then_on() {
    let mut lab = Lab::new("mclock", &[100], 1);
    lab.insert(0, 8, 0);
    lab.insert(0, 8, 0);
    // A tenant that is busy for ten seconds without a limit gathers no credit against a later one.
    for step in 0..100 {
        lab.now = Nanos::from_ms(100 * step);
        let Next::Dispatch(id) = lab.ask(0) else { panic!("there is no limit yet") };
        lab.serve(id);
        lab.insert(0, 8, 0);
    }
    let start = lab.count[0];
    lab.scheduler.set("limit_iops", 100);
    let end = lab.now + Nanos::from_secs(1);
    while lab.now < end {
        match lab.ask(0) {
            Next::Dispatch(id) => {
                lab.serve(id);
                lab.insert(0, 8, 0);
            }
            Next::WaitUntil(at) => lab.now = at,
            Next::Empty => panic!("requests wait"),
        }
    }
    let served = lab.count[0] - start;
    assert!((95..=105).contains(&served), "{served} in a second at 100 a second");
}

#[test]
fn rates_that_are_no_numbers_are_refused() {
    for wrong in ["mclock:limits=1+x", "mclock:reservations=-1", "mclock:limits=", "mclock:limits=9999999999"] {
        let why = Choice::parse(wrong).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(why.contains("joined by +, one for each tenant in order"), "{wrong}: {why}");
    }
    assert!(Choice::parse("adaptive:candidates=none+wf2q+mqfq").is_ok());
    assert_eq!(Choice::parse("wf2q").unwrap().entry().name, "wf2q+");
}
