//! The systemd units, the container file and the recipes of the manual, as far as they can run here.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Server, agreed, greets, read_request};
use crate::common::{command, dumbwaiter, file, ok, text};

/// A folder with the units of `packaging`, in which the program is the one under test.
fn units() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    for unit in ["dumbwaiter-serve@.service", "dumbwaiter-serve@.socket"] {
        let unit_text = std::fs::read_to_string(packaged.join(unit)).unwrap();
        let unit_text = unit_text.replace("/usr/bin/dumbwaiter", env!("CARGO_BIN_EXE_dumbwaiter"));
        file(folder.path(), unit, unit_text.as_bytes());
    }
    folder
}

#[test]
fn systemd_accepts_the_units_and_finds_little_exposed() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    }
    let folder = units();
    for unit in ["dumbwaiter-serve@.service", "dumbwaiter-serve@.socket"] {
        let out =
            Command::new("systemd-analyze").args(["verify", "--man=no", unit]).current_dir(folder.path()).output();
        let out = out.unwrap();
        let said = text(&out.stderr);
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("dumbwaiter-serve@")).collect();
        assert!(out.status.success() && ours.is_empty(), "{unit}: {said}");
    }
    // In tenths: 2.0 of 10, where a service without any hardening has 9.6.
    let unit = folder.path().join("dumbwaiter-serve@.service");
    let out = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", "--threshold=20"])
        .arg(&unit)
        .output()
        .unwrap();
    if text(&out.stderr).contains("unrecognized option") {
        eprintln!("skipped: this systemd-analyze has no --offline");
        return;
    }
    assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
}

/// All system calls that a filter of systemd lets through.
fn allowed_calls(filter: &str, calls: &mut Vec<String>) {
    let out = Command::new("systemd-analyze").args(["syscall-filter", "--no-pager", filter]).output().unwrap();
    for line in text(&out.stdout).lines().skip(1).map(str::trim).filter(|line| !line.starts_with('#')) {
        match line.starts_with('@') {
            true => allowed_calls(line, calls),
            false => calls.push(line.to_owned()),
        }
    }
}

#[test]
fn the_units_filter_allows_every_system_call_of_a_server() {
    let missing = ["systemd-analyze", "strace"]
        .into_iter()
        .find(|program| Command::new(program).arg("--version").output().is_err());
    if let Some(program) = missing {
        eprintln!("skipped: {program} is not installed");
        return;
    }
    let (mut allowed, mut taken) = (Vec::new(), Vec::new());
    allowed_calls("@system-service", &mut allowed);
    allowed_calls("@privileged", &mut taken);
    let folder = tempfile::tempdir().unwrap();
    let disk = file(folder.path(), "disk.img", &vec![0; 4 << 20]);
    let (trace, unix) = (folder.path().join("trace"), folder.path().display().to_string());
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&trace).arg(env!("CARGO_BIN_EXE_dumbwaiter"));
    strace.args(["serve", "--target", &disk, "--export", "a", "--unix", &unix, "--vhost-user", &unix]);
    strace.args(["--http", "127.0.0.1:0", "--control"]).arg(folder.path().join("control")).args(["--seconds", "2"]);
    let mut server = Server::spawn(&mut strace);
    server.ready();
    let control = folder.path().join("control").display().to_string();
    ok(&["ctl", "--control", &control, "stats"]);
    let mut client = agreed(&folder.path().join("nbd.sock"));
    client.write_all(&read_request(1, 4096)).unwrap();
    client.read_exact(&mut [0; 16 + 4096]).unwrap();
    let flush = [&0x2560_9513u32.to_be_bytes()[..], &[0, 0, 0, 3], &[0; 20]].concat();
    client.write_all(&flush).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    drop(client);
    assert_eq!(server.ended().0, Some(0));
    let traced = std::fs::read_to_string(&trace).unwrap();
    let name = |line: &str| {
        let call = line.split_once(' ')?.1.trim_start();
        let name = call.split('(').next()?;
        let named =
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') && call.contains('(');
        named.then(|| name.to_owned())
    };
    let mut calls: Vec<String> = traced.lines().filter_map(name).collect();
    calls.sort();
    calls.dedup();
    assert!(calls.iter().any(|call| call == "io_uring_enter"), "{calls:?}");
    let refused: Vec<_> = calls.iter().filter(|call| !allowed.contains(call) || taken.contains(call)).collect();
    assert!(refused.is_empty(), "the filter of the unit refuses {refused:?}");
}

#[test]
fn the_container_file_copies_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recipe = std::fs::read_to_string(root.join("Containerfile")).unwrap();
    let mut copied = 0;
    for line in recipe.lines().filter(|line| line.starts_with("COPY ")) {
        let words: Vec<&str> = line.split_ascii_whitespace().skip(1).filter(|word| !word.starts_with("--")).collect();
        for source in &words[..words.len() - 1] {
            // Of the stage that builds: relative to its folder, or made there.
            let path = source.strip_prefix("/source/").unwrap_or(source);
            let made = path.starts_with("target/") || path == "third-party-licences";
            assert!(made || root.join(path).exists(), "{line}: {path}");
            copied += 1;
        }
    }
    assert!(copied >= 5 && recipe.contains("ENTRYPOINT [\"dumbwaiter\"]"));
    let out = dumbwaiter(&["serve", "--help"]);
    assert!(text(&out.stdout).contains("--tls"), "the recipes of the manual use it");
}

/// The manual's page on serving.
fn manual() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serving.md")).unwrap()
}

#[test]
fn the_manuals_pod_starts_a_server() {
    let manual = manual();
    let args = manual.split("args: [").nth(1).and_then(|rest| rest.split(']').next()).expect("the pod has arguments");
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk.img");
    std::fs::File::create(&disk).unwrap().set_len(40 << 30).unwrap();
    let (disk, sockets) = (disk.display().to_string(), folder.path().display().to_string());
    let args =
        args.replace("/data/disk.img", &disk).replace("/run/disks", &sockets).replace("0.0.0.0:9100", "127.0.0.1:0");
    // A comma inside quotes belongs to its argument.
    let mut words: Vec<String> = Vec::new();
    for (number, part) in args.split('"').enumerate() {
        match number % 2 {
            1 => words.push(part.to_owned()),
            _ => words.extend(part.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty())),
        }
    }
    let mut server = Server::spawn(command().args(&words));
    let ready = server.ready();
    assert!(ready.contains("/db?socket=") && ready.contains("/batch?socket="), "{ready}");
    assert!(greets(UnixStream::connect(folder.path().join("nbd.sock")).unwrap()));
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}

/// The options that the manual gives QEMU, from this word to the end of the code, for a machine without memory to spare.
fn qemu_options(manual: &str, begin: &str, end: char, folder: &Path) -> Vec<String> {
    let text = manual.split(begin).nth(1).unwrap_or_else(|| panic!("the manual has no `{begin}`"));
    let text = format!("{begin}{}", text.split(end).next().unwrap());
    let text =
        text.replace('\\', " ").replace("size=4G", "size=64M").replace("/run/disks", &folder.display().to_string());
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

#[test]
fn qemu_takes_the_manuals_options() {
    if Command::new("qemu-system-x86_64").arg("--version").output().is_err() {
        eprintln!("skipped: qemu-system-x86_64 is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let serve = ["serve", "--target", "null", "--export", "db:size=1GiB", "--export", "web:offset=1GiB,size=1GiB"];
    let mut server = Server::spawn(command().args(serve).args(["--unix", &path, "--vhost-user", &path]));
    server.ready();
    let manual = manual();
    let nbd = qemu_options(&manual, "-blockdev driver=nbd", '`', folder.path());
    let vhost = qemu_options(&manual, "-object memory-backend-memfd", '`', folder.path());
    for (options, shown) in [(nbd, "nbd"), (vhost, "vhost-user-blk")] {
        // Its disks are connected to before the machine would run, which it never does.
        let mut qemu = Command::new("timeout");
        qemu.args([
            "60",
            "qemu-system-x86_64",
            "-machine",
            "q35",
            "-m",
            "64M",
            "-nodefaults",
            "-display",
            "none",
            "-S",
        ]);
        qemu.args(["-monitor", "stdio"])
            .args(&options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut machine = qemu.spawn().unwrap();
        machine.stdin.take().unwrap().write_all(b"info block\ninfo qtree\nquit\n").unwrap();
        let out = machine.wait_with_output().unwrap();
        let said = text(&out.stdout) + &text(&out.stderr);
        assert!(out.status.success() && said.contains(shown), "{options:?}: {said}");
    }
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}

/// The manual's disks for libvirt: what stands in its table and what stands in a block of its own, each in a domain.
fn libvirt_domains(manual: &str) -> Vec<(&'static str, String)> {
    let inline = manual.split("| libvirt over NBD | `").nth(1).and_then(|rest| rest.split('`').next());
    let block = manual.split("```xml\n").nth(1).and_then(|rest| rest.split("```").next());
    let nbd = format!("<devices>{}</devices>", inline.expect("the manual has a disk for libvirt over NBD"));
    let machine = block.expect("the manual has a machine for libvirt");
    let (memory, devices) = machine.split_once("<devices>").expect("it has devices");
    let vhost = format!("<vcpu>1</vcpu>{memory}<devices>{devices}");
    let domain = |name: &str, memory_and_devices: &str| {
        let (memory, devices) = memory_and_devices.split_once("<devices>").unwrap();
        format!(
            "<domain type='qemu'><name>{name}</name><memory unit='MiB'>256</memory>{memory}\
             <os><type arch='x86_64' machine='q35'>hvm</type></os><devices>{devices}</domain>"
        )
    };
    vec![("nbd", domain("nbd", &format!("<vcpu>1</vcpu>{nbd}"))), ("vhost-user-blk", domain("vhost", &vhost))]
}

#[test]
fn libvirt_takes_the_manuals_disks() {
    // The first is a script that uses the second.
    for tool in ["virt-xml-validate", "xmllint"] {
        if Command::new(tool).arg("--version").output().is_err() {
            eprintln!("skipped: {tool} is not installed");
            return;
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for (shown, domain) in libvirt_domains(&manual()) {
        let path = file(folder.path(), "domain.xml", domain.as_bytes());
        let out = Command::new("virt-xml-validate").args([&path, "domain"]).output().unwrap();
        assert!(out.status.success(), "{domain}: {}{}", text(&out.stdout), text(&out.stderr));
        // The driver inside virsh needs no daemon, but up to a minute for each new folder.
        if std::env::var_os("DUMBWAITER_LIBVIRT_DRIVER").is_none() {
            continue;
        }
        let root = format!("qemu:///embed?root={}", folder.path().display());
        let out = Command::new("virsh").args(["-c", &root, "domxml-to-native", "qemu-argv", &path]).output();
        match out {
            Ok(out) if out.status.success() => assert!(text(&out.stdout).contains(shown), "{}", text(&out.stdout)),
            Ok(out) => {
                eprintln!("skipped: libvirt's QEMU driver: {}", text(&out.stderr).lines().last().unwrap_or_default())
            }
            Err(_) => eprintln!("skipped: virsh is not installed"),
        }
    }
}
