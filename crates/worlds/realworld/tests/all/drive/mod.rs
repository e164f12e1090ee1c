//! Runs on files and on loop devices.

mod common;
mod faults;
mod killed;
mod parity;
mod rings;
mod runs;
mod shares;
