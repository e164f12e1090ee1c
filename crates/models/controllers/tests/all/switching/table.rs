//! Throughput tables as documents.

use dumbwaiter_controllers::switching::{Goal, Kind, MeasuredLoad, Measurement, ScoreTable, TableError};
use proptest::prelude::*;

const DISK: Kind = Kind { rotational: true, depth: 4 };

fn cell(scheduler: &str, runs: u32, mb_per_s: f64, latency_ms: f64) -> Measurement {
    let (scheduler, classes) = (scheduler.to_owned(), vec![0.25, 0.75]);
    Measurement { scheduler, runs, mb_per_s: [mb_per_s, 0.0], latency_ms: [latency_ms, 0.0], classes }
}

fn table() -> ScoreTable {
    let classes = vec!["a".to_owned(), "b".to_owned()];
    let mut table = ScoreTable::new("a test".to_owned(), "none".to_owned(), classes);
    for (depth, best) in [(1, 10.0), (32, 100.0)] {
        table.loads.push(MeasuredLoad {
            name: "random".to_owned(),
            device: "hdd:any".to_owned(),
            rotational: true,
            depth,
            signature: [0.0, 0.0, 0.25, 0.25],
            outstanding: None,
            cells: vec![cell("none", 5, 10.0, 2.0), cell("bfq", 5, best, 1.0), cell("kyber", 4, 1000.0, 0.1)],
        });
    }
    table
}

#[test]
fn the_shipped_table_knows_the_default_candidates_on_disks_and_flash() {
    let table = ScoreTable::shipped().unwrap();
    let candidates = ["mq-deadline", "headway", "bfq", "kyber", "none"];
    for kind in [DISK, Kind { rotational: true, depth: 31 }, Kind { rotational: false, depth: 1024 }] {
        for goal in [Goal::Throughput, Goal::Latency] {
            let prior = table.prior(kind, &candidates, goal, Some(&table.classes));
            assert!(prior.len() >= 20, "{kind:?}");
            let streams = dumbwaiter_controllers::switching::Signature::of([1.0, 0.0, 0.58, 0.2]);
            let expected = prior.expect(&streams, None).unwrap();
            assert!(expected.scores.iter().all(|score| *score > 0.0), "{kind:?}: {expected:?}");
            assert!(!kind.rotational || goal == Goal::Latency || expected.best() == 1, "{expected:?}");
        }
    }
    assert_eq!(ScoreTable::from_json(table.to_json().unwrap().as_bytes()).unwrap(), *table);
}

#[test]
fn a_prior_has_the_loads_of_the_nearest_depth_and_cells_of_five_runs() {
    let table = table();
    let load = dumbwaiter_controllers::switching::Signature::of([0.0, 0.0, 0.25, 0.25]);
    let expect = |kind, goal| table.prior(kind, &["none", "bfq", "kyber"], goal, None).expect(&load, None).unwrap();
    let shallow = expect(Kind { depth: 2, ..DISK }, Goal::Throughput);
    assert_eq!((shallow.scores[0], shallow.scores[2]), (shallow.scores[1], 0.0));
    assert_eq!(expect(Kind { depth: 31, ..DISK }, Goal::Throughput).best(), 1);
    assert_eq!(expect(Kind { depth: 2, ..DISK }, Goal::Latency).best(), 1, "the shorter latency");
    assert!(table.prior(Kind { rotational: false, depth: 4 }, &["none"], Goal::Throughput, None).is_empty());
    assert!(table.prior(DISK, &["cfq"], Goal::Throughput, None).is_empty());
}

#[test]
fn tables_with_numbers_that_cannot_be_are_refused() {
    let refused = |change: fn(&mut ScoreTable)| {
        let mut changed = table();
        change(&mut changed);
        ScoreTable::from_json(changed.to_json().unwrap().as_bytes()).expect_err("it must be refused")
    };
    assert!(matches!(refused(|t| t.schema = 2), TableError::Schema(2)));
    for change in [
        |t: &mut ScoreTable| t.loads[0].cells[0].mb_per_s[0] = 0.0,
        |t: &mut ScoreTable| t.loads[0].cells[0].mb_per_s[1] = -1.0,
        |t: &mut ScoreTable| t.loads[0].cells[0].latency_ms[0] = 1e300,
        |t: &mut ScoreTable| t.loads[0].cells[0].classes = vec![0.5],
        |t: &mut ScoreTable| t.loads[0].cells[0].classes[0] = 7.0,
        |t: &mut ScoreTable| t.loads[1].signature[2] = -0.5,
        |t: &mut ScoreTable| t.loads[1].outstanding = Some(9.0),
    ] {
        assert!(matches!(refused(change), TableError::Value { .. }));
    }
    assert!(matches!(ScoreTable::from_json(&vec![b' '; 5 << 20]), Err(TableError::TooLong)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is done to a document: an answer, never a panic, and what is accepted can be used.
    #[test]
    fn damaged_tables_are_refused_or_used(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut text = table().to_json().unwrap().into_bytes();
        prop_assert!(ScoreTable::from_json(&text[..cut.index(text.len() - 2)]).is_err());
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(table) = ScoreTable::from_json(&text) {
            let prior = table.prior(DISK, &["none", "bfq"], Goal::Throughput, Some(&table.classes));
            let load = dumbwaiter_controllers::switching::Signature::default();
            if let Some(expected) = prior.expect(&load, Some((0, &[0.5, 0.5]))) {
                prop_assert!(expected.scores.iter().all(|score| score.is_finite()));
            }
        }
    }
}
