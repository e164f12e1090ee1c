//! `serve` as a service, and those who ask and change it.

mod life;
mod orders;
mod packaging;
mod state;
mod upgrade;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{command, ok};

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
