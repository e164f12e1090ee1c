//! Text in and out: files written safely, also by root in a folder that others may write to, text for a terminal, and units.
//!
//! - [`OutputFile`] writes a file beside its final place and gives it its name once it is complete. It never writes
//!   through a link that another user planted.
//! - [`Entry`] is a name in a folder in the same way, for sockets, locks and removals.
//! - [`Writing`] tells that a result is on its way, to those who may have to end the program.
//! - [`check_distinct`] refuses outputs that would overwrite an input or each other, before long work starts.
//! - [`read_text`] reads a text file of at most a given size.
//! - [`escape`] and [`escape_line`] keep control characters from files, names and recordings off the terminal.
//! - [`units`] reads and formats sizes, times, rates and percentages.
#![forbid(unsafe_code)]

mod distinct;
mod file;
mod folder;
mod leftover;
mod read;
mod terminal;
pub mod units;
mod writing;

pub use distinct::{check_distinct, same_file};
pub use file::{OutputFile, check, create_folder, create_private_folder, write};
pub use folder::{Entry, remove};
pub use leftover::remove_leftovers;
pub use read::{TextError, read_config, read_text};
pub use terminal::{BOLD, FAINT, RESET, escape, escape_line, escape_styled, say, shortened};
pub use writing::{Writing, writing_for};
