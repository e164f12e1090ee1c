//! The statements of the papers: an id that stays, the place, how it was last judged, and why it fails or cannot be judged.
//!
//! A row of a run finds its statement by figure, metric and case. The lists are the contract: a statement does not leave its list for
//! failing, and tests compare lists and rows in both directions.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Serialize;

use crate::{PAPERS, Row, Status};

/// Place of a statement that is ours, not the paper's.
const OURS: &str = "ours";
/// The cause of a row that fails and of which none was found.
const UNKNOWN: &str = "unknown";

/// Lists by paper, of tab-separated lines: id, place, figure, metric, case, status when last judged, what was chosen that touches
/// it (names joined by commas), and the cause of a failing row or the reason of one that cannot be judged.
const LISTS: [(&str, &str); 7] = [
    ("ull-2023", include_str!("statements/ull-2023.tsv")),
    ("poll-2022", include_str!("statements/poll-2022.tsv")),
    ("bfq-2015", include_str!("statements/bfq-2015.tsv")),
    ("fair-ssd-2020", include_str!("statements/fair-ssd-2020.tsv")),
    ("headway", include_str!("statements/headway.tsv")),
    ("icpe-2024", include_str!("statements/icpe-2024.tsv")),
    ("kml-2025", include_str!("statements/kml-2025.tsv")),
];

/// A line of a list.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// Its id within the paper, such as `fig3-2`.
    pub id: &'static str,
    /// Section, figure or table of the paper.
    pub place: &'static str,
    figure: &'static str,
    metric: &'static str,
    case: &'static str,
    /// As it was last judged.
    pub last: Status,
    /// Names of what was chosen and touches it.
    fitted: &'static str,
    why: &'static str,
}

impl Statement {
    fn parse(line: &'static str) -> Option<Statement> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [id, place, figure, metric, case, last, fitted, why] = fields[..] else { return None };
        let last = match last {
            "holds" => Status::Holds,
            "fails" => Status::Fails,
            "cannot" => Status::Cannot,
            _ => return None,
        };
        Some(Statement { id, place, figure, metric, case, last, fitted, why })
    }

    /// Names of what was chosen after the paper was seen and touches it.
    pub fn fitted(&self) -> impl Iterator<Item = &'static str> {
        self.fitted.split(',').map(str::trim).filter(|name| !name.is_empty())
    }

    fn is_of(&self, row: &Row) -> bool {
        self.figure == row.figure && self.metric == row.metric && self.case == row.key.as_ref().unwrap_or(&row.case)
    }

    /// No run answers it: the list alone says why.
    fn is_not_run(&self) -> bool {
        self.figure == NOT_MODELLED
    }
}

/// The figure of the statements that no run answers.
pub(crate) const NOT_MODELLED: &str = "not-modelled";

static STATEMENTS: LazyLock<BTreeMap<&'static str, Vec<Statement>>> = LazyLock::new(|| {
    LISTS.iter().map(|(paper, list)| (*paper, list.lines().filter_map(Statement::parse).collect())).collect()
});

/// The statements of a paper; none of what is ours.
pub fn of(paper: &str) -> &'static [Statement] {
    STATEMENTS.get(paper).map_or(&[], Vec::as_slice)
}

/// Gives a row that is a statement its id, place, status, cause and what was fitted.
pub(crate) fn settle(row: &mut Row) {
    row.status = row.outcome();
    let Some(status) = row.status else { return };
    let found = of(&row.paper).iter().find(|statement| statement.is_of(row));
    if let Some(statement) = found {
        row.statement = Some(format!("{}/{}", row.paper, statement.id));
        row.place = Some(statement.place.to_owned());
        if row.device.is_none() {
            row.fitted = statement.fitted().map(str::to_owned).collect();
        }
    }
    let why = found.map(|statement| statement.why).filter(|why| !why.is_empty());
    match status {
        // Causes were measured on the models.
        Status::Fails if row.device.is_none() => row.cause = Some(why.unwrap_or(UNKNOWN).to_owned()),
        Status::Fails => row.cause = Some(UNKNOWN.to_owned()),
        Status::Cannot if row.reason.is_none() => row.reason = Some(why.unwrap_or("it was not measured").to_owned()),
        _ => {}
    }
}

/// Rows of the statements of `figure` that no run answers.
pub(crate) fn not_run(paper: &str, figure: &str) -> Vec<Row> {
    let row = |s: &Statement| Row::new(paper, s.figure, s.metric, s.case, f64::NAN, "").cannot(s.why);
    of(paper).iter().filter(|s| s.is_not_run() && s.figure == figure).map(row).collect()
}

/// How many statements of a paper there are, and what came of them when they were last judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Name of the paper.
    pub paper: &'static str,
    /// Its title.
    pub title: &'static str,
    /// All statements of the paper.
    pub statements: usize,
    /// Of those, when last judged.
    pub holds: usize,
    /// Of those, when last judged.
    pub fails: usize,
    /// Statements that cannot be judged.
    pub cannot: usize,
    /// Statements that something touches which was chosen after the paper was seen.
    pub fitted: usize,
    /// Failing statements whose cause is not known.
    pub unknown: usize,
    /// Statements of ours that are judged beside the paper's, and are not in the counts above.
    pub ours: usize,
    /// Of those, when last judged.
    pub ours_hold: usize,
}

/// The counts of every paper, without a run.
pub fn counts() -> Vec<Counts> {
    let of_paper = |paper: &crate::Paper| {
        let all = of(paper.name);
        let count = |is: &dyn Fn(&Statement) -> bool| all.iter().filter(|s| is(s)).count();
        let stated = |s: &Statement| s.place != OURS;
        Counts {
            paper: paper.name,
            title: paper.title,
            statements: count(&stated),
            holds: count(&|s| stated(s) && s.last == Status::Holds),
            fails: count(&|s| stated(s) && s.last == Status::Fails),
            cannot: count(&|s| stated(s) && s.last == Status::Cannot),
            fitted: count(&|s| stated(s) && s.fitted().next().is_some()),
            unknown: count(&|s| stated(s) && s.last == Status::Fails && (s.why.is_empty() || s.why == UNKNOWN)),
            ours: count(&|s| !stated(s)),
            ours_hold: count(&|s| !stated(s) && s.last == Status::Holds),
        }
    };
    PAPERS.iter().map(of_paper).collect()
}

#[cfg(test)]
mod tests;
