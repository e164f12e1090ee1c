//! The guarantees of the rules, on devices whose service times are known.

mod heuristics;
mod lab;
mod shares;

use dumbwaiter_block::{IoClass, Ioprio, Nanos};

use super::{Bfq, Generation};
use lab::{Client, Lab};

const GENERATIONS: [Generation; 4] = [Generation::Original, Generation::V1, Generation::V7r8, Generation::Mainline];
/// Far enough apart that nothing merges.
const FAR: u64 = 1 << 24;

fn prio(class: IoClass, level: u8) -> Ioprio {
    Ioprio::new(class, level)
}

fn level(level: u8) -> Ioprio {
    prio(IoClass::BestEffort, level)
}

/// A process that reads on 30 us after each completion.
fn reader(place: u64, ioprio: Ioprio) -> Client {
    Client { ioprio, sector: Some((place + 1) * FAR), think: Nanos::from_us(30), ..Client::reader() }
}

fn lab(generation: Generation, depth: u32) -> Lab {
    Lab::fifo(|setup| Bfq::new(setup, generation), depth).set("low_latency", 0).set("merging", 0)
}

fn close(got: f64, want: f64, by: f64, what: &str) {
    assert!((got - want).abs() <= by, "{what}: {got:.4}, expected {want:.4} +- {by}");
}

/// Shares once the budgets are those of the device; in the first generation each queue takes eleven slots for it.
fn settled(lab: &mut Lab, generation: Generation) -> Vec<f64> {
    let from = if generation == Generation::Original { 300 } else { 20 };
    lab.run(Nanos::from_secs(from + 120));
    lab.shares(Nanos::from_secs(from), Nanos::MAX)
}
