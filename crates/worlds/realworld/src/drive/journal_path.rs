//! Whether the journal of a verified run can have the name that was chosen for it.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::drive::Error;

/// Refuses a journal that cannot be made, or would be made of the target itself.
pub(crate) fn check_journal_path(path: &Path, target: &Metadata) -> Result<(), Error> {
    let refuse = |reason: &str| Err(Error::Journal { path: path.to_owned(), reason: reason.into() });
    if let Ok(there) = fs::metadata(path) {
        if (there.dev(), there.ino()) == (target.dev(), target.ino()) {
            return refuse("is the target itself; the journal needs a file of its own");
        }
        if !there.is_file() {
            return refuse("not a regular file; expected the name of a file for the journal");
        }
    }
    dumbwaiter_text::check(path).map_err(|e| Error::Journal { path: path.to_owned(), reason: e.to_string() })
}
