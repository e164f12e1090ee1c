//! The examples of the notes, and what follows from the rules, on devices whose service times are known.

mod lab;
mod mixtures;
mod sharing;
mod tenants;
mod timeline;

use dumbwaiter_block::{IoClass, Ioprio, Nanos, Scheduler, Setup, set_tunable};

use super::queue::{BEST_EFFORT, Queue, SYNC};
use super::{Cfq, Version};
use lab::HZ_1000;

fn level(level: u8) -> Ioprio {
    Ioprio::new(IoClass::BestEffort, level)
}

fn close(got: f64, want: f64, by: f64, what: &str) {
    assert!((got - want).abs() <= by, "{what}: {got:.4}, expected {want:.4} +- {by}");
}

fn cfq(rotational: bool, version: Version) -> Cfq {
    Cfq::new(Setup { clock: HZ_1000, rotational, ..Setup::default() }, version)
}

#[test]
fn slices_by_level() {
    for version in [Version::K310, Version::K318, Version::K420] {
        let cfq = cfq(true, version);
        let ms = |sync, level| cfq.slice_of_level(sync, level) / cfq.clock.span_of_ms(1);
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(|p| ms(true, p)), [180, 160, 140, 120, 100, 80, 60, 40]);
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(|p| ms(false, p)), [72, 64, 56, 48, 40, 32, 24, 16]);
        assert_eq!([0, 1, 4, 7].map(|p| cfq.async_requests(p)), [32, 28, 16, 4]);
    }
}

#[test]
fn ten_readers_fit_into_the_target_latency() {
    let mut cfq = cfq(true, Version::K318);
    let mut queues = Vec::new();
    for i in 0..10 {
        cfq.queues.push(Queue::new(0, true, (BEST_EFFORT, 4)));
        cfq.line_up(i, false, 0);
        queues.push(i);
    }
    assert_eq!(cfq.groups[0].trees[usize::from(BEST_EFFORT * 3 + SYNC)].tree.len(), 10);
    for _ in 0..3 {
        cfq.groups[0].update_average(BEST_EFFORT);
    }
    let mut slice = |level| {
        cfq.queues[0].level = level;
        cfq.scaled_slice(0)
    };
    assert_eq!([0, 4, 7].map(&mut slice), [54, 30, 12]);
    cfq.set.low_latency = false;
    assert_eq!(cfq.scaled_slice(0), 40);
}

#[test]
fn releases_are_read() {
    let parse = |text| Version::parse(text);
    assert_eq!(parse("3.10"), Some(Version::K310));
    assert_eq!([parse("3.18"), parse("3.18.25"), parse("4.4")], [Some(Version::K318); 3]);
    assert_eq!([parse("4.8"), parse("4.20")], [Some(Version::K420); 2]);
    assert_eq!([parse("5.0"), parse("2.6"), parse("x"), parse("3.x")], [None; 4]);
}

#[test]
fn ticks_are_kept_between_steps() {
    let mut cfq = Cfq::new(Setup::default(), Version::K318);
    let ticks = [0u64, 3_999_999, 4_000_000, 4_000_001, 3, 8_000_000].map(|t| cfq.clock.count(Nanos(t)));
    assert_eq!(ticks, [0, 0, 1, 1, 0, 2]);
}

#[test]
fn a_setting_and_its_twin_in_microseconds_are_one() {
    for (version, half) in [(Version::K318, 1), (Version::K420, 500_000)] {
        let mut cfq = cfq(true, version);
        assert_eq!((cfq.get("slice_idle"), cfq.get("slice_idle_us")), (Some(8), Some(8000)));
        for name in ["slice_sync", "slice_async", "slice_idle", "group_idle", "target_latency"] {
            let twin = format!("{name}_us");
            set_tunable(&mut cfq, name, 7).unwrap();
            assert_eq!(cfq.get(&twin), Some(7000), "{twin}");
            set_tunable(&mut cfq, &twin, 12_345).unwrap();
            assert_eq!((cfq.get(name), cfq.get(&twin)), (Some(12), Some(12_345)), "{name}");
            set_tunable(&mut cfq, &twin, 500).unwrap();
        }
        let set = &cfq.set;
        // Half a millisecond: ticks of a millisecond round up.
        assert_eq!([set.slice[1], set.slice[0], set.slice_idle, set.group_idle, set.target_latency], [half; 5]);
    }
}
