//! The `dumbwaiter` command.
fn main() {}
