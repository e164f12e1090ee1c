//! Kyber's control loop against a device, and settings as the kernel reads them back.

use dumbwaiter_block::{AtAttach, Config, Flags, Io, Ioprio, Nanos, Op, Scheduler, Setup, set_tunable};
use dumbwaiter_schedulers::Choice;
use dumbwaiter_testkit::Harness;

/// A closed loop of `reads` and `writes` on a device of depth 4 that takes 4 ms for each; returns the depths of the
/// four domains at every change.
fn depths(choice: &str, reads: usize, writes: usize, seconds: u64) -> Vec<[u32; 4]> {
    let setup = Setup { device_depth: 4, ..Setup::default() };
    let mut harness =
        Harness::new(Config { setup, ..Config::default() }, |s| Choice::parse(choice).unwrap().scheduler(s));
    run(&mut harness, reads, writes, seconds)
}

fn run(harness: &mut Harness, reads: usize, writes: usize, seconds: u64) -> Vec<[u32; 4]> {
    harness.service(Nanos::from_ms(4));
    let mut sector = harness.all_issued().len() as u64 * 1000;
    let mut submit = |harness: &mut Harness, op| {
        sector += 1000;
        harness.submit_io(Io { op, sector, sectors: 8, ioprio: Ioprio::DEFAULT, ..Io::default() });
    };
    for (op, n) in [(Op::Read, reads), (Op::Write, writes)] {
        (0..n).for_each(|_| submit(harness, op));
    }
    harness.issue_all();
    let mut seen = vec![depth_of(harness)];
    let end = harness.now() + Nanos::from_secs(seconds);
    let mut done = harness.all_done().len();
    while harness.now() < end {
        harness.step();
        while done < harness.all_done().len() {
            submit(harness, harness.all_done()[done].issue.io.op);
            done += 1;
        }
        harness.issue_all();
        let depth = depth_of(harness);
        if seen.last() != Some(&depth) {
            seen.push(depth);
        }
    }
    seen
}

fn depth_of(harness: &Harness) -> [u32; 4] {
    let text = harness.describe();
    let inside = text.split_once("depth [").unwrap().1.split_once(']').unwrap().0;
    let numbers: Vec<u32> = inside.split(", ").map(|n| n.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// Phase 1 of the kernel's recorded control sequence: reads miss their target, writes do well.
#[test]
fn writes_give_way_to_reads() {
    let seen = depths("kyber:read_lat_nsec=2000000,write_lat_nsec=100000000", 6, 2, 60);
    let writes: Vec<u32> = seen.iter().map(|d| d[1]).collect();
    assert_eq!(writes, [128, 32, 8, 2, 1]);
    assert!(seen.iter().all(|d| d[0] == 256 && d[2..] == [64, 16]));
}

/// Phase 2: the targets are turned round, and so are the depths.
#[test]
fn reads_give_way_to_writes_which_grow_back() {
    let setup = Setup { device_depth: 4, ..Setup::default() };
    let choice = Choice::parse("kyber:read_lat_nsec=2000000,write_lat_nsec=100000000").unwrap();
    let mut harness = Harness::new(Config { setup, ..Config::default() }, |s| choice.build(s));
    run(&mut harness, 6, 2, 60);
    harness.drain();
    harness.tune("read_lat_nsec", 1_000_000_000).tune("write_lat_nsec", 1000);
    let seen = run(&mut harness, 6, 2, 30);
    let mut reads: Vec<u32> = seen.iter().map(|d| d[0]).collect();
    let mut writes: Vec<u32> = seen.iter().map(|d| d[1]).collect();
    reads.dedup();
    writes.dedup();
    assert_eq!(reads, [256, 64, 16, 4, 1]);
    assert_eq!(writes, [1, 2, 4, 8, 16, 32, 64, 128]);
}

/// No completions, no timer: depths stay where they are.
#[test]
fn depths_do_not_recover_while_nothing_happens() {
    let setup = Setup { device_depth: 4, ..Setup::default() };
    let choice = Choice::parse("kyber:write_lat_nsec=100000000").unwrap();
    let mut harness = Harness::new(Config { setup, ..Config::default() }, |s| choice.build(s));
    run(&mut harness, 6, 2, 60);
    harness.drain();
    let before = depth_of(&harness);
    assert_eq!(before[1], 1);
    harness.at(harness.now().0 / 1_000_000 + 60_000);
    assert_eq!(depth_of(&harness), before);
}

/// The recorded kernel evaluated nothing sooner than 25 ticks after a completion.
#[test]
fn the_timer_is_a_tenth_of_a_second_behind_a_completion() {
    let mut harness = Harness::new(Config::default(), |s| Choice::parse("kyber").unwrap().scheduler(s));
    harness.submit("R100");
    let after = harness.layer().next_timer().unwrap().since(harness.now());
    assert!((100..=108).contains(&(after.0 / 1_000_000)), "{after}");
}

fn set_and_get(scheduler: &mut dyn Scheduler, name: &str, value: i128) -> i128 {
    set_tunable(scheduler, name, value).unwrap();
    scheduler.get(name).unwrap()
}

/// At 250 ticks a second the kernel reads 1 ms back as 4, and 501 as 504.
#[test]
fn milliseconds_are_rounded_up_to_ticks() {
    let mut scheduler = Choice::parse("mq-deadline").unwrap().scheduler(Setup::default());
    for name in ["read_expire", "write_expire", "prio_aging_expire"] {
        let read_back = [0, 1, 4, 500, 501, 2_147_483_644].map(|ms| set_and_get(&mut *scheduler, name, ms));
        assert_eq!(read_back, [0, 4, 4, 500, 504, 2_147_483_644], "{name}");
    }
    assert_eq!(set_and_get(&mut *scheduler, "writes_starved", -1), -1);
    assert_eq!(scheduler.get("async_depth"), Some(256), "the default is nr_requests");
    assert_eq!(set_and_get(&mut *scheduler, "async_depth", 40), 40);
    let changed = dumbwaiter_block::Event::DepthChanged { nr_requests: 64, device_depth: 32 };
    let (requests, tenants) = Default::default();
    let ctx = dumbwaiter_block::Context { now: Nanos::ZERO, requests: &requests, tenants: &tenants, busy: false };
    scheduler.event(changed, &ctx);
    assert_eq!(scheduler.get("async_depth"), Some(64), "a new nr_requests brings the default back");
}

/// Up to 6.17 the limit on everything but reads held for each 64 slots, so that the default of three quarters was none.
#[test]
fn async_depth_by_kernel() {
    let write = Io { op: Op::Write, ..Io::default() };
    let limit = |choice: &str, nr_requests| {
        let setup = Setup { nr_requests, ..Setup::default() };
        Choice::parse(choice).unwrap().scheduler(setup).limit(&write, nr_requests)
    };
    for kernel in ["6.18", "6.5", "6.1", "5.15", "5.13"] {
        assert_eq!(limit(&format!("mq-deadline:kernel={kernel}"), 256), 256, "{kernel}");
    }
    assert_eq!(limit("mq-deadline:kernel=5.15", 64), 48);
    assert_eq!(limit("mq-deadline:kernel=6.1,async_depth=10", 150), 30);
    assert_eq!(limit("mq-deadline:kernel=6.1,async_depth=64", 150), 150);
    assert_eq!(limit("mq-deadline:async_depth=64", 150), 64);
    assert_eq!(limit("mq-deadline:async_depth=500", 150), 150);
}

/// Linux 6.12 keeps the limits of the depth at which the scheduler was attached; reads have every slot.
#[test]
fn limits_of_the_time_of_attachment_stay() {
    let write = |flags| Io { op: Op::Write, flags, ..Io::default() };
    let at_attach = AtAttach { nr_requests: Some(8), ..AtAttach::default() };
    for (choice, sync, not_sync) in [("mq-deadline", 8, 8), ("kyber", 64, 6), ("bfq", 6, 4)] {
        let setup = Setup { nr_requests: 64, at_attach, ..Setup::default() };
        let mut scheduler = Choice::parse(choice).unwrap().scheduler(setup);
        let limits = |scheduler: &dyn Scheduler, nr_requests| {
            let of = |io| scheduler.limit(&io, nr_requests);
            [of(Io::default()), of(write(Flags::SYNC)), of(write(Flags::NONE))]
        };
        assert_eq!(limits(&*scheduler, 64), [64, sync, not_sync], "{choice}");
        let (requests, tenants) = Default::default();
        let ctx = dumbwaiter_block::Context { now: Nanos::ZERO, requests: &requests, tenants: &tenants, busy: false };
        scheduler.event(dumbwaiter_block::Event::DepthChanged { nr_requests: 128, device_depth: 4 }, &ctx);
        assert_eq!(limits(&*scheduler, 128), [128, if sync == 64 { 128 } else { sync }, not_sync], "{choice}");
        let few = limits(&*scheduler, 2);
        assert!(few.iter().all(|n| (1..=2).contains(n)), "{choice}: {few:?} of 2 slots");
    }
    let setup = Setup { nr_requests: 64, at_attach, ..Setup::default() };
    assert_eq!(Choice::parse("mq-deadline").unwrap().scheduler(setup).get("async_depth"), Some(8));
}

#[test]
fn kyber_takes_any_target_in_nanoseconds() {
    let mut scheduler = Choice::parse("kyber").unwrap().scheduler(Setup::default());
    for value in [0, 1, 2_000_001, i128::from(u64::MAX)] {
        assert_eq!(set_and_get(&mut *scheduler, "read_lat_nsec", value), value);
    }
    for bad in [-1, i128::from(u64::MAX) + 1] {
        assert!(set_tunable(&mut *scheduler, "read_lat_nsec", bad).is_err());
    }
}
