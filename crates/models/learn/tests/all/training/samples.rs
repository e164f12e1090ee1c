//! Rows of inputs: nothing knows the future, and no history crosses a segment.

use dumbwaiter_block::{IoTag, Nanos, Op};
use dumbwaiter_learn::training::data::Run;
use dumbwaiter_learn::training::samples::{Geometry, STRETCH, latency_rows, window_rows};
use dumbwaiter_learn::{FeatureSet, RequestRecord};
use proptest::prelude::*;

/// Device of the tests, in sectors.
const SECTORS: u64 = 1 << 20;
/// It does not turn.
fn device() -> Geometry {
    Geometry { sectors: SECTORS, ..Geometry::default() }
}

pub(crate) fn record(arrive_us: u64, wait_us: u64, latency_us: u64, sector: u64) -> RequestRecord {
    let issue = Nanos::from_us(arrive_us + wait_us);
    RequestRecord {
        arrive: Nanos::from_us(arrive_us),
        issue,
        complete: issue + Nanos::from_us(latency_us),
        op: if sector.is_multiple_of(3) { Op::Write } else { Op::Read },
        sector,
        bytes: 4096,
        tag: IoTag::UNKNOWN,
        depth: 1,
    }
}

pub(crate) fn run(workload: &str, segments: Vec<Vec<RequestRecord>>) -> Run {
    Run { repeat: "r".to_owned(), workload: workload.to_owned(), segments, checksum: 0 }
}

fn requests() -> impl Strategy<Value = Vec<RequestRecord>> {
    proptest::collection::vec((0u64..300, 0u64..50, 1u64..400, 0u64..SECTORS), 40..120).prop_map(|steps| {
        let mut now = 0;
        let mut records: Vec<RequestRecord> = steps
            .into_iter()
            .map(|(step, wait, latency, sector)| {
                now += step;
                record(now, wait, latency, sector)
            })
            .collect();
        records.sort_by_key(|record| record.issue);
        records
    })
}

proptest! {
    #[test]
    fn a_latency_is_unknown_until_its_request_completes(records in requests(), which in any::<prop::sample::Index>(), add in 1u64..9999) {
        let changed_at = which.index(records.len());
        let mut changed = records.clone();
        changed[changed_at].complete += Nanos::from_us(add);
        let known_from = records[changed_at].complete;
        for set in [FeatureSet::Unordered, FeatureSet::Positioned] {
            let rows = |records: &[RequestRecord]| latency_rows(&run("oltp", vec![records.to_vec()]), set, &device(), usize::MAX);
            let (before, after) = (rows(&records), rows(&changed));
            // Rows are in the order of the moments at which inputs are taken.
            let mut moments: Vec<Nanos> =
                records.iter().map(|r| if set == FeatureSet::Unordered { r.arrive } else { r.issue }).collect();
            moments.sort();
            let cold = moments.len() - before.len();
            for index in 0..before.len().min(after.len()) {
                if moments[cold + index] < known_from {
                    prop_assert_eq!(before.row(index), after.row(index));
                }
            }
        }
    }

    #[test]
    fn segments_are_never_joined(records in requests()) {
        let one = window_rows(&run("readseq", vec![records.clone()]), FeatureSet::Window, usize::MAX);
        let two = window_rows(&run("readseq", vec![records.clone(), records]), FeatureSet::Window, usize::MAX);
        prop_assert_eq!(two.len(), 2 * one.len());
        prop_assert_eq!(&two.inputs[one.inputs.len()..], &one.inputs[..]);
    }
}

#[test]
fn the_first_request_of_a_segment_has_no_distance() {
    let records: Vec<RequestRecord> = (0..16).map(|i| record(i * 1000, 0, 10, 500 + 8 * i)).collect();
    let rows = window_rows(&run("readseq", vec![records]), FeatureSet::Window, usize::MAX);
    assert_eq!((rows.len(), rows.row(0)[6]), (1, 0.0));
    assert!(rows.row(0)[13] > 0.1);
}

#[test]
fn samples_are_whole_stretches_evenly_spaced() {
    let records: Vec<RequestRecord> =
        (0..16 + 100 * STRETCH as u64).map(|i| record(i * 1000, 0, 10 + i % 7, i)).collect();
    let run = run("oltp", vec![records]);
    let all = latency_rows(&run, FeatureSet::Unordered, &device(), usize::MAX);
    let some = latency_rows(&run, FeatureSet::Unordered, &device(), 10 * STRETCH);
    assert_eq!((all.len(), some.len()), (100 * STRETCH, 10 * STRETCH));
}
