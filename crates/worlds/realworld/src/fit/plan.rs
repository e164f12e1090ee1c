//! The plan of a survey: its loads as data.
//!
//! The probe tells rotating drives from the others; a plan for each follows. Positions, sizes, depths, sequential runs and
//! mixed sizes are all in them, and in each plan some loads are held back from the fit.

use serde::Serialize;

use crate::fit::{Facts, Load, Pattern};

/// The purpose of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The fit uses it.
    Fit,
    /// The fit does not see it; the fitted model predicts it.
    HeldBack,
}

/// A load of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Planned {
    /// The load that runs.
    pub load: Load,
    /// Its purpose.
    pub role: Role,
    /// Its part of the survey's time, relative to the others.
    pub weight: f64,
    /// I/Os that are enough in virtual time, where nothing disturbs.
    pub enough_ios: u64,
}

/// Sectors of the near span of the probe: 64 MiB, on a disk some tens of cylinders.
const NEAR_SECTORS: u64 = 131_072;
/// Sizes in sectors of the mixed loads: 4, 16 and 64 KiB.
const MIXED: [u32; 3] = [8, 32, 128];

/// Names of the loads that a fit looks up.
pub mod names {
    /// Random 4 KiB reads over the whole device, one at a time.
    pub const SINGLE: &str = "4 KiB random reads, depth 1";
    /// The same over 64 MiB.
    pub const NEAR: &str = "4 KiB random reads within 64 MiB, depth 1";
    /// Reads before the one before.
    pub const BACKWARD: &str = "4 KiB backward reads, depth 1";
    /// Small reads in order.
    pub const IN_ORDER: &str = "4 KiB sequential reads, depth 1";
    /// Large reads, many at once.
    pub const LARGE_DEEP: &str = "128 KiB random reads, depth 32";
    /// Large reads in order, many at once.
    pub const STREAM_DEEP: &str = "128 KiB sequential reads, depth 32";
    /// Large reads one at a time.
    pub const LARGE: &str = "128 KiB random reads, depth 1";
    /// Two streams.
    pub const TWO_STREAMS: &str = "2 streams of 128 KiB reads, depth 1";
    /// Single writes.
    pub const WRITE: &str = "4 KiB random writes, depth 1";
    /// Deep writes.
    pub const WRITE_DEEP: &str = "4 KiB random writes, depth 32";
    /// Large writes.
    pub const WRITE_LARGE: &str = "128 KiB sequential writes, depth 32";
    /// A write and a flush.
    pub const FLUSH: &str = "flush after one 4 KiB write";

    /// Random 4 KiB reads at a depth.
    pub fn depth(depth: u32) -> String {
        format!("4 KiB random reads, depth {depth}")
    }
}

/// The first loads of every survey.
pub fn probe(facts: &Facts) -> Vec<Planned> {
    let near = NEAR_SECTORS.min(facts.capacity_sectors / 2).max(64);
    let middle = (facts.capacity_sectors - near) / 2 / 8 * 8;
    vec![
        used(Load::random_reads(names::SINGLE, 1, facts.capacity_sectors), 2.0, 1_200),
        used(Load { start: middle, ..Load::random_reads(names::NEAR, 1, near) }, 1.0, 600),
    ]
}

/// The loads for a disk that rotates.
pub fn rotating(facts: &Facts, writes: bool) -> Vec<Planned> {
    let whole = facts.capacity_sectors;
    let random = |depth| Load::random_reads(names::depth(depth), depth, whole);
    let mut plan = vec![used(
        Load { start: whole / 8 * 4 / 8 * 8, ..Load::random_reads(names::BACKWARD, 1, whole / 4) }
            .with(Pattern::Backward),
        0.6,
        400,
    )];
    for percent in [2, 25, 75, 98] {
        plan.push(used(stream_at(facts, percent), 0.4, 3_000));
    }
    plan.push(held(stream_at(facts, 50), 0.4, 3_000));
    plan.push(used(
        Load { name: names::IN_ORDER.into(), ..random(1) }.with(Pattern::Sequential { streams: 1 }),
        0.2,
        4_000,
    ));
    // Distances in thousandths of the capacity.
    for (thousandths, role) in [
        (2, Role::Fit),
        (10, Role::Fit),
        (40, Role::Fit),
        (120, Role::HeldBack),
        (250, Role::Fit),
        (500, Role::Fit),
        (900, Role::Fit),
    ] {
        let distance = whole / 1000 * thousandths / 8 * 8;
        let span = (distance + distance / 8 + 65_536).min(whole);
        let start = (whole - span) / 2 / 8 * 8;
        let name = format!("4 KiB reads to and fro over {:.1} % of the drive, depth 1", thousandths as f64 / 10.0);
        let load = Load { name, start, span, ..random(1) }.with(Pattern::Alternate { distance });
        plan.push(Planned { role, ..used(load, 1.6, 1_000) });
    }
    plan.push(used(random(8), 2.0, 1_500));
    plan.push(used(random(32), 2.5, 2_500));
    plan.push(held(random(4), 1.6, 1_200));
    plan.push(held(random(16), 2.0, 2_000));
    plan.push(used(
        Load { name: names::TWO_STREAMS.into(), ..random(1).of_kib(128) }.with(Pattern::Sequential { streams: 2 }),
        0.8,
        800,
    ));
    plan.push(held(
        Load { name: "10 streams of 128 KiB reads, depth 1".into(), ..random(1).of_kib(128) }
            .with(Pattern::Sequential { streams: 10 }),
        0.8,
        800,
    ));
    plan.push(held(Load { name: "128 KiB random reads, depth 4".into(), ..random(4).of_kib(128) }, 1.6, 800));
    plan.push(held(mixed(whole, 8), 1.6, 1_000));
    if writes {
        plan.extend(writing(whole));
    }
    plan
}

/// The loads for a drive that does not rotate.
pub fn solid(facts: &Facts, writes: bool) -> Vec<Planned> {
    let whole = facts.capacity_sectors;
    let random = |depth| Load::random_reads(names::depth(depth), depth, whole);
    let mut plan = Vec::new();
    for depth in [2, 4, 6, 16, 32, 64, 128] {
        plan.push(used(random(depth), 1.0, 8_000));
    }
    for depth in [3, 8, 24] {
        plan.push(held(random(depth), 1.0, 6_000));
    }
    for kib in [16, 64] {
        plan.push(used(Load { name: format!("{kib} KiB random reads, depth 1"), ..random(1).of_kib(kib) }, 0.7, 1_200));
    }
    plan.push(used(Load { name: names::LARGE.into(), ..random(1).of_kib(128) }, 0.7, 1_000));
    let large_deep = random(32).of_kib(128);
    plan.push(used(Load { name: names::LARGE_DEEP.into(), ..large_deep.clone() }, 1.0, 1_500));
    let stream_deep = Load { name: names::STREAM_DEEP.into(), ..large_deep };
    plan.push(used(stream_deep.with(Pattern::Sequential { streams: 1 }), 0.7, 1_500));
    plan.push(used(
        Load { name: names::IN_ORDER.into(), ..random(1) }.with(Pattern::Sequential { streams: 1 }),
        0.7,
        2_000,
    ));
    plan.push(held(Load { name: "8 KiB random reads, depth 1".into(), ..random(1).of_kib(8) }, 0.7, 1_200));
    plan.push(held(Load { name: "32 KiB random reads, depth 16".into(), ..random(16).of_kib(32) }, 1.0, 2_000));
    plan.push(held(
        Load { name: "64 KiB sequential reads, depth 8".into(), ..random(8).of_kib(64) }
            .with(Pattern::Sequential { streams: 1 }),
        0.7,
        2_000,
    ));
    plan.push(held(mixed(whole, 8), 1.0, 2_000));
    if writes {
        plan.extend(writing(whole));
    }
    plan
}

/// Loads that write over the device.
fn writing(whole: u64) -> Vec<Planned> {
    let random = |name: &str, depth| Load::random_reads(name, depth, whole).writing();
    vec![
        used(random(names::WRITE, 1), 1.0, 1_500),
        used(random(names::WRITE_DEEP, 32), 1.0, 4_000),
        used(random(names::WRITE_LARGE, 32).of_kib(128).with(Pattern::Sequential { streams: 1 }), 1.5, 3_000),
        used(random(names::FLUSH, 1).with(Pattern::WriteFlush), 0.8, 300),
        held(random("4 KiB random writes, depth 8", 8), 1.0, 3_000),
        held(Load { reads: 0.7, ..random("4 KiB random reads and writes, 70 to 30, depth 8", 8) }, 1.2, 3_000),
    ]
}

fn mixed(whole: u64, depth: u32) -> Load {
    let name = format!("random reads of 4, 16 and 64 KiB, depth {depth}");
    Load { sectors: MIXED.to_vec(), ..Load::random_reads(name, depth, whole) }
}

/// A sequential stream at this position of the drive.
fn stream_at(facts: &Facts, percent: u64) -> Load {
    let span = (facts.capacity_sectors / 50).max(1_024);
    let start = ((facts.capacity_sectors - span) / 100 * percent) / 8 * 8;
    let name = format!("128 KiB sequential reads at {percent} %, depth 1");
    Load { start, ..Load::random_reads(name, 1, span).of_kib(128) }.with(Pattern::Sequential { streams: 1 })
}

fn used(load: Load, weight: f64, enough_ios: u64) -> Planned {
    Planned { load, role: Role::Fit, weight, enough_ios }
}

fn held(load: Load, weight: f64, enough_ios: u64) -> Planned {
    Planned { role: Role::HeldBack, ..used(load, weight, enough_ios) }
}
