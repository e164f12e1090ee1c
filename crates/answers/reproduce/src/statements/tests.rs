//! Lists and rows belong together. The rows are those of a simulator that answers at once, as any figures give the same rows.

use std::collections::BTreeSet;

use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{About, Cell, CellResult, Concurrency, Control, Failure, Refusal, Stack, World};
use dumbwaiter_measure::{Energy, Recorder, RecorderConfig, RunFacts, TenantSpec};

use super::*;
use crate::{Effort, PAPERS, Paper};

/// A simulator in which every run has the same figures.
struct AtOnce;

impl World for AtOnce {
    fn about(&self) -> About {
        About { name: "simulator".into(), stacks: vec![Stack::Simulated], ..About::default() }
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Independent(1)
    }

    fn supports(&self, _: &Cell) -> Result<(), Refusal> {
        Ok(())
    }

    fn run(&self, cell: &Cell, _: &Control) -> Result<CellResult, Failure> {
        let named = cell.scenario().map_or(Vec::new(), |s| s.tenants.iter().map(|t| t.name.clone()).collect());
        let tenants =
            named.into_iter().map(|name| TenantSpec { name, weight: 100, parent: None, focus: false }).collect();
        let interval = Nanos::from_secs(1);
        let config = RecorderConfig { warmup: Nanos(0), interval, tenants, tasks: Vec::new() };
        let mut run = Recorder::new(config).finish(Nanos::from_secs(1), RunFacts::default());
        (run.iops, run.mb_per_s, run.completed) = (1000.0, 4.0, 1000);
        let latency = &mut run.latency_us;
        (latency.mean, latency.p50, latency.p99, latency.stddev, latency.max) = (1.0, 1.0, 1.0, 1.0, 1.0);
        (run.read.iops, run.write.iops, run.cpu.ctx_per_io) = (500.0, 500.0, 1.0);
        run.host_counters.extend(["work_s", "poll_s"].map(|name| (name.to_owned(), 1.0)));
        run.energy = Some(Energy { joules: 50.0, source: "a test".into(), j_per_mio: 50.0, bytes_per_j: 80.0 });
        Ok(CellResult::of(run))
    }
}

/// The rows of all statements of a paper, by name of the row.
fn stated(paper: &Paper) -> Vec<Row> {
    let control = Control::default();
    let effort = Effort::new(true, &AtOnce, &control);
    let mut rows = Vec::new();
    for figure in paper.figures {
        rows.extend(figure.reproduce(paper.name, &effort).unwrap().rows);
    }
    rows.retain(|row| row.status.is_some());
    rows
}

/// How many statements each list has. They become more; a statement that fails stays.
const AT_LEAST: [(&str, usize); 7] = [
    ("ull-2023", 319),
    ("poll-2022", 86),
    ("bfq-2015", 158),
    ("fair-ssd-2020", 219),
    ("headway", 100),
    ("icpe-2024", 176),
    ("kml-2025", 123),
];

#[test]
fn ids_are_unique_numbered_without_gaps_and_none_has_gone() {
    for ((paper, list), (named, least)) in LISTS.iter().zip(AT_LEAST) {
        assert_eq!(*paper, named);
        let all = of(paper);
        assert_eq!(all.len(), list.lines().count(), "{paper}: a line cannot be read");
        assert!(all.len() >= least, "{paper} had {least} statements, and has {}", all.len());
        let ids: BTreeSet<&str> = all.iter().map(|s| s.id).collect();
        assert_eq!(ids.len(), all.len(), "{paper}: an id is twice there");
        for id in &ids {
            let (prefix, number) = id.rsplit_once('-').unwrap_or_else(|| panic!("{paper}/{id} has no number"));
            let number: usize = number.parse().unwrap_or_else(|_| panic!("{paper}/{id} has no number"));
            assert!(
                number == 1 || ids.contains(format!("{prefix}-{}", number - 1).as_str()),
                "{paper}: none before {id}"
            );
        }
    }
}

#[test]
fn every_statement_has_a_place_failing_ones_a_cause_and_what_was_chosen_is_declared() {
    for paper in PAPERS {
        let declared: BTreeSet<&str> = paper.chosen.iter().map(|c| c.name).collect();
        assert!(paper.chosen.iter().all(|c| !c.what.is_empty() && !c.without.is_empty()), "{}", paper.name);
        let mut used = BTreeSet::new();
        for s in of(paper.name) {
            assert!(!s.place.is_empty(), "{}/{} has no place", paper.name, s.id);
            let needed = s.last != Status::Holds;
            assert!(!needed || !s.why.is_empty(), "{}/{} has neither cause nor reason", paper.name, s.id);
            used.extend(s.fitted());
        }
        assert!(used.is_subset(&declared), "{}: {used:?} of {declared:?}", paper.name);
    }
}

#[test]
fn the_list_of_a_paper_has_every_row_and_every_row_is_in_the_list() {
    for paper in PAPERS {
        let rows = stated(paper);
        {
            let mut missing = Vec::new();
            let mut found = BTreeSet::new();
            for row in &rows {
                match &row.statement {
                    Some(id) => assert!(found.insert(id.clone()), "{id} is of two rows: {row:?}"),
                    None => missing.push(format!(
                        "{}\t{}\t{}",
                        row.figure,
                        row.metric,
                        row.key.as_ref().unwrap_or(&row.case)
                    )),
                }
                assert!(row.statement.is_none() || row.place.is_some(), "{row:?}");
                assert!(row.status != Some(Status::Fails) || row.cause.is_some(), "{row:?}");
                assert!(row.status != Some(Status::Cannot) || row.reason.is_some(), "{row:?}");
            }
            assert!(
                missing.is_empty(),
                "{} without a line in the list of {}:\n{}",
                missing.len(),
                paper.name,
                missing.join("\n")
            );
            // Figures of single jobs, of which the study has many, are not those of a run at once.
            if paper.name == "icpe-2024" {
                continue;
            }
            let gone: Vec<&str> = of(paper.name)
                .iter()
                .map(|s| s.id)
                .filter(|id| !found.contains(&format!("{}/{id}", paper.name)))
                .collect();
            assert!(gone.is_empty(), "no row of {} for {gone:?}", paper.name);
            assert_eq!(rows.len(), of(paper.name).len());
        }
    }
}

#[test]
fn the_manual_says_what_was_chosen() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reproduce.md");
    let manual = std::fs::read_to_string(path).unwrap();
    for chosen in PAPERS.iter().flat_map(|paper| paper.chosen) {
        let line = format!("| `{}` | {} | {} |", chosen.name, chosen.what, chosen.without);
        assert!(manual.contains(&line), "docs/reproduce.md lacks {line}");
    }
}

#[test]
fn counts_are_those_of_the_lists() {
    for count in counts() {
        assert_eq!(count.statements + count.ours, of(count.paper).len(), "{}", count.paper);
        assert_eq!(count.holds + count.fails + count.cannot, count.statements, "{}", count.paper);
    }
}
