//! The first screen of a survey's page: what to set, how, and what it was decided by.

use crate::advice::{Cells, SurveyPoint, completion_cells, survey_table};
use crate::grid::Grid;
use dumbwaiter_advise::Advice;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct AdviceView {
    pub(super) title: String,
    headline: String,
    sentence: String,
    criterion: String,
    /// Schedulers that are out, each in a sentence.
    losses: Vec<String>,
    apply: Vec<String>,
    undo: Vec<String>,
    tables: Vec<Grid>,
    points: Vec<String>,
    completion: String,
    how: Vec<String>,
    seconds: String,
}

pub(super) fn advice(advice: &Advice, points: &[SurveyPoint<'_>]) -> AdviceView {
    let grid = |title: &str, (header, rows): Cells| Grid {
        title: title.to_owned(),
        header: header.into_iter().map(|(title, _)| title).collect(),
        rows,
    };
    // The mark of the recommended one precedes its name.
    let marked = survey_table(advice, points).map(|(header, rows)| {
        let join = |row: Vec<String>| {
            let (head, rest) = row.split_at(row.len().min(2));
            let name = head.iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join(" ");
            std::iter::once(name).chain(rest.iter().cloned()).collect()
        };
        (header.into_iter().skip(1).collect(), rows.into_iter().map(join).collect())
    });
    let mut tables: Vec<Grid> = marked.map(|cells| grid("Schedulers", cells)).into_iter().collect();
    if !advice.completion.measured.is_empty() {
        tables.push(grid("Completion methods", completion_cells(&advice.completion)));
    }
    AdviceView {
        title: format!("What to set on {}", advice.device),
        headline: advice.headline(),
        sentence: advice.sentence.clone(),
        criterion: advice.criterion.clone(),
        losses: advice.losses.iter().map(|loss| loss.sentence(&advice.recommended)).collect(),
        apply: if advice.is_to_be_applied() { advice.commands.clone() } else { Vec::new() },
        undo: if advice.is_to_be_applied() { advice.undo.clone() } else { Vec::new() },
        tables,
        points: points.iter().map(|point| format!("{}: {}", point.name, point.about)).collect(),
        completion: advice.completion.sentence.clone(),
        how: advice.completion.how.clone(),
        seconds: format!("{:.0} s", advice.seconds),
    }
}
