//! Deadlines: what would wait too long is refused at once, under any scheduler.

use dumbwaiter_block::{Config, Errno, Io, Ioprio, Nanos, Op, Setup, TaskId, TenantId};
use dumbwaiter_controllers::set_deadline;
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_testkit::Harness;
use proptest::prelude::*;

/// A device that takes one request at a time, 1 ms each, and has completed a few.
fn disk(scheduler: &str) -> Harness {
    let setup = Setup { device_depth: 1, nr_requests: 256, ..Setup::default() };
    let choice = Choice::parse(scheduler).unwrap();
    let mut harness = Harness::new(Config { setup, ..Config::default() }, |setup| choice.build(setup));
    harness.service(Nanos::from_ms(1));
    harness
}

fn read(task: u32, tenant: u32, sector: u64) -> Io {
    let (task, tenant) = (TaskId(task), TenantId(tenant));
    Io { op: Op::Read, sector, sectors: 8, task, tenant, ioprio: Ioprio::DEFAULT, ..Io::default() }
}

fn deadline(harness: &mut Harness, task: TaskId, deadline: Option<Nanos>) {
    harness.change(|layer, now| set_deadline(layer, now, task, deadline));
}

/// I/Os that were refused since the harness began.
fn refused(harness: &Harness) -> usize {
    harness.done_without_device().iter().filter(|f| f.result == Err(Errno::EBUSY)).count()
}

#[test]
fn what_would_wait_longer_than_its_deadline_is_refused_and_nothing_else() {
    let mut harness = disk("none");
    deadline(&mut harness, TaskId(1), Some(Nanos::from_ms(10)));
    for n in 0..8 {
        harness.submit_io(read(0, 0, 1000 * n));
    }
    harness.drain();
    assert_eq!(refused(&harness), 0);
    // Twenty milliseconds of work of another tenant.
    for n in 0..20 {
        harness.submit_io(read(0, 0, 1000 * n));
    }
    // The first of a tenant without any under way is a probe.
    harness.submit_io(read(1, 1, 500_000));
    harness.submit_io(read(1, 1, 600_000));
    assert_eq!(refused(&harness), 1);
    harness.submit_io(read(0, 0, 700_000));
    assert_eq!(refused(&harness), 1, "a task without a deadline waits");
    harness.drain();
    harness.submit_io(read(1, 1, 800_000));
    assert_eq!(refused(&harness), 1, "the device is idle again");
    harness.drain();
    let ledger = harness.layer().ledger();
    assert_eq!((ledger.rejected, ledger.failed, ledger.imbalance()), (1, 0, None));
    assert_eq!(harness.all_done().len(), 8 + 20 + 1 + 1 + 1);
}

#[test]
fn a_wrong_prediction_is_corrected_by_one_request_in_each_deadline() {
    let mut harness = disk("noop");
    deadline(&mut harness, TaskId(1), Some(Nanos::from_ms(2)));
    harness.service(Nanos::from_ms(50)).submit_io(read(1, 1, 0));
    harness.drain();
    harness.service(Nanos::from_ms(1)).hold();
    let mut admitted = 0;
    for n in 0..200 {
        // Always a request of another tenant in the device.
        harness.submit_io(read(0, 0, 1_000_000 + 1000 * n));
        let before = refused(&harness);
        harness.submit_io(read(1, 1, 1000 * n));
        admitted += usize::from(refused(&harness) == before);
        harness.release().hold();
    }
    assert!(admitted > 100, "{admitted} of 200 after the device became fast");
}

#[test]
fn a_deadline_is_forgotten_with_its_task() {
    let mut harness = disk("none");
    deadline(&mut harness, TaskId(2), Some(Nanos(1)));
    deadline(&mut harness, TaskId(2), None);
    for n in 0..50 {
        harness.submit_io(read(2, 0, 1000 * n));
    }
    harness.drain();
    assert_eq!(refused(&harness), 0);
}

/// A scheduler that waits for a completion, whenever that is, sets no timer: virtual time would go to its end.
#[test]
fn a_wait_for_a_completion_sets_no_timer() {
    let steps = [
        (1, 0, 0),
        (1, 24, 0),
        (1, 24, 1),
        (2, 0, 0),
        (2, 16, 0),
        (2, 0, 1),
        (1, 0, 1),
        (0, 0, 0),
        (2, 0, 0),
        (1, 0, 0),
    ];
    for entry in REGISTRY {
        let mut harness = disk(entry.name);
        for task in 0..3 {
            deadline(&mut harness, TaskId(task), Some(Nanos::from_ms(1 + u64::from(task))));
        }
        for (task, sector, then) in steps {
            harness.submit_io(read(task, task % 2, sector));
            match then {
                0 => harness.step(),
                _ => harness.issue_all(),
            }
            assert!(harness.now() < Nanos::from_secs(3600), "{}: {}", entry.name, harness.now());
        }
        harness.drain();
    }
}

proptest! {
    #![proptest_config(crate::conformance::cases(60))]

    /// Whatever is refused, every I/O is completed once, under every scheduler.
    #[test]
    fn the_ledger_balances(steps in proptest::collection::vec((0u32..4, 0u64..64, 0u8..4), 1..200), deadline_us in 1u64..20_000) {
        for entry in REGISTRY {
            let mut harness = disk(entry.name);
            for task in 0..3 {
                deadline(&mut harness, TaskId(task), Some(Nanos::from_us(deadline_us * (1 + u64::from(task)))));
            }
            for (task, place, then) in &steps {
                harness.submit_io(read(*task, task % 2, place * 8));
                match then {
                    0 => harness.step(),
                    1 => harness.issue_all(),
                    _ => {}
                }
            }
            harness.drain();
            let ledger = harness.layer().ledger();
            prop_assert_eq!(ledger.imbalance(), None, "{}", entry.name);
            prop_assert_eq!(ledger.rejected, refused(&harness) as u64, "{}", entry.name);
            prop_assert_eq!(ledger.completed, steps.len() as u64);
        }
    }
}
