//! Start, notification, activation, reload, other users, and the end; systemd's side is played by the test, or by its own tools.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Config, EXPORTS, PATIENCE, Server, agreed, eventually, greets, read_request};
use crate::common::{command, refused, text};

#[test]
fn a_service_notifies_its_manager_and_feeds_the_watchdog() {
    let config = Config::new();
    let path = config.folder.path().join("notify");
    let notes = UnixDatagram::bind(&path).unwrap();
    notes.set_read_timeout(Some(PATIENCE)).unwrap();
    let next = |wanted: &str| loop {
        let mut bytes = [0; 256];
        let count = notes.recv(&mut bytes).unwrap_or_else(|e| panic!("{wanted} did not come: {e}"));
        let note = String::from_utf8_lossy(&bytes[..count]).into_owned();
        if note.contains(wanted) {
            return;
        }
        assert!(note.contains("WATCHDOG=1"), "{note} before {wanted}");
    };
    let mut serve = command();
    serve.args(["serve", "--config"]).arg(&config.path).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let mut server = Server::spawn(&mut serve);
    server.ready();
    next("READY=1");
    next("WATCHDOG=1");
    next("WATCHDOG=1");
    server.signal("HUP");
    next("RELOADING=1");
    next("READY=1");
    server.signal("TERM");
    next("STOPPING=1");
    assert_eq!(server.ended().0, Some(0));
}

#[test]
fn a_socket_that_the_manager_opened_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("passed.sock");
    let listener = UnixListener::bind(&path).unwrap();
    // The shell's standard input is the socket, which becomes the first passed descriptor of the program in its place.
    let passing = "export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\" 3<&0 </dev/null";
    let start = |more: &[&str]| {
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            passing,
            "sh",
            env!("CARGO_BIN_EXE_dumbwaiter"),
            "serve",
            "--target",
            "null",
            "--export",
            "a",
        ]);
        shell.args(more).stdin(OwnedFd::from(listener.try_clone().unwrap()));
        shell
    };
    let unix = folder.path().to_str().unwrap();
    let out = start(&["--unix", unix]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("takes the place of --unix and --tcp"), "{}", text(&out.stderr));
    let mut server = Server::spawn(&mut start(&[]));
    server.ready();
    assert!(greets(UnixStream::connect(&path).unwrap()));
    // An upgrade goes on with it.
    for _ in 0..2 {
        server.signal("USR2");
        server.ready();
        assert!(greets(UnixStream::connect(&path).unwrap()));
    }
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    assert!(path.exists(), "the socket is the manager's");
}

#[test]
fn systemds_own_activation_starts_it() {
    if Command::new("systemd-socket-activate").arg("--version").output().is_err() {
        eprintln!("skipped: systemd-socket-activate is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("activated.sock");
    let mut activate = Command::new("systemd-socket-activate");
    activate.arg("--listen").arg(&path).arg(env!("CARGO_BIN_EXE_dumbwaiter"));
    let server = Server::spawn(activate.args(["serve", "--target", "null", "--export", "a"]));
    eventually("the socket is there", || path.exists());
    // The first client starts the server, and is served by it.
    let mut client = None;
    eventually("it listens", || {
        client = UnixStream::connect(&path).ok();
        client.is_some()
    });
    assert!(greets(client.unwrap()));
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}

#[test]
fn the_configuration_is_read_again_whole_or_not_at_all() {
    let config = Config::new();
    let server = config.start();
    let before = config.weights();
    for (keys, exports) in [
        // A good change beside one that cannot be.
        ("", EXPORTS.replace("name = 'a'", "name = 'a'\nweight = 700").replace("'1GiB'\nsize", "'2GiB'\nsize")),
        ("tcp = '127.0.0.1:0'", EXPORTS.replace("name = 'a'", "name = 'a'\nweight = 700")),
        ("max_connections = 5", EXPORTS.replace("name = 'a'", "name = 'a'\nweight = 700")),
        ("", format!("nonsense = 1\n{EXPORTS}")),
        ("", EXPORTS.replace("name = 'a'", "name = 'a'\nweight = 0")),
    ] {
        config.write(keys, &exports);
        server.signal("HUP");
        // Time to be read; nothing can be waited for where nothing may happen.
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(config.weights(), before, "{keys}{exports}");
    }
    let more = "[[target.export]]\nname = 'c'\noffset = '4GiB'\nsize = '1GiB'\n";
    let depth = "scheduler = 'mq-deadline'\ndevice_depth = 5\n";
    config.write(
        "",
        &format!("{depth}{}{more}", EXPORTS.replace("name = 'a'", "name = 'a'\nweight = 700\nlimit_iops = 9")),
    );
    server.signal("HUP");
    eventually("the change", || config.weights().len() == 3);
    assert_eq!(config.weights()[0], ("a".to_owned(), 700));
    let stats = config.json(&["stats"]);
    let disk = &stats["disks"][0];
    assert_eq!((&disk["scheduler"], &disk["device_depth"]), (&"mq-deadline".into(), &5.into()));
    assert_eq!(disk["exports"][0]["limit_iops"], 9);
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("nothing was changed").count(), 5, "{said}");
    assert!(said.contains("`tcp` cannot change while the server runs; restart it"), "{said}");
}

#[test]
fn a_client_that_does_not_read_delays_the_end_by_no_more_than_the_grace() {
    let config = Config::new();
    let server = config.start();
    let mut client = agreed(&config.socket());
    // More replies than the socket holds.
    for cookie in 0..64 {
        client.write_all(&read_request(cookie, 1 << 20)).unwrap();
    }
    // One that reads gets what it asked for before.
    let mut reader = agreed(&config.socket());
    reader.write_all(&read_request(1, 4096)).unwrap();
    reader.read_exact(&mut [0; 16 + 4096]).unwrap();
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(!config.socket().exists(), "the socket's file is removed");
}

#[test]
fn a_second_signal_skips_the_grace() {
    let config = Config::new();
    config.write("", EXPORTS);
    let text = std::fs::read_to_string(&config.path).unwrap().replace("grace_s = 1\n", "grace_s = 3600\n");
    std::fs::write(&config.path, text).unwrap();
    let server = config.start();
    let mut client = agreed(&config.socket());
    for cookie in 0..64 {
        client.write_all(&read_request(cookie, 1 << 20)).unwrap();
    }
    server.signal("TERM");
    std::thread::sleep(Duration::from_millis(500));
    server.signal("INT");
    assert_eq!(server.ended().0, Some(0));
}

#[test]
fn root_goes_on_as_another_user_without_any_of_its_rights() {
    refused(
        &["serve", "--target", "null", "--export", "a", "--unix", "/tmp/no-such-folder/x", "--user", "no-such-user"],
        &["no-such-folder"],
    );
    let folder = tempfile::tempdir().unwrap();
    let unix = folder.path().join("sockets").display().to_string();
    let serve = ["serve", "--target", "null", "--export", "a", "--unix", &unix, "--user"];
    refused(&[&serve[..], &["no-such-user"]].concat(), &["no user `no-such-user`"]);
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("skipped: not root");
        return;
    }
    let mut server = Server::spawn(command().args(serve).arg("nobody"));
    server.ready();
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    let mut threads = 0;
    for task in tasks {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_ascii_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(field("Uid:").iter().chain(&field("Gid:")).all(|id| id != "0"), "{status}");
        for capabilities in ["CapEff:", "CapPrm:", "CapAmb:"] {
            assert_eq!(field(capabilities), ["0000000000000000"], "{status}");
        }
        threads += 1;
    }
    assert!(threads >= 3, "the disk's and the listener's are among them");
    let socket = Path::new(&unix).join("nbd.sock");
    assert_ne!(std::fs::metadata(&socket).unwrap().uid(), 0, "clients of that user may connect");
    assert!(greets(UnixStream::connect(&socket).unwrap()));
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}
