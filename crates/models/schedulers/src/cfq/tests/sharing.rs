//! Tasks: shares by level, idling, classes, write-back, cooperators.

use dumbwaiter_block::{IoClass, Ioprio, Nanos, Op};

use super::super::{Cfq, Version};
use super::lab::{Client, Lab};
use super::{close, level};

const FAR: u64 = 1 << 24;

fn disk() -> Lab {
    Lab::disk(|setup| Cfq::new(setup, Version::K318), 1)
}

fn sequential(place: u64, ioprio: Ioprio) -> Client {
    Client { ioprio, sector: Some(place * FAR), ..Client::reader() }
}

/// Shares of sequential readers by the rules of slices and keys alone: a slice begins a seek and a transfer late.
fn by_the_rules(levels: &[u8], late: f64, rounds: usize) -> Vec<f64> {
    let slice = |p: u8| 100.0 + 20.0 * (4.0 - f64::from(p));
    let mut now = 0.0;
    let mut keys = vec![0.0; levels.len()];
    let mut time = vec![0.0; levels.len()];
    for round in 0..rounds {
        let i = (0..keys.len()).min_by(|a, b| f64::total_cmp(&keys[*a], &keys[*b])).unwrap();
        let span = slice(levels[i]) + late;
        now += span;
        if round > rounds / 10 {
            time[i] += span;
        }
        keys[i] = now + (keys.len() - 1) as f64 * (180.0 - slice(levels[i]));
    }
    let all: f64 = time.iter().sum();
    time.iter().map(|t| t / all).collect()
}

#[test]
fn two_readers_share_time_by_their_slices() {
    for version in [Version::K310, Version::K318, Version::K420] {
        for seek in [1, 5] {
            let lab = Lab::disk(|setup| Cfq::new(setup, version), 1).seeking(Nanos::from_ms(seek));
            let mut lab = lab.set("low_latency", 0);
            lab.add(sequential(0, level(0)));
            lab.add(sequential(1, level(7)));
            lab.run(Nanos::from_secs(60));
            let shares = lab.time_shares(Nanos::from_secs(2));
            // A slice's clock starts with the first completion, a seek and 64 KiB late.
            let late = seek as f64 + 0.7;
            close(shares[0], (180.0 + late) / (220.0 + 2.0 * late), 0.01, "p0");
            if seek == 1 {
                close(shares[0] / shares[1], 180.0 / 40.0, 0.05 * 4.5, "p0 to p7");
            }
        }
    }
}

#[test]
fn eight_levels_share_as_slices_and_keys_say() {
    let levels = [0, 1, 2, 3, 4, 5, 6, 7];
    let mut lab = disk().set("low_latency", 0);
    for p in levels {
        lab.add(sequential(u64::from(p), level(p)));
    }
    lab.run(Nanos::from_secs(400));
    let shares = lab.time_shares(Nanos::from_secs(20));
    let ideal = by_the_rules(&levels, 5.7, 4000);
    for p in levels {
        println!("level {p}: {:.4} by the rules {:.4}", shares[usize::from(p)], ideal[usize::from(p)]);
        close(shares[usize::from(p)], ideal[usize::from(p)], 0.01, &format!("level {p}"));
    }
}

#[test]
fn six_readers_of_one_level_share_equally_within_the_target() {
    let mut lab = disk();
    for place in 0..6 {
        lab.add(sequential(place, level(4)));
    }
    lab.run(Nanos::from_secs(60));
    for share in lab.time_shares(Nanos::from_secs(2)) {
        close(share, 1.0 / 6.0, 0.01, "one of six");
    }
    // One round takes the target latency and the six seeks: 50 ms each and what a slice begins late.
    let mut last = [Nanos::ZERO; 6];
    for pair in lab.sent.windows(2).filter(|p| p[0].client != p[1].client && p[0].at > Nanos::from_secs(2)) {
        let sent = pair[1];
        let round = sent.at.since(last[sent.client]);
        assert!(last[sent.client] == Nanos::ZERO || round < Nanos::from_ms(360), "a round of {round}");
        last[sent.client] = sent.at;
    }
}

#[test]
fn a_disk_waits_for_the_next_request_but_not_longer_than_slice_idle() {
    let mut lab = disk();
    let thinker = lab.add(Client { think: Nanos::from_ms(3), ..sequential(0, level(4)) });
    lab.add(sequential(1, level(4)));
    lab.run(Nanos::from_secs(20));
    // Within its slice the thinker's next request follows its last, though the other waits.
    let runs = lab.sent.windows(2).filter(|p| p[0].client == thinker);
    let (kept, lost): (Vec<_>, Vec<_>) = runs.partition(|p| p[1].client == thinker);
    assert!(kept.len() > 8 * lost.len(), "{} kept, {} lost", kept.len(), lost.len());

    let mut lab = disk();
    let slow = lab.add(Client { think: Nanos::from_ms(30), ..sequential(0, level(4)) });
    let other = lab.add(sequential(1, level(4)));
    lab.run(Nanos::from_secs(20));
    let followed = lab.sent.windows(2).filter(|p| p[0].client == slow && p[1].client == other);
    for pair in followed {
        let idle = pair[1].at.since(pair[0].at);
        assert!(idle <= Nanos::from_ms(6 + 9), "{idle}");
    }
    let waited = lab
        .sent
        .windows(2)
        .filter(|p| p[0].client == slow && p[0].at > Nanos::from_secs(2) && p[1].at.since(p[0].at) > Nanos::from_ms(7));
    assert_eq!(waited.count(), 0, "no idling for a task that thinks longer than slice_idle");
}

#[test]
fn realtime_goes_before_best_effort_and_that_before_idle() {
    for (high, low) in [(IoClass::Realtime, IoClass::BestEffort), (IoClass::BestEffort, IoClass::Idle)] {
        let mut lab = disk();
        lab.add(Client { depth: 4, ..sequential(0, Ioprio::new(low, 4)) });
        let first = lab.add(Client {
            depth: 2,
            start: Nanos::from_secs(1),
            stop: Nanos::from_secs(3),
            ..sequential(1, Ioprio::new(high, 4))
        });
        lab.run(Nanos::from_secs(4));
        let during = |s: &&super::lab::Sent| s.at > Nanos::from_ms(1_020) && s.at < Nanos::from_secs(3);
        assert!(lab.sent.iter().filter(during).all(|s| s.client == first), "{high:?} over {low:?}");
        assert!(lab.sent.iter().any(|s| s.at > Nanos::from_ms(3_100)), "the other goes on");
    }
}

#[test]
fn the_idle_class_has_one_request_per_slice() {
    let mut lab = Lab::disk(|setup| Cfq::new(setup, Version::K318), 8);
    for place in 0..2 {
        lab.add(Client { depth: 8, ..sequential(place, Ioprio::new(IoClass::Idle, 7)) });
    }
    lab.run(Nanos::from_secs(5));
    let turns = lab.sent.windows(2).filter(|p| p[0].client == p[1].client).count();
    assert!(lab.sent.len() > 100 && turns < lab.sent.len() / 20, "{turns} of {}", lab.sent.len());
}

#[test]
fn write_back_waits_for_sync_requests_and_grows_slowly() {
    let mut lab = Lab::disk(|setup| Cfq::new(setup, Version::K318), 32);
    let write_back = Client { op: Op::Write, depth: 64, sectors: 8, stride: 8, ..sequential(0, level(4)) };
    let writer = lab.add(write_back);
    lab.add(Client { depth: 2, sector: None, sectors: 8, think: Nanos::from_ms(2), ..Client::reader() });
    lab.run(Nanos::from_secs(20));
    let writes = || lab.sent.iter().filter(|s| s.client == writer);
    assert!(writes().count() > 100);
    assert!(writes().all(|s| s.in_device[1] == 0), "no write-back beside a synchronous request");

    // 128 KiB writes, 32 of them at once make a read late; afterwards the depth is 1, then one more each 100 ms.
    let mut lab = Lab::disk(|setup| Cfq::new(setup, Version::K318), 32);
    let writer = lab.add(Client { sectors: 2048, stride: 4096, ..write_back });
    let late = Client { start: Nanos::from_secs(5), stop: Nanos::from_ms(5_001), ..sequential(9, level(4)) };
    let reader = lab.add(late);
    lab.run(Nanos::from_secs(8));
    let read = lab.done.iter().find(|d| d.0 == reader).unwrap().1;
    assert!(read > Nanos::from_ms(5_150), "the read is late");
    for sent in lab.sent.iter().filter(|s| s.client == writer && s.at >= read) {
        let allowed = 1.max(sent.at.since(read).0 / 100_000_000 + 1) as u32;
        assert!(sent.in_device[0] < allowed, "{} in the device {} after", sent.in_device[0] + 1, sent.at.since(read));
    }
    assert!(lab.sent.iter().any(|s| s.client == writer && s.at > read && s.in_device[0] >= 5));
}

#[test]
fn interleaved_readers_merge_and_part_when_they_seek() {
    let mut lab = disk();
    // Two tasks that read every other 64 KiB of one file.
    for first in [0, 128] {
        let think = Nanos::from_us(50);
        lab.add(Client { sector: Some(FAR + first), stride: 256, think, ..Client::reader() });
    }
    lab.add(sequential(9, level(4)));
    lab.run(Nanos::from_secs(5));
    let [a, b] = [0, 1].map(|t| lab.scheduler.processes[t].queue);
    assert_eq!(a, b, "one queue");
    assert!(lab.scheduler.queues[a as usize].coop);
    let seeks = lab.sent.windows(2).filter(|p| p[0].at > Nanos::from_secs(3) && p[1].sector != p[0].sector + 128);
    let sent = lab.sent.iter().filter(|s| s.at > Nanos::from_secs(3)).count();
    assert!(seeks.count() * 10 < sent, "one stream");
    // Now one jumps about.
    for client in [0, 1] {
        lab.jump_about(client);
    }
    lab.run(Nanos::from_secs(15));
    assert_ne!(lab.scheduler.processes[0].queue, lab.scheduler.processes[1].queue);
}

/// Each request of a reader that always has one in the device preempts write-back, and nothing of that goes while a
/// read is in the device: 3.18 never gets to it. 4.20 lets a write go that is older than its deadline.
#[test]
fn write_back_beside_readers_that_never_pause() {
    let run = |version, depth| {
        let mut lab = Lab::disk(|setup| Cfq::new(setup, version), 32);
        let write_back = Client { op: Op::Write, depth: 64, sectors: 8, stride: 8, ..sequential(0, level(4)) };
        let writer = lab.add(write_back);
        lab.add(Client { depth, sector: None, sectors: 8, ..Client::reader() });
        lab.run(Nanos::from_secs(20));
        let writes = lab.sent.iter().filter(|s| s.client == writer && s.at > Nanos::from_secs(1)).count();
        println!("{version:?}, reads at depth {depth}: {writes} of {}", lab.sent.len());
        writes
    };
    assert_eq!(run(Version::K318, 8), 0);
    assert!(run(Version::K420, 8) > 0);
}

#[test]
fn no_synchronous_task_starves() {
    // Its key is at most 5 x (180 - 80) ms behind; then all slices once (780 ms), the other workload's time, at most
    // the target latency, and a seek in each of the six.
    let longest = Nanos::from_ms(500 + 780 + 300 + 36);
    for version in [Version::K310, Version::K318, Version::K420] {
        let mut lab = Lab::disk(|setup| Cfq::new(setup, version), 8);
        for place in 0..6u8 {
            let client = Client { depth: 1 + u32::from(place), ..sequential(u64::from(place), level(place)) };
            lab.add(if place % 2 == 0 { client } else { Client { sector: None, ..client } });
        }
        lab.run(Nanos::from_secs(60));
        for client in 0..6 {
            let mut last = Nanos::ZERO;
            for sent in lab.sent.iter().filter(|s| s.client == client) {
                let gap = sent.at.since(last);
                assert!(gap < longest, "{version:?}: client {client} waited {gap}");
                last = sent.at;
            }
            assert!(lab.now.since(last) < longest, "{version:?}: client {client} starves");
        }
    }
}
