//! The kernel with itself: second recordings of the same jobs beside the first.

use std::path::{Path, PathBuf};

use crate::recording::{self, Files, Recording};

use super::kernel::observe;
use super::{Case, ClosedLoops, Figures, NotComparable, name_of, parties, read_conditions, scenario};

/// Compares each recording with the second one of its name in `again`: by how much the kernel, with the same jobs, differs from
/// itself. The figures are those of [`closed_loops`](super::closed_loops), with the second recording in place of the run.
///
/// # Errors
/// A recording that cannot be read. Files that are no recordings, or that have no second one, are in the answer with the reason.
pub fn recorded_again(paths: &[PathBuf], again: &Path) -> Result<ClosedLoops, recording::Error> {
    let mut answer = ClosedLoops::default();
    for path in paths {
        let second = path.file_name().map(|name| again.join(name)).filter(|path| Files::of(path).description.exists());
        let pair = match (case(path)?, second.as_deref().map(case).transpose()?) {
            (Err(reason), _) => Err(reason),
            (_, None) => Err(format!("{} has no recording of its name", again.display())),
            (_, Some(Err(reason))) => Err(format!("the second recording: {reason}")),
            (Ok(first), Some(Ok(second))) => Ok((first, second)),
        };
        match pair {
            Ok((first, second)) => answer.compared.push(first.agreement(&figures_of(&second))),
            Err(reason) => answer.not_comparable.push(NotComparable { file: name_of(path), reason }),
        }
    }
    Ok(answer)
}

/// A recording's figures; the reason where it has none.
fn case(path: &Path) -> Result<Result<Case, String>, recording::Error> {
    let files = Files::of(path);
    let about = match read_conditions(&files)? {
        Ok(about) => about,
        Err(reason) => return Ok(Err(reason)),
    };
    let recording = Recording::open(&files.rows)?;
    let Some(kernel) = observe(&recording.rows) else { return Ok(Err("no I/O in it finished".to_owned())) };
    // Jobs are told apart by where they begin, groups by their processes.
    let offsets = if about.groups.is_some() { Ok(Vec::new()) } else { scenario::job_offsets(&about, &recording) };
    let offsets = match offsets {
        Ok(offsets) => offsets,
        Err(reason) => return Ok(Err(reason)),
    };
    let parties = parties(&about, &offsets, &kernel);
    Ok(Ok(Case { file: name_of(path), scheduler: recording.scheduler, kernel, parties }))
}

fn figures_of(second: &Case) -> Figures {
    let kernel = &second.kernel;
    let moved = second.parties.iter().map(|party| party.bytes(kernel)).collect();
    Figures { mb_per_s: kernel.mb_per_s, mean_us: kernel.mean_us, p95_us: kernel.p95_us, moved: Some(moved) }
}
