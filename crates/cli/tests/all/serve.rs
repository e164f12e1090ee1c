//! `serve` as a service: systemd's side is played by the test, or by systemd's own tools where they are installed. `ctl` and `top`
//! ask a server that runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{command, dumbwaiter, file, ok, refused, text};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server that is ended with the test.
struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn spawn(command: &mut Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().unwrap());
        Server { child, output }
    }

    /// Waits for the line of which clients may rely.
    fn ready(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        if !line.starts_with("ready ") {
            let mut error = String::new();
            self.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
            panic!("no server: {line}{error}");
        }
        line
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end: exit code and what it said on stderr.
    fn ended(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A configuration with two exports of `null`, and the paths of its sockets.
struct Config {
    folder: tempfile::TempDir,
    path: PathBuf,
    control: String,
}

const EXPORTS: &str =
    "[[target.export]]\nname = 'a'\nsize = '1GiB'\n[[target.export]]\nname = 'b'\noffset = '1GiB'\nsize = '1GiB'\n";

impl Config {
    fn new() -> Config {
        let folder = tempfile::tempdir().unwrap();
        let (path, control) = (folder.path().join("disks.toml"), folder.path().join("control").display().to_string());
        let config = Config { folder, path, control };
        config.write("", EXPORTS);
        config
    }

    fn write(&self, keys: &str, exports: &str) {
        let folder = self.folder.path().display();
        let head = format!("unix = '{folder}'\ncontrol = '{folder}/control'\ngrace_s = 1\n{keys}");
        std::fs::write(&self.path, format!("{head}\n[[target]]\ntarget = 'null'\n{exports}")).unwrap();
    }

    fn start(&self) -> Server {
        let mut server = Server::spawn(command().args(["serve", "--config"]).arg(&self.path));
        server.ready();
        server
    }

    fn ctl(&self, args: &[&str]) -> String {
        ok(&[&["ctl", "--control", &self.control], args].concat())
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ctl(&[&["--json"], args].concat())).unwrap()
    }

    fn weights(&self) -> Vec<(String, u64)> {
        let list = self.json(&["list"]);
        let of = |export: &Value| (export["name"].as_str().unwrap().to_owned(), export["weight"].as_u64().unwrap());
        list.as_array().unwrap().iter().map(of).collect()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("nbd.sock")
    }
}

fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !check() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A client that has agreed on the first export by the oldest option.
fn agreed(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream
        .write_all(&[&3u32.to_be_bytes()[..], b"IHAVEOPT", &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat())
        .unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    stream
}

/// A read of NBD.
fn read_request(cookie: u64, length: u32) -> Vec<u8> {
    let head = [&0x2560_9513u32.to_be_bytes()[..], &[0; 4], &cookie.to_be_bytes(), &[0; 8]].concat();
    [&head[..], &length.to_be_bytes()].concat()
}

fn greets(mut stream: UnixStream) -> bool {
    let mut greeting = [0; 18];
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut greeting).is_ok() && &greeting[..8] == b"NBDMAGIC"
}

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
    assert!(text(&out.stderr).contains("leave out --unix and --tcp"), "{}", text(&out.stderr));
    let mut server = Server::spawn(&mut start(&[]));
    server.ready();
    assert!(greets(UnixStream::connect(&path).unwrap()));
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
    assert!(said.contains("`tcp` differs from what is served: restart for that"), "{said}");
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

#[test]
fn each_order_changes_a_running_server_or_says_why_not() {
    let config = Config::new();
    let server = config.start();
    let stats = || config.json(&["stats"])["disks"][0].clone();
    for (order, part, value) in [
        (&["set", "weight", "a", "700"][..], "/exports/0/weight", Value::from(700)),
        (&["set-weight", "a", "600"], "/exports/0/weight", 600.into()),
        (&["set", "limit", "b", "--iops", "50", "--bytes", "1MiB"], "/exports/1/limit_bytes", (1 << 20).into()),
        (&["set", "limit", "b"], "/exports/1/limit_iops", Value::Null),
        (&["set", "reservation", "b", "--iops", "20"], "/exports/1/reservation_iops", 20.into()),
        (&["set", "scheduler", "mq-deadline:fifo_batch=1"], "/scheduler", "mq-deadline:fifo_batch=1".into()),
        (&["set", "setting", "fifo_batch", "4"], "/switches", 1.into()),
        (&["set", "depth", "8"], "/device_depth", 8.into()),
        (&["set", "depth", "auto"], "/device_depth", 32.into()),
        (&["add", "c:offset=4GiB,size=1GiB,weight=5"], "/exports/2/name", "c".into()),
        (&["resize", "c", "2GiB"], "/exports/2/size", (2u64 << 30).into()),
        (&["drain", "c", "--timeout", "5"], "/exports/2", Value::Null),
    ] {
        config.ctl(order);
        assert_eq!(stats().pointer(part).unwrap_or(&Value::Null), &value, "{order:?}");
    }
    assert!(config.ctl(&["list"]).contains("null"));
    assert!(config.ctl(&["stats"]).contains("share %"));
    assert!(config.ctl(&["explain"]).contains("device depth 32: auto"));
    let client = agreed(&config.socket());
    (&client).write_all(&read_request(1, 4096)).unwrap();
    (&client).read_exact(&mut [0; 16 + 4096]).unwrap();
    let snapshot = config.json(&["snapshot", "a"]);
    assert_eq!((&snapshot["count"], &snapshot["export"]), (&1.into(), &"a".into()));
    assert!(config.ctl(&["snapshot", "a"]).starts_with("a: 1 requests\n"));
    for (order, reason) in [
        (&["set", "weight", "a", "0"][..], "expected 1 to 10000"),
        (&["set", "weight", "nobody", "5"], "there is no export `nobody`"),
        (&["set", "limit", "a", "--iops", "0"], "expected at least 1"),
        (&["set", "limit", "a", "--bytes", "many"], "--bytes"),
        (&["set", "scheduler", "elevator"], "elevator"),
        (&["set", "setting", "no_such", "1"], "no_such"),
        (&["set", "setting", "fifo_batch", "-5"], "fifo_batch"),
        (&["set", "depth", "0"], "expected 1 to 4096, or auto"),
        (&["set", "depth", "8", "--disk", "7"], "there is no disk 7"),
        (&["add", "a"], "there already"),
        (&["add", "d:offset=0,size=1GiB,ublk=1"], "when the server starts"),
        (&["resize", "a", "0"], "at least one block"),
        (&["resize", "a", "9TiB"], "beyond the target"),
        (&["remove", "nobody"], "there is no export `nobody`"),
        (&["drain", "nobody"], "there is no export `nobody`"),
        (&["snapshot", "nobody"], "there is no export `nobody`"),
        (&["explain", "--disk", "3"], "there is no disk 3"),
    ] {
        refused(&[&["ctl", "--control", &config.control], order].concat(), &[reason]);
    }
    config.ctl(&["remove", "a", "--hard"]);
    eventually("its client is gone", || stats()["exports"].as_array().unwrap().len() == 1);
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    refused(&["ctl", "--control", &config.control, "list"], &["no server answers there"]);
    refused(&["ctl", "list"], &["--control SOCKET"]);
}

#[test]
fn top_shows_a_running_server_once_as_text_and_as_json() {
    let config = Config::new();
    let _server = config.start();
    let client = agreed(&config.socket());
    (&client).write_all(&read_request(1, 4096)).unwrap();
    (&client).read_exact(&mut [0; 16 + 4096]).unwrap();
    let shown = ok(&["top", "--control", &config.control, "--once"]);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.contains("1 clients") && shown.contains("headway, 0 of 32 in the device"), "{shown}");
    let view: Value = serde_json::from_str(&ok(&["top", "--control", &config.control, "--once", "--json"])).unwrap();
    let tenant = &view["disks"][0]["tenants"][0];
    assert_eq!((&view["schema"], &tenant["activity"]), (&1.into(), &"idle".into()));
    for key in ["name", "weight", "share", "due", "iops", "mb_per_s", "p50_ms", "p99_ms", "oldest_ms", "clients"] {
        assert!(tenant.get(key).is_some(), "{key}");
    }
    // Without a terminal it prints one view after another until it is ended.
    let mut shows = Server::spawn(command().args(["top", "--control", &config.control, "--json"]));
    for _ in 0..2 {
        let mut line = String::new();
        shows.output.read_line(&mut line).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["schema"], 1);
    }
    shows.signal("TERM");
    assert_eq!(shows.ended().0, Some(0));
    refused(&["top", "--once", "--control", "/no/such/socket"], &["no server answers there"]);
}

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
