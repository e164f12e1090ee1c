//! Who is throttled for whom, and how fast: the worked example of the specification, and its traps.

use super::*;

const MS: Nanos = Nanos::from_ms(1);
const TARGET_5_MS: Nanos = Nanos::from_ms(5);

/// Groups of which each gets an I/O in each millisecond that is done at once.
struct Load {
    groups: Groups,
    now: Nanos,
    /// Percent of the latencies of group 1 that miss 5 ms.
    missed: u64,
    turn: u64,
}

impl Load {
    /// As many groups beside each other; the first has a target of 5 ms.
    fn new(groups: usize) -> Load {
        let mut load =
            Load { groups: Groups::new(Jiffies::default(), 256, false), now: Nanos::ZERO, missed: 0, turn: 0 };
        (0..groups).for_each(|_| _ = load.groups.add(DEVICE));
        load.groups.set_target(1, TARGET_5_MS, Nanos::ZERO);
        load
    }

    /// An I/O of a group that goes at once and is done with this latency.
    fn io(&mut self, group: usize, latency: Nanos) {
        let none = &mut |_| panic!("nobody sleeps");
        assert!(self.groups.admit(group, RequestId(0), false, self.now, none));
        self.groups.done(group, Some(latency), self.now, none);
    }

    /// One of each group after every millisecond of this time. What becomes of the depth of the last group, with the time.
    fn run(&mut self, time: Nanos) -> Vec<(Nanos, Option<u32>)> {
        let last = self.groups.count() - 1;
        let (until, mut depths) = (self.now + time, vec![(self.now, self.groups.depth(last))]);
        while self.now < until {
            self.now += MS;
            while self.groups.timer().is_some_and(|at| at <= self.now) {
                self.groups.tick(self.now);
            }
            self.turn += 1;
            // 12 of each 100 in a row would be as good.
            let latency = if self.turn * self.missed % 100 < self.missed { TARGET_5_MS } else { MS };
            self.io(1, latency);
            (2..=last).for_each(|group| self.io(group, MS));
            if self.groups.depth(last) != depths[depths.len() - 1].1 {
                depths.push((self.now, self.groups.depth(last)));
            }
        }
        depths
    }
}

#[test]
fn a_neighbour_is_halved_each_half_second_and_recovers_in_small_steps() {
    let mut load = Load::new(2);
    load.missed = 12;
    let depths: Vec<_> = load.run(Nanos::from_ms(3_650)).into_iter().map(|(_, depth)| depth.unwrap_or(0)).collect();
    assert_eq!(depths, [0, 128, 64, 32, 16, 8, 4, 2, 1], "L1");
    assert_eq!(load.groups.cookie(DEVICE), UNTHROTTLED - 323);
    assert_eq!(load.groups.depth(1), None, "it is not throttled by itself");
    load.run(Nanos::from_ms(1_000));
    assert_eq!((load.groups.depth(2), load.groups.delays(2)), (Some(1), 2), "it cannot be less deep");
    // At first the delays go, then 16 more with each change. 325 below are 69 changes by one and 16 by sixteen.
    load.missed = 0;
    let begin = load.now;
    let depths = load.run(Nanos::from_secs(60));
    let at = |depth: Option<u32>| depths.iter().find(|(_, d)| *d == depth).map(|(at, _)| at.since(begin).as_secs_f64());
    let [whole, free] = [at(Some(256)), at(None)].map(Option::unwrap);
    assert!((8.0..10.5).contains(&whole), "as deep as the queue after {whole} s");
    assert!((41.5..44.5).contains(&free), "unlimited after {free} s");
    assert_eq!((load.groups.cookie(DEVICE), load.groups.delays(2)), (UNTHROTTLED, 0));
}

#[test]
fn nobody_is_slowed_while_targets_are_met_and_those_with_smaller_ones_never() {
    let mut load = Load::new(4);
    load.groups.set_target(2, Nanos::from_ms(2), Nanos::ZERO);
    load.groups.set_target(3, Nanos::from_ms(50), Nanos::ZERO);
    load.missed = 9;
    load.run(Nanos::from_secs(3));
    assert_eq!([2, 3, 4].map(|group| load.groups.depth(group)), [None; 3], "9 of 100 may miss");
    load.missed = 12;
    load.run(Nanos::from_secs(3));
    assert_eq!((load.groups.depth(1), load.groups.depth(2)), (None, None));
    assert!([3, 4].iter().all(|group| load.groups.depth(*group).is_some_and(|depth| depth < 16)));
}

#[test]
fn a_group_with_a_target_and_few_ios_is_not_in_the_way() {
    let mut load = Load::new(2);
    load.groups.set_target(2, Nanos::from_ms(50), Nanos::ZERO);
    let idle = load.groups.add(DEVICE);
    load.groups.set_target(idle, Nanos::from_ms(50), Nanos::ZERO);
    load.missed = 12;
    // The second is judged every 16 targets, 800 ms. Nothing of the third is, as it does nothing but ask.
    let none = &mut |_| panic!("nobody sleeps");
    for _ in 0..4_000 {
        load.now += MS;
        load.turn += 1;
        let latency = if load.turn * 12 % 100 < 12 { TARGET_5_MS } else { MS };
        load.io(1, latency);
        load.io(2, MS);
        assert!(load.groups.admit(idle, RequestId(0), false, load.now, none));
        load.groups.done(idle, None, load.now, none);
    }
    assert!(load.groups.depth(2).is_some_and(|depth| depth < 16));
    assert_eq!(load.groups.depth(idle), None);
}

#[test]
fn groups_in_another_group_are_not_touched() {
    let mut load = Load::new(2);
    let cousin = load.groups.add(2);
    load.missed = 12;
    for _ in 0..3_000 {
        load.now += MS;
        load.turn += 1;
        let latency = if load.turn * 12 % 100 < 12 { TARGET_5_MS } else { MS };
        load.io(1, latency);
        load.io(cousin, MS);
    }
    assert_eq!(load.groups.depth(cousin), None);
    assert!(load.groups.depth(2).is_some_and(|depth| depth < 16), "the group around it is");
}

#[test]
fn depths_stay_as_they_are_without_ios_and_a_target_that_nobody_meets_is_forgotten() {
    let mut load = Load::new(2);
    load.missed = 50;
    load.run(Nanos::from_secs(4));
    assert_eq!(load.groups.depth(2), Some(1));
    // Group 1 stops. Five seconds later nobody is protected, and the cookie rises by a step in a second.
    let begin = load.now;
    let mut free = None;
    while free.is_none() && load.now < begin + Nanos::from_secs(200) {
        load.now += MS;
        while load.groups.timer().is_some_and(|at| at <= load.now) {
            load.groups.tick(load.now);
        }
        load.io(2, MS);
        free = load.groups.depth(2).is_none().then_some(load.now);
    }
    let after = free.unwrap().since(begin).as_secs_f64();
    // 67 steps by one and 16 by sixteen, each a second that is late by up to 8 ticks.
    assert!((86.0..94.0).contains(&after), "{after} s");
}

#[test]
fn sleepers_go_in_their_order_one_for_each_that_is_done() {
    let mut load = Load::new(2);
    load.missed = 12;
    load.run(Nanos::from_ms(2_650));
    assert_eq!(load.groups.depth(2), Some(4));
    let mut woken = Vec::new();
    let asked: Vec<bool> =
        (0..10).map(|id| load.groups.admit(2, RequestId(id), false, load.now, &mut |id| woken.push(id.0))).collect();
    assert_eq!(asked.iter().filter(|goes| **goes).count(), 4);
    assert!(load.groups.admit(2, RequestId(99), true, load.now, &mut |_| {}), "one that is urgent does not sleep");
    load.groups.done(2, Some(MS), load.now, &mut |id| woken.push(id.0));
    assert_eq!(woken, [] as [u32; 0], "the urgent one has its slot");
    for done in 0..6 {
        load.groups.done(2, Some(MS), load.now, &mut |id| woken.push(id.0));
        assert_eq!(woken.len(), done + 1);
    }
    assert_eq!(woken, [4, 5, 6, 7, 8, 9]);
    assert_eq!(load.groups.under_way(2), (4, 0));
    // Unthrottled, all go.
    (10..20).for_each(|id| _ = load.groups.admit(2, RequestId(id), false, load.now, &mut |id| woken.push(id.0)));
    load.groups.set_target(1, Nanos::ZERO, load.now);
    assert!(load.groups.admit(2, RequestId(20), false, load.now, &mut |id| woken.push(id.0)));
    assert_eq!(woken[6..], (10..20).collect::<Vec<_>>()[..]);
    assert_eq!(load.groups.under_way(2), (15, 0));
}
