//! Tenants with closed loops, behind a controller and before a device, in virtual time.

use std::collections::VecDeque;

use dumbwaiter_block::{
    BlockLayer, Config, Controller, Finished, Flags, Io, Ioprio, Limits, Nanos, Op, RequestId, Scope, Setup, Stack,
    TaskId, Tenant, TenantId, Tenants,
};
use dumbwaiter_testkit::Fifo;

/// A closed loop of one task.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) op: Op,
    pub(crate) bytes: u32,
    pub(crate) depth: usize,
    /// After this many I/Os the task rests.
    pub(crate) burst: u64,
    pub(crate) rest: Nanos,
}

impl Job {
    pub(crate) fn of(op: Op, kib: u32, depth: usize) -> Job {
        Job { op, bytes: kib << 10, depth, burst: u64::MAX, rest: Nanos::ZERO }
    }
}

/// Tenants, each with a task of its number, before a device that takes 32 requests of up to 128 KiB.
pub(crate) struct World {
    pub(crate) layer: BlockLayer,
    pub(crate) now: Nanos,
    /// How many it serves at once, and for how long each.
    served: (usize, Nanos),
    /// In the device, with the times at which they end.
    device: VecDeque<(Nanos, RequestId)>,
    finished: Vec<Finished>,
    /// By task: submitted, and ended.
    pub(crate) submitted: Vec<u64>,
    pub(crate) ended: Vec<u64>,
    /// By task: the sum of latencies.
    pub(crate) latency_ns: Vec<u64>,
    seen: usize,
}

impl World {
    pub(crate) fn new(controller: Box<dyn Controller>, parents: &[Option<u32>], served: (usize, Nanos)) -> World {
        let mut tenants = Tenants::default();
        for parent in parents {
            let tenant = tenants.add_tenant(Tenant { parent: parent.map(TenantId), ..Tenant::default() });
            tenants.add_task(tenant, Ioprio::DEFAULT);
        }
        let setup = Setup { device_depth: 32, nr_requests: 256, ..Setup::default() };
        let limits = Limits { max_sectors: 256, ..Limits::default() };
        let stack = Stack { scheduler: Box::new(Fifo::default()), controllers: vec![controller] };
        let layer = BlockLayer::new(Config { setup, limits, ..Config::default() }, stack, tenants);
        let none = vec![0; parents.len()];
        World {
            layer,
            now: Nanos::ZERO,
            served,
            device: VecDeque::new(),
            finished: Vec::new(),
            submitted: none.clone(),
            ended: none.clone(),
            latency_ns: none,
            seen: 0,
        }
    }

    pub(crate) fn limit(&mut self, tenant: u32, name: &str, value: i128) {
        self.layer.set_control(self.now, Scope::Tenant(TenantId(tenant)), name, value).unwrap();
    }

    pub(crate) fn submit(&mut self, task: u32, op: Op, bytes: u32, flags: Flags) {
        let count = &mut self.submitted[task as usize];
        *count += 1;
        // Apart from each other, so that none merges.
        let sector = (*count << 12) + (u64::from(task) << 40);
        let io =
            Io { op, flags, sector, sectors: bytes / 512, task: TaskId(task), tenant: TenantId(task), ..Io::default() };
        self.layer.submit(self.now, io, None);
        self.send();
    }

    pub(crate) fn send(&mut self) {
        while let Some(id) = self.layer.poll(self.now) {
            // One of those before it ends first.
            let (at_once, service) = self.served;
            let before = self.device.len().checked_sub(at_once).map(|before| self.device[before].0);
            self.device.push_back((before.unwrap_or(self.now) + service, id));
        }
    }

    /// The next event, if it is not after `until`.
    pub(crate) fn step(&mut self, until: Nanos) -> bool {
        let timer = self.layer.next_timer();
        let done = self.device.front().map(|(at, _)| *at);
        let Some(at) = timer.into_iter().chain(done).min().filter(|at| *at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(at);
        if timer == Some(at) {
            self.layer.timer(self.now);
        } else if let Some((_, id)) = self.device.pop_front() {
            self.layer.complete(self.now, id, Ok(()), &mut self.finished);
        }
        self.layer.finish_idle(self.now, &mut self.finished);
        self.send();
        for done in &self.finished[self.seen..] {
            let task = done.io.task.0 as usize;
            self.ended[task] += 1;
            self.latency_ns[task] += self.now.since(done.submit).0;
        }
        self.seen = self.finished.len();
        true
    }

    /// Runs jobs, by task, and returns how many I/Os of each ended in a second.
    pub(crate) fn run(&mut self, jobs: &[Job], time: Nanos) -> Vec<f64> {
        let (begin, before) = (self.now, self.ended.clone());
        let mut resumes = vec![Nanos::ZERO; jobs.len()];
        let mut bursts = vec![0; jobs.len()];
        while self.now < begin + time {
            for (task, job) in jobs.iter().enumerate() {
                if bursts[task] == job.burst && self.submitted[task] == self.ended[task] {
                    (bursts[task], resumes[task]) = (0, self.now + job.rest);
                }
                while self.now >= resumes[task]
                    && bursts[task] < job.burst
                    && self.submitted[task] - self.ended[task] < job.depth as u64
                {
                    bursts[task] += 1;
                    self.submit(task as u32, job.op, job.bytes, Flags::NONE);
                }
            }
            let resume = resumes.iter().copied().filter(|at| *at > self.now).min().unwrap_or(Nanos::MAX);
            self.step((begin + time).min(resume));
        }
        self.ended.iter().zip(before).map(|(after, before)| (after - before) as f64 / time.as_secs_f64()).collect()
    }

    /// Everything ends, and nothing is lost.
    pub(crate) fn drain(mut self) {
        while self.step(self.now + Nanos::from_secs(60)) {}
        assert_eq!((self.submitted, self.layer.fault()), (self.ended, None));
        assert_eq!(self.layer.ledger().imbalance(), None);
        assert!(self.layer.requests().is_empty());
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        let mut found = 0;
        self.layer.counters(&mut |counter, value| {
            if counter == name {
                found = value;
            }
        });
        found
    }
}

/// Is it within this share of what is expected?
pub(crate) fn near(measured: f64, expected: f64, share: f64) -> bool {
    (measured - expected).abs() <= expected * share
}
