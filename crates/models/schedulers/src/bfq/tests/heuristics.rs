//! Idling, raising, bursts, soft real-time; and random workloads that must not upset the counters.

use dumbwaiter_block::{Flags, IoClass, Ioprio, Nanos, Op, Scheduler};
use proptest::prelude::*;

use super::lab::{Client, Lab};
use super::{Bfq, FAR, GENERATIONS, Generation, close, lab, level, prio, reader, settled};

/// Nanoseconds that the device is kept idle for a reader that stops, beside another that reads on.
fn waited(generation: Generation, like: Client, set: &[(&str, i128)]) -> u64 {
    let mut lab = Lab::fifo(|setup| Bfq::new(setup, generation), 1).set("merging", 0).set("injection", 0);
    for (name, value) in set {
        lab = lab.set(name, *value);
    }
    lab.add(Client { stop: Nanos::from_ms(1500), ..like });
    lab.add(Client { depth: 4, ..reader(9, level(0)) });
    lab.run(Nanos::from_secs(4));
    let last = lab.done.iter().rev().find(|d| d.0 == 0).unwrap().1;
    lab.sent.iter().find(|s| s.client == 1 && s.at >= last).unwrap().at.since(last).0
}

#[test]
fn the_wait_is_as_long_as_the_settings_say() {
    let plain = [("low_latency", 0), ("timeout_sync", 10_000)];
    for generation in GENERATIONS {
        assert_eq!(waited(generation, reader(0, level(1)), &plain), 8_000_000, "{generation:?}");
        let short = [("low_latency", 0), ("timeout_sync", 10_000), ("slice_idle_us", 3210)];
        assert_eq!(waited(generation, reader(0, level(1)), &short), 3_210_000, "{generation:?}");
    }
    // The other one has weight 80, so it is not raised.
    assert_eq!(waited(Generation::Mainline, reader(0, level(4)), &[("slice_idle", 8)]), 20_000_000);
}

/// The device is idle with requests queued only while it idles for a queue.
#[test]
fn idle_only_to_wait() {
    for generation in GENERATIONS {
        let mut lab = lab(generation, 1);
        for p in 0..3 {
            lab.add(Client { think: Nanos::from_ms(u64::from(p) * 3), ..reader(u64::from(p), level(2 * p)) });
        }
        for ms in 1..5000 {
            lab.run(Nanos::from_ms(ms));
            let idle = lab.scheduler.device.in_driver == 0 && lab.scheduler.has_work(0);
            assert!(!idle || lab.scheduler.slot.idle_until.is_some(), "{generation:?} at {ms} ms");
        }
    }
}

/// A new reader beside one that was there before, of the same weight: most of the device for a while, then half.
fn raised(generation: Generation, ioprio: Ioprio) -> Lab {
    let mut lab = Lab::fifo(|setup| Bfq::new(setup, generation), 32).set("merging", 0).set("bursts", 0);
    lab.add(reader(0, ioprio));
    lab.add(Client { start: Nanos::from_secs(40), ..reader(5, ioprio) });
    lab.run(Nanos::from_secs(90));
    lab
}

#[test]
fn a_new_reader_is_raised_for_so_many_sectors_or_so_long() {
    let share = |lab: &Lab, from: f64, to: f64| {
        let at = |s: f64| Nanos::from_ms((s * 1000.0) as u64);
        lab.shares(at(40.0 + from), at(40.0 + to))[1]
    };
    // 120,000 sectors take 3.9 s and at 31 MB/s a few slots more.
    let mainline = raised(Generation::Mainline, level(4));
    assert!(share(&mainline, 0.2, 3.0) >= 0.93, "{}", share(&mainline, 0.2, 3.0));
    close(share(&mainline, 8.0, 40.0), 0.5, 0.02, "afterwards");
    let own: u64 = mainline
        .sent
        .iter()
        .filter(|s| s.client == 1 && s.at < Nanos::from_secs(44))
        .map(|s| u64::from(s.sectors))
        .sum();
    assert!(own > 100_000, "{own}");
    let other = raised(Generation::Mainline, level(0));
    close(share(&other, 0.5, 3.0), 0.5, 0.06, "only the default weight is raised");
    let v7r8 = raised(Generation::V7r8, level(4));
    close(share(&v7r8, 0.3, 1.8), 20.0 / 21.0, 0.05, "v7r8");
    close(share(&v7r8, 15.0, 45.0), 0.5, 0.02, "v7r8 afterwards");
    let v1 = raised(Generation::V1, level(4));
    let (first, later) = (share(&v1, 0.0, 0.6), share(&v1, 1.2, 1.9));
    assert!(first > later && later > 0.52, "v1: {first:.3}, then {later:.3}");
    close(share(&v1, 6.0, 30.0), 0.5, 0.02, "v1 afterwards");
    let original = raised(Generation::Original, level(4));
    assert!(share(&original, 0.5, 10.0) < 0.55, "original: {}", share(&original, 0.5, 10.0));
}

#[test]
fn switching_low_latency_off_ends_all_raises() {
    let mut lab =
        Lab::fifo(|setup| Bfq::new(setup, Generation::Mainline), 32).set("merging", 0).set("raise_sectors", 0);
    lab.add(reader(0, level(0)));
    lab.add(Client { start: Nanos::from_ms(500), ..reader(1, level(4)) });
    lab.run(Nanos::from_secs(2));
    assert!(lab.scheduler.counts.raised > 0);
    lab = lab.set("low_latency", 0);
    assert_eq!(lab.scheduler.counts.raised, 0);
    lab.run(Nanos::from_secs(40));
    close(lab.shares(Nanos::from_secs(3), Nanos::MAX)[1], 1.0 / 3.0, 0.02, "weight 40 of 120");
}

#[test]
fn a_large_burst_is_not_raised() {
    for (generation, large, apart) in [(Generation::Mainline, 8, 20), (Generation::V7r8, 11, 40)] {
        for n in [large - 1, large] {
            let mut lab = Lab::disk(|setup| Bfq::new(setup, generation)).set("merging", 0);
            for i in 0..n {
                let start = Nanos::from_ms(1000 + apart * i);
                lab.add(Client { sectors: 8, depth: 1, start, stop: start + Nanos::from_ms(1), ..reader(i, level(4)) });
            }
            lab.run(Nanos::from_ms(1000 + apart * n + 5));
            let raised = lab.scheduler.queues.live().filter(|(_, q)| q.raise.coeff > 1).count() as u64;
            let marked = lab.scheduler.queues.live().filter(|(_, q)| q.large_burst).count() as u64;
            assert_eq!(marked, if n < large { 0 } else { n }, "{generation:?}, {n} queues");
            assert!(if n < large { raised == n } else { raised < n }, "{generation:?}, {n} queues: {raised} raised");
        }
    }
}

#[test]
fn little_and_steady_is_soft_realtime_and_greed_is_not() {
    // v7r8 waits for the raised queue for three slices of 8 ms, and counts 24 ms from then.
    for (generation, think) in [(Generation::V7r8, 80), (Generation::Mainline, 46)] {
        let mut lab = Lab::fifo(|setup| Bfq::new(setup, generation), 1).set("merging", 0);
        lab.add(Client { think: Nanos::from_ms(think), ..reader(0, level(4)) });
        lab.add(reader(1, level(4)));
        lab.run(Nanos::from_secs(60));
        let (mut steady, mut greedy) = (0, 0);
        for ms in 60_000..61_000 {
            lab.run(Nanos::from_ms(ms));
            steady += u32::from(lab.scheduler.queues[0].raise.soft_rt);
            greedy += u32::from(lab.scheduler.queues[1].raise.soft_rt);
        }
        assert!(steady > 800 && greedy == 0, "{generation:?}: soft realtime for {steady} and {greedy} of 1000 ms");
    }
}

fn client() -> impl Strategy<Value = Client> {
    let kind =
        prop_oneof![Just((Op::Read, Flags::NONE)), Just((Op::Write, Flags::SYNC)), Just((Op::Write, Flags::NONE))];
    let class = prop_oneof![4 => Just(IoClass::BestEffort), 1 => Just(IoClass::Realtime), 1 => Just(IoClass::Idle)];
    (
        kind,
        class,
        0..8u8,
        0..3u32,
        1..6u32,
        prop_oneof![Just(8u32), Just(128), Just(1024)],
        0..40_000u64,
        0..3000u64,
        any::<bool>(),
        0..4u64,
    )
        .prop_map(|((op, flags), class, level, tenant, depth, sectors, think_us, start_ms, random, place)| {
            Client {
                tenant,
                ioprio: prio(class, level),
                op,
                flags,
                sectors,
                depth,
                think: Nanos::from_us(think_us),
                sector: if random { None } else { Some(place * FAR) },
                stride: u64::from(sectors),
                start: Nanos::from_ms(start_ms),
                stop: Nanos::from_ms(start_ms + 4000),
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The lab checks the counters after each event; in the end all is served and nothing is busy.
    #[test]
    fn counters_hold_whatever_comes(
        clients in proptest::collection::vec(client(), 1..9),
        generation in 0..4usize,
        history: bool,
        disk: bool,
        tenants in 1..4usize,
        settings in proptest::collection::vec((any::<proptest::sample::Index>(), any::<bool>()), 0..6),
    ) {
        let make = |setup| {
            let generation = GENERATIONS[generation];
            if history { Bfq::with_history(setup, generation) } else { Bfq::new(setup, generation) }
        };
        let mut lab = if disk { Lab::disk(make) } else { Lab::fifo(make, 8) }.weights(&[100, 500, 20][..tenants]);
        for (which, on) in settings {
            let switches: Vec<_> = lab.scheduler.tunables().iter().filter(|t| t.unit == "bool").collect();
            lab = lab.set(switches[which.index(switches.len())].name, i128::from(on));
        }
        for client in clients {
            lab.add(Client { tenant: client.tenant % tenants as u32, ..client });
        }
        lab.run(Nanos::from_secs(60));
        prop_assert_eq!((lab.scheduler.requests.queued, lab.scheduler.device.in_driver), (0, 0));
        prop_assert!(lab.requests.is_empty());
        for (_, queue) in lab.scheduler.queues.live().filter(|(_, q)| q.busy) {
            prop_assert!(queue.is_empty());
        }
    }
}

#[test]
fn shares_hold_without_each_mechanism() {
    let switches = lab(Generation::Mainline, 1).scheduler.tunables().iter().filter(|t| t.help.starts_with("mechanism"));
    for switch in switches {
        for value in [0, 1] {
            let mut lab = lab(Generation::Mainline, 1).set("strict_guarantees", 1).set(switch.name, value);
            lab.add(reader(0, level(0)));
            lab.add(reader(1, level(4)));
            close(settled(&mut lab, Generation::Mainline)[0], 2.0 / 3.0, 0.03, &format!("{} = {value}", switch.name));
        }
    }
}

#[test]
fn a_queue_is_io_bound_only_once_it_has_paused() {
    // With two requests at a time from the start the queue is never without one.
    for (depth, io_bound) in [(1, true), (2, false)] {
        let mut lab = lab(Generation::Mainline, 4);
        lab.add(Client { depth, ..reader(0, level(4)) });
        lab.run(Nanos::from_ms(100));
        assert_eq!(lab.scheduler.queues[0].io_bound, io_bound, "depth {depth}");
    }
}
