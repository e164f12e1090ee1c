//! What a guest may write into its memory, and what becomes of it.

mod chains;
mod guest;
mod rings;
