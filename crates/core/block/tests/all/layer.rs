//! The block layer with the plainest of schedulers.

use dumbwaiter_block::{Config, Io, Limits, Op};
use dumbwaiter_testkit::{Fifo, Harness};
use proptest::prelude::*;

fn harness(config: Config) -> Harness {
    Harness::new(config, |_| Box::new(Fifo::default()))
}

#[test]
fn times_are_those_of_the_path() {
    let mut harness = harness(Config::default());
    harness.fill("R").at(3).submit("R100 R108").at(5).complete(1);
    assert_eq!(harness.issued(), "R100");
    harness.at(8).complete(129);
    let ms = |t: dumbwaiter_block::Nanos| t.0 / 1_000_000;
    let last = harness.all_done().last().unwrap();
    assert_eq!((last.issue.sector, ms(last.issue.at), ms(last.at)), (108, 8, 8));
    let times: Vec<_> = last.ios.iter().map(|f| (ms(f.submit), ms(f.insert), ms(f.issue), f.merged)).collect();
    assert_eq!(times, [(3, 3, 8, false)]);
}

#[test]
fn a_task_that_waits_for_a_slot_lets_its_plug_go_first() {
    let setup = dumbwaiter_block::Setup { nr_requests: 4, device_depth: 2, ..Default::default() };
    let mut harness = harness(Config { setup, ..Config::default() });
    harness.hold().plug("R500 R400 R300 R200 R100");
    assert_eq!((harness.layer().ledger().inserted, harness.issued().as_str()), (4, "R500 R400"));
    assert_eq!(harness.release().issued(), "R300 R200 R100");
}

#[test]
fn slots_freed_by_a_merge_are_used() {
    let setup = dumbwaiter_block::Setup { nr_requests: 5, device_depth: 1, ..Default::default() };
    let mut harness = harness(Config { setup, ..Config::default() });
    harness.hold().submit("R9000 R8000 R800 R816 R5000");
    harness.submit("R808 R7000");
    assert_eq!(harness.release().issued(), "R9000 R8000 R800+16 R816 R5000 R7000");
}

fn limits() -> impl Strategy<Value = Limits> {
    (1u32..200, 1u32..200, 1u16..9, prop_oneof![Just(0u32), 1u32..200], 1u32..5).prop_map(
        |(max_sectors, max_discard_sectors, max_segments, chunk_sectors, pages)| Limits {
            max_sectors,
            max_discard_sectors,
            max_segments,
            max_discard_segments: 1,
            chunk_sectors,
            segment_bytes: pages * 4096,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, ..ProptestConfig::default()
    })]

    /// The pieces of a long I/O follow each other without a gap, each within the limits and no shorter than need be.
    #[test]
    fn splitting(limits in limits(), op in 0usize..5, sector in 0u64..1000, sectors in 1u32..1000) {
        let op = [Op::Read, Op::Write, Op::Discard, Op::SecureErase, Op::WriteZeroes][op];
        let io = Io { op, sector, sectors, ..Io::default() };
        let mut harness = harness(Config { limits, ..Config::default() });
        harness.submit_io(io);
        harness.drain();
        let mut at = sector;
        for piece in harness.all_issued() {
            prop_assert_eq!(piece.sector, at);
            prop_assert!(piece.sectors <= limits.sectors(op));
            let chunk = u64::from(limits.chunk_sectors);
            if op.carries_data() {
                prop_assert!(piece.sectors.div_ceil(limits.segment_bytes / 512) <= u32::from(limits.max_segments));
                prop_assert!(chunk == 0 || at % chunk + u64::from(piece.sectors) <= chunk);
            }
            at += u64::from(piece.sectors);
            let full = piece.sectors == limits.sectors(op)
                || piece.sectors == u32::from(limits.max_segments) * limits.segment_bytes / 512;
            let edge = op.carries_data() && chunk > 0 && at % chunk == 0;
            prop_assert!(full || edge || at == sector + u64::from(sectors), "cut short at {at}");
        }
        prop_assert_eq!(at, sector + u64::from(sectors));
        let done: usize = harness.all_done().iter().map(|d| d.ios.len()).sum();
        prop_assert_eq!((done, harness.layer().ledger().imbalance()), (1, None));
    }

    /// In whatever order the pieces of a long I/O complete: it finishes once, with the last of them, and fails if any of them failed.
    #[test]
    fn an_io_of_which_a_piece_fails_ends_in_an_error(
        limits in limits(),
        write in any::<bool>(),
        sectors in 2u32..1000,
        order in prop::collection::vec((any::<prop::sample::Index>(), prop::bool::weighted(0.1)), 1..100),
    ) {
        let op = if write { Op::Write } else { Op::Read };
        let mut harness = harness(Config { limits, ..Config::default() });
        harness.hold();
        harness.submit_io(Io { op, sectors, ..Io::default() });
        harness.issue_all();
        let (mut failures, mut steps) = (0, order.iter().cycle());
        while harness.in_device().len() > 0 {
            prop_assert!(harness.all_done().iter().all(|done| done.ios.is_empty()), "finished before its last piece");
            let (at, fails) = steps.next().unwrap();
            let nth = at.index(harness.in_device().len());
            harness.complete_nth(nth, *fails);
            failures += u64::from(*fails);
            harness.issue_all();
        }
        let finished: Vec<_> = harness.all_done().iter().flat_map(|done| &done.ios).collect();
        prop_assert_eq!(finished.len(), 1);
        prop_assert_eq!(finished[0].result.is_err(), failures > 0, "{} failures", failures);
        prop_assert_eq!(finished[0].io.sectors, sectors);
        let ledger = harness.layer().ledger();
        prop_assert_eq!((ledger.failed, ledger.imbalance()), (u64::from(failures > 0), None));
    }
}
