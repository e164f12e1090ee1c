//! What is observable of the throttle: windows, steps, who sleeps and who goes.

use dumbwaiter_block::{Flags, Nanos, Op, RequestId, TickClock};

use super::{Class, Throttle, Verdict, class_of};
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
