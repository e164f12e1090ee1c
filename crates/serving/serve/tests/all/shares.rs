//! Shares by weight on a drive that is the bottleneck.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dumbwaiter_protocols::nbd::Command;
use dumbwaiter_serve::bench::ClosedLoop;

use crate::running::Running;

/// Shares that tenants of weights 1:2:4:5 got, as parts of all.
fn shares(scheduler: &str) -> Vec<f64> {
    let names = ["one", "two", "four", "five"];
    let exports = [
        "one:weight=100,size=1G",
        "two:weight=200,offset=1G,size=1G",
        "four:weight=400,offset=2G,size=1G",
        "five:weight=500,offset=3G,size=1G",
    ];
    // 8 requests of 4 ms at a time: 2,000 IOPS, far below what any machine serves, a busy one too.
    let running = Running::with("emulate:null:0us?latency_ns=4000000&depth=8", &exports, |settings| {
        settings.targets[0].scheduler = scheduler.into();
    });
    let (stop, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 4]);
    let mut before = [0; 4];
    std::thread::scope(|scope| {
        for (place, name) in names.iter().enumerate() {
            let load = ClosedLoop::reads(running.socket(), name, 32, place as u64);
            let (stop, count) = (&stop, &counts[place]);
            scope.spawn(move || load.run(stop, count).unwrap());
        }
        std::thread::sleep(Duration::from_millis(500));
        before = std::array::from_fn(|place| counts[place].load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_millis(2500));
        stop.store(true, Ordering::Relaxed);
    });
    let got: Vec<f64> = (0..4).map(|place| (counts[place].load(Ordering::Relaxed) - before[place]) as f64).collect();
    let all: f64 = got.iter().sum();
    got.iter().map(|ios| ios / all).collect()
}

#[test]
fn headway_shares_by_weight_where_none_does_not() {
    let due = [1.0 / 12.0, 2.0 / 12.0, 4.0 / 12.0, 5.0 / 12.0];
    let ours = shares("headway");
    for (got, due) in ours.iter().zip(due) {
        assert!((got - due).abs() < 0.03, "{ours:?}");
    }
    let none = shares("none");
    assert!(none.iter().all(|got| (got - 0.25).abs() < 0.1), "{none:?}");
}

#[test]
fn what_a_client_leaves_behind_takes_no_time_of_the_drive() {
    for scheduler in ["headway", "bfq", "none"] {
        // One request of 20 ms at a time: 64 would take 1.3 s.
        let target = "emulate:null:0us?latency_ns=20000000&depth=1";
        let running = Running::with(target, &["a:size=1G", "b:offset=1G,size=1G"], |settings| {
            settings.targets[0].scheduler = scheduler.into();
        });
        let mut gone = running.connect("a");
        for at in 0..64 {
            gone.send(0, Command::Read, at * (1 << 20), 4096, &[]);
        }
        let stats = || running.server().inspector().stats().unwrap().remove(0).exports;
        let begun = std::time::Instant::now();
        while stats()[0].outstanding < 60 {
            assert!(begun.elapsed() < Duration::from_secs(1), "{scheduler}: the requests are not there");
        }
        drop(gone);
        let begun = std::time::Instant::now();
        assert_eq!(running.connect("b").call(Command::Read, 0, 4096).0, 0);
        let waited = begun.elapsed();
        while stats()[0].outstanding > 0 {
            assert!(begun.elapsed() < Duration::from_secs(5), "{scheduler}: requests of nobody stay");
        }
        let reads = stats()[0].reads;
        assert!(
            reads <= 32,
            "{scheduler}: {reads} of 64 reads were served for nobody, and another client waited {waited:?}"
        );
        assert!(running.end());
    }
}
