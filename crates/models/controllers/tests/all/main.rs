//! Controllers in worlds of their own.

mod switching;
