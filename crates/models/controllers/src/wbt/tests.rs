//! What is observable of the throttle: windows, steps, who sleeps and who goes.

use dumbwaiter_block::{
    Config, Context, Controller, Effects, Event, Flags, Nanos, Op, RequestId, Scope, Setup, TickClock, Traits,
};

use super::{Class, LATENCY, Throttle, Verdict, Wbt, class_of, limits};
use crate::kernel_timer::Jiffies;

fn throttle(depth: u32, target: Nanos, cache: bool) -> Throttle {
    let mut made = Throttle::new(Jiffies { clock: TickClock::HZ_250, offset: 0 }, depth, cache);
    made.set_target(target, Nanos::ZERO, &mut |_, _| {});
    made
}

/// A window in which a read takes `read`, and writes end.
fn run_window(t: &mut Throttle, read: Option<Nanos>, writes: u32) -> Verdict {
    t.admitted(Class::Writeback, t.timer().unwrap_or(Nanos::from_secs(9)));
    let at = t.timer().unwrap();
    if let Some(read) = read {
        t.ended(RequestId(1), Op::Read, Some(read), at);
    }
    for _ in 0..writes {
        t.ended(RequestId(2), Op::Write, Some(Nanos(1)), at);
    }
    let verdict = t.tick(at, &mut |_, _| {}).unwrap();
    t.freed(Class::Writeback, at, &mut |_, _| {});
    verdict
}

#[test]
fn four_bad_windows_leave_one_write_and_good_ones_give_the_room_back() {
    let mut t = throttle(256, Nanos::from_ms(2), true);
    for expected in [1, 2, 3, 4, 4] {
        assert_eq!(run_window(&mut t, Some(Nanos::from_ms(5)), 9), Verdict::Exceeded);
        assert_eq!(t.step(), expected);
    }
    assert_eq!(t.limits().max, 1);
    for expected in [3, 2, 1, 0, -1, -2, -3, -4, -4] {
        assert_eq!(run_window(&mut t, Some(Nanos::from_ms(1)), 9), Verdict::Ok);
        assert_eq!(t.step(), expected);
    }
    assert_eq!(t.limits().max, 192);
    assert_eq!(run_window(&mut t, Some(Nanos::from_ms(5)), 9), Verdict::Exceeded);
    assert_eq!(t.step(), 0, "one bad window takes all that was gained");
}

#[test]
fn few_writes_cannot_be_judged_and_a_read_that_does_not_return_is() {
    let mut t = throttle(256, Nanos::from_ms(2), true);
    assert_eq!(run_window(&mut t, Some(Nanos::from_ms(50)), 2), Verdict::WritesOnly);
    assert_eq!(t.step(), -1);
    t.started(RequestId(7), Op::Read, t.timer().unwrap_or(Nanos::ZERO));
    let since = t.timer().unwrap();
    assert_eq!(t.tick(since + Nanos::from_ms(3), &mut |_, _| {}), Some(Verdict::Exceeded));
}

#[test]
fn a_device_of_depth_two_stays_at_one_write() {
    let mut t = throttle(2, Nanos::from_ms(2), true);
    run_window(&mut t, Some(Nanos::from_ms(1)), 9);
    assert_eq!((t.step(), t.limits().max), (-1, 1));
    for read in [5, 1, 5] {
        run_window(&mut t, Some(Nanos::from_ms(read)), 9);
        assert_eq!((t.step(), t.limits().max), (-1, 1));
    }
}

#[test]
fn sleepers_go_in_their_order_at_the_low_marks() {
    // With a cache and no throttled dirtier, background writes go in bursts: 4, and 4 again once all are done.
    let mut t = throttle(256, Nanos::from_ms(2), true);
    let now = Nanos::from_secs(5);
    let admitted = (0..6).filter(|id| t.admit(RequestId(*id), Class::Writeback, Flags::BACKGROUND, now)).count();
    assert_eq!((admitted, t.held()), (4, 2));
    assert!(!t.admit(RequestId(9), Class::Writeback, Flags::SYNC, now), "it waits behind the head, though it could go");
    let mut went = Vec::new();
    for _ in 0..3 {
        t.freed(Class::Writeback, now, &mut |id, _| went.push(id.0));
        assert!(went.is_empty());
    }
    t.freed(Class::Writeback, now, &mut |id, _| went.push(id.0));
    assert_eq!(went, [4, 5, 9]);
    // Write-through: one at a time.
    let mut t = throttle(256, Nanos::from_ms(2), false);
    (0..6).for_each(|id| _ = t.admit(RequestId(id), Class::Writeback, Flags::BACKGROUND, now));
    let mut went = Vec::new();
    t.freed(Class::Writeback, now, &mut |id, _| went.push(id.0));
    assert_eq!(went, [4]);
}

#[test]
fn who_sleeps_goes_when_the_target_is_taken_away() {
    let mut t = throttle(256, Nanos::from_ms(2), true);
    (0..9).for_each(|id| _ = t.admit(RequestId(id), Class::Discard, Flags::NONE, Nanos::ZERO));
    assert_eq!(t.inflight(), 4);
    let mut went = Vec::new();
    t.set_target(Nanos::ZERO, Nanos::ZERO, &mut |id, _| went.push(id.0));
    assert_eq!((went, t.inflight()), (vec![4, 5, 6, 7, 8], 9));
    (0..9).for_each(|_| t.freed(Class::Discard, Nanos::ZERO, &mut |_, _| {}));
    assert_eq!(t.inflight(), 0);
}

#[test]
fn reads_and_direct_writes_are_not_counted() {
    assert_eq!(class_of(Op::Read, Flags::NONE), None);
    assert_eq!(class_of(Op::Write, Flags::SYNC.with(Flags::IDLE)), None);
    assert_eq!(class_of(Op::Write, Flags::SYNC), Some(Class::Writeback));
    assert_eq!(class_of(Op::Write, Flags::SWAP), Some(Class::Swap));
    assert_eq!(class_of(Op::WriteZeroes, Flags::NONE), None);
}

#[test]
fn flushes_are_no_writes_to_judge_by() {
    let mut t = throttle(256, Nanos::from_ms(2), true);
    t.admitted(Class::Writeback, Nanos::ZERO);
    let at = t.timer().unwrap();
    t.ended(RequestId(1), Op::Read, Some(Nanos::from_ms(9)), at);
    (0..3).for_each(|_| t.ended(RequestId(2), Op::Flush, Some(Nanos(1)), at));
    assert_eq!(t.tick(at, &mut |_, _| {}), Some(Verdict::WritesOnly));
}

#[test]
fn on_a_fast_device_a_target_of_a_disk_is_close_to_none() {
    // Windows are met until three quarters of the queue may be writes; then a read misses, and it begins again (W2).
    let mut t = throttle(128, Nanos::from_ms(75), true);
    let mut steps = Vec::new();
    for _ in 0..10 {
        let read = if t.limits().max >= 96 { 97 } else { 20 };
        run_window(&mut t, Some(Nanos::from_ms(read)), 9);
        steps.push(t.step());
    }
    assert_eq!(steps, [-1, -2, -3, 0, -1, -2, -3, 0, -1, -2]);
}

#[test]
fn an_idle_device_comes_back_to_step_0_in_five_windows_a_step() {
    let mut t = throttle(256, Nanos::from_ms(2), true);
    for _ in 0..3 {
        run_window(&mut t, None, 9);
    }
    assert_eq!(t.step(), -3);
    let mut windows = 0;
    while let Some(at) = t.timer() {
        assert_eq!(t.tick(at, &mut |_, _| {}), Some(Verdict::Unknown));
        windows += 1;
    }
    assert_eq!((t.step(), windows), (0, 15), "the timer stops at step 0 with nothing in flight (W3)");
}

#[test]
fn a_device_that_takes_one_request_is_throttled_once() {
    // W7: 2 writes at step 0 and -1, 1 at step 1, and there it stays.
    let mut t = throttle(1, Nanos::from_ms(2), true);
    let mut seen = Vec::new();
    for read in [1, 5, 5, 5, 1] {
        run_window(&mut t, Some(Nanos::from_ms(read)), 9);
        seen.push((t.step(), t.limits().max));
    }
    assert_eq!(seen, [(-1, 2), (0, 2), (1, 1), (1, 1), (0, 2)]);
}

#[test]
fn counts_stay_below_the_limit_and_the_order_holds_whatever_happens() {
    let mut chance = 7_u64;
    let mut draw = |of: u64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) % of
    };
    for depth in [1, 2, 8, 64, 256] {
        let mut t = throttle(depth, Nanos::from_ms(2), draw(2) == 0);
        let (mut now, mut counted, mut waiting, mut next) = (Nanos::ZERO, 0_u32, Vec::new(), 0);
        for _ in 0..20_000 {
            now += Nanos(draw(3_000_000));
            while let Some(at) = t.timer().filter(|at| *at <= now) {
                let mut went = Vec::new();
                t.tick(at, &mut |id, _| went.push(id.0));
                counted += went.len() as u32;
                assert_eq!(waiting.drain(..went.len()).collect::<Vec<_>>(), went, "in their order");
            }
            match draw(4) {
                0 | 1 => {
                    next += 1;
                    let flags = [Flags::BACKGROUND, Flags::NONE, Flags::SYNC][draw(3) as usize];
                    match t.admit(RequestId(next), Class::Writeback, flags, now) {
                        true => counted += 1,
                        false => waiting.push(next),
                    }
                }
                2 if counted > 0 => {
                    let read = Nanos(draw(4_000_000));
                    t.ended(RequestId(0), Op::Read, Some(read), now);
                    t.ended(RequestId(0), Op::Write, Some(Nanos(1)), now);
                    counted -= 1;
                    let mut went = Vec::new();
                    t.freed(Class::Writeback, now, &mut |id, _| went.push(id.0));
                    counted += went.len() as u32;
                    assert_eq!(waiting.drain(..went.len()).collect::<Vec<_>>(), went, "in their order");
                }
                3 => t.writer_paused(now),
                _ => {}
            }
            assert_eq!(t.inflight(), counted);
            assert!(waiting.is_empty() || counted > 0, "somebody sleeps and nothing is under way");
            let widest = (-4..=0).map(|step| limits(depth, step, true).0.max).max().unwrap();
            assert!(counted <= widest, "{counted} of {widest} at depth {depth}");
        }
    }
}

/// The value that `wbt_lat_usec` shows after it was set to `value` and then attached.
fn shown(value: Option<i128>, rotational: bool, traits: Traits) -> Option<i128> {
    attached(value, rotational, traits).get(Scope::Device, LATENCY)
}

fn attached(value: Option<i128>, rotational: bool, traits: Traits) -> Wbt {
    let mut wbt = Wbt::new();
    if let Some(value) = value {
        wbt.set(Scope::Device, LATENCY, value, Nanos::ZERO);
    }
    let (requests, tenants) = Default::default();
    let ctx = Context { now: Nanos::ZERO, requests: &requests, tenants: &tenants, busy: false };
    let setup = Setup { rotational, ..Setup::default() };
    let config = Config { setup, volatile_cache: true, ..Config::default() };
    wbt.attached(&config, &traits, &mut std::iter::empty(), &ctx);
    wbt
}

#[test]
fn a_setting_holds_whether_the_device_is_known_or_not() {
    let plain = Traits::default();
    let bfq = Traits { throttles_writeback: true, ..plain };
    for (value, on_flash, on_disk) in
        [(None, 2_000, 75_000), (Some(0), 0, 0), (Some(-1), 2_000, 75_000), (Some(5), 5, 5)]
    {
        assert_eq!(shown(value, false, plain), Some(on_flash), "{value:?} on flash");
        assert_eq!(shown(value, true, plain), Some(on_disk), "{value:?} on a disk");
    }
    assert_eq!(shown(None, false, bfq), Some(0), "bfq looks after reads itself");
    assert_eq!(shown(None, false, Traits { single_queue: true, ..plain }), Some(0));
    assert_eq!(shown(Some(5), false, bfq), Some(5), "what was set by hand stays");
}

#[test]
fn under_bfq_the_stored_value_changes_nothing_and_another_one_turns_it_on() {
    let mut wbt = attached(None, false, Traits { throttles_writeback: true, ..Traits::default() });
    wbt.set(Scope::Device, LATENCY, 2_000, Nanos::ZERO);
    assert_eq!(wbt.get(Scope::Device, LATENCY), Some(0));
    wbt.set(Scope::Device, LATENCY, 2_001, Nanos::ZERO);
    assert_eq!(wbt.get(Scope::Device, LATENCY), Some(2_001));
}

#[test]
fn detaching_bfq_turns_on_what_was_on_by_default_alone() {
    let (requests, tenants) = Default::default();
    let ctx = Context { now: Nanos::ZERO, requests: &requests, tenants: &tenants, busy: false };
    for (value, expected) in [(None, 2_000), (Some(0), 0)] {
        let mut wbt = attached(value, false, Traits { throttles_writeback: true, ..Traits::default() });
        wbt.exchanged(&Traits::default(), &ctx, &mut Effects::default());
        assert_eq!(wbt.get(Scope::Device, LATENCY), Some(expected), "{value:?}");
    }
    // The default is that of what the device is declared to be now.
    let mut wbt = attached(Some(5), false, Traits::default());
    wbt.event(Event::RotationalChanged(true), &ctx, &mut Effects::default());
    wbt.set(Scope::Device, LATENCY, -1, Nanos::ZERO);
    assert_eq!(wbt.get(Scope::Device, LATENCY), Some(75_000));
}
