//! io.max before a scheduler: the rates of recordings, pieces of split I/Os, changes under way, and none lost.

use dumbwaiter_block::{Errno, Flags, Handover, Nanos, Op, Scheduler, Scope, Stack, TaskId, Tenant, TenantId};
use dumbwaiter_controllers::IoMax;
use dumbwaiter_controllers::io_max::{NAME, Release};
use dumbwaiter_testkit::Fifo;

use crate::world::{Job, World, near};

const BOTH: [Release; 2] = [Release::V6_12, Release::V6_18];
/// As the recordings' device: 32 at once, each in 200 us whatever its size.
fn before_device(release: Release, parents: &[Option<u32>]) -> World {
    World::new(Box::new(IoMax::new(release)), parents, (32, Nanos::from_us(200)))
}

/// I/Os in a second of a task behind these limits.
fn rate(release: Release, limits: &[(&str, i128)], job: Job, time: Nanos) -> f64 {
    let mut world = before_device(release, &[None]);
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
        let mut world = before_device(release, &[None, None, None]);
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
        let mut world = before_device(release, &[None, Some(0), Some(0)]);
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
            let mut world = before_device(release, &[None]);
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
        let mut world = before_device(release, &[None]);
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
        let mut world = before_device(release, &[None, Some(0), Some(1), None]);
        for round in 0..40_i128 {
            let names = ["rbps", "wbps", "riops", "wiops"];
            let value = [1 << 18, 1 << 20, 20, 300, i128::from(u64::MAX)][round as usize % 5];
            if world.layer.controller(NAME).is_some() {
                world.limit(round as u32 % 4, names[round as usize % 4], (value + round).min(u64::MAX.into()));
            }
            world.run(&jobs, Nanos::from_ms(230));
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
    let mut world = before_device(Release::V6_12, &[None]);
    let mut set = |value| world.layer.set_control(Nanos::ZERO, Scope::Tenant(TenantId(0)), "riops", value).is_ok();
    assert_eq!((set(0), set(1), set(2), set(u64::MAX.into())), (false, false, true, true), "6.12 refuses 1");
    let mut newer = before_device(Release::V6_18, &[None]);
    let mut set = |value| newer.layer.set_control(Nanos::ZERO, Scope::Tenant(TenantId(0)), "wbps", value).is_ok();
    assert_eq!((set(0), set(1)), (false, true));
    let io_max = newer.layer.controller(NAME).unwrap();
    let get = |tenant, name| io_max.get(Scope::Tenant(TenantId(tenant)), name);
    assert_eq!(
        (get(0, "wbps"), get(0, "rbps"), get(9, "rbps")),
        (Some(1), Some(u64::MAX.into()), Some(u64::MAX.into()))
    );
    assert_eq!(get(0, "iops"), None);
}
