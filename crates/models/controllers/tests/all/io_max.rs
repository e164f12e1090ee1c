//! io.max before a scheduler: the rates of recordings, pieces of split I/Os, changes under way, and none lost.

use std::collections::VecDeque;

use dumbwaiter_block::{
    BlockLayer, Config, Errno, Finished, Flags, Handover, Io, Ioprio, Limits, Nanos, Op, RequestId, Scheduler, Scope,
    Setup, Stack, TaskId, Tenant, TenantId, Tenants,
};
use dumbwaiter_controllers::IoMax;
use dumbwaiter_controllers::io_max::{NAME, Release};
use dumbwaiter_testkit::Fifo;

const BOTH: [Release; 2] = [Release::V6_12, Release::V6_18];
/// Of the recordings' device, whatever the size; it serves 32 at once.
const SERVICE: Nanos = Nanos::from_us(200);

/// A closed loop of one task.
#[derive(Clone, Copy)]
struct Job {
    op: Op,
    bytes: u32,
    depth: usize,
    /// After this many I/Os the task rests.
    burst: u64,
    rest: Nanos,
}

impl Job {
    fn of(op: Op, kib: u32, depth: usize) -> Job {
        Job { op, bytes: kib << 10, depth, burst: u64::MAX, rest: Nanos::ZERO }
    }
}

/// Tenants behind io.max, each with a task of its number.
struct World {
    layer: BlockLayer,
    now: Nanos,
    /// In the device, with the times at which they end.
    device: VecDeque<(Nanos, RequestId)>,
    finished: Vec<Finished>,
    /// By task: submitted, and ended.
    submitted: Vec<u64>,
    ended: Vec<u64>,
    seen: usize,
}

impl World {
    fn new(release: Release, parents: &[Option<u32>]) -> World {
        let mut tenants = Tenants::default();
        for parent in parents {
            let tenant = tenants.add_tenant(Tenant { parent: parent.map(TenantId), ..Tenant::default() });
            tenants.add_task(tenant, Ioprio::DEFAULT);
        }
        let setup = Setup { device_depth: 32, nr_requests: 256, ..Setup::default() };
        let limits = Limits { max_sectors: 256, ..Limits::default() };
        let stack = Stack { scheduler: Box::new(Fifo::default()), controllers: vec![Box::new(IoMax::new(release))] };
        let layer = BlockLayer::new(Config { setup, limits, ..Config::default() }, stack, tenants);
        let n = parents.len();
        let (device, finished, now) = (VecDeque::new(), Vec::new(), Nanos::ZERO);
        World { layer, now, device, finished, submitted: vec![0; n], ended: vec![0; n], seen: 0 }
    }

    fn limit(&mut self, tenant: u32, name: &str, value: i128) {
        self.layer.set_control(self.now, Scope::Tenant(TenantId(tenant)), name, value).unwrap();
    }

    fn submit(&mut self, task: u32, op: Op, bytes: u32, flags: Flags) {
        let count = &mut self.submitted[task as usize];
        *count += 1;
        // Apart from each other, so that none merges.
        let sector = (*count << 12) + (u64::from(task) << 40);
        let io =
            Io { op, flags, sector, sectors: bytes / 512, task: TaskId(task), tenant: TenantId(task), ..Io::default() };
        self.layer.submit(self.now, io, None);
        self.send();
    }

    fn send(&mut self) {
        while let Some(id) = self.layer.poll(self.now) {
            self.device.push_back((self.now + SERVICE, id));
        }
    }

    /// The next event, if it is not after `until`.
    fn step(&mut self, until: Nanos) -> bool {
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
            self.ended[done.io.task.0 as usize] += 1;
        }
        self.seen = self.finished.len();
        true
    }

    /// Runs jobs, by task, and returns how many I/Os of each ended in a second.
    fn run(&mut self, jobs: &[Job], time: Nanos) -> Vec<f64> {
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
    fn drain(mut self) {
        while self.step(self.now + Nanos::from_secs(60)) {}
        assert_eq!((self.submitted, self.layer.fault()), (self.ended, None));
        assert_eq!(self.layer.ledger().imbalance(), None);
        assert!(self.layer.requests().is_empty());
    }

    fn counter(&self, name: &str) -> u64 {
        let mut found = 0;
        self.layer.counters(&mut |counter, value| {
            if counter == name {
                found = value;
            }
        });
        found
    }
}

fn near(measured: f64, expected: f64, share: f64) -> bool {
    (measured - expected).abs() <= expected * share
}

/// I/Os in a second of a task behind these limits.
fn rate(release: Release, limits: &[(&str, i128)], job: Job, time: Nanos) -> f64 {
    let mut world = World::new(release, &[None]);
    limits.iter().for_each(|(name, value)| world.limit(0, name, *value));
    let rate = world.run(&[job], time)[0];
    world.drain();
    rate
}

#[test]
fn rates_are_those_of_the_recordings() {
    let ten = Nanos::from_secs(10);
    let think = Job { burst: 60, rest: Nanos::from_ms(600), ..Job::of(Op::Read, 4, 16) };
    // Measured with Linux over 4 s, with what was under way at the end (so 25.5 of the split writes, at 25).
    for release in BOTH {
        for (limits, job, expected) in [
            (&[("rbps", 2 << 20)][..], Job::of(Op::Read, 4, 8), 513.0),
            (&[("riops", 300)], Job::of(Op::Read, 4, 8), 300.7),
            (&[("wbps", 4 << 20)], Job::of(Op::Write, 64, 8), 4.24e6 / 65536.0),
            (&[("rbps", 1 << 20)], Job::of(Op::Read, 512, 2), 2.0),
            (&[("wiops", 100)], Job::of(Op::Write, 512, 8), 25.0),
            (&[("riops", 100)], think, 55.3),
            (&[("riops", 100), ("rbps", 1 << 30)], Job::of(Op::Read, 4, 8), 101.0),
        ] {
            let measured = rate(release, limits, job, ten);
            // The last of ten seconds may be a little late.
            assert!(
                near(measured, expected, 0.02 + 0.1 / expected),
                "{release:?} {limits:?}: {measured}/s, expected {expected}"
            );
        }
    }
}

#[test]
fn limits_below_ten_are_kept_as_the_kernel_keeps_them() {
    let measured = |release| rate(release, &[("riops", 7)], Job::of(Op::Read, 4, 8), Nanos::from_secs(30));
    let [old, new] = BOTH.map(measured);
    assert!(near(old, 5.0, 0.05), "6.12: {old}/s");
    assert!(near(new, 10.2, 0.05), "6.18: {new}/s, more than the limit");
}

#[test]
fn directions_and_tenants_side_by_side_are_apart() {
    for release in BOTH {
        let mut world = World::new(release, &[None, None, None]);
        world.limit(0, "rbps", 1 << 20);
        world.limit(1, "wiops", 50);
        let jobs = [Job::of(Op::Read, 16, 8), Job::of(Op::Write, 4, 8), Job::of(Op::Read, 4, 4)];
        let rates = world.run(&jobs, Nanos::from_secs(5));
        assert!(near(rates[0], 64.0, 0.03) && near(rates[1], 50.0, 0.05), "{rates:?}");
        assert!(rates[2] > 10_000.0, "one without limits has the rest: {rates:?}");
        world.drain();
    }
}

#[test]
fn a_tenants_limits_count_for_those_nested_in_it() {
    for release in BOTH {
        // 1 and 2 are in 0.
        let mut world = World::new(release, &[None, Some(0), Some(0)]);
        world.limit(0, "riops", 200);
        world.limit(2, "riops", 40);
        let idle = Job::of(Op::Read, 4, 0);
        let rates = world.run(&[idle, Job::of(Op::Read, 4, 8), Job::of(Op::Read, 4, 8)], Nanos::from_secs(5));
        assert!(near(rates[1] + rates[2], 200.0, 0.03) && near(rates[2], 40.0, 0.1), "{release:?}: {rates:?}");
        // It moves out, and what waited for both is not lost.
        world.layer.change_tenant(world.now, TenantId(1), Tenant::default()).unwrap();
        let rates = world.run(&[idle, Job::of(Op::Read, 4, 8), Job::of(Op::Read, 4, 8)], Nanos::from_secs(5));
        assert!(rates[1] > 10_000.0 && near(rates[2], 40.0, 0.1), "{release:?}: {rates:?}");
        world.drain();
    }
}

#[test]
fn metadata_and_swap_pass_and_count() {
    for release in BOTH {
        for flag in [Flags::META, Flags::SWAP] {
            let mut world = World::new(release, &[None]);
            world.limit(0, "wiops", 100);
            (0..50).for_each(|_| world.submit(0, Op::Write, 4096, flag));
            assert_eq!(world.counter("io_max_waited"), 0);
            let at = world.now;
            world.submit(0, Op::Write, 4096, Flags::NONE);
            while world.ended[0] < 51 && world.step(at + Nanos::from_secs(9)) {}
            let waited = world.now.since(at);
            assert!(waited > Nanos::from_ms(390) && waited < Nanos::from_ms(550), "{release:?}: {waited:?}");
            world.drain();
        }
    }
}

#[test]
fn a_trim_counts_as_512_bytes_and_a_flush_as_none() {
    for release in BOTH {
        let mut world = World::new(release, &[None]);
        world.limit(0, "wbps", 51_200);
        (0..10).for_each(|_| world.submit(0, Op::Discard, 1 << 20, Flags::NONE));
        assert_eq!(world.counter("io_max_parked"), 0, "a slice takes ten");
        (0..5).for_each(|_| world.submit(0, Op::Flush, 0, Flags::SYNC));
        assert_eq!(world.counter("io_max_parked"), 0);
        world.submit(0, Op::Discard, 1 << 20, Flags::NONE);
        assert_eq!(world.counter("io_max_parked"), 1);
        world.limit(0, "wiops", 10);
        world.submit(0, Op::Flush, 0, Flags::SYNC);
        assert_eq!(world.counter("io_max_parked"), 2, "it waits behind what waits");
        world.drain();
    }
}

#[test]
fn none_is_lost_whatever_changes_under_way() {
    let jobs =
        [Job::of(Op::Write, 512, 8), Job::of(Op::Read, 4, 8), Job::of(Op::Read, 64, 3), Job::of(Op::Write, 4, 20)];
    for release in BOTH {
        let mut world = World::new(release, &[None, Some(0), Some(1), None]);
        for round in 0..60_i128 {
            let names = ["rbps", "wbps", "riops", "wiops"];
            let value = [1 << 18, 1 << 20, 20, 300, i128::from(u64::MAX)][round as usize % 5];
            if world.layer.controller(NAME).is_some() {
                world.limit(round as u32 % 4, names[round as usize % 4], (value + round).min(u64::MAX.into()));
            }
            world.run(&jobs, Nanos::from_ms(370));
            let parent = |tenant: u32| Tenant { parent: Some(TenantId(tenant)), ..Tenant::default() };
            let now = world.now;
            match round % 8 {
                1 => world.layer.change_tenant(now, TenantId(3), parent(1)).unwrap(),
                2 => world.layer.change_tenant(now, TenantId(2), Tenant::default()).unwrap(),
                3 => world.layer.change_tenant(now, TenantId(2), parent(3)).unwrap(),
                4 => world.layer.abandon(now, TaskId(round as u32 % 4), Errno::EIO),
                5 => world.layer.change_tenant(now, TenantId(3), Tenant::default()).unwrap(),
                6 => world.layer.remove_controller(now, NAME),
                7 => {
                    let scheduler: Box<dyn Scheduler> = Box::new(Fifo::default());
                    let controllers: Vec<Box<dyn dumbwaiter_block::Controller>> = vec![Box::new(IoMax::new(release))];
                    world.layer.replace(now, Stack { scheduler, controllers }, Handover::Live);
                }
                _ => {}
            }
            world.send();
        }
        world.drain();
    }
}

#[test]
fn settings_are_bounded_as_the_kernel_bounds_them() {
    let mut world = World::new(Release::V6_12, &[None]);
    let mut set = |value| world.layer.set_control(Nanos::ZERO, Scope::Tenant(TenantId(0)), "riops", value).is_ok();
    assert_eq!((set(0), set(1), set(2), set(u64::MAX.into())), (false, false, true, true), "6.12 refuses 1");
    let mut world = World::new(Release::V6_18, &[None]);
    let mut set = |value| world.layer.set_control(Nanos::ZERO, Scope::Tenant(TenantId(0)), "wbps", value).is_ok();
    assert_eq!((set(0), set(1)), (false, true));
    let io_max = world.layer.controller(NAME).unwrap();
    let get = |tenant, name| io_max.get(Scope::Tenant(TenantId(tenant)), name);
    assert_eq!(
        (get(0, "wbps"), get(0, "rbps"), get(9, "rbps")),
        (Some(1), Some(u64::MAX.into()), Some(u64::MAX.into()))
    );
    assert_eq!(get(0, "iops"), None);
}
