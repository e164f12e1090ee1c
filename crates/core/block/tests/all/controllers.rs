//! The corridor: whatever controllers do, and whoever comes and goes meanwhile, each I/O completes once and no task sleeps for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dumbwaiter_block::{
    Adjustment, BioAnswer, BlockLayer, Config, Context, Controller, Effects, Errno, Event, Finished, Flags, Handover,
    Io, Ioprio, Nanos, Op, Plug, RequestAnswer, RequestId, Scheduler, Setup, Stack, State, Submitted, TaskId, Tenant,
    TenantId, Tenants,
};
use dumbwaiter_testkit::Fifo;
use proptest::prelude::*;

const NAMES: [&str; 3] = ["one", "two", "three"];
const TASKS: u32 = 6;

/// A controller that lets pass, parks, holds and refuses by chance.
struct Moody {
    name: &'static str,
    chance: u64,
    /// I/Os that it parked or holds, in order.
    kept: VecDeque<RequestId>,
    next_tick: Option<Nanos>,
}

impl Moody {
    fn boxed(name: &'static str, seed: u64) -> Box<dyn Controller> {
        Box::new(Moody { name, chance: seed | 1, kept: VecDeque::new(), next_tick: None })
    }

    fn draw(&mut self, of: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % of
    }

    fn keep(&mut self, id: RequestId, now: Nanos) {
        self.kept.push_back(id);
        let delay = Nanos::from_us(1 + self.draw(2000));
        self.next_tick = self.next_tick.or(Some(now + delay));
    }
}

impl Controller for Moody {
    fn name(&self) -> &'static str {
        self.name
    }

    fn submit(&mut self, _io: &Io, _ctx: &Context<'_>) -> BioAnswer {
        match self.draw(12) {
            0..3 => BioAnswer::Park,
            3 => BioAnswer::Refuse(Errno::EBUSY),
            _ => BioAnswer::Pass,
        }
    }

    fn rest_passes(&mut self, _rest: &Io, _ctx: &Context<'_>) -> bool {
        self.draw(3) > 0
    }

    fn parked(&mut self, id: RequestId, ctx: &Context<'_>) {
        self.keep(id, ctx.now);
    }

    fn abandoned(&mut self, id: RequestId, _ctx: &Context<'_>) {
        assert!(self.kept.contains(&id), "it keeps what is abandoned");
        self.kept.retain(|kept| *kept != id);
    }

    fn request(&mut self, id: RequestId, ctx: &Context<'_>) -> RequestAnswer {
        match self.draw(6) {
            0 => {
                self.keep(id, ctx.now);
                RequestAnswer::Hold
            }
            1 => RequestAnswer::HoldUntil(ctx.now + Nanos::from_us(self.draw(900))),
            _ => RequestAnswer::Pass,
        }
    }

    fn finished(&mut self, _io: &Finished, _ctx: &Context<'_>, out: &mut Effects) {
        if self.draw(3) == 0
            && let Some(id) = self.kept.pop_front()
        {
            out.release(id);
        }
    }

    fn event(&mut self, _event: Event, _ctx: &Context<'_>, out: &mut Effects) {
        if let Some(id) = self.kept.pop_back() {
            out.release(id);
        }
    }

    fn timer(&self) -> Option<Nanos> {
        self.next_tick
    }

    fn describe(&self, ctx: &Context<'_>) -> String {
        let waits = |id: &RequestId| matches!(ctx.requests.get(*id), Some(r) if matches!(r.state, State::Parked | State::Waiting));
        let states: Vec<_> =
            self.kept.iter().map(|id| (id.0, ctx.requests.get(*id).map(|r| (r.state, r.io.token)))).collect();
        assert!(self.kept.iter().all(waits), "{} keeps what does not wait: {states:?}", self.name);
        String::new()
    }

    fn tick(&mut self, ctx: &Context<'_>, out: &mut Effects) {
        let count = self.kept.len().min(1 + self.draw(4) as usize);
        self.kept.drain(..count).for_each(|id| out.release(id));
        self.next_tick = (!self.kept.is_empty()).then_some(ctx.now + Nanos::from_us(1 + self.draw(700)));
        match self.draw(12) {
            0 => out.adjust(Adjustment::DeviceDepth(1 + self.draw(6) as u32)),
            1 => out.adjust(Adjustment::Weight(TenantId(self.draw(2) as u32), 1 + self.draw(500) as u32)),
            2 => out.adjust(Adjustment::Scheduler(Box::new(Fifo::default()), Handover::Live)),
            3 => out.adjust(Adjustment::Scheduler(Box::new(Fifo::default()), Handover::Freeze)),
            _ => {}
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Submit { task: u32, sector: u64, sectors: u32, write: bool, nowait: bool, plugged: bool },
    Complete(usize),
    Wait(u64),
    Add(usize, u64),
    Remove(usize),
    Replace { live: bool, with_controller: Option<u64> },
    Abandon(u32),
    Weight(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let submit = (0..TASKS, 0u64..400, 1u32..40, any::<bool>(), 0u8..8, any::<bool>());
    let submit = submit.prop_map(|(task, sector, sectors, write, nowait, plugged)| Step::Submit {
        task,
        sector: sector * 8,
        sectors,
        write,
        nowait: nowait == 0,
        plugged,
    });
    prop_oneof![
        12 => submit,
        6 => (0usize..8).prop_map(Step::Complete),
        3 => (1u64..1500).prop_map(Step::Wait),
        1 => (0..NAMES.len(), any::<u64>()).prop_map(|(name, seed)| Step::Add(name, seed)),
        1 => (0..NAMES.len()).prop_map(Step::Remove),
        1 => (any::<bool>(), proptest::option::of(any::<u64>()))
            .prop_map(|(live, with_controller)| Step::Replace { live, with_controller }),
        1 => (0..TASKS).prop_map(Step::Abandon),
        1 => (1u32..1000).prop_map(Step::Weight),
    ]
}

/// A driver whose tasks sleep as a kernel's do, or one that lets the block layer wake them.
struct Driver {
    layer: BlockLayer,
    now: Nanos,
    in_device: Vec<RequestId>,
    /// Tasks that sleep, by the token of the I/O that they sleep with.
    asleep: BTreeMap<u64, u32>,
    submitted: BTreeSet<u64>,
    finished: Vec<Finished>,
    tokens: u64,
}

impl Driver {
    fn new(tasks_sleep: bool) -> Driver {
        let mut tenants = Tenants::default();
        for _ in 0..2 {
            tenants.add_tenant(Tenant::default());
        }
        for task in 0..TASKS {
            tenants.add_task(TenantId(task % 2), Ioprio::DEFAULT);
        }
        let setup = Setup { nr_requests: 6, device_depth: 3, ..Setup::default() };
        let limits = dumbwaiter_block::Limits { max_sectors: 16, ..Default::default() };
        let config = Config { setup, limits, tasks_sleep, ..Config::default() };
        let scheduler: Box<dyn Scheduler> = Box::new(Fifo::default());
        let layer = BlockLayer::new(config, Stack { scheduler, controllers: vec![Moody::boxed("zero", 7)] }, tenants);
        Driver {
            layer,
            now: Nanos::ZERO,
            in_device: Vec::new(),
            asleep: BTreeMap::new(),
            submitted: BTreeSet::new(),
            finished: Vec::new(),
            tokens: 0,
        }
    }

    fn sleeps(&self, task: u32) -> bool {
        self.layer.config().tasks_sleep && self.asleep.values().any(|asleep| *asleep == task)
    }

    /// Sends what may go, and lets woken tasks run until nothing changes.
    fn serve(&mut self) {
        loop {
            let mut any = false;
            while let Some(id) = self.layer.poll(self.now) {
                self.in_device.push(id);
                any = true;
            }
            self.layer.finish_idle(self.now, &mut self.finished);
            while let Some(id) = self.layer.next_woken() {
                any = true;
                let token = self.layer.request(id).io.token;
                self.layer.run_queue_of(id);
                if self.layer.retry(self.now, id, None) == Submitted::Entered {
                    self.asleep.remove(&token);
                }
            }
            while let Some(token) = self.layer.next_entered() {
                self.asleep.remove(&token);
            }
            if !any {
                return;
            }
        }
    }

    fn advance(&mut self, to: Nanos) {
        while let Some(at) = self.layer.next_timer().filter(|at| *at <= to) {
            self.now = self.now.max(at);
            self.layer.timer(self.now);
            self.serve();
        }
        self.now = self.now.max(to);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Submit { task, sector, sectors, write, nowait, plugged } => {
                if self.sleeps(task) {
                    return;
                }
                let flags = if nowait { Flags::NOWAIT } else { Flags::SYNC };
                let op = if write { Op::Write } else { Op::Read };
                self.tokens += 1;
                let token = self.tokens;
                let io = Io {
                    op,
                    flags,
                    sector,
                    sectors,
                    task: TaskId(task),
                    tenant: TenantId(task % 2),
                    token,
                    ..Io::default()
                };
                let mut plug = Plug::default();
                let outcome = self.layer.submit(self.now, io, plugged.then_some(&mut plug));
                self.layer.unplug(self.now, &mut plug);
                if outcome != Submitted::WouldBlock {
                    self.submitted.insert(token);
                }
                if outcome == Submitted::Asleep {
                    self.asleep.insert(token, task);
                }
            }
            Step::Complete(n) if !self.in_device.is_empty() => {
                let id = self.in_device.remove(n % self.in_device.len());
                self.layer.complete(self.now, id, Ok(()), &mut self.finished);
            }
            Step::Complete(_) => {}
            Step::Wait(us) => self.advance(self.now + Nanos::from_us(us)),
            Step::Add(name, seed) => {
                if self.layer.controller(NAMES[name]).is_none() {
                    self.layer.add_controller(self.now, Moody::boxed(NAMES[name], seed));
                }
            }
            Step::Remove(name) => self.layer.remove_controller(self.now, NAMES[name]),
            Step::Replace { live, with_controller } => {
                let controllers = with_controller.map(|seed| Moody::boxed("zero", seed)).into_iter().collect();
                let stack = Stack { scheduler: Box::new(Fifo::default()), controllers };
                self.layer.replace(self.now, stack, if live { Handover::Live } else { Handover::Freeze });
            }
            Step::Abandon(task) => self.layer.abandon(self.now, TaskId(task), Errno::EIO),
            Step::Weight(weight) => {
                self.layer.change_tenant(self.now, TenantId(0), Tenant { weight, parent: None }).unwrap();
            }
        }
        self.check();
        self.serve();
        self.check();
    }

    /// Controllers check the state of the I/Os that they keep.
    fn check(&self) {
        let (requests, tenants) = (self.layer.requests(), self.layer.tenants());
        let ctx = Context { now: self.now, requests, tenants, busy: false };
        self.layer.controllers().for_each(|controller| _ = controller.describe(&ctx));
    }

    fn drain(&mut self) {
        for _ in 0..100_000 {
            self.serve();
            if let Some(id) = self.in_device.pop() {
                self.layer.complete(self.now, id, Ok(()), &mut self.finished);
            } else if !self.layer.requests().is_empty() || self.layer.freezing() {
                let Some(at) = self.layer.next_timer() else { return };
                self.advance(at.max(self.now));
            } else {
                return;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_shrink_iters: 20000, ..ProptestConfig::default() })]

    /// No wake-up is lost, whatever is added, removed, replaced or abandoned while somebody waits; every I/O ends once.
    #[test]
    fn whatever_changes_every_io_completes_once(steps in prop::collection::vec(step(), 1..120), tasks_sleep: bool) {
        let mut driver = Driver::new(tasks_sleep);
        for step in steps {
            driver.take(step);
            prop_assert_eq!(driver.layer.fault(), None);
        }
        driver.drain();
        prop_assert_eq!(driver.layer.fault(), None);
        let left: Vec<_> = driver.layer.requests().iter().map(|(id, r)| (id, r.state, r.io.token)).collect();
        prop_assert!(left.is_empty() && !driver.layer.freezing(), "{left:?} are left at {}", driver.now);
        prop_assert_eq!(driver.layer.ledger().imbalance(), None);
        let tokens: Vec<u64> = driver.finished.iter().map(|done| done.io.token).collect();
        let each: BTreeSet<u64> = tokens.iter().copied().collect();
        prop_assert_eq!(each.len(), tokens.len(), "an I/O finished twice");
        prop_assert_eq!(each, driver.submitted);
        if tasks_sleep {
            prop_assert!(driver.asleep.is_empty(), "{:?} sleep for ever", driver.asleep);
        }
    }
}

/// A controller that parks everything until it is told otherwise.
struct Gate(VecDeque<RequestId>);

impl Controller for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn submit(&mut self, _io: &Io, _ctx: &Context<'_>) -> BioAnswer {
        BioAnswer::Park
    }

    fn parked(&mut self, id: RequestId, _ctx: &Context<'_>) {
        self.0.push_back(id);
    }
}

#[test]
fn what_a_controller_keeps_goes_on_when_it_is_removed_in_order_and_once() {
    let mut driver = Driver::new(true);
    driver.layer.remove_controller(Nanos::ZERO, "zero");
    driver.layer.add_controller(Nanos::ZERO, Box::new(Gate(VecDeque::new())));
    for token in 0..5u64 {
        let io = Io { op: Op::Read, sector: 1000 * token, sectors: 8, token, ..Io::default() };
        assert_eq!(driver.layer.submit(Nanos(token), io, None), Submitted::Entered, "the task goes on");
    }
    driver.serve();
    assert!(driver.in_device.is_empty());
    assert_eq!((driver.layer.queued(), driver.layer.next_timer()), (5, None));
    driver.layer.remove_controller(Nanos(9), "gate");
    driver.serve();
    let sent: Vec<u64> = driver.in_device.iter().map(|id| driver.layer.request(*id).io.token).collect();
    assert_eq!(sent, [0, 1, 2], "three fit in the device");
    assert!(driver.layer.request(driver.in_device[0]).io.flags.any(Flags::PACED));
    driver.drain();
    assert_eq!(driver.finished.len(), 5);
}

#[test]
fn a_parked_io_does_not_keep_an_exchange_waiting() {
    let mut driver = Driver::new(false);
    driver.layer.remove_controller(Nanos::ZERO, "zero");
    driver.layer.add_controller(Nanos::ZERO, Box::new(Gate(VecDeque::new())));
    driver.layer.submit(Nanos::ZERO, Io { op: Op::Read, sectors: 8, ..Io::default() }, None);
    let next: Box<dyn Scheduler> = Box::new(Fifo::default());
    driver.layer.replace(Nanos(1), next, Handover::Freeze);
    assert!(!driver.layer.freezing());
    driver.layer.abandon(Nanos(2), TaskId(0), Errno::EIO);
    driver.serve();
    assert_eq!(driver.finished.iter().map(|done| done.result).collect::<Vec<_>>(), [Err(Errno::EIO)]);
    assert_eq!(driver.layer.ledger().imbalance(), None);
}
