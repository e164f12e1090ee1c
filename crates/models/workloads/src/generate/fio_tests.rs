//! Jobs of fio files do the I/Os that fio does: sequences of fio itself are in `fio-sequences.txt`.

use std::fmt::Write;

use dumbwaiter_block::{Nanos, Op, SECTOR_BYTES};

use super::BuildContext;
use crate::Next;
use crate::fio::{self, FioFile};

const REFERENCE: &str = include_str!("fio-sequences.txt");

/// The first `count` I/Os of a job, one line each, if each completes at once.
fn sequence(file: &FioFile, name: &str, replicate: u64, count: usize) -> String {
    let job = file.jobs.iter().find(|job| job.name == name).expect("the section exists");
    let context = BuildContext { seed: 1, capacity_sectors: 8192, first_sector: 0, job: 0, instance: 0, replicate };
    let mut workload = job.spec.build(context).unwrap();
    let (mut now, mut lines) = (Nanos::ZERO, String::new());
    for _ in 0..count {
        let want = loop {
            match workload.next(now) {
                Next::Issue(want) => break want,
                Next::Wait(until) | Next::Pause(until) => now = until,
                Next::Blocked | Next::Done => return lines,
            }
        };
        let op = if want.op == Op::Read { "read" } else { "write" };
        let (offset, length) = (want.sector * SECTOR_BYTES, u64::from(want.sectors) * SECTOR_BYTES);
        writeln!(lines, "{op} {offset} {length}").unwrap();
        workload.completed(now, 0, Nanos::ZERO);
    }
    lines
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn jobs_of_fio_files_do_the_ios_of_fio() {
    let mut compared = 0;
    for part in REFERENCE.split("=== ").skip(1) {
        let (title, text) = part.split_once('\n').unwrap();
        let mut sections = text.split("--- ");
        let file = fio::parse(sections.next().unwrap(), title, &fio::Outside::NOTHING).unwrap();
        for section in sections {
            let (name, expected) = section.split_once('\n').unwrap();
            if let Some(digest) = expected.strip_prefix("hash ") {
                let (count, digest) = digest.trim().split_once(' ').unwrap();
                let lines = sequence(&file, name, 0, count.parse().unwrap());
                assert_eq!(format!("{:016x}", hash(&lines)), digest, "{title}, {name}: first {count} I/Os");
            } else {
                let lines = sequence(&file, name, 0, expected.lines().count());
                assert_eq!(lines, expected, "{title}, {name}");
            }
            compared += 1;
        }
    }
    assert!(compared > 25, "{compared} sequences");
}

#[test]
fn replicates_of_fio_jobs_differ_and_repeat() {
    for options in ["", "randseed=3\n", "allrandrepeat=1\n", "randrepeat=0\n"] {
        let text = format!("[global]\nsize=4m\n{options}[a]\nrw=randrw\nbs=4k\n[b]\nrw=randrw\nbs=4k\n");
        let file = fio::parse(&text, "replicates", &fio::Outside::NOTHING).unwrap();
        let all: Vec<String> =
            [("a", 0), ("b", 0), ("a", 1), ("a", 2)].map(|(name, n)| sequence(&file, name, n, 40)).into();
        // With randrepeat=0 the seed of the run decides, which is the same here.
        let pairs = (0..all.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
        for (i, j) in pairs.filter(|(_, j)| options != "randrepeat=0\n" || *j > 1) {
            assert_ne!(all[i], all[j], "{options:?}: {i} and {j}");
        }
        assert_eq!(all[2], sequence(&file, "a", 1, 40));
    }
}
