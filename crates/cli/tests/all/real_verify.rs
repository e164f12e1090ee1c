//! `compare --verify` and `verify`, as users meet them.

use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dumbwaiter_testkit::program;

use crate::common::*;

const READS_AND_WRITES: &str = r#"
duration = "600s"
schedulers = ["none"]
[[task]]
name = "t"
rw = "randrw"
iodepth = 8
"#;

#[test]
fn what_an_interrupted_run_found_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, scenario) = (dir.path().join("disk"), dir.path().join("s.toml"));
    std::fs::write(&disk, vec![0; 1 << 20]).unwrap();
    std::fs::write(&scenario, READS_AND_WRITES).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .arg("compare")
        .args([&scenario, std::path::Path::new("--on"), &disk])
        .args(["--allow-writes", "--verify"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Another program writes to it, which loses what was written before.
    let medium = std::fs::OpenOptions::new().write(true).open(&disk).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) && child.try_wait().unwrap().is_none() {
        medium.write_all_at(&vec![0; 1 << 20], 0).unwrap();
        // An error where direct I/O to the same place was faster.
        let _ = medium.sync_data();
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "{said}");
    assert!(said.contains("verifying failed") && said.contains("lost"), "{said}");
}

#[test]
fn what_was_acknowledged_is_there_after_the_program_is_killed() {
    let dir = folder();
    let disk = file(dir.path(), "disk", &vec![0; 8 << 20]);
    let writes =
        READS.replace("randread", "randwrite").replace("200ms", "30s").replace("\"none\", \"mq-deadline\", ", "");
    let scenario = file(dir.path(), "s.toml", writes.as_bytes());
    let journal = dir.path().join("journal");
    let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["compare", &scenario, "--on", &disk, "--allow-writes", "--verify", "--verify-journal"])
        .arg(&journal)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // A place of 8 bytes for each block, filled as writes are acknowledged.
    let filled = || {
        let places = std::fs::read(&journal).unwrap_or_default();
        places.chunks_exact(8).filter(|place| place.iter().any(|byte| *byte != 0)).count()
    };
    program::wait_until(&mut child, "it has written for a while", || filled() >= 4000);
    child.kill().unwrap();
    child.wait().unwrap();
    let found = dumbwaiter(&["verify", &disk, journal.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&found.stdout).into_owned();
    assert_eq!(found.status.code(), Some(0), "{told}{}", String::from_utf8_lossy(&found.stderr));
    assert!(told.contains(" 0 lost, 0 torn"), "{told}");
    assert!(!told.starts_with("0 blocks"), "{told}");
}
