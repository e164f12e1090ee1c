//! Requests that a guest may write into its memory, and their outcome.

mod chains;
mod guest;
mod rings;
