//! Published experiments, run again on the models and compared with what the papers print.
//!
//! A paper is a list of figures; a figure is a function that simulates and answers rows: the paper's value beside ours, and
//! whether orderings and tolerances hold. A miss is a row like any other. Where a paper's text gives no number, none is
//! made up from its plots. Figures run in any world, on the models or on a real
//! device, and do not know in which.
#![forbid(unsafe_code)]

mod ablation;
mod bfq_2015;
mod changed;
mod effort;
mod fair_ssd_2020;
mod headway;
mod icpe_2024;
mod kml_2025;
mod poll_2022;
mod real;
#[cfg(test)]
mod real_tests;
mod replicates;
mod row;
pub mod show;
pub mod statements;
mod ull_2023;

use dumbwaiter_report::{Grid, Plot};
use serde::Serialize;

pub use changed::{CHANGES, Causes, Change, Changed, causes, reproduce_with};
pub use effort::{Case, Effort, OnDevice};
pub use real::{Possible, Real, possible};
pub use row::{Row, Status};

/// A paper that can be run again.
pub struct Paper {
    /// Its name on the command line.
    pub name: &'static str,
    /// Authors, title, venue and year as far as they are known.
    pub title: &'static str,
    /// Which constants of the models were fitted to which of its figures; the others are predicted.
    pub calibration: &'static str,
    /// What was chosen after the paper was seen: constants, loads, phases.
    pub chosen: &'static [Chosen],
    /// The part of it that can be run on a real device.
    pub real: Real,
    /// Its figures and tables.
    pub figures: &'static [Figure],
}

/// Something that was chosen after a paper was seen, so that rows which it touches are no pure predictions.
pub struct Chosen {
    /// Its name in `fitted` of the rows.
    pub name: &'static str,
    /// What was chosen, and by what.
    pub what: &'static str,
    /// What changes without it, as far as that was measured.
    pub without: &'static str,
}

/// Runs a figure.
pub type Run = fn(&Effort<'_>) -> Result<FigureResult, Error>;

/// A figure or table of a paper.
pub struct Figure {
    /// Its name behind the paper's, such as `table-1`.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Runs it.
    pub run: Run,
}

impl Figure {
    /// Runs it: every row that is a statement has its id, place and status. On a real device, rows say so, and only orders are judged.
    pub fn reproduce(&self, paper: &str, effort: &Effort<'_>) -> Result<FigureResult, Error> {
        let result = (self.run)(effort);
        let concluded = effort.world.conclude(&mut [], effort.control);
        let mut result = result?;
        result.notes.extend(concluded?);
        let about = effort.world.about();
        if about.real {
            result.rows = result.rows.into_iter().map(|row| row.real(&about.name)).collect();
            for note in about.notes {
                if !result.notes.contains(&note) {
                    result.notes.push(note);
                }
            }
        } else {
            result.rows.extend(statements::not_run(paper, self.name));
        }
        result.rows.iter_mut().for_each(statements::settle);
        Ok(result)
    }
}

/// Result of a figure.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FigureResult {
    /// Paper beside ours.
    pub rows: Vec<Row>,
    /// Notes that a reader must know.
    pub notes: Vec<String>,
    /// Series to draw the figure again.
    pub plots: Vec<Plot>,
    /// Tables that are not of rows, such as a map of winners.
    pub tables: Vec<Grid>,
}

/// Why a figure could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A run was refused or broke off.
    #[error(transparent)]
    Run(#[from] dumbwaiter_experiment::Failure),
    /// A case that is none.
    #[error("{0}")]
    Case(String),
    /// A name that is not in the registry.
    #[error("`{name}` is not known; expected one of {expected}")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names in the registry.
        expected: String,
    },
    /// Ended from outside.
    #[error("interrupted")]
    Cancelled,
}

/// Every paper, in the order of the list.
pub const PAPERS: &[Paper] = &[
    ull_2023::PAPER,
    poll_2022::PAPER,
    bfq_2015::PAPER,
    fair_ssd_2020::PAPER,
    ablation::PAPER,
    headway::PAPER,
    icpe_2024::PAPER,
    kml_2025::PAPER,
];

/// The figures that `NAME` or `NAME:FIGURE` asks for, with their paper.
pub fn find(what: &str) -> Result<Vec<(&'static Paper, &'static Figure)>, Error> {
    let (name, figure) = what.split_once(':').map_or((what, None), |(name, figure)| (name, Some(figure)));
    let list = |names: Vec<&str>| names.join(", ");
    let Some(paper) = PAPERS.iter().find(|p| p.name == name) else {
        let expected = list(PAPERS.iter().map(|p| p.name).collect());
        return Err(Error::Unknown { name: name.to_owned(), expected });
    };
    let Some(figure) = figure else { return Ok(paper.figures.iter().map(|f| (paper, f)).collect()) };
    match paper.figures.iter().find(|f| f.name == figure) {
        Some(found) => Ok(vec![(paper, found)]),
        None => {
            let expected = list(paper.figures.iter().map(|f| f.name).collect());
            Err(Error::Unknown { name: what.to_owned(), expected: format!("{expected} of {name}") })
        }
    }
}

/// The figures that all of `names` ask for, each once.
///
/// # Errors
/// As [`find`].
pub fn find_all(names: &[String]) -> Result<Vec<(&'static Paper, &'static Figure)>, Error> {
    let mut wanted: Vec<(&'static Paper, &'static Figure)> = Vec::new();
    for name in names {
        for (paper, figure) in find(name)? {
            if !wanted.iter().any(|(p, f)| p.name == paper.name && f.name == figure.name) {
                wanted.push((paper, figure));
            }
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_unknown_ones_are_answered_with_the_known() {
        for (i, paper) in PAPERS.iter().enumerate() {
            assert!(PAPERS[..i].iter().all(|p| p.name != paper.name), "{}", paper.name);
            for (i, figure) in paper.figures.iter().enumerate() {
                assert!(paper.figures[..i].iter().all(|f| f.name != figure.name), "{}", figure.name);
                assert_eq!(find(&format!("{}:{}", paper.name, figure.name)).map(|f| f.len()).ok(), Some(1));
            }
            let Err(error) = find(&format!("{}:no-such", paper.name)) else { panic!("a figure of no name") };
            assert!(error.to_string().contains(paper.figures[0].name), "{error}");
        }
        assert!(matches!(find("no-such"), Err(Error::Unknown { .. })));
    }

    #[test]
    fn every_paper_says_what_it_is_and_what_was_fitted() {
        let names: Vec<&str> = PAPERS.iter().map(|p| p.name).collect();
        assert_eq!(
            names,
            ["ull-2023", "poll-2022", "bfq-2015", "fair-ssd-2020", "ablation", "headway", "icpe-2024", "kml-2025"]
        );
        for paper in PAPERS {
            assert!(
                !paper.title.is_empty() && !paper.calibration.is_empty() && !paper.figures.is_empty(),
                "{}",
                paper.name
            );
            assert!(paper.figures.iter().all(|f| !f.title.is_empty()), "{}", paper.name);
        }
    }
}
