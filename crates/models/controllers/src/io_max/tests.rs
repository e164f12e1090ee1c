//! What is observable of limits: who goes at which tick (HZ 250, so that a slice is 25 ticks).

use std::collections::BTreeMap;

use dumbwaiter_block::{Dir, Nanos, TickClock};
use proptest::prelude::*;

use super::{Bio, DEVICE, Groups, Rates, Release, Slices};
use crate::kernel_timer::Jiffies;

const BOTH: [Release; 2] = [Release::V6_12, Release::V6_18];

fn rates(bytes: Option<u64>, ios: Option<u64>) -> Rates {
    Rates { bytes, ios }
}

/// Ticks at which I/Os of this size go that are all there from tick 0, by the arithmetic alone: the next is looked at when its
/// wait is over.
fn by_arithmetic(release: Release, rates: Rates, size: u64, until: i64) -> Vec<i64> {
    let mut slices = Slices::new(release, 250, rates);
    let (mut found, mut now) = (Vec::new(), 0);
    while now < until {
        slices.refresh(now, now > 0);
        let wait = slices.wait_for_bytes(now, size).max(slices.wait_for_io(now));
        if wait > 0 {
            slices.refused(now, wait);
            now += wait;
            continue;
        }
        slices.charge_bytes(size);
        slices.charge_io();
        slices.trim(now);
        found.push(now);
    }
    found
}

/// How many of `found` went at each tick at which any did.
fn each(found: &[i64]) -> Vec<(i64, usize)> {
    found.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect()
}

#[test]
fn a_slice_goes_at_its_first_tick() {
    for release in BOTH {
        let found = by_arithmetic(release, rates(None, Some(100)), 4096, 100);
        assert_eq!(each(&found), [(0, 10), (25, 10), (50, 10), (75, 10)], "{release:?} (M1)");
    }
}

#[test]
fn bytes_beyond_a_slice_wait_until_they_are_allowed() {
    let found = by_arithmetic(Release::V6_12, rates(Some(2 << 20), None), 4096, 127);
    assert_eq!(each(&found), [(0, 51), (26, 51), (51, 51), (76, 51), (101, 51), (126, 52)], "M2");
    let found = by_arithmetic(Release::V6_12, rates(Some(1 << 20), None), 512 << 10, 300);
    assert_eq!(found, [125, 250], "M2, large I/Os");
    let found = by_arithmetic(Release::V6_18, rates(Some(1 << 20), None), 512 << 10, 510);
    assert_eq!(found, [125, 251, 376, 501], "M2, large I/Os");
}

#[test]
fn fewer_than_ten_a_second_are_exceeded_by_the_newer_kernel() {
    assert_eq!(by_arithmetic(Release::V6_12, rates(None, Some(7)), 4096, 260), [36, 108, 144, 180, 252], "M3");
    let found = by_arithmetic(Release::V6_18, rates(None, Some(7)), 4096, 150);
    assert_eq!(each(&found), [(36, 1), (72, 2), (108, 1), (144, 2)], "M3");
}

/// A load on groups side by side.
struct Load {
    groups: Groups,
    now: Nanos,
    /// Token and tick of those that went on, in their order.
    went: Vec<(u64, i64)>,
    next: u64,
}

/// Two groups in group 1.
fn nested(release: Release, around: [Rates; 2], inside: [[Rates; 2]; 2]) -> Load {
    let mut load = Load::new(release, &[around]);
    inside.into_iter().for_each(|rates| _ = load.groups.add(1, rates));
    load
}

const HZ_250: Jiffies = Jiffies { clock: TickClock::HZ_250, offset: 0 };

impl Load {
    fn new(release: Release, limits: &[[Rates; 2]]) -> Load {
        let mut groups = Groups::new(release, HZ_250);
        for rates in limits {
            groups.add(DEVICE, *rates);
        }
        Load { groups, now: Nanos::ZERO, went: Vec::new(), next: 0 }
    }

    fn submit(&mut self, group: usize, dir: Dir, bytes: u64) -> bool {
        self.bio(group, dir, Bio { bytes, ..Bio::default() })
    }

    fn rest(&mut self, group: usize, dir: Dir) -> bool {
        self.bio(group, dir, Bio { rest: true, ..Bio::default() })
    }

    fn bio(&mut self, group: usize, dir: Dir, bio: Bio) -> bool {
        let bio = Bio { token: self.next, ..bio };
        self.next += 1;
        let passes = self.groups.submit(group, dir, bio, self.now);
        if passes {
            self.went.push((bio.token, HZ_250.at(self.now)));
        }
        passes
    }

    fn run_to(&mut self, to: Nanos) {
        while let Some(at) = self.groups.timer().filter(|at| *at <= to) {
            let tick = HZ_250.at(at);
            self.groups.tick(at, &mut |bio| self.went.push((bio.token, tick)));
        }
        self.now = to;
    }
}

#[test]
fn over_any_time_no_more_goes_than_its_slices_and_one_io() {
    for release in BOTH {
        for limits in [rates(None, Some(100)), rates(Some(1 << 20), None), rates(Some(1 << 20), Some(300))] {
            let mut load = Load::new(release, &[[limits; 2]]);
            for round in 0..2_000_u64 {
                let sizes = [4096, 65536, 4096, 16384];
                if round % 200 < 150 {
                    load.submit(1, Dir::Read, sizes[round as usize % 4]);
                }
                load.run_to(load.now + Nanos::from_ms(2));
            }
            let extra = if release == Release::V6_12 { 1 } else { 2 };
            for (first, (_, from)) in load.went.iter().enumerate() {
                for slices in [1, 4, 10] {
                    let inside = load.went[first..].iter().filter(|(_, tick)| *tick < from + 25 * slices);
                    let ios = inside.clone().count() as u64;
                    let bytes: u64 = inside.map(|(token, _)| [4096, 65536, 4096, 16384][*token as usize % 4]).sum();
                    let slices = slices as u64 + extra;
                    assert!(limits.ios.is_none_or(|rate| ios <= rate * slices / 10 + 1), "{release:?}: {ios}");
                    assert!(
                        limits.bytes.is_none_or(|rate| bytes <= rate * slices / 10 + 65536),
                        "{release:?}: {bytes}"
                    );
                }
            }
            assert!(load.went.len() > 100, "{release:?}: {}", load.went.len());
        }
    }
}

#[test]
fn a_direction_keeps_its_order_and_the_other_does_not_wait_for_it() {
    for release in BOTH {
        let mut load = Load::new(release, &[[rates(None, Some(50)), Rates::default()], Default::default()]);
        (0..60).for_each(|_| _ = load.submit(1, Dir::Read, 4096));
        assert!(load.submit(1, Dir::Write, 1 << 20), "writes have no limit");
        assert!(load.submit(2, Dir::Read, 1 << 20), "nor has the other group");
        load.run_to(Nanos::from_secs(2));
        let reads: Vec<u64> = load.went.iter().map(|(token, _)| *token).filter(|token| *token < 60).collect();
        assert_eq!(reads, (0..60).collect::<Vec<_>>(), "{release:?}");
    }
}

#[test]
fn a_change_of_the_limit_delays_nobody_beyond_the_later_of_both() {
    for release in BOTH {
        for (before, after) in [(200, 800), (800, 100), (100, 100)] {
            let with = |ios| [[rates(None, Some(ios)), Rates::default()]];
            let due = |ios: u64| {
                let mut load = Load::new(release, &with(ios));
                (0..120).for_each(|_| _ = load.submit(1, Dir::Read, 4096));
                load.run_to(Nanos::from_secs(3));
                load.went.iter().map(|(_, tick)| *tick).collect::<Vec<_>>()
            };
            let mut load = Load::new(release, &with(before));
            (0..120).for_each(|_| _ = load.submit(1, Dir::Read, 4096));
            load.run_to(Nanos::from_ms(150));
            load.groups.set(1, with(after)[0], load.now);
            load.run_to(Nanos::from_secs(3));
            assert_eq!(load.went.len(), 120);
            for ((_, tick), (old, new)) in load.went.iter().zip(due(before).into_iter().zip(due(after))) {
                // The slices of the new limit begin with the change: one of them may be new.
                assert!(*tick <= old.max(new) + 26, "{release:?} {before} to {after}: {tick}, {old} and {new}");
            }
        }
    }
}

#[test]
fn each_piece_of_a_split_io_counts_as_one_and_its_bytes_once() {
    for release in BOTH {
        // 512 KiB on a device that takes 128 KiB: four I/Os, so 25 of these in a second at 100.
        let mut load = Load::new(release, &[[Rates::default(), rates(None, Some(100))]]);
        for _ in 0..75 {
            load.submit(1, Dir::Write, 512 << 10);
            (0..3).for_each(|_| _ = load.rest(1, Dir::Write));
        }
        load.run_to(Nanos::from_secs(2));
        let pieces = load.went.len();
        assert!((200..=220).contains(&pieces), "{release:?}: {pieces} pieces in two seconds");
        // Rests add no bytes.
        let mut load = Load::new(release, &[[Rates::default(), rates(Some(4 << 20), None)]]);
        assert!(load.submit(1, Dir::Write, 256 << 10));
        assert!((0..100).all(|_| load.rest(1, Dir::Write)), "{release:?}");
    }
}

#[test]
fn groups_in_one_take_turns_by_io_and_not_by_byte() {
    // M4: 4 MiB/s over x (300 I/Os of 4 KiB a second at most) and y (16 KiB), both of depth 8. A turn is 20 KiB, so 210 in a second.
    for release in BOTH {
        let [reads, none] = [rates(Some(4 << 20), None), Rates::default()];
        let mut load = nested(release, [reads, none], [[rates(None, Some(300)), none], [none, none]]);
        let mut groups: BTreeMap<u64, usize> = BTreeMap::new();
        let (mut outstanding, mut ended) = ([0_usize; 4], [0_u64; 4]);
        let mut seen = 0;
        while load.now < Nanos::from_secs(10) {
            while let Some(group) = [2, 3].into_iter().min_by_key(|group| outstanding[*group])
                && outstanding[group] < 8
            {
                groups.insert(load.next, group);
                load.submit(group, Dir::Read, if group == 2 { 4 << 10 } else { 16 << 10 });
                outstanding[group] += 1;
            }
            // What went is served in 200 us.
            load.run_to(load.now + Nanos::from_us(200));
            for (token, _) in &load.went[seen..] {
                outstanding[groups[token]] -= 1;
                ended[groups[token]] += 1;
            }
            seen = load.went.len();
        }
        let [x, y] = [ended[2] / 10, ended[3] / 10];
        assert!((200..=216).contains(&x) && (200..=216).contains(&y), "{release:?}: x {x}/s, y {y}/s");
    }
}

#[test]
fn a_slice_that_is_over_begins_as_early_as_that_inside() {
    for release in BOTH {
        let mut around = Slices::new(release, 250, rates(None, Some(100)));
        around.refresh(0, false);
        (0..10).for_each(|_| around.charge_io());
        around.credit(-3, 20);
        assert!(around.start() == 0 && around.wait_for_io(20) > 0, "{release:?}: it is not over");
        around.credit(1_010, 1_036);
        // Two slices have begun since: twenty I/Os.
        let mut went = 0;
        while around.wait_for_io(1_036) == 0 {
            around.charge_io();
            went += 1;
        }
        assert_eq!((around.start(), went), (1_010, 20), "{release:?}");
        around.credit(900, 2_000);
        assert_eq!(around.start(), 1_010, "{release:?}: one inside that began before counts for nothing");
    }
}

#[test]
fn sources_that_wait_take_turns_whatever_came_first() {
    for release in BOTH {
        let mut load = nested(release, [rates(None, Some(100)); 2], Default::default());
        // Twenty of one group, then of the group around both, then of the other.
        let came = [2, 1, 3].map(|group| [group; 20]).concat();
        came.iter().for_each(|group| _ = load.submit(*group, Dir::Write, 4096));
        load.run_to(Nanos::from_secs(2));
        let went: Vec<usize> = load.went.iter().map(|(token, _)| came[*token as usize]).collect();
        assert_eq!(went[..10], [2; 10], "{release:?}: a slice went at once");
        assert_eq!(went[10..40], [[2, 1, 3]; 10].concat()[..], "{release:?}");
        assert_eq!(went[40..], [[1, 3]; 10].concat()[..], "{release:?}");
    }
}

#[test]
fn what_goes_away_leaves_no_trace() {
    for release in BOTH {
        let mut load = nested(release, [rates(None, Some(10)); 2], [[rates(None, Some(20)); 2]; 2]);
        let waits: Vec<u64> = (0..12).filter(|n| !load.submit([1, 2, 3][*n as usize % 3], Dir::Read, 4096)).collect();
        assert_eq!(waits.len(), 11, "{release:?}: one goes in a slice");
        load.run_to(Nanos::from_ms(50));
        waits.iter().for_each(|token| load.groups.abandon(Dir::Read, *token, load.now));
        assert_eq!([1, 2, 3].map(|group| load.groups.waiting(group)), [0; 3], "{release:?}");
        assert_eq!(load.groups.timer(), None, "{release:?}");
        load.run_to(Nanos::from_secs(1));
        assert_eq!(load.went.len(), 1);
        assert!(load.submit(3, Dir::Read, 4096) && !load.submit(2, Dir::Read, 4096), "{release:?}: as from the start");
        load.run_to(Nanos::from_secs(2));
        assert_eq!(load.went.len(), 3);
    }
}

/// I/Os of two groups in one: after how many 100 us the next comes, of which group, and its KiB.
fn of_two_groups() -> impl Strategy<Value = Vec<(u64, usize, u64)>> {
    proptest::collection::vec((0_u64..60, 2_usize..4, prop_oneof![Just(4_u64), Just(16), Just(64)]), 100..600)
}

proptest! {
    #[test]
    fn groups_in_one_get_no_more_than_it_has_and_each_keeps_its_order(
        ios in of_two_groups(),
        rate in prop_oneof![Just(rates(Some(2 << 20), None)), Just(rates(None, Some(200))), Just(rates(Some(1 << 20), Some(90)))],
        inner in prop_oneof![Just(Rates::default()), Just(rates(None, Some(120))), Just(rates(Some(3 << 19), None))],
        newer in any::<bool>(),
    ) {
        let release = BOTH[usize::from(newer)];
        let mut load = nested(release, [rate; 2], [[inner; 2], [Rates::default(); 2]]);
        for (after, group, kib) in &ios {
            load.run_to(load.now + Nanos::from_us(100 * after));
            load.submit(*group, Dir::Read, kib << 10);
        }
        load.run_to(load.now + Nanos::from_secs(600));
        for group in [2, 3] {
            let tokens = load.went.iter().map(|(token, _)| *token).filter(|token| ios[*token as usize].1 == group);
            let expected = (0..ios.len() as u64).filter(|token| ios[*token as usize].1 == group);
            prop_assert!(tokens.eq(expected), "group {} goes whole and in its order", group);
        }
        // Of what comes by a timer the account may begin as early as that inside: a slice more.
        let extra = if newer { 3 } else { 2 };
        for (first, (_, from)) in load.went.iter().enumerate() {
            for slices in [1, 3, 10] {
                let inside = load.went[first..].iter().take_while(|(_, tick)| *tick < from + 25 * slices);
                let bytes: u64 = inside.clone().map(|(token, _)| ios[*token as usize].2 << 10).sum();
                let slices = slices as u64 + extra;
                let count = inside.count() as u64;
                prop_assert!(rate.ios.is_none_or(|rate| count <= rate * slices / 10 + 1), "{} I/Os", count);
                prop_assert!(rate.bytes.is_none_or(|rate| bytes <= rate * slices / 10 + 65536), "{} bytes", bytes);
            }
        }
    }
}

#[test]
fn without_limits_around_it_a_group_never_waits() {
    for release in BOTH {
        let mut load = Load::new(release, &[[rates(None, Some(1)); 2], Default::default()]);
        let inside = load.groups.add(2, Default::default());
        (0..1000).for_each(|_| assert!(load.submit(inside, Dir::Write, 1 << 20)));
        assert_eq!(load.groups.timer(), None);
    }
}

#[test]
fn urgent_ios_go_at_once_and_later_ones_pay_for_them() {
    for release in BOTH {
        let gone_by = |urgent: bool| {
            let mut load = Load::new(release, &[[rates(None, Some(100)); 2]]);
            (0..30).for_each(|_| assert!(!urgent || load.bio(1, Dir::Read, Bio { urgent, ..Bio::default() })));
            (0..100).for_each(|_| _ = load.submit(1, Dir::Read, 4096));
            load.run_to(Nanos::from_ms(550));
            load.went.len()
        };
        // 30 are three slices' worth.
        assert_eq!((gone_by(false), gone_by(true)), (60, 60), "{release:?}");
    }
}
