//! `compare --verify`, as users meet it.

use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
    // Somebody else writes to it, which loses what was written before.
    let medium = std::fs::OpenOptions::new().write(true).open(&disk).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(6) && child.try_wait().unwrap().is_none() {
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
