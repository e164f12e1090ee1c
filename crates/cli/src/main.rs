//! The program `dumbwaiter`; all of it is in the library beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(dumbwaiter::run(std::env::args_os()))
}
