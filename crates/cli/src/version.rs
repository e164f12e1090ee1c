//! The version of the program, and the commit that it was built from: the same for the command and for the Python package.
//!
//! In the crate that only programs depend on: a new commit compiles nothing else anew.

/// The version, with the commit behind it where that is known: `0.1.0 (1a2b3c4d5e6f)`.
pub const VERSION: &str = env!("DUMBWAITER_VERSION");

/// The commit, shortened to 12 digits, if it is known.
pub fn commit() -> Option<String> {
    VERSION.split_once('(').map(|(_, commit)| commit.trim_end_matches(')').to_owned())
}
