//! Shares of sectors by weight; budgets, slots, and what is charged.

use dumbwaiter_block::{Flags, IoClass, Ioprio, Nanos, Op};

use super::lab::{Client, Lab};
use super::{Bfq, FAR, GENERATIONS, Generation, close, lab, level, prio, reader, settled};

/// Shares that the kernel was measured to give (Linux 6.18): 64 KiB sequential readers of eight levels.
const MEASURED: [f64; 8] = [0.226, 0.194, 0.166, 0.132, 0.117, 0.082, 0.052, 0.032];

#[test]
fn eight_levels_share_by_weight() {
    for generation in GENERATIONS {
        for strict in [0, 1] {
            let mut lab = lab(generation, 32).set("strict_guarantees", strict);
            for p in 0..8 {
                lab.add(reader(u64::from(p), level(p)));
            }
            for (p, share) in settled(&mut lab, generation).into_iter().enumerate() {
                let ideal = (8.0 - p as f64) / 36.0;
                let off = f64::min((share - ideal).abs(), (share - MEASURED[p]).abs());
                assert!(off <= 0.01, "{generation:?} strict {strict} level {p}: {share:.4}, ideal {ideal:.4}");
            }
        }
    }
}

#[test]
fn three_levels_and_deep_queues_share_by_weight() {
    for generation in GENERATIONS {
        let mut lab = lab(generation, 32).set("strict_guarantees", 1);
        for p in [0, 4, 7] {
            lab.add(reader(u64::from(p), level(p)));
        }
        for (share, ideal) in settled(&mut lab, generation).into_iter().zip([8.0 / 13.0, 4.0 / 13.0, 1.0 / 13.0]) {
            close(share, ideal, 0.012, &format!("{generation:?}"));
        }
    }
    let mut lab = lab(Generation::Mainline, 32);
    for p in [4, 0] {
        lab.add(Client { depth: 8, ..reader(u64::from(p), level(p)) });
    }
    close(settled(&mut lab, Generation::Mainline)[0], 1.0 / 3.0, 0.01, "level 4 beside level 0, eight requests each");
}

#[test]
fn tenants_share_by_weight_and_so_do_budgets_of_any_size() {
    for generation in [Generation::V1, Generation::V7r8, Generation::Mainline] {
        for budget in [0, 512, 1024, 16384] {
            let set = |lab: Lab| lab.set("strict_guarantees", 1).set("max_budget", budget);
            let mut lab = set(lab(generation, 32)).weights(&[100, 200, 500]);
            for tenant in 0..3 {
                lab.add(Client { tenant, ..reader(u64::from(tenant), Ioprio::DEFAULT) });
            }
            for (share, ideal) in settled(&mut lab, generation).into_iter().zip([0.125, 0.25, 0.625]) {
                close(share, ideal, 0.01, &format!("{generation:?} max_budget {budget}"));
            }
        }
    }
    let mut equal = lab(Generation::Original, 32).weights(&[100, 500]);
    for tenant in 0..2 {
        equal.add(Client { tenant, ..reader(u64::from(tenant), Ioprio::DEFAULT) });
    }
    close(settled(&mut equal, Generation::Original)[0], 0.5, 0.01, "the first generation knows priorities only");
}

/// Tasks of the root group are queues beside the groups' entities, each with the weight of its level.
#[test]
fn tasks_of_the_root_compete_with_the_groups_one_by_one() {
    for generation in [Generation::V7r8, Generation::Mainline] {
        let mut lab = lab(generation, 32).set("strict_guarantees", 1).weights(&[300, 100]);
        let root = lab.tenants.add_root(1).0;
        let clients = [(0, 4), (1, 4), (root, 4), (root, 0)];
        for (place, (tenant, of_level)) in (0..).zip(clients) {
            lab.add(Client { tenant, ..reader(place, level(of_level)) });
        }
        let by_level = f64::from(lab.scheduler.constants.weight_per_level);
        let weights = [300.0, 100.0, 4.0 * by_level, 8.0 * by_level];
        let all: f64 = weights.iter().sum();
        for (share, weight) in settled(&mut lab, generation).into_iter().zip(weights) {
            close(share, weight / all, 0.01, &format!("{generation:?}, weight {weight}"));
        }
    }
}

#[test]
fn history_does_not_move_shares() {
    for generation in [Generation::V7r8, Generation::Mainline] {
        for exhausted in [0, 128, 2048] {
            let make = |setup| Bfq::with_history(setup, generation);
            let mut lab = Lab::fifo(make, 1).weights(&[100, 200, 500]).set("low_latency", 0);
            lab = lab.set("exhausted_budget", exhausted).set("max_budget", 16384);
            for tenant in 0..3 {
                lab.add(Client { tenant, ..reader(u64::from(tenant), Ioprio::DEFAULT) });
            }
            for (share, ideal) in settled(&mut lab, generation).into_iter().zip([0.125, 0.25, 0.625]) {
                close(share, ideal, 0.01, &format!("{generation:?}, {exhausted} after exhaustion"));
            }
            for (_, queue) in lab.scheduler.queues.live() {
                assert!((1..=16384).contains(&queue.max_budget), "{}", queue.max_budget);
            }
        }
    }
}

/// Slots of exactly the budget: the kernel's with max_budget = 1024 were of 8 requests, two in a row for double weight.
#[test]
fn a_fixed_budget_bounds_every_slot() {
    for generation in GENERATIONS {
        let mut lab = lab(generation, 32).set("strict_guarantees", 1).set("max_budget", 1024);
        lab.add(reader(0, level(4)));
        lab.add(reader(1, level(0)));
        settled(&mut lab, generation);
        let turns = lab.turns();
        let late = turns.iter().rev();
        for (client, at, sectors) in late.take(100) {
            assert!(*sectors <= 1024 * (1 + *client as u64), "{generation:?}: {sectors} of client {client} at {at}");
        }
    }
    let mut lab = lab(Generation::Mainline, 32).set("strict_guarantees", 1).set("max_budget", 1024);
    lab.add(reader(0, level(4)));
    lab.add(reader(1, level(0)));
    lab.run(Nanos::from_secs(5));
    let slots: Vec<(usize, u64)> = lab.turns().iter().skip(10).take(6).map(|t| (t.0, t.2)).collect();
    assert!(slots.iter().all(|s| [(0, 1024), (1, 2048)].contains(s)), "{slots:?}");
}

/// A sector of an async request counts three times, eleven times before mainline. (The first generation charges the
/// whole budget for each round.)
#[test]
fn async_requests_are_charged_more() {
    for (generation, factor) in [(Generation::V1, 11.0), (Generation::V7r8, 11.0), (Generation::Mainline, 3.0)] {
        let mut lab =
            lab(generation, 1).set("timeout_sync", 100_000).set("max_budget", 4096).set("strict_guarantees", 1);
        lab.add(Client { depth: 4, ..reader(0, level(4)) });
        lab.add(Client { op: Op::Write, depth: 16, ..reader(1, level(4)) });
        lab.run(Nanos::from_secs(400));
        let shares = lab.shares(Nanos::from_secs(20), Nanos::MAX);
        let ratio = shares[0] / shares[1];
        assert!((ratio / factor - 1.0).abs() < 0.15, "{generation:?}: {ratio:.2} to 1, expected {factor}");
    }
}

/// Realtime goes first as long as it comes back in time; idle gets one request each 200 ms, from v7r8 on.
#[test]
fn classes_are_strict_but_for_the_look_in() {
    for generation in GENERATIONS {
        let mut realtime = lab(generation, 1);
        realtime.add(reader(0, prio(IoClass::Realtime, 4)));
        realtime.add(reader(1, level(4)));
        realtime.run(Nanos::from_secs(20));
        let share = realtime.shares(Nanos::from_secs(2), Nanos::MAX)[0];
        assert!(share >= 0.95, "{generation:?}: {share}");
        let mut idle = lab(generation, 1);
        idle.add(reader(0, level(4)));
        idle.add(reader(1, prio(IoClass::Idle, 7)));
        idle.run(Nanos::from_secs(20));
        let turns: Vec<u64> = idle.turns().iter().filter(|t| t.0 == 1).map(|t| t.2).collect();
        assert!(turns.iter().all(|sectors| *sectors == 128), "{generation:?}: {turns:?}");
        if generation >= Generation::V7r8 {
            assert!((60..=100).contains(&turns.len()), "{generation:?}: {} idle requests in 20 s", turns.len());
        } else {
            assert!(turns.len() <= 2, "{generation:?}: {} idle requests in 20 s", turns.len());
        }
    }
}

/// On a disk a random reader and a sequential one share the time, not the sectors.
#[test]
fn slow_queues_are_charged_for_their_time() {
    let mut lab = Lab::disk(|setup| Bfq::new(setup, Generation::Mainline)).set("low_latency", 0);
    lab.add(reader(0, level(4)));
    lab.add(Client { sector: None, sectors: 8, ..reader(0, level(4)) });
    lab.run(Nanos::from_secs(60));
    let times = lab.time_shares(Nanos::from_secs(10));
    close(times[1], 0.5, 0.075, "time of the random reader");
}

/// Any request of a reader waits no longer than the others' slots take, whatever the weights.
#[test]
fn no_reader_starves() {
    for generation in GENERATIONS {
        let mut lab = lab(generation, 1);
        for p in [0, 0, 0, 7] {
            lab.add(reader(lab.tenants.task_slots() as u64, level(p)));
        }
        settled(&mut lab, generation);
        let from = Nanos(lab.now.0 - 120_000_000_000);
        let turns = lab.turns();
        let starts: Vec<Nanos> = turns.iter().filter(|t| t.0 == 3 && t.1 > from).map(|t| t.1).collect();
        let longest = starts.windows(2).map(|w| w[1].since(w[0]).0 / 1_000_000).max().unwrap();
        // Weight 1 of 25: after its slot the others have 24 times as much, in slots of at most 125 ms and 8 ms of idling.
        assert!(longest <= 25 * 133 + 133, "{generation:?}: {longest} ms");
    }
}

/// With equal weights on flash that queues there is no idling: one writer with many requests starves a reader of few.
/// Strict guarantees restore equal shares.
#[test]
fn a_deep_writer_starves_a_shallow_reader_unless_strict() {
    let share = |strict| {
        let mut lab = Lab::flash(|setup| Bfq::new(setup, Generation::Mainline), 32);
        lab = lab.set("low_latency", 0).set("merging", 0).set("strict_guarantees", strict);
        lab.add(Client { depth: 4, sector: None, ..reader(0, level(4)) });
        lab.add(Client { depth: 128, op: Op::Write, flags: Flags::SYNC, sectors: 1024, ..reader(FAR, level(4)) });
        settled(&mut lab, Generation::Mainline)[0]
    };
    let (free, strict) = (share(0), share(1));
    assert!(free < 0.2, "{free}");
    close(strict, 0.5, 0.02, "strict");
}

/// The manual's picture: whose request each is, when three sequential readers of weights 8 : 4 : 1 share a disk.
#[test]
fn the_manual_shows_who_is_served_when() {
    let manual = include_str!("../../bfq.md");
    for (generation, name) in [(Generation::Mainline, "mainline"), (Generation::V7r8, "v7r8")] {
        let mut lab = lab(generation, 32).set("max_budget", 512);
        for (client, p) in [0, 4, 7].into_iter().enumerate() {
            lab.add(Client { start: Nanos::from_ms(client as u64), ..reader(client as u64, level(p)) });
        }
        lab.run(Nanos::from_secs(8));
        for (client, p) in [0, 4, 7].into_iter().enumerate() {
            let row: String =
                lab.sent.iter().skip(1000).take(60).map(|s| if s.client == client { '█' } else { '·' }).collect();
            let line = format!("{name:<8} level {p}  {row}");
            println!("    {line}");
            assert!(manual.contains(&line), "the manual lacks {line}");
        }
    }
}
