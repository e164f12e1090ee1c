//! A block layer, a scheduler and a device, driven step by step.

use std::collections::{BTreeMap, VecDeque};

use dumbwaiter_block::{
    BlockLayer, Config, Context, Errno, Finished, Handover, Io, Ioprio, Nanos, Op, Plug, RequestId, Setup, Stack,
    Submitted, TaskId, Tenant, TenantId, Tenants,
};

use crate::notation;

/// Steps after which a run that does not end fails.
const STEPS_MAX: usize = 50_000;
/// Sector at which [`Harness::fill`] reads.
const FILL_SECTOR: u64 = 1 << 40;

/// A request issued to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Its number in the order of issue.
    pub number: usize,
    /// Its id while it is in the device.
    pub id: RequestId,
    /// The I/O that created it.
    pub io: Io,
    /// First sector.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// When.
    pub at: Nanos,
    /// The hardware queue.
    pub hw_queue: u16,
}

/// An I/O of a request, or the part of it that the request transfers; see [`BlockLayer::parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssuedPart {
    /// The I/O as it was submitted.
    pub io: Io,
    /// First sector of the part.
    pub sector: u64,
    /// Length of the part in sectors.
    pub sectors: u32,
    /// Sectors of the I/O before the part.
    pub offset: u32,
}

/// A request completed by the device.
#[derive(Clone, Debug)]
pub struct Done {
    /// The request.
    pub issue: Issue,
    /// When.
    pub at: Nanos,
    /// The I/Os completed with it.
    pub ios: Vec<Finished>,
}

/// A test harness: the device accepts requests up to its depth and completes each after a fixed time, or holds all of
/// them until `complete` is called.
pub struct Harness {
    layer: BlockLayer,
    config: Config,
    now: Nanos,
    /// Defaults of I/Os.
    like: Io,
    held: bool,
    service: Nanos,
    /// Requests in the device, oldest first, with their completion times.
    device: VecDeque<(Option<Nanos>, Issue)>,
    answers: VecDeque<bool>,
    plugs: BTreeMap<TaskId, Plug>,
    issues: Vec<Issue>,
    parts: Vec<Vec<IssuedPart>>,
    shown: usize,
    done: Vec<Done>,
    idle_done: Vec<Finished>,
    shown_done: Vec<Finished>,
    token: u64,
    fill_sector: u64,
}

impl Harness {
    /// With the scheduler that `make` builds, four tenants, and eight tasks of the first tenant.
    pub fn new<S: Into<Stack>>(config: Config, make: impl FnOnce(Setup) -> S) -> Harness {
        let mut tenants = Tenants::default();
        for _ in 0..4 {
            tenants.add_tenant(Tenant::default());
        }
        for _ in 0..8 {
            tenants.add_task(TenantId(0), Ioprio::DEFAULT);
        }
        Harness {
            layer: BlockLayer::new(config, make(config.setup), tenants),
            config,
            now: Nanos::ZERO,
            like: Io { ioprio: Ioprio::DEFAULT, ..Io::default() },
            held: false,
            service: Nanos::from_us(10),
            device: VecDeque::new(),
            answers: VecDeque::new(),
            plugs: BTreeMap::new(),
            issues: Vec::new(),
            parts: Vec::new(),
            shown: 0,
            done: Vec::new(),
            idle_done: Vec::new(),
            shown_done: Vec::new(),
            token: 0,
            fill_sector: FILL_SECTOR,
        }
    }

    /// The block layer.
    pub fn layer(&self) -> &BlockLayer {
        &self.layer
    }

    /// The current time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The configuration of the block layer.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Requests in the device, oldest first.
    pub fn in_device(&self) -> impl ExactSizeIterator<Item = &Issue> {
        self.device.iter().map(|(_, issue)| issue)
    }

    /// Every request issued so far.
    pub fn all_issued(&self) -> &[Issue] {
        &self.issues
    }

    /// The parts of every request issued so far.
    pub fn all_parts(&self) -> &[Vec<IssuedPart>] {
        &self.parts
    }

    /// Every request completed so far.
    pub fn all_done(&self) -> &[Done] {
        &self.done
    }

    /// I/Os completed without the device.
    pub fn done_without_device(&self) -> &[Finished] {
        &self.idle_done
    }

    /// The scheduler's description of its state.
    pub fn describe(&self) -> String {
        let (requests, tenants) = (self.layer.requests(), self.layer.tenants());
        self.layer.scheduler().describe(&Context { now: self.now, requests, tenants, busy: false })
    }

    /// Submits I/Os within one plug, which then ends. If the plug flushes early, the device may accept that part before
    /// the rest arrives.
    pub fn plug(&mut self, text: &str) -> &mut Harness {
        let mut plug = Plug::default();
        for io in self.read(text) {
            self.count_and(io, |layer, now, io| layer.submit(now, io, Some(&mut plug)));
            self.issue_all();
        }
        self.layer.unplug(self.now, &mut plug);
        self.settle()
    }

    /// Submits I/Os one by one without a plug; the device may accept each before the next arrives.
    pub fn submit(&mut self, text: &str) -> &mut Harness {
        for io in self.read(text) {
            self.submit_io(io);
            self.issue_all();
        }
        self.settle()
    }

    /// Submits I/Os one by one without a plug, all before the first dispatch.
    pub fn batch(&mut self, text: &str) -> &mut Harness {
        for io in self.read(text) {
            self.submit_io(io);
        }
        self.settle()
    }

    /// Stalls the device and fills it with I/Os like the given one, far away; [`Harness::issued`] does not show them.
    pub fn fill(&mut self, like: &str) -> &mut Harness {
        self.hold();
        let io = self.read(&format!("{like}0"))[0];
        while self.device.len() < self.config.setup.device_depth as usize {
            self.fill_sector += 1024;
            self.submit_io(Io { sector: self.fill_sector, ..io });
            self.issue_all();
        }
        self.shown = self.issues.len();
        self
    }

    /// Stalls the device: it accepts requests but completes none.
    pub fn hold(&mut self) -> &mut Harness {
        self.held = true;
        self
    }

    /// Resumes the device: it completes its requests one after another until none is left.
    pub fn release(&mut self) -> &mut Harness {
        self.held = false;
        let mut due = self.now;
        for (at, _) in &mut self.device {
            due += self.service;
            *at = Some(due);
        }
        self.settle()
    }

    /// Completes the `n` oldest requests in the device, and issues after each.
    pub fn complete(&mut self, n: usize) -> &mut Harness {
        for _ in 0..n {
            self.complete_nth(0, false);
            self.issue_all();
        }
        self
    }

    /// Completes the `n`-th request in the device.
    pub fn complete_nth(&mut self, n: usize, failed: bool) {
        let (_, issue) = self.device.remove(n).unwrap_or_else(|| panic!("the device holds no request {n}"));
        let mut ios = Vec::new();
        let result = if failed { Err(Errno::EIO) } else { Ok(()) };
        self.layer.complete(self.now, issue.id, result, &mut ios);
        self.shown_done.extend(&ios);
        self.done.push(Done { issue, at: self.now, ios });
    }

    /// Requeues the `n` oldest requests in the device, oldest first.
    pub fn requeue(&mut self, n: usize) -> &mut Harness {
        for _ in 0..n {
            self.requeue_nth(0);
        }
        self.settle()
    }

    /// Requeues the `n`-th request in the device.
    pub fn requeue_nth(&mut self, n: usize) {
        let (_, issue) = self.device.remove(n).unwrap_or_else(|| panic!("the device holds no request {n}"));
        self.layer.requeue(self.now, issue.id);
    }

    /// Sets the device's answers to the next requests: `y` accepts, `n` refuses. Afterwards it accepts all.
    pub fn answers(&mut self, pattern: &str) -> &mut Harness {
        self.answers.extend(pattern.chars().map(|c| c != 'n'));
        self
    }

    /// Makes the device accept all requests again.
    pub fn accept(&mut self) -> &mut Harness {
        self.answers.clear();
        self
    }

    /// Changes a tunable of the scheduler at run time.
    pub fn tune(&mut self, name: &str, value: i128) -> &mut Harness {
        self.layer.set_tunable(self.now, name, value).unwrap_or_else(|why| panic!("{why}"));
        self
    }

    /// Replaces the scheduler by one that `make` builds from the current set-up.
    pub fn replace<S: Into<Stack>>(&mut self, make: impl FnOnce(Setup) -> S, how: Handover) -> &mut Harness {
        let stack = make(self.layer.config().setup);
        self.layer.replace(self.now, stack, how);
        self
    }

    /// Sets the service time of the device; 10 us in a new harness.
    pub fn service(&mut self, time: Nanos) -> &mut Harness {
        self.service = time;
        self
    }

    /// Changes something of the block layer at the present time.
    pub fn change(&mut self, change: impl FnOnce(&mut BlockLayer, Nanos)) -> &mut Harness {
        change(&mut self.layer, self.now);
        self
    }

    /// Sets the submitting CPU.
    pub fn cpu(&mut self, cpu: u16) -> &mut Harness {
        self.like.cpu = cpu;
        self
    }

    /// Advances the time to `ms` milliseconds from the start and processes all events until then.
    pub fn at(&mut self, ms: u64) -> &mut Harness {
        self.until(Nanos::from_ms(ms));
        self
    }

    /// Advances the time to `time` and processes all events until then.
    pub fn until(&mut self, time: Nanos) {
        assert!(time >= self.now, "time cannot go back from {} to {time}", self.now);
        while self.next_event().is_some_and(|t| t <= time) {
            self.step();
        }
        self.now = time;
    }

    /// Requests issued since the last call, in order.
    pub fn issued(&mut self) -> String {
        let new: Vec<String> =
            self.issues[self.shown..].iter().map(|i| notation::show(i.io.op, i.sector, i.sectors)).collect();
        self.shown = self.issues.len();
        new.join(" ")
    }

    /// I/Os completed since the last call, in order.
    pub fn finished(&mut self) -> String {
        let new: Vec<String> =
            self.shown_done.drain(..).map(|f| notation::show(f.io.op, f.io.sector, f.io.sectors)).collect();
        new.join(" ")
    }

    /// Submits `io` without a plug; nothing is issued yet.
    pub fn submit_io(&mut self, io: Io) {
        self.count_and(io, |layer, now, io| layer.submit(now, io, None));
    }

    /// Submits `io` into its task's plug, which stays open; nothing is issued yet.
    pub fn submit_plugged(&mut self, io: Io) {
        let mut plug = self.plugs.remove(&io.task).unwrap_or_default();
        self.count_and(io, |layer, now, io| layer.submit(now, io, Some(&mut plug)));
        self.plugs.insert(io.task, plug);
    }

    /// Ends a task's plug.
    pub fn unplug(&mut self, task: TaskId) {
        if let Some(mut plug) = self.plugs.remove(&task) {
            self.layer.unplug(self.now, &mut plug);
        }
    }

    /// Ends every open plug.
    pub fn unplug_all(&mut self) {
        while let Some(task) = self.plugs.keys().next().copied() {
            self.unplug(task);
        }
    }

    /// Requests in open plugs.
    pub fn plugged(&self) -> usize {
        self.plugs.values().map(Plug::len).sum()
    }

    /// Dispatches to the device while it accepts requests.
    pub fn issue_all(&mut self) {
        while let Some(id) = self.layer.poll(self.now) {
            if !self.answers.pop_front().unwrap_or(true) {
                self.layer.refused(self.now, id);
                continue;
            }
            let request = self.layer.request(id);
            let issue = Issue {
                number: self.issues.len(),
                id,
                io: request.io,
                sector: request.sector,
                sectors: request.sectors,
                at: self.now,
                hw_queue: self.layer.hw_queue(id),
            };
            self.issues.push(issue);
            let parts = self.layer.parts(id);
            let parts = parts.map(|p| IssuedPart { io: *p.io, sector: p.sector, sectors: p.sectors, offset: p.offset });
            self.parts.push(parts.collect());
            self.device.push_back(((!self.held).then(|| self.now + self.service), issue));
        }
    }

    /// Time of the next event.
    pub fn next_event(&self) -> Option<Nanos> {
        let device = self.device.iter().filter_map(|(due, _)| *due).min();
        match (device, self.layer.next_timer()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Advances to the next event, if there is one.
    pub fn step(&mut self) {
        let Some(at) = self.next_event() else { return };
        self.now = self.now.max(at);
        match self.device.iter().position(|(due, _)| due.is_some_and(|t| t <= self.now)) {
            Some(n) => self.complete_nth(n, false),
            None => self.layer.timer(self.now),
        }
        self.issue_all();
    }

    /// Processes events until every I/O is complete.
    pub fn drain(&mut self) {
        self.unplug_all();
        self.issue_all();
        for _ in 0..STEPS_MAX {
            if let Some(fault) = self.layer.fault() {
                panic!("{fault}\n{}", self.describe());
            }
            if self.layer.requests().is_empty() {
                return;
            }
            assert!(
                self.next_event().is_some(),
                "stuck at {}: {} queued, {} in the device\n{}\n{:?}",
                self.now,
                self.layer.queued(),
                self.device.len(),
                self.describe(),
                self.layer
            );
            self.step();
        }
        panic!("no end: {} queued, {} in the device\n{}", self.layer.queued(), self.device.len(), self.describe());
    }

    /// After a submission: issues, and unless the device is stalled runs to the end.
    fn settle(&mut self) -> &mut Harness {
        self.issue_all();
        if !self.held {
            self.drain();
        }
        self
    }

    fn read(&self, text: &str) -> Vec<Io> {
        notation::parse(text, self.like).unwrap_or_else(|why| panic!("{why}"))
    }

    fn count_and(&mut self, mut io: Io, submit: impl FnOnce(&mut BlockLayer, Nanos, Io) -> Submitted) {
        io.token = self.token;
        self.token += 1;
        let _ = submit(&mut self.layer, self.now, io);
        let before = self.idle_done.len();
        self.layer.finish_idle(self.now, &mut self.idle_done);
        self.shown_done.extend_from_slice(&self.idle_done[before..]);
        debug_assert!(io.op == Op::Flush || io.sectors > 0, "an I/O of no sectors");
    }
}
