//! Decisions that a pilot would have made while a trace ran.

use std::fmt::Write;

use dumbwaiter_pilot::{Action, DeviceConfig, ReplayOptions, replay};
use dumbwaiter_traces as traces;

/// Tasks that read at random for 20 s, then as streams.
fn trace(pause_us: u64) -> String {
    let mut text = String::new();
    let mut state = 1u64;
    for i in 0..16_000u64 {
        let (time, task) = (i * 2_500 + if i < 8000 { 0 } else { pause_us }, i % 6);
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (sector, sectors) = match i < 8000 {
            true => ((state >> 33) % 1_000_000 * 8, 8),
            false => (task * 100_000_000 + i / 6 * 128, 128),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{time},R,{sector},{sectors},{task},2000");
    }
    text
}

fn options(scheduler: &str) -> ReplayOptions {
    ReplayOptions { scheduler: scheduler.into(), rotating: true, device: DeviceConfig::new("trace".as_ref()) }
}

fn replayed(scheduler: &str, pause_us: u64) -> dumbwaiter_pilot::ReplaySummary {
    let columns = traces::Columns::parse("time_us,op,offset_sectors,size_sectors,task,latency_us").unwrap();
    let reading = traces::Options { columns: Some(columns), ..traces::Options::default() };
    let mut reader =
        traces::open_reader("trace.csv", Box::new(std::io::Cursor::new(trace(pause_us))), &reading).unwrap();
    let mut told = 0;
    let summary = replay(&mut reader, &options(scheduler), |_| told += 1).unwrap();
    assert_eq!(told, summary.changes.len());
    summary
}

#[test]
fn loads_of_a_trace_are_told_apart_and_the_table_advises() {
    let all = ["none", "mq-deadline", "kyber", "bfq"].map(|scheduler| replayed(scheduler, 0));
    for summary in &all {
        assert_eq!(summary.requests, 16_000);
        assert!(summary.workloads >= 2, "{summary:#?}");
        let held: f64 = summary.seconds_by_candidate.values().sum();
        assert!((held - 40.0).abs() < 2.0, "{held}");
    }
    // Whichever is best for one of the loads, three of them are not.
    let advises =
        |summary: &dumbwaiter_pilot::ReplaySummary| summary.changes.iter().any(|c| c.action == Action::Advise);
    assert!(all.iter().any(advises), "{all:#?}");
}

#[test]
fn a_pause_of_years_is_passed_over() {
    let ten_years_us = 10 * 365 * 86_400 * 1_000_000;
    let summary = replayed("mq-deadline", ten_years_us);
    assert!(summary.requests == 16_000 && summary.workloads >= 2, "{summary:#?}");
    assert!(summary.decisions < 10_000, "{}", summary.decisions);
}
