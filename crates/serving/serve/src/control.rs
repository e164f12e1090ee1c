//! The control socket: one JSON object a line, one answer a line.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dumbwaiter_linux::service::ClientThreads;
use serde_json::{Value, json};

use crate::Error;
use crate::inspector::Inspector;
use crate::order::{Order, Recipient};
use crate::question::{Answer, Question};
use crate::unix_socket::bind_unix;

/// A line that is longer is refused.
const MAX_LINE: u64 = 64 << 10;
/// Clients at the same time.
const MAX_CLIENTS: u32 = 32;
/// A client that says nothing for longer is let go.
const IDLE: Duration = Duration::from_secs(60);
/// How often a drain is looked at.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

impl Inspector {
    /// Carries out an order; the answer as JSON.
    pub fn order(&self, order: Order) -> Result<Value, Error> {
        let _others_wait = order.is_change().then(|| self.hold_changes());
        match &order {
            Order::List {} => return self.list(),
            Order::Stats {} => {
                return Ok(json!({
                    "connections": self.connections(), "failed_negotiations": self.failed_negotiations(),
                    "log_lines_left_out": self.log_lines_left_out(), "disks": self.stats()?,
                }));
            }
            Order::Add { export, .. } if self.disk_of(&export.name).is_ok() => {
                let what = "an export of this name exists already".into();
                return Err(Error::Export { export: export.name.clone(), what });
            }
            Order::Drain { export, timeout_s } => {
                let (export, patience) = (export.clone(), Duration::from_secs(*timeout_s));
                return self.drain(&export, order, patience);
            }
            _ => {}
        }
        let disk = match order.recipient() {
            Recipient::Disk(disk) => disk,
            Recipient::Of(export) => match (self.disk_of(export), &order) {
                // New clients do not find one that leaves, but it has a disk as long as it has clients.
                (Err(_), Order::Remove { hard: true, .. }) => self.disk_that_loses(export)?,
                (disk, _) => disk?,
            },
        };
        Ok(value(&self.ask_shard(disk, Question::Order(order))?))
    }

    fn list(&self) -> Result<Value, Error> {
        let disks = self.stats()?;
        let exports = disks.iter().enumerate().flat_map(|(number, disk)| {
            disk.exports.iter().map(move |export| {
                json!({
                    "name": export.name, "disk": number, "target": disk.target, "size": export.size,
                    "offset": export.offset, "weight": export.weight, "readonly": export.readonly,
                    "connections": export.connections, "leaving": export.leaving,
                })
            })
        });
        Ok(Value::Array(exports.collect()))
    }

    /// The disk of an export that is being withdrawn.
    fn disk_that_loses(&self, export: &str) -> Result<usize, Error> {
        let disks = self.stats()?;
        let mut leaving = disks.iter().map(|disk| disk.exports.iter().any(|e| e.leaving && e.name == export));
        leaving.position(|here| here).ok_or_else(|| Error::NoExport(export.to_owned()))
    }

    fn drain(&self, export: &str, order: Order, patience: Duration) -> Result<Value, Error> {
        let shard = self.disk_of(export)?;
        self.ask_shard(shard, Question::Order(order))?;
        let begun = std::time::Instant::now();
        loop {
            let there = self.stats()?.get(shard).is_some_and(|disk| disk.exports.iter().any(|e| e.name == export));
            if !there {
                return Ok(json!({ "drained": true }));
            }
            if begun.elapsed() >= patience {
                return Ok(json!({ "drained": false }));
            }
            std::thread::sleep(DRAIN_LOOK);
        }
    }
}

fn value(answer: &Answer) -> Value {
    match answer {
        Answer::Done | Answer::Devices(_) | Answer::Settings(_) => json!({}),
        Answer::Stats(stats) => json!(stats),
        Answer::Histogram(histogram) => json!(histogram),
        Answer::Explanation(explanation) => json!(explanation),
    }
}

/// The answer to one line.
pub(crate) fn answer_line(inspector: &Inspector, line: &str) -> Value {
    let answer = serde_json::from_str::<Order>(line)
        .map_err(|e| Error::Settings(format!("expected a command such as {{\"command\": \"stats\"}}: {e}")))
        .and_then(|order| inspector.order(order));
    match answer {
        Ok(answer) => json!({ "return": answer }),
        Err(error) => json!({ "error": dumbwaiter_text::shortened(&error.to_string()) }),
    }
}

/// The threads that take orders; the socket's file goes with them.
pub(crate) struct ControlSocket {
    path: PathBuf,
    _threads: ClientThreads<UnixListener>,
}

impl ControlSocket {
    pub(crate) fn start(path: &Path, inspector: Inspector) -> Result<ControlSocket, Error> {
        let threads = ClientThreads::start("control", bind_unix(path)?, MAX_CLIENTS, move |client| {
            // A client that is gone needs no answer.
            let _ = serve(&client, &inspector);
        });
        let threads = threads.map_err(Error::io("cannot start a thread"))?;
        Ok(ControlSocket { path: path.to_owned(), _threads: threads })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = dumbwaiter_text::remove(&self.path);
    }
}

fn serve(stream: &UnixStream, inspector: &Inspector) -> std::io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))?;
    let mut out = stream;
    answer_lines(&mut BufReader::new(stream), &mut out, inspector)
}

/// Answers line by line, to the end or to a line that is too long.
pub(crate) fn answer_lines(
    reader: &mut impl BufRead,
    out: &mut impl Write,
    inspector: &Inspector,
) -> std::io::Result<()> {
    loop {
        let mut line = Vec::new();
        let count = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if count == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n") || count < MAX_LINE as usize;
        let answer = match String::from_utf8(line) {
            Ok(text) if whole => answer_line(inspector, text.trim()),
            _ => json!({ "error": "expected one JSON object a line, in UTF-8 and of at most 64 KiB" }),
        };
        // One call: the answer arrives whole.
        out.write_all(format!("{answer}\n").as_bytes())?;
        if !whole {
            return Ok(());
        }
    }
}

/// Sends an order to a running server and returns its answer.
pub fn send_order(socket: &Path, order: &Order) -> Result<Value, Error> {
    let failed = |source| Error::Io { what: format!("{}: no server answers on this socket", socket.display()), source };
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    let text = serde_json::to_string(order).map_err(|e| Error::Settings(e.to_string()))?;
    stream.write_all(format!("{text}\n").as_bytes()).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(failed)?;
    let answer: Value =
        serde_json::from_str(&line).map_err(|e| Error::Settings(format!("the server sent no valid answer: {e}")))?;
    match answer.get("error") {
        Some(error) => Err(Error::Settings(error.as_str().unwrap_or("refused").to_owned())),
        None => Ok(answer["return"].clone()),
    }
}
