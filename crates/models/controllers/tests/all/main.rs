//! Controllers in worlds of their own.

mod io_cost;
mod switching;
mod wbt;
