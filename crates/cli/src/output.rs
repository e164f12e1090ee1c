//! Where results go: stdout, files, terminals.

use std::io::{Error, ErrorKind};

pub(crate) use crate::terminal::outputs::{
    check_files, check_writable, is_stdout, pretty, print_or_json, write_json, write_text,
};
pub(crate) use crate::terminal::{print, screen, style};

/// Is this what happens when the reader of a pipe is gone?
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
}
