//! Programs that people use: libnbd, qemu, fio. Skipped with a note where one is not installed.

use std::process::Command;

use crate::running::Running;

/// Runs a program; its output, or `None` if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let limited = [&["60", program], arguments].concat();
    if Command::new(program).arg("--version").output().is_err() {
        eprintln!("skipped: {program} is not installed");
        return None;
    }
    let output = Command::new("timeout").args(limited).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    Some(text)
}

fn random_file(path: &std::path::Path, bytes: usize) {
    let mut state = 7u64;
    let data: Vec<u8> = (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    std::fs::write(path, data).unwrap();
}

#[test]
fn nbdinfo_sees_the_exports() {
    let running = Running::start("file", &["a:description=the first,size=2M", "b:offset=2M,readonly"]);
    let Some(text) = run("nbdinfo", &["--list", &running.uri("a")]) else { return };
    assert!(text.contains("export=\"a\"") && text.contains("export=\"b\"") && text.contains("the first"), "{text}");
    let text = run("nbdinfo", &["--map", &running.uri("a")]).unwrap();
    assert!(text.contains("2097152") && text.contains("data"), "{text}");
}

#[test]
fn nbdsh_finds_each_case_as_the_protocol_has_it() {
    let exports = ["writable:size=2M", "readonly:offset=2M,size=1M,readonly", "blocks:offset=3M,size=1M,block_size=4k"];
    let running = Running::start("file", &exports);
    if Command::new("nbdsh").arg("--version").output().is_err() {
        eprintln!("skipped: nbdsh is not installed");
        return;
    }
    let mut nbdsh = Command::new("timeout");
    // Another Python may be the first in the path; the module is of the system's.
    nbdsh.args(["60", "nbdsh", "-c", include_str!("nbdsh.py")]).env("PATH", "/usr/bin:/bin");
    for (name, export) in [("URI_WRITABLE", "writable"), ("URI_READONLY", "readonly"), ("URI_BLOCKS", "blocks")] {
        nbdsh.env(name, running.uri(export));
    }
    let output = nbdsh.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(running.end());
}

#[test]
fn nbdcopy_copies_both_ways() {
    let running = Running::start("file", &["a"]);
    let (from, to) = (running.folder.path().join("from"), running.folder.path().join("to"));
    random_file(&from, 4 << 20);
    let name = |path: &std::path::Path| path.display().to_string();
    if run("nbdcopy", &[&name(&from), &running.uri("a")]).is_none() {
        return;
    }
    run("nbdcopy", &[&running.uri("a"), &name(&to)]);
    assert!(std::fs::read(&from).unwrap() == std::fs::read(&to).unwrap());
    assert!(std::fs::read(&from).unwrap() == std::fs::read(running.folder.path().join("disk.img")).unwrap());
}

#[test]
fn qemu_reads_what_it_wrote() {
    let running = Running::start("file", &["a"]);
    let uri = running.uri("a");
    let commands = [
        "write -P 90 1M 64k",
        "flush",
        "read -P 90 1M 64k",
        "write -z 1M 32k",
        "read -P 0 1M 32k",
        "discard 2M 1M",
        "write -f -P 1 3M 4k",
        "read -P 1 3M 4k",
    ];
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    arguments.push(&uri);
    let Some(text) = run("qemu-io", &arguments) else { return };
    assert!(!text.contains("failed"), "{text}");
    let copy = running.folder.path().join("copy").display().to_string();
    run("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, &copy]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &uri, &copy]);
}

#[test]
fn fio_verifies_what_it_wrote() {
    let running = Running::start("file", &["a"]);
    let uri = format!("--uri={}", running.uri("a"));
    let Some(help) = run("fio", &["--enghelp"]) else { return };
    if !help.contains("nbd") {
        eprintln!("skipped: fio has no nbd engine");
        return;
    }
    let arguments = [
        "--name=x",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bs=4k",
        "--size=4M",
        "--iodepth=16",
        "--verify=crc32c",
        "--verify_state_save=0",
        "--do_verify=1",
    ];
    let text = run("fio", &arguments).unwrap();
    assert!(text.contains("err= 0"), "{text}");
}
