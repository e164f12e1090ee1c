//! Helpers for tests of real runs.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dumbwaiter_testkit::LoopDevice;
use serde_json::Value;

pub(crate) const READS: &str = r#"
duration = "200ms"
warmup = "50ms"
replicates = 1
schedulers = ["none", "mq-deadline", "headway"]
[[tenant]]
name = "light"
weight = 100
[[tenant.task]]
name = "t"
rw = "randread"
iodepth = 8
[[tenant]]
name = "heavy"
weight = 300
[[tenant.task]]
name = "t"
rw = "randread"
iodepth = 8
ioprio = "be/2"
"#;

/// The program, without the terminal's colours.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"));
    command.env_remove("CLICOLOR_FORCE").env("NO_COLOR", "1");
    command
}

pub(crate) fn dumbwaiter(args: &[&str]) -> Output {
    command().args(args).output().expect("the program starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs and expects success; answers stdout.
pub(crate) fn ok(args: &[&str]) -> String {
    let out = dumbwaiter(args);
    assert!(out.status.success(), "{args:?}: {:?}\n{}", out.status, text(&out.stderr));
    text(&out.stdout)
}

/// Runs and expects exit code 2, no result, and a message with all of `parts`; answers the message.
pub(crate) fn refused(args: &[&str], parts: &[&str]) -> String {
    let out = dumbwaiter(args);
    let message = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{message}");
    for part in parts {
        assert!(message.contains(part), "{args:?}: expected `{part}` in: {message}");
    }
    assert!(out.stdout.is_empty(), "{args:?}: results on stdout beside an error");
    message
}

pub(crate) fn file(dir: &Path, name: &str, content: &[u8]) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A folder in memory where there is one: loop devices over it are quick.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn device(dir: &Path) -> Option<(LoopDevice, PathBuf)> {
    let Some(disk) = LoopDevice::new(dir, 32 << 20) else {
        println!("skipped: no loop device (root is needed; ./.ci/lab has devices of its own)");
        return None;
    };
    let path = disk.path().to_path_buf();
    Some((disk, path))
}

pub(crate) fn scheduler_of(device: &Path) -> String {
    let name = device.file_name().unwrap().to_str().unwrap();
    std::fs::read_to_string(format!("/sys/block/{name}/queue/scheduler")).unwrap()
}

/// How many runs through the kernel's schedulers a program began whose TMPDIR is this: the latest one's folder is there.
pub(crate) fn runs_begun(folders: &Path) -> usize {
    let all = std::fs::read_dir(folders).unwrap().flatten().filter_map(|f| f.file_name().into_string().ok());
    all.filter_map(|name| name.rsplit_once('-')?.1.parse::<usize>().ok()).map(|number| number + 1).max().unwrap_or(0)
}

/// The same tenants, each reads its half of 8 MiB once, however long that takes.
pub(crate) const ONCE: &str = r#"
replicates = 1
schedulers = ["none", "mq-deadline", "headway"]
[[tenant]]
name = "light"
weight = 100
[[tenant.task]]
name = "t"
rw = "randread"
time_based = false
size = "4m"
iodepth = 8
[[tenant]]
name = "heavy"
weight = 300
[[tenant.task]]
name = "t"
rw = "randread"
time_based = false
offset = "4m"
size = "4m"
iodepth = 8
ioprio = "be/2"
"#;
