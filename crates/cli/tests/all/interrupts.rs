//! Programs that are to end while they write a result.

use std::process::Command;

use crate::common::READS;

#[test]
fn a_result_that_nobody_takes_does_not_keep_the_program_from_ending() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let scenario = folder.path().join("small.toml");
    std::fs::write(&scenario, READS.replace("200ms", "50ms")).unwrap();
    // Nobody opens the FIFO; or somebody does, and reads nothing.
    for opened in [false, true] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
            .arg("compare")
            .arg(&scenario)
            .arg("--json")
            .arg(&fifo)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let reader = opened.then(|| {
            std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(&fifo)
                .expect("a reader that also writes never waits")
        });
        std::thread::sleep(std::time::Duration::from_millis(1_000));
        if opened && child.try_wait().unwrap().is_some() {
            // The result was small enough for the pipe.
            continue;
        }
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
        let begun = std::time::Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < std::time::Duration::from_secs(5), "one signal does not end it");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(child.wait().unwrap().code(), Some(130));
        drop(reader);
    }
}
