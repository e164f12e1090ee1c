//! `adaptive` with a block layer around it: it switches, and nothing is lost.

use dumbwaiter_block::{Config, Io, Nanos, Op, Setup, TaskId};
use dumbwaiter_schedulers::Choice;
use dumbwaiter_testkit::Harness;
use dumbwaiter_testkit::storm::Checked;

/// Eight tasks keep two requests each outstanding: at random for a while, then in streams, with writes among them.
fn run(choice: &str, seconds: u64) -> Harness {
    let setup = Setup { rotational: true, device_depth: 4, nr_requests: 64, ..Setup::default() };
    let choice = Choice::parse(choice).unwrap();
    let mut harness =
        Harness::new(Config { setup, ..Config::default() }, |setup| Checked::around(choice.build(setup), setup));
    harness.service(Nanos::from_ms(2));
    let mut asked = 0u64;
    let mut ask = |harness: &mut Harness, task: u32| {
        asked += 1;
        let streams = harness.now() > Nanos::from_secs(seconds / 2);
        let place = if streams { asked * 8 } else { asked.wrapping_mul(7_368_787) % 10_000_000 * 8 };
        let op = if asked.is_multiple_of(5) { Op::Write } else { Op::Read };
        let sector = place + u64::from(task) * 100_000_000;
        harness.submit_io(Io { op, sector, sectors: 8, task: TaskId(task), ..Io::default() });
    };
    for task in 0..16 {
        ask(&mut harness, task % 8);
    }
    harness.issue_all();
    let mut seen = 0;
    while harness.now() < Nanos::from_secs(seconds) && harness.next_event().is_some() {
        harness.step();
        while seen < harness.all_done().len() {
            let tasks: Vec<u32> = harness.all_done()[seen].ios.iter().map(|f| f.io.task.0).collect();
            seen += 1;
            for task in tasks {
                ask(&mut harness, task);
            }
        }
        harness.issue_all();
    }
    harness.release();
    harness
}

#[test]
fn it_switches_live_without_a_pause_and_loses_nothing() {
    let harness = run("adaptive:by=trial,slot_ms=100,allowance_ms=600000,period_ms=20,confirm=1", 12);
    let switches = harness.layer().switches();
    assert!(switches.count >= 8, "{switches:?}");
    assert_eq!((switches.pause, harness.layer().ledger().imbalance()), (Nanos::ZERO, None));
    assert_eq!(harness.layer().queued(), 0);
}

#[test]
fn it_switches_by_freezing_and_loses_nothing() {
    let choice = "adaptive:by=trial,handover=freeze,candidates=none+mq-deadline+sjf+sptf+cfq,slot_ms=100,period_ms=20";
    let harness = run(choice, 12);
    assert!(harness.layer().switches().count >= 4, "{:?}", harness.layer().switches());
    assert_eq!((harness.layer().ledger().imbalance(), harness.layer().queued()), (None, 0));
}

#[test]
fn candidates_are_checked_when_it_is_chosen() {
    let refusal = |text: &str| Choice::parse(text).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refusal("adaptive:candidates=mq-deadline+fastest").contains("unknown scheduler `fastest`"));
    assert!(refusal("adaptive:candidates=adaptive+none").contains("schedulers that do not use others"));
    assert!(refusal("adaptive:candidates=mq-deadline:fifo_batch=x").contains("fifo_batch = `x` is refused"));
    assert_eq!(refusal("adaptive:candidates=mq-deadline:fifo_batch=1;writes_starved=3+none"), "");
}
