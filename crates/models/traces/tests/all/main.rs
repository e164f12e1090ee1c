//! Readers, writers, statistics and replay of traces, in one program.

mod characteristics;
mod fuzz;
mod replay;
mod round_trip;
mod tools;
mod traps;
