//! The case for anticipation: readers that each have one request at a time, on a disk.

use dumbwaiter_block::{Config, Io, Ioprio, Nanos, Op, Setup, TaskId};
use dumbwaiter_schedulers::Choice;
use dumbwaiter_testkit::Harness;

const DISTANCE: u64 = 100_000_000;

/// Readers in regions of their own, each of which thinks for some time after each read; returns which reader was served, in
/// order, and when the last read was sent.
fn served(choice: &str, think: &[Nanos], reads: usize) -> (Vec<u32>, Nanos) {
    let setup = Setup { rotational: true, device_depth: 1, nr_requests: 64, ..Setup::default() };
    let choice = Choice::parse(choice).unwrap();
    let mut harness = Harness::new(Config { setup, ..Config::default() }, |setup| choice.build(setup));
    harness.service(Nanos::from_ms(5));
    let mut next: Vec<(Nanos, u64)> = think.iter().map(|_| (Nanos::ZERO, 0)).collect();
    let mut seen = 0;
    while harness.all_issued().len() < reads {
        let due = next.iter().map(|n| n.0).min().unwrap_or(Nanos::MAX);
        let event = harness.next_event().unwrap_or(Nanos::MAX);
        if due <= event {
            harness.until(due.max(harness.now()));
            for (task, (at, n)) in next.iter_mut().enumerate().filter(|(_, (at, _))| *at <= due) {
                let sector = task as u64 * DISTANCE + *n * 8;
                (*at, *n) = (Nanos::MAX, *n + 1);
                let task = TaskId(task as u32);
                harness.submit_io(Io {
                    op: Op::Read,
                    sector,
                    sectors: 8,
                    task,
                    ioprio: Ioprio::DEFAULT,
                    ..Io::default()
                });
            }
        } else {
            harness.step();
        }
        harness.issue_all();
        while seen < harness.all_done().len() {
            let task = harness.all_done()[seen].issue.io.task.0 as usize;
            next[task].0 = harness.all_done()[seen].at + think[task];
            seen += 1;
        }
    }
    let end = harness.all_issued().last().unwrap().at;
    (harness.all_issued().iter().map(|issue| issue.io.task.0).collect(), end)
}

fn changes(order: &[u32]) -> usize {
    order.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[test]
fn sequential_readers_are_served_in_runs() {
    let think = [Nanos::from_us(100); 2];
    let (order, _) = served("anticipatory", &think, 400);
    assert!(changes(&order) < 40, "{} changes in 400 reads", changes(&order));
    let counts = [0, 1].map(|task| order.iter().filter(|t| **t == task).count());
    assert!(counts.iter().all(|count| *count > 100), "each in its turn: {counts:?}");
    let (without, _) = served("anticipatory:antic_expire=0", &think, 400);
    assert!(changes(&without) > 300, "{} changes without anticipation", changes(&without));
}

#[test]
fn a_process_that_thinks_too_long_is_not_waited_for() {
    // The second thinks for longer than any wait: after it showed that, the first is not held up.
    let (order, end) = served("anticipatory", &[Nanos::from_us(100), Nanos::from_ms(40)], 400);
    let second = order.iter().filter(|task| **task == 1).count();
    assert!((10..=70).contains(&second), "{second} of 400: each when it is 125 ms old at the latest");
    assert!(end < Nanos::from_ms(2200), "{end} for 400 reads of 5 ms");
}

#[test]
fn writes_get_their_batches() {
    let setup = Setup { rotational: true, device_depth: 1, nr_requests: 256, ..Setup::default() };
    let choice = Choice::parse("anticipatory").unwrap();
    let mut harness = Harness::new(Config { setup, ..Config::default() }, |setup| choice.build(setup));
    harness.service(Nanos::from_ms(5));
    let submit = |harness: &mut Harness, op, n: u64| {
        let task = TaskId(u32::from(op == Op::Write));
        harness.submit_io(Io { op, sector: n * 5_000_011 % 1_000_000_000, sectors: 8, task, ..Io::default() });
        harness.issue_all();
    };
    for n in 0..100 {
        submit(&mut harness, Op::Write, n);
        submit(&mut harness, Op::Read, 1000 + n);
    }
    let (mut run, mut longest, mut last) = (0, [0; 2], None);
    harness.drain();
    for issue in harness.all_issued() {
        run = if last == Some(issue.io.op) { run + 1 } else { 1 };
        last = Some(issue.io.op);
        let dir = issue.io.op.dir() as usize;
        longest[dir] = longest[dir].max(run);
    }
    // 500 ms of reads and 125 ms of writes at 5 ms each; when the reads are over, all the writes that are left.
    assert!(longest[0] <= 101, "{longest:?}");
    let first: Vec<_> = harness.all_issued().iter().take(130).map(|i| i.io.op).collect();
    assert!(first.contains(&Op::Write) && first.contains(&Op::Read));
}
