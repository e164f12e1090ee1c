//! Targets to run on: files, and loop devices where the tests run as root.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

use dumbwaiter_experiment::Control;
use dumbwaiter_realworld::drive::{CompletionMode, DriveRun, Error, Options, Target, run};
use dumbwaiter_scenario::Scenario;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_schedulers::Choice;

/// A file of random bytes without holes.
pub(crate) fn filled(dir: &Path, name: &str, bytes: usize) -> PathBuf {
    let path = dir.join(name);
    let mut state = 88172645463325252u64;
    let data: Vec<u8> = (0..bytes / 8)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .collect();
    std::fs::write(&path, data).unwrap();
    path
}

pub(crate) fn scenario(text: &str) -> Scenario {
    Scenario::from_toml(text, "test").unwrap()
}

pub(crate) fn run_on(
    target: &Target,
    text: &str,
    scheduler: &str,
    completion: CompletionMode,
) -> Result<DriveRun, Error> {
    let scenario = scenario(text);
    let prepared = Prepared::new(&scenario).unwrap();
    run(&prepared, target, &Choice::parse(scheduler).unwrap(), completion, 0, &Control::default())
}

pub(crate) fn open(path: &Path, options: &Options) -> Target {
    let target = Target::open(path, options).unwrap();
    for note in target.notes() {
        println!("{}: {note}", path.display());
    }
    target
}

pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|l| l.starts_with("Uid:") && l.split_whitespace().nth(2) == Some("0"))
}

/// Runs a command that may not be there; its output if it succeeded.
pub(crate) fn try_command(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
