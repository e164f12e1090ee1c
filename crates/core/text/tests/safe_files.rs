//! Files are complete or absent after any failure, and no other user can redirect our writes.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use dumbwaiter_text::{Entry, OutputFile, check, create_folder, write};

/// A user who is not us.
const STRANGER: u32 = 65534;

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// A folder like `/tmp`: all users may write to it, and remove only what is theirs. `None` where we cannot own files as
/// another user.
fn shared_folder() -> Option<tempfile::TempDir> {
    if !is_root() {
        eprintln!("skipped: only root can make files of another user");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
    Some(dir)
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    write(path, |out| out.write_all(text.as_bytes()))
}

fn names(dir: &Path) -> Vec<String> {
    let mut all: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// A file of ours that an attacker wants to be overwritten, in a folder that only we can write to.
fn victim() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("passwd");
    fs::write(&path, "precious").unwrap();
    (dir, path)
}

fn plant_link(target: &Path, at: &Path) {
    symlink(target, at).unwrap();
    lchown(at, Some(STRANGER), Some(STRANGER)).unwrap();
}

#[test]
fn a_failure_leaves_the_old_file_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.json");
    put(&path, "old").unwrap();
    let full = write(&path, |out| {
        out.write_all(b"new")?;
        out.flush()?;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    drop(OutputFile::create(&path).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names(dir.path()), ["r.json"]);
}

#[test]
fn a_full_disk_leaves_the_old_file_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(dir.path());
    if !mount.output().is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: cannot mount a tmpfs (root is needed)");
        return;
    }
    struct Mounted<'a>(&'a Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(self.0).status();
        }
    }
    let mounted = Mounted(dir.path());
    let path = dir.path().join("r.json");
    put(&path, "old").unwrap();
    let error = write(&path, |out| out.write_all(&vec![b'x'; 1 << 20])).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    // The disk is full while data is still in a buffer.
    let error = write(&path, |out| (0..100_000).try_for_each(|i| writeln!(out, "{i}"))).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(dir.path())), ("old", vec!["r.json".to_owned()]));
    drop(mounted);
}

#[test]
fn names_that_could_be_foreseen_are_not_used() {
    let Some(shared) = shared_folder() else { return };
    let (_dir, victim) = victim();
    let pid = std::process::id();
    let foreseen = [
        format!(".dumbwaiter.{pid}.part"),
        format!(".out.json.{pid}.part"),
        format!(".out.json.{pid}.tmp"),
        "out.json.part".into(),
        "out.json.new".into(),
    ];
    for (i, name) in foreseen.iter().enumerate() {
        let at = shared.path().join(name);
        if i % 2 == 0 { plant_link(&victim, &at) } else { fs::hard_link(&victim, &at).unwrap() }
    }
    let path = shared.path().join("out.json");
    check(&path).unwrap();
    put(&path, "ours").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "ours");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(fs::metadata(&path).unwrap().uid(), 0);
}

#[test]
fn a_link_at_the_outputs_name_is_refused_before_and_replaced_afterwards() {
    let Some(shared) = shared_folder() else { return };
    let (_dir, victim) = victim();
    let path = shared.path().join("out.json");
    for target in [victim.as_path(), Path::new("/dev/full"), Path::new("/nowhere")] {
        plant_link(target, &path);
        let said = check(&path).unwrap_err().to_string();
        assert!(said.contains("symbolic link") && said.contains(target.to_str().unwrap()), "{said}");
        put(&path, "ours").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        fs::remove_file(&path).unwrap();
        // Planted between the start and the end.
        let mut out = OutputFile::create(&path).unwrap();
        out.write_all(b"ours").unwrap();
        plant_link(target, &path);
        out.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours");
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    // Another name of the victim.
    fs::hard_link(&victim, &path).unwrap();
    put(&path, "ours").unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(fs::read_to_string(&path).unwrap(), "ours");
}

#[test]
fn a_link_to_a_folder_is_followed_only_where_nobody_else_can_plant_one() {
    let Some(shared) = shared_folder() else { return };
    let (dir, _) = victim();
    let link = shared.path().join("tables");
    plant_link(dir.path(), &link);
    for path in [link.join("runs.parquet"), shared.path().join("tables/../tables/runs.parquet")] {
        assert_eq!(put(&path, "ours").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(check(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
    assert_eq!(create_folder(&link.join("new")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(names(dir.path()), ["passwd"]);
    // Our own links lead where they lead, also by way of others.
    let own = shared.path().join("own");
    symlink("./own-2", &own).unwrap();
    symlink(dir.path(), shared.path().join("own-2")).unwrap();
    put(&own.join("runs.parquet"), "ours").unwrap();
    assert_eq!(names(dir.path()), ["passwd", "runs.parquet"]);
    symlink("round", shared.path().join("round")).unwrap();
    assert!(put(&shared.path().join("round/x"), "ours").is_err());
}

#[test]
fn a_file_that_a_stranger_planted_gives_us_neither_its_mode_nor_its_owner() {
    let Some(shared) = shared_folder() else { return };
    let path = shared.path().join("out.json");
    fs::write(&path, "theirs").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    lchown(&path, Some(STRANGER), Some(STRANGER)).unwrap();
    let before = File::open(&path).unwrap();
    put(&path, "ours").unwrap();
    let meta = fs::metadata(&path).unwrap();
    assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o022), (0, 0, 0), "{:o}", meta.mode());
    let mut theirs = String::new();
    (&before).read_to_string(&mut theirs).unwrap();
    assert_eq!(theirs, "theirs", "who has it open sees nothing of ours");
    // In a folder of their own, where other users cannot plant anything, the file stays theirs.
    fs::set_permissions(shared.path(), Permissions::from_mode(0o755)).unwrap();
    lchown(shared.path(), Some(STRANGER), Some(STRANGER)).unwrap();
    lchown(&path, Some(STRANGER), Some(STRANGER)).unwrap();
    put(&path, "for them").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().uid(), STRANGER);
}

#[test]
fn a_fifo_that_a_stranger_planted_is_refused() {
    let Some(shared) = shared_folder() else { return };
    let path = shared.path().join("out.json");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    lchown(&path, Some(STRANGER), Some(STRANGER)).unwrap();
    for said in [check(&path).unwrap_err(), put(&path, "x").unwrap_err()] {
        assert!(said.to_string().contains("belongs to another user"), "{said}");
    }
}

#[test]
fn the_mode_of_the_file_that_is_replaced_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.json");
    for kept in [0o600, 0o640, 0o664, 0o444] {
        put(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(kept | 0o4000)).unwrap();
        let mut out = OutputFile::create(&path).unwrap();
        out.write_all(b"new").unwrap();
        assert_eq!(out.file().metadata().unwrap().mode() & 0o077, 0, "nobody else reads it before it is complete");
        out.commit().unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (kept, b"new".to_vec()));
    }
    let (new, plain) = (dir.path().join("new"), dir.path().join("plain"));
    put(&new, "x").unwrap();
    fs::write(&plain, "x").unwrap();
    assert_eq!(mode(&new), mode(&plain), "a new file has the mode that any new file has");
}

#[test]
fn special_files_are_written_directly() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(put(Path::new("/dev/full"), "x").unwrap_err().kind(), io::ErrorKind::StorageFull);
    put(Path::new("/dev/null"), "x").unwrap();
    for device in ["/dev/full", "/dev/null"] {
        check(Path::new(device)).unwrap();
        assert!(fs::metadata(device).unwrap().file_type().is_char_device());
    }
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    check(&fifo).unwrap();
    let read = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read_to_string(fifo).unwrap()
    });
    put(&fifo, "through a pipe").unwrap();
    assert_eq!(read.join().unwrap(), "through a pipe");
    // A descriptor of ours, as bash's `>(program)` names it.
    let file = File::create(dir.path().join("open")).unwrap();
    let name = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    check(Path::new(&name)).unwrap();
    put(Path::new(&name), "by number").unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("open")).unwrap(), "by number");
    assert_eq!(names(dir.path()), ["fifo", "open"]);
}

#[test]
fn folders_block_devices_and_what_is_missing_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let said = |path: &Path| (check(path).unwrap_err().to_string(), put(path, "x").unwrap_err().to_string());
    let (checked, written) = said(&dir.path().join("no/such/r.json"));
    assert!(checked.contains("there is no folder") && checked.contains("no/such"), "{checked}");
    assert_eq!(checked, written);
    assert!(said(dir.path()).0.contains("it is a folder"));
    assert!(said(Path::new("/")).0.contains("directory"));
    fs::write(dir.path().join("file"), "x").unwrap();
    assert!(said(&dir.path().join("file/r.json")).1.contains("file"));
    let loops = fs::read_dir("/dev").unwrap().flatten().find(|e| e.file_type().unwrap().is_block_device());
    match loops {
        Some(device) => assert!(said(&device.path()).1.contains("block device")),
        None => eprintln!("skipped: no block device"),
    }
    create_folder(&dir.path().join("a/b/c")).unwrap();
    create_folder(&dir.path().join("a/b/c")).unwrap();
    put(&dir.path().join("a/b/c/r.json"), "x").unwrap();
}

/// Not a test: the processes that the test below starts.
#[test]
#[ignore = "started by another test"]
fn child() {
    let Ok(path) = std::env::var("TEST_PATH") else { return };
    let mut out = OutputFile::create(Path::new(&path)).unwrap();
    out.write_all(b"half").unwrap();
    println!("\nready");
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    out.commit().unwrap();
}

fn start(path: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env("TEST_PATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "ready"));
    // Its harness prints more.
    std::thread::spawn(move || lines.count());
    child
}

#[test]
fn the_next_run_removes_what_a_killed_one_left_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut killed = start(&dir.path().join("a.json"));
    let alive = start(&dir.path().join("b.json"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    for other in [".dumbwaiter-.part", ".dumbwaiter-0123.part", "dumbwaiter.part", ".a.json.1.part"] {
        fs::write(dir.path().join(other), "of another user").unwrap();
    }
    let link = format!(".dumbwaiter-{}.part", "0".repeat(32));
    symlink("/dev/null", dir.path().join(&link)).unwrap();
    let hidden = || names(dir.path()).into_iter().filter(|n| n.len() == link.len() && *n != link).count();
    assert_eq!(hidden(), 2);
    let next = start(&dir.path().join("c.json"));
    let next = next.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&next.stderr).into_owned();
    assert_eq!(said.matches("which a run that was killed left unfinished").count(), 1, "{said}");
    assert_eq!(hidden(), 1, "that of the living stays");
    assert!(alive.wait_with_output().unwrap().status.success());
    assert_eq!(fs::read_to_string(dir.path().join("b.json")).unwrap(), "half");
    let mut expected = vec![
        ".dumbwaiter-.part",
        ".dumbwaiter-0123.part",
        "dumbwaiter.part",
        ".a.json.1.part",
        "b.json",
        "c.json",
        &link,
    ];
    expected.sort_unstable();
    assert_eq!(names(dir.path()), expected);
}

/// A folder of a stranger's own, as their home is, in which they placed links and a FIFO before root writes there.
#[test]
fn in_a_folder_of_another_user_nothing_of_theirs_is_followed() {
    let Some(home) = shared_folder() else { return };
    fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    lchown(home.path(), Some(STRANGER), Some(STRANGER)).unwrap();
    let (dir, victim) = victim();
    let link = home.path().join("tables");
    plant_link(dir.path(), &link);
    let denied = |result: io::Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        error.to_string()
    };
    let said = denied(put(&link.join("passwd"), "ours"));
    assert!(said.contains("tables is a link to ") && said.contains("give the path that it leads to"), "{said}");
    denied(check(&link.join("passwd")));
    denied(create_folder(&link.join("new")));
    denied(dumbwaiter_text::create_private_folder(&link));
    denied(dumbwaiter_text::remove(&link.join("passwd")));
    denied(Entry::find(&link.join("passwd")).map(drop));
    assert_eq!(
        (names(dir.path()), fs::read_to_string(&victim).unwrap()),
        (vec!["passwd".to_owned()], "precious".into())
    );
    let fifo = home.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    lchown(&fifo, Some(STRANGER), Some(STRANGER)).unwrap();
    denied(put(&fifo, "x"));
    // A file without a link on the way is theirs to have.
    put(&home.path().join("r.json"), "for them").unwrap();
    // A link is removed, not what it leads to; a lock does not go through it.
    plant_link(&victim, &home.path().join("lock"));
    let lock = Entry::find(&home.path().join("lock")).unwrap();
    assert!(lock.open().is_err() && lock.path().starts_with("/proc/self/fd"));
    lock.remove().unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    // Where nobody else can change the way, the path is as it was given.
    let own = dir.path().join("passwd");
    assert_eq!(Entry::find(&own).unwrap().path(), own);
    assert!(Entry::find(&own).unwrap().open().is_ok());
}
