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
use crate::settings::TargetSettings;
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
        let configured = order.is_change().then(|| self.hold_changes());
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
            Order::Save {} => return self.save_now(configured.as_deref().map_or(&[], Vec::as_slice)),
            Order::Reset {} => {
                let configured = configured.as_deref().map_or(&[][..], Vec::as_slice);
                self.reset(configured)?;
                return Ok(self.saved(json!({}), configured));
            }
            _ => {}
        }
        let disk = match order.recipient() {
            Recipient::Disk(disk) => disk,
            Recipient::Of(export) => match (self.disk_of(export), &order) {
                // New clients do not find one that leaves, but it has a disk as long as it has clients.
                (Err(_), Order::Remove { hard: true, .. } | Order::Undrain { .. }) => self.disk_that_loses(export)?,
                (disk, _) => disk?,
            },
        };
        let answer = value(&self.ask_shard(disk, Question::Order(order))?);
        Ok(match configured {
            Some(configured) => self.saved(answer, &configured),
            None => answer,
        })
    }

    /// Writes the state, or says why not.
    fn save_now(&self, configured: &[TargetSettings]) -> Result<Value, Error> {
        match self.save(configured)? {
            Some(path) => Ok(json!({ "saved": path })),
            None => Err(Error::Settings(
                "there is no state file: start the server with --state FILE, or with --config, beside which it lies"
                    .into(),
            )),
        }
    }

    /// The answer to a change that stays beyond the end of the server, or with the reason why it does not.
    fn saved(&self, mut answer: Value, configured: &[TargetSettings]) -> Value {
        if let Err(error) = self.save(configured) {
            answer["not_saved"] = error.to_string().into();
        }
        answer
    }

    fn list(&self) -> Result<Value, Error> {
        let disks = self.stats()?;
        let exports = disks.iter().enumerate().flat_map(|(number, disk)| {
            disk.exports.iter().map(move |export| {
                json!({
                    "name": export.name, "disk": number, "target": disk.target, "size": export.size,
                    "offset": export.offset, "weight": export.weight, "readonly": export.readonly,
                    "limit": export.limit, "reservation": export.reservation, "over_commit": export.over_commit,
                    "device_depth": disk.device_depth, "connections": export.connections,
                    "draining": export.draining, "leaving": export.leaving,
                    "promised_share": export.promised_share, "received_share": export.received_share,
                    "shortfall": export.shortfall,
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
        let mut answer = json!({});
        let shard = {
            let configured = self.hold_changes();
            // One that is being drained has a disk as long as it has clients.
            let shard = self.disk_of(export).or_else(|_| self.disk_that_loses(export))?;
            if self.disk_of(export).is_ok() {
                self.ask_shard(shard, Question::Order(order))?;
                answer = self.saved(answer, &configured);
            }
            shard
        };
        let begun = std::time::Instant::now();
        loop {
            let there = self.stats()?.get(shard).is_some_and(|disk| disk.exports.iter().any(|e| e.name == export));
            if !there || begun.elapsed() >= patience {
                answer["drained"] = (!there).into();
                return Ok(answer);
            }
            std::thread::sleep(DRAIN_LOOK);
        }
    }
}

fn value(answer: &Answer) -> Value {
    match answer {
        Answer::Done | Answer::Devices(_) | Answer::Settings(_) | Answer::Accounts(_) => json!({}),
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
