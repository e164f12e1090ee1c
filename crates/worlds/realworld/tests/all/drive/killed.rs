//! A program killed in mid-run: no acknowledged write may be lost or torn, and damage is found.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::drive::common::{filled, open, run_on};
use dumbwaiter_realworld::drive::{CompletionMode, Options, Verify, verify};
use dumbwaiter_testkit::program;

const LOAD: &str = r#"
duration = "60s"
[[task]]
name = "random"
rw = "randwrite"
bs = "4k"
iodepth = 16
ioengine = "io_uring"
norandommap = true
[[task]]
name = "large"
rw = "randrw"
bs = "64k"
iodepth = 8
ioengine = "io_uring"
norandommap = true
"#;

/// Started by the tests below as a program of its own.
#[test]
#[ignore = "the program that is killed"]
fn child() {
    let Ok(dir) = std::env::var("DUMBWAITER_TEST_DIR") else { return };
    let dir = Path::new(&dir);
    let verify = Some(Verify { journal: Some(dir.join("journal")) });
    let target = open(&dir.join("disk"), &Options { allow_writes: true, verify, ..Options::default() });
    let _ = run_on(&target, LOAD, "mq-deadline", CompletionMode::Interrupt);
}

fn run_and_kill(dir: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "drive::killed::child"])
        .env("DUMBWAITER_TEST_DIR", dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let acknowledged = || {
        let table = std::fs::read(dir.join("journal")).unwrap_or_default();
        table.chunks(8).skip(512).filter(|floor| floor.iter().any(|b| *b != 0)).count()
    };
    program::wait_until(&mut child, "some thousand blocks are acknowledged", || acknowledged() >= 4000);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_in_mid_run_nothing_acknowledged_is_lost_and_damage_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let disk = filled(dir.path(), "disk", 8 << 20);
    run_and_kill(dir.path());
    let journal = dir.path().join("journal");
    let target = open(&disk, &Options::default());
    let found = verify::check(&target, &journal).unwrap();
    assert!(found.clean() && found.checked >= 4000, "{found:?}");

    // Damage of each kind, in blocks that are in the journal.
    let table = std::fs::read(&journal).unwrap();
    let known: Vec<u64> = table
        .chunks(8)
        .skip(512)
        .enumerate()
        .filter(|(_, floor)| floor.iter().any(|b| *b != 0))
        .map(|(i, _)| i as u64)
        .collect();
    let block = u64::from(target.facts().logical_block);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&disk).unwrap();
    file.write_all_at(&[0x55], known[10] * block + 300).unwrap();
    file.write_all_at(&[0x56], known[10] * block + 301).unwrap();
    file.write_all_at(&vec![0; block as usize], known[20] * block).unwrap();
    let mut other = vec![0; block as usize];
    file.read_exact_at(&mut other, known[31] * block).unwrap();
    file.write_all_at(&other, known[30] * block).unwrap();
    file.sync_all().unwrap();
    let found = verify::check(&target, &journal).unwrap();
    assert_eq!((found.torn, found.lost, found.misplaced), (1, 1, 1), "{found:?}");
    assert!(found.first.unwrap().contains(&format!("byte {}", known[10] * block)));
}

#[test]
fn a_journal_of_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let target = open(&filled(dir.path(), "disk", 1 << 20), &Options::default());
    let journal = dir.path().join("journal");
    let say = |content: &[u8]| {
        std::fs::write(&journal, content).unwrap();
        verify::check(&target, &journal).unwrap_err().to_string()
    };
    assert!(say(b"x").contains("not a journal"));
    assert!(say(&[0; 8192]).contains("not a journal"));
    let header = |block: u64, stamp: u64, blocks: u64| {
        let words = [block, stamp, blocks, 0x4457_4a4f_5552_4e31];
        let mut file: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        file.resize(4096, 0);
        file
    };
    // Sizes that overflow when they are counted in bytes.
    for blocks in [1 << 61, u64::MAX, u64::MAX / 8] {
        assert!(say(&header(512, 1, blocks)).contains("not a journal"), "{blocks}");
    }
    assert!(say(&header(512, 1, 0)).contains("nothing to check"));
    let mut one_block = header(1 << 63, 1, 2);
    one_block.resize(4096 + 16, 0);
    assert!(say(&one_block).contains("has blocks of"));
    let verify = Some(Verify { journal: Some(journal.clone()) });
    let large =
        open(&filled(dir.path(), "large", 2 << 20), &Options { allow_writes: true, verify, ..Options::default() });
    run_on(&large, &LOAD.replace("duration = \"60s\"", "limit = 20"), "none", CompletionMode::Interrupt).unwrap();
    let error = verify::check(&target, &journal).unwrap_err().to_string();
    assert!(error.contains("belongs to a target of 2097152 bytes"), "{error}");
    assert!(verify::check(&large, &journal).unwrap().clean());
}
