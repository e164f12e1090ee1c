//! The pictures of the manual pages: the same small load under every scheduler, drawn as it is served.

use dumbwaiter_block::{Config, Flags, Io, Nanos, Op, Setup, TaskId};
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_testkit::Harness;

const SERVICE: Nanos = Nanos::from_ms(5);
const COLUMNS: usize = 64;
/// Writes that wait from the beginning.
const WRITES: u64 = 24;
/// Manuals with pictures of loads that show more of them, held to it by tests of their own.
const OWN: [&str; 4] = ["cfq", "a-cfq", "bfq", "h-bfq"];

/// Reads in a row, reads here and there, and asynchronous writes: one request of each at a time, but all the writes at
/// once, on a disk that takes one request and needs 5 ms for any. A column is one request.
fn timeline(name: &str) -> String {
    let setup = Setup { rotational: true, device_depth: 1, nr_requests: 64, ..Setup::default() };
    let choice = Choice::parse(name).unwrap();
    let mut harness = Harness::new(Config { setup, ..Config::default() }, |setup| choice.build(setup));
    harness.service(SERVICE);
    let mut asked = [0u64; 3];
    let mut ask = |harness: &mut Harness, task: u32| {
        let n = asked[task as usize];
        asked[task as usize] += 1;
        // Multiples of an odd number reach everywhere without a pattern that is near.
        let scattered = |from: u64| from + (n * 7_368_787) % 10_000_000 / 8 * 8;
        let io = Io { task: TaskId(task), sectors: 8, ..Io::default() };
        let io = match task {
            0 => Io { op: Op::Read, sector: 1_000_000 + n * 8, ..io },
            1 => Io { op: Op::Read, sector: scattered(20_000_000), ..io },
            _ => Io { op: Op::Write, sector: scattered(40_000_000), flags: Flags::BACKGROUND, ..io },
        };
        harness.submit_io(io);
    };
    for _ in 0..WRITES {
        ask(&mut harness, 2);
    }
    ask(&mut harness, 0);
    ask(&mut harness, 1);
    harness.issue_all();
    let mut seen = 0;
    while harness.all_issued().len() < COLUMNS && harness.next_event().is_some() {
        harness.step();
        while seen < harness.all_done().len() {
            let task = harness.all_done()[seen].issue.io.task.0;
            seen += 1;
            if task < 2 {
                ask(&mut harness, task);
            }
        }
        harness.issue_all();
    }
    let row = |task: u32, label: &str, letter: char| {
        let served = harness.all_issued().iter().take(COLUMNS).map(|i| if i.io.task.0 == task { letter } else { ' ' });
        format!("{label}  {}", served.collect::<String>()).trim_end().to_owned() + "\n"
    };
    row(0, "in a row ", 'A') + &row(1, "scattered", 'b') + &row(2, "writes   ", 'w')
}

#[test]
fn manuals_show_what_the_schedulers_do() {
    let mut missing = Vec::new();
    for entry in REGISTRY.iter().filter(|e| !OWN.contains(&e.name)) {
        let picture = timeline(entry.name);
        println!("{}\n{picture}", entry.name);
        if !entry.manual.contains(&picture) {
            missing.push(entry.name);
        }
    }
    assert!(missing.is_empty(), "manuals without their picture: {missing:?}");
}
