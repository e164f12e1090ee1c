//! Controllers in worlds of their own.

mod switching;
mod wbt;
