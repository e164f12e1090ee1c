//! A server for a test, and a small blocking client.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dumbwaiter_protocols::nbd::client::{Handshake, Offer, Reply, Wish};
use dumbwaiter_protocols::nbd::{Command, Request};
use dumbwaiter_serve::{ExportSettings, ServeSettings, Server, TargetSettings};

use crate::patience::Patience;

/// A server with its folder.
pub(crate) struct Running {
    server: Option<Server>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    /// The settings that it was started with.
    pub(crate) settings: ServeSettings,
}

impl Running {
    /// Serves `target` (in the folder, if it is a file name) with these exports.
    pub(crate) fn start(target: &str, exports: &[&str]) -> Running {
        Running::with(target, exports, |_| {})
    }

    pub(crate) fn with(target: &str, exports: &[&str], change: impl FnOnce(&mut ServeSettings)) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let name = match target {
            "file" => {
                let path = folder.path().join("disk.img");
                std::fs::write(&path, vec![0x11; 4 << 20]).unwrap();
                path.display().to_string()
            }
            other => other.to_owned(),
        };
        let mut target = TargetSettings::new(&name);
        target.exports = exports.iter().map(|text| ExportSettings::parse(text).unwrap().into()).collect();
        let unix = Some(folder.path().to_owned());
        let mut settings = ServeSettings { targets: vec![target], unix, grace_s: 2, ..ServeSettings::default() };
        change(&mut settings);
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = log.clone();
        let kept = settings.clone();
        let server = Server::start(settings, move |line| lines.lock().unwrap().push(line.to_owned())).unwrap();
        Running { server: Some(server), folder, log, settings: kept }
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("nbd.sock")
    }

    pub(crate) fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }

    pub(crate) fn connect(&self, export: &str) -> Client {
        Client::connect(&self.socket(), export)
    }

    /// Ends it; everything that was submitted must have been completed.
    pub(crate) fn end(mut self) -> bool {
        self.server.take().unwrap().shut_down(|| false).unwrap()
    }
}

/// How long a client waits for an answer, and how often it looks whether it waits for a CPU only.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_secs(1);

/// Reads what is there; waits for it.
fn read_patiently(stream: &mut UnixStream, into: &mut [u8]) -> std::io::Result<usize> {
    let mut patience = None;
    loop {
        match stream.read(into) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                let patience = patience.get_or_insert_with(|| Patience::new(PATIENCE));
                assert!(!patience.is_over(), "no answer {}", patience.report());
            }
            done => return done,
        }
    }
}

/// A client that does one thing after another.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) offer: Offer,
    cookie: u64,
    /// Data of a simple reply without error.
    expected: u32,
}

impl Client {
    pub(crate) fn connect(socket: &PathBuf, export: &str) -> Client {
        Client::connect_as(socket, Wish { export: export.to_owned(), structured: true, allocation: true })
    }

    pub(crate) fn connect_as(socket: &PathBuf, wish: Wish) -> Client {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(LOOK)).unwrap();
        let (mut handshake, mut bytes, mut out) = (Handshake::new(wish), [0; 4096], Vec::new());
        loop {
            let count = read_patiently(&mut stream, &mut bytes).unwrap();
            assert!(count > 0, "the server hung up");
            let offer = handshake.feed(&bytes[..count], &mut out).unwrap();
            stream.write_all(&out).unwrap();
            out.clear();
            if let Some(offer) = offer {
                return Client { stream, offer, cookie: 0, expected: 0 };
            }
        }
    }

    /// As [`Client::connect`]; `None` where the export is not there, or the server has no time.
    pub(crate) fn try_connect(socket: &Path, export: &str) -> Option<Client> {
        let mut stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let wish = Wish { export: export.to_owned(), structured: true, allocation: false };
        let (mut handshake, mut bytes, mut out) = (Handshake::new(wish), [0; 4096], Vec::new());
        loop {
            let count = match stream.read(&mut bytes) {
                // A signal, for which a read with a time limit is not begun again.
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.ok().filter(|count| *count > 0)?,
            };
            let offer = handshake.feed(&bytes[..count], &mut out).ok()?;
            stream.write_all(&out).ok()?;
            out.clear();
            if let Some(offer) = offer {
                return Some(Client { stream, offer, cookie: 0, expected: 0 });
            }
        }
    }

    pub(crate) fn send(&mut self, flags: u16, command: Command, offset: u64, length: u32, payload: &[u8]) {
        self.cookie += 1;
        self.expected = if command == Command::Read { length } else { 0 };
        let request = Request { flags, command, cookie: self.cookie, offset, length };
        self.stream.write_all(&request.encode()).unwrap();
        self.stream.write_all(payload).unwrap();
    }

    /// All bytes until the server hangs up.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let (mut rest, mut bytes) = (Vec::new(), [0; 4096]);
        loop {
            match read_patiently(&mut self.stream, &mut bytes) {
                // One that hangs up on what it has not read resets the connection.
                Ok(0) | Err(_) => return rest,
                Ok(count) => rest.extend_from_slice(&bytes[..count]),
            }
        }
    }

    fn read_exact(&mut self, into: &mut [u8]) {
        let mut have = 0;
        while have < into.len() {
            let count = read_patiently(&mut self.stream, &mut into[have..]).unwrap();
            assert!(count > 0, "the server hung up");
            have += count;
        }
    }

    /// The next reply: its error and its data.
    pub(crate) fn reply(&mut self) -> (u32, Vec<u8>) {
        let (_, error, data) = self.any_reply();
        (error, data)
    }

    /// The next reply: its request's number (they count from 1), its error and its data.
    pub(crate) fn any_reply(&mut self) -> (u64, u32, Vec<u8>) {
        let mut head = Vec::new();
        loop {
            let mut byte = [0];
            self.read_exact(&mut byte);
            head.push(byte[0]);
            if let Some((reply, _)) = Reply::parse(&head, |_| self.expected).unwrap() {
                let mut rest = vec![0; (reply.skip + reply.data) as usize];
                self.read_exact(&mut rest);
                return (reply.cookie, reply.error, rest.split_off(reply.skip as usize));
            }
        }
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn call(&mut self, command: Command, offset: u64, length: u32) -> (u32, Vec<u8>) {
        self.send(0, command, offset, length, &[]);
        self.reply()
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.send(0, Command::Write, offset, data.len() as u32, data);
        self.reply().0
    }
}
