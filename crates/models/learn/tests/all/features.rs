//! The inputs of models.

use dumbwaiter_block::{IoTag, Nanos, Op};
use dumbwaiter_learn::{
    FeatureSet, HISTORY, History, IssueOrder, MAX_INPUTS, Place, Regions, RequestVector, Rotation, Spindle,
    latency_row, signed_log2,
};
use proptest::prelude::*;

fn close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() < 1e-6, "{a} is not {b}");
    }
}

#[test]
fn the_six_numbers_of_a_request() {
    // log2(4096) / 20 = 0.6; FILE_64MB is code 20, (20 - 12) / 11.
    let data = RequestVector::new(Op::Read, 4096, IoTag::from_code(20).unwrap());
    close(&data.0, &[0.0, 0.6, 0.0, 0.0, 0.0, 8.0 / 11.0]);
    let journal = RequestVector::new(Op::Write, 1 << 20, IoTag::JOURNAL);
    close(&journal.0, &[1.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    let inode = RequestVector::new(Op::Read, 0, IoTag::INODE);
    close(&inode.0, &[0.0, 0.45, 1.0, 0.0, 1.0, 0.0]);
    let unknown = RequestVector::new(Op::Read, 512, IoTag::UNKNOWN);
    close(&unknown.0, &[0.0, 0.45, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_tag_comes_from_flags_or_a_known_code() {
    assert_eq!(IoTag::from_rwbs("WSM"), IoTag::META);
    assert_eq!(IoTag::from_code(24), None);
}

#[test]
fn distances_keep_their_sign_and_do_not_overflow() {
    assert_eq!(signed_log2(0), 0.0);
    assert_eq!(signed_log2(-1), -signed_log2(1));
    assert!((signed_log2(1) - 1.0 / 24.0).abs() < 1e-6);
    assert!(signed_log2(i64::MIN) < -2.6 && signed_log2(i64::MAX) > 2.6);
    let mut order = IssueOrder::default();
    assert_eq!((order.delta(7), order.gap(7)), (0, 0));
    order.issued(100, 108);
    assert_eq!((order.delta(108), order.gap(108)), (8, 0));
    assert_eq!(order.delta(u64::MAX), i64::MAX);
}

#[test]
fn a_history_of_fewer_than_16_gives_no_prediction() {
    let mut history = History::new();
    let mut row = [0.0; MAX_INPUTS];
    for index in 0..HISTORY {
        assert!(history.is_cold());
        assert_eq!(history.normal(), None);
        assert_eq!(history.window(FeatureSet::Window, &mut row), None);
        history.push(RequestVector::default(), index as i64, Nanos::from_us(100));
    }
    assert_eq!(history.window(FeatureSet::Window, &mut row), Some(112));
    assert_eq!(history.window(FeatureSet::WindowWithLatency, &mut row), Some(128));
    // Equal latencies have no spread: the least one is used.
    let (mean, deviation) = history.normal().unwrap();
    assert!((mean - 100f32.ln()).abs() < 1e-5 && deviation == 0.1);
}

#[test]
fn the_window_holds_the_last_16_oldest_first() {
    let mut history = History::new();
    for index in 0..40 {
        let vector = RequestVector([index as f32; 6]);
        history.push(vector, 0, Nanos::from_us(1 + index));
    }
    let mut row = [0.0; MAX_INPUTS];
    history.window(FeatureSet::Window, &mut row).unwrap();
    let firsts: Vec<f32> = row[..112].chunks(7).map(|request| request[0]).collect();
    assert_eq!(firsts, (24..40).map(|index| index as f32).collect::<Vec<f32>>());
    let vector = RequestVector([99.0; 6]);
    latency_row(FeatureSet::Unordered, &vector, &Place::default(), &history, &mut row).unwrap();
    assert_eq!((row[0], row[6], row[96]), (99.0, 24.0, 39.0));
}

#[test]
fn a_region_is_known_by_what_completed_in_it() {
    let mut regions = Regions::new(6400);
    assert_eq!(regions.relative(Op::Read, 0), 0.0);
    for _ in 0..200 {
        regions.push(Op::Read, 10, Nanos::from_us(100));
        regions.push(Op::Read, 6399, Nanos::from_us(10_000));
    }
    assert!(regions.relative(Op::Read, 50) < -1.0 && regions.relative(Op::Read, 6350) > 1.0);
    assert_eq!(regions.relative(Op::Write, 50), 0.0);
    assert_eq!(regions.position(u64::MAX), 1.0);
    Regions::new(0).push(Op::Write, u64::MAX, Nanos::ZERO);
}

#[test]
fn each_definition_has_its_own_checksum() {
    let mut hashes: Vec<String> = FeatureSet::ALL.map(FeatureSet::hash).to_vec();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), FeatureSet::ALL.len());
    for set in FeatureSet::ALL {
        assert_eq!(FeatureSet::named(set.name()), Some(set));
        assert!(set.inputs() <= MAX_INPUTS);
    }
}

proptest! {
    #[test]
    fn any_request_gives_finite_inputs(
        requests in proptest::collection::vec((any::<bool>(), any::<u32>(), 0u8..24, any::<i64>(), any::<u64>()), 16..40),
        gap in any::<i64>(), depth in any::<u32>(),
    ) {
        let mut history = History::new();
        for &(write, bytes, tag, delta, ns) in &requests {
            let op = if write { Op::Write } else { Op::Read };
            history.push(RequestVector::new(op, bytes, IoTag::from_code(tag).unwrap()), delta, Nanos(ns));
        }
        let mut row = [0.0; MAX_INPUTS];
        let place = Place { gap, angle: [0.6, 0.8], position: 0.5, region: 0.0, depth };
        for set in [FeatureSet::Unordered, FeatureSet::UnorderedWithMean, FeatureSet::Positioned] {
            let vector = RequestVector::new(Op::Read, 4096, IoTag::UNKNOWN);
            prop_assert!(latency_row(set, &vector, &place, &history, &mut row).is_some());
            prop_assert!(row[..set.inputs()].iter().all(|x| x.is_finite() && x.abs() < 10.0));
        }
        for set in [FeatureSet::Window, FeatureSet::WindowWithLatency] {
            let width = history.window(set, &mut row).unwrap();
            prop_assert!(row[..width].iter().all(|x| x.is_finite() && x.abs() < 10.0));
        }
    }
}

#[test]
fn the_platters_angle_follows_distance_and_time() {
    let rotation = Rotation { period_ns: 10e6, sectors: 1000.0 };
    let mut spindle = Spindle::new(rotation);
    assert_eq!(spindle.angle(0, Nanos::ZERO), [0.0, 0.0]);
    spindle.completed(5_000, Nanos::from_ms(50), Nanos::from_ms(8));
    // Too quick for the platter: from a buffer.
    spindle.completed(9_999, Nanos::from_ms(51), Nanos::from_us(100));
    let near = |sector, ms, expected: [f32; 2]| {
        let found = spindle.angle(sector, Nanos::from_ms(ms));
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?} is not {expected:?}");
    };
    near(5_000, 50, [0.0, 1.0]);
    near(5_250, 50, [1.0, 0.0]);
    near(4_750, 50, [-1.0, 0.0]);
    // A quarter turn ahead, of which half a turn has passed; whole turns do not count.
    near(5_250, 55, [-1.0, 0.0]);
    near(65_250, 1_000_055, [-1.0, 0.0]);
    let mut still = Spindle::new(Rotation::default());
    still.completed(8, Nanos(1), Nanos(1));
    assert_eq!(still.angle(80, Nanos(5)), [0.0, 0.0]);
}
