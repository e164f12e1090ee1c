//! The control socket: one JSON object a line, one answer a line.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dumbwaiter_linux::service::ClientThreads;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Error;
use crate::status::Status;

/// Longest line of a request.
const MAX_LINE: u64 = 4 << 10;
/// A client that sends nothing for this long is disconnected.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most clients at a time.
const CLIENTS_MAX: u32 = 8;

/// A question to a running pilot: `{"command": "explain", "device": "sda"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Question {
    /// The state of all disks.
    Status {},
    /// The reason for the settings of a disk.
    Explain {
        /// Its path, or its name.
        device: String,
    },
    /// Resume managing a disk that was left to another user.
    Resume {
        /// Its path, or its name.
        device: String,
    },
}

/// The pilot's state for clients, and their requests.
#[derive(Default)]
pub(crate) struct Board {
    pub(crate) status: Option<Status>,
    pub(crate) resume: Vec<String>,
}

/// The board, shared by the pilot and its control threads.
#[derive(Clone, Default)]
pub(crate) struct SharedBoard(Arc<Mutex<Board>>);

impl SharedBoard {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, question: &Question) -> Result<Value, String> {
        let mut board = self.lock();
        let Some(status) = &board.status else { return Err("the pilot has not looked at its disks yet".into()) };
        let find = |name: &str| {
            let last = name.trim_start_matches("/dev/");
            let named =
                |device: &&crate::DeviceStatus| device.device == name || device.device.rsplit('/').next() == Some(last);
            let all: Vec<&str> = status.devices.iter().map(|device| device.device.as_str()).collect();
            status.devices.iter().find(named).ok_or_else(|| format!("no disk {name}; there are {}", all.join(", ")))
        };
        match question {
            Question::Status {} => serde_json::to_value(status).map_err(|e| e.to_string()),
            Question::Explain { device } => {
                let found = find(device)?;
                let mut value = serde_json::to_value(found).map_err(|e| e.to_string())?;
                value["text"] = found.explain().into();
                Ok(value)
            }
            Question::Resume { device } => {
                let name = find(device)?.device.clone();
                // Repeated requests before the pilot's next turn count once.
                if !board.resume.contains(&name) {
                    board.resume.push(name);
                }
                Ok(json!({ "resumed": true }))
            }
        }
    }
}

/// The threads that answer; the socket's file goes with them.
pub(crate) struct ControlSocket {
    path: PathBuf,
    _threads: ClientThreads<UnixListener>,
}

impl ControlSocket {
    pub(crate) fn start(path: &Path, board: SharedBoard) -> Result<ControlSocket, Error> {
        let failed = |source| Error::Io { what: path.display().to_string(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
            dumbwaiter_text::create_private_folder(folder).map_err(failed)?;
        }
        let listener = dumbwaiter_linux::service::bind_unix(path).map_err(failed)?;
        let threads = ClientThreads::start("control", listener, CLIENTS_MAX, move |client| {
            // A client that has disconnected gets no answer.
            let _ = serve(&client, &board);
        });
        Ok(ControlSocket { path: path.to_owned(), _threads: threads.map_err(failed)? })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = dumbwaiter_text::remove(&self.path);
    }
}

fn serve(stream: &UnixStream, board: &SharedBoard) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE)).read_line(&mut line)?;
    let answer = serde_json::from_str::<Question>(&line)
        .map_err(|e| e.to_string())
        .and_then(|question| board.answer(&question))
        .unwrap_or_else(|error| json!({ "error": error }));
    let mut stream = stream;
    writeln!(stream, "{answer}")
}

/// Asks the pilot that listens at `socket`.
pub fn ask(socket: &Path, question: &Question) -> Result<Value, Error> {
    let failed = |source| Error::Io { what: socket.display().to_string(), source };
    let mut stream = UnixStream::connect(socket).map_err(|source| {
        let path = socket.display();
        Error::Refused(format!(
            "no pilot answers at {path} ({source}); start one with `dumbwaiter pilot --config FILE`, or name its socket with --control"
        ))
    })?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(failed)?;
    let text = serde_json::to_string(question).map_err(|e| Error::Refused(e.to_string()))?;
    writeln!(stream, "{text}").map_err(failed)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(failed)?;
    let answer: Value =
        serde_json::from_str(&line).map_err(|e| Error::Refused(format!("{}: no answer: {e}", socket.display())))?;
    match answer["error"].as_str() {
        Some(error) => Err(Error::Refused(error.to_owned())),
        None => Ok(answer),
    }
}
