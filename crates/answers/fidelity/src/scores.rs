//! Scores of many recordings.

use std::path::PathBuf;

use rayon::prelude::*;
use serde::Serialize;

use crate::controllers::{ControllerSummary, controller_summary};
use crate::{Score, ScoreError, Summary, score, summary};

/// Scores of recordings and their summary. Its serde form is the JSON of `fidelity --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Scores {
    /// One for each recording, in the order given; one more for each controller that was recorded beside the scheduler.
    pub files: Vec<Score>,
    /// One for each scheduler.
    pub summary: Vec<Summary>,
    /// One for each controller of which there are recordings.
    pub controllers: Vec<ControllerSummary>,
}

/// Scores recordings, `jobs` at a time; on all CPUs where that is `None`. `explain`: see [`score`].
///
/// # Errors
/// The first recording that cannot be read.
pub fn scores(files: &[PathBuf], explain: Option<u64>, jobs: Option<usize>) -> Result<Scores, ScoreError> {
    let score_each = || files.par_iter().with_max_len(1).map(|path| score(path, explain)).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs.unwrap_or(0)).build();
    // Without threads of its own, on those of the whole program.
    let found: Vec<Result<Vec<Score>, ScoreError>> = match pool {
        Ok(pool) => pool.install(score_each),
        Err(_) => score_each(),
    };
    let files: Vec<Vec<Score>> = found.into_iter().collect::<Result<_, _>>()?;
    let files: Vec<Score> = files.into_iter().flatten().collect();
    Ok(Scores {
        summary: summary(&files),
        controllers: controller_summary(files.iter().filter_map(|score| score.controller.as_ref())),
        files,
    })
}
