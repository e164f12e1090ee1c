//! Can the files of a recording be written?

use std::path::Path;

use crate::Error;
use dumbwaiter_text::{check, same_file};

use crate::recording::dispatch_file::beside;
use crate::recording::options::Options;

/// Refuses files that cannot be written or that are the same one, before a long recording: those of the recording, and `summary`,
/// where its summary goes.
///
/// # Errors
/// The first such file, and what is expected.
pub fn check_files(options: &Options, summary: Option<&Path>) -> Result<(), Error> {
    let output = options.output.as_path();
    let description = beside(output).filter(|_| options.dispatch);
    let own = [(Some(output), "the recording itself"), (description.as_deref(), "the recording's description")];
    for (path, role) in own {
        let Some(path) = path else { continue };
        check(path).map_err(|cause| Error::file("write", path, cause))?;
        let path_text = path.display();
        if path.exists() && !path.is_file() {
            return Err(Error::Refused(format!("{path_text}: not a regular file; expected the name of a file")));
        }
        if summary.is_some_and(|summary| same_file(path, summary)) {
            return Err(Error::Refused(format!("{path_text} is {role}; choose another file for the summary")));
        }
    }
    Ok(())
}
