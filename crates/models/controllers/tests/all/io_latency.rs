//! io.latency before a scheduler: a reader is protected, its neighbours are slowed no further than that, and none is lost.

use std::collections::VecDeque;

use dumbwaiter_block::{Errno, Event, Flags, Nanos, Op, RequestId, Scope, TaskId, Tenant, TenantId};
use dumbwaiter_controllers::IoLatency;
use dumbwaiter_controllers::io_latency::{DEVICE, Groups, NAME};
use dumbwaiter_controllers::kernel_timer::Jiffies;
use dumbwaiter_testkit::allocations::allocations;

use crate::world::{Job, World};

/// A device that serves one request at a time, each in a millisecond.
fn world(parents: &[Option<u32>]) -> World {
    World::new(Box::new(IoLatency::default()), parents, (1, Nanos::from_ms(1)))
}

fn target(world: &mut World, tenant: u32, us: i128) {
    world.layer.set_control(world.now, Scope::Tenant(TenantId(tenant)), NAME, us).unwrap();
}

/// Mean latency of a task in the next 10 s, ms, and how many I/Os of each task end in a second.
fn latency(world: &mut World, jobs: &[Job]) -> (f64, Vec<f64>) {
    let before = (world.latency_ns[0], world.ended[0]);
    let rates = world.run(jobs, Nanos::from_secs(10));
    let count = (world.ended[0] - before.1).max(1);
    ((world.latency_ns[0] - before.0) as f64 / count as f64 / 1e6, rates)
}

#[test]
fn a_reader_comes_near_its_target_and_its_neighbours_get_what_is_left() {
    let jobs = [Job::of(Op::Read, 4, 1), Job::of(Op::Write, 4, 64), Job::of(Op::Read, 4, 64)];
    let mut free = world(&[None; 3]);
    let (without, rates) = latency(&mut free, &jobs);
    assert!(without > 30.0 && rates[0] < 35.0, "32 requests are before each: {without} ms");
    assert_eq!(free.counter("io_latency_slept"), 0);
    free.drain();
    let mut device = world(&[None; 3]);
    target(&mut device, 0, 6_000);
    device.run(&jobs, Nanos::from_secs(5));
    let (with, rates) = latency(&mut device, &jobs);
    // Depths go in a sawtooth, halved from about 16 until the target is met, and then 16 more.
    assert!(with < 12.0, "{with} ms");
    assert!(rates[1] > 50.0 && rates[2] > 50.0 && rates.iter().sum::<f64>() > 990.0, "the device is busy: {rates:?}");
    assert!(device.counter("io_latency_slept") > 100);
    // Once nobody is protected they are as fast as before.
    target(&mut device, 0, 0);
    device.run(&jobs, Nanos::from_secs(1));
    let (again, _) = latency(&mut device, &jobs);
    assert!(again > 30.0, "{again} ms");
    device.drain();
}

#[test]
fn a_target_below_what_the_device_does_throttles_the_others_to_one() {
    let jobs = [Job::of(Op::Read, 4, 1), Job::of(Op::Read, 4, 64)];
    let mut device = world(&[None; 2]);
    target(&mut device, 0, 500);
    device.run(&jobs, Nanos::from_secs(10));
    let of = |device: &World, name: &str| {
        let mut found = None;
        let controller = device.layer.controller(NAME).unwrap();
        controller.counters(Scope::Tenant(TenantId(1)), &mut |counter, value| {
            if counter == name {
                found = Some(value);
            }
        });
        found.unwrap()
    };
    assert_eq!(of(&device, "io_latency_depth"), 1);
    assert!(of(&device, "io_latency_delays") > 3, "{}", of(&device, "io_latency_delays"));
    let (latency, rates) = latency(&mut device, &jobs);
    assert!((latency - 2.0).abs() < 0.2 && (rates[1] - 500.0).abs() < 20.0, "in turn: {latency} ms, {rates:?}");
    device.drain();
}

#[test]
fn an_io_allocates_nothing() {
    let mut groups = Groups::new(Jiffies::default(), 256, false);
    (0..1_000).for_each(|_| _ = groups.add(DEVICE));
    groups.set_target(1, Nanos::from_us(100), Nanos::ZERO);
    let (mut now, mut under_way) = (Nanos::ZERO, VecDeque::with_capacity(100_000));
    let (mut before, mut slept) = (0, 0);
    // The first misses its target, so that the others sleep more and more.
    for ios in 0..200_000_usize {
        before = if ios == 100_000 { allocations() } else { before };
        let group = if ios % 4 == 0 { 1 } else { 2 + ios % 7 };
        now += Nanos::from_us(50);
        if groups.timer().is_some_and(|at| at <= now) {
            groups.tick(now);
        }
        let id = RequestId::from(group as u32);
        if groups.under_way(group).1 < 20 {
            match groups.admit(group, id, false, now, &mut |id| under_way.push_back(id)) {
                true => under_way.push_back(id),
                false => slept += 1,
            }
        }
        while under_way.len() > 16 {
            let Some(done) = under_way.pop_front() else { break };
            groups.done(done.index(), Some(Nanos::from_ms(1)), now, &mut |id| under_way.push_back(id));
        }
    }
    assert!(slept > 10_000 && groups.depth(2) == Some(1), "{slept} slept");
    assert!(allocations() - before < 10, "{} allocations for 100,000 I/Os", allocations() - before);
}

#[test]
fn none_is_lost_whatever_changes_under_way() {
    let jobs =
        [Job::of(Op::Read, 4, 2), Job::of(Op::Write, 512, 8), Job::of(Op::Read, 64, 30), Job::of(Op::Write, 4, 20)];
    let mut device = world(&[None, Some(0), Some(1), None]);
    for round in 0..80_u32 {
        if device.layer.controller(NAME).is_some() {
            target(&mut device, round % 4, [300, 5_000, 0, 40_000][round as usize / 4 % 4]);
        } else {
            device.layer.add_controller(device.now, Box::new(IoLatency::default()));
        }
        device.submit(3, Op::Write, 4096, Flags::META);
        device.run(&jobs, Nanos::from_ms(970));
        let parent = |tenant: u32| Tenant { parent: Some(TenantId(tenant)), ..Tenant::default() };
        let now = device.now;
        match round % 8 {
            1 => device.layer.change_tenant(now, TenantId(3), parent(1)).unwrap(),
            2 => device.layer.change_tenant(now, TenantId(2), Tenant::default()).unwrap(),
            3 => device.layer.change_tenant(now, TenantId(2), parent(3)).unwrap(),
            4 => device.layer.abandon(now, TaskId(round % 4), Errno::EIO),
            5 => device.layer.change_tenant(now, TenantId(3), Tenant::default()).unwrap(),
            6 => device.layer.set_nr_requests(now, 16 + round),
            7 if round % 16 == 7 => device.layer.remove_controller(now, NAME),
            _ => device.layer.event(now, Event::RotationalChanged(round % 3 == 0)),
        }
    }
    device.drain();
}
