//! The control socket: one JSON object a line, one answer a line.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dumbwaiter_linux::service::ClientThreads;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Error;
use crate::inspector::Inspector;
use crate::question::{Answer, Question};
use crate::settings::{DeviceDepth, ExportSettings};
use crate::unix_socket::bind_unix;

/// A line that is longer is refused.
const MAX_LINE: u64 = 64 << 10;
/// Clients at the same time.
const MAX_CLIENTS: u32 = 32;
/// A client that says nothing for longer is let go.
const IDLE: Duration = Duration::from_secs(60);
/// How often a drain is looked at.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// An order of the control socket: `{"command": "set-weight", "export": "db", "weight": 400}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// Names, sizes and weights of the exports.
    #[serde(alias = "query-exports")]
    List {},
    /// Counts of all disks.
    #[serde(alias = "query-stats")]
    Stats {},
    /// Change a weight.
    SetWeight {
        /// Of this export.
        export: String,
        /// 1 to 10000.
        weight: u32,
    },
    /// Change the limits; what is left out is unlimited.
    SetLimit {
        /// Of this export.
        export: String,
        /// I/Os per second.
        #[serde(default)]
        iops: Option<u64>,
        /// Bytes per second.
        #[serde(default)]
        bytes: Option<u64>,
    },
    /// Change the reservation; none if it is left out.
    SetReservation {
        /// Of this export.
        export: String,
        /// I/Os per second.
        #[serde(default)]
        iops: Option<u64>,
    },
    /// Exchange the scheduler of a disk.
    SetScheduler {
        /// As the registry reads it.
        scheduler: String,
        /// Number of the disk, by the order of the configuration.
        #[serde(default)]
        disk: usize,
    },
    /// Change a setting of a disk's scheduler.
    #[serde(alias = "set-tunable")]
    SetSetting {
        /// The setting.
        name: String,
        /// Its value.
        value: i64,
        /// Number of the disk.
        #[serde(default)]
        disk: usize,
    },
    /// Change how many requests a device may hold.
    SetDepth {
        /// Requests.
        depth: DeviceDepth,
        /// Number of the disk.
        #[serde(default)]
        disk: usize,
    },
    /// Add an export.
    #[serde(alias = "export-add", alias = "block-export-add")]
    Add {
        /// As in the configuration file, sizes in bytes.
        export: ExportSettings,
        /// Number of the disk.
        #[serde(default)]
        disk: usize,
    },
    /// Withdraw an export: it takes no new clients, and goes with the last that is there.
    #[serde(alias = "export-del", alias = "block-export-del")]
    Remove {
        /// Its name.
        export: String,
        /// Disconnect its clients.
        #[serde(default)]
        hard: bool,
    },
    /// Change the size of an export.
    Resize {
        /// Its name.
        export: String,
        /// Bytes.
        size: u64,
    },
    /// Withdraw an export and wait until its last client is gone.
    Drain {
        /// Its name.
        export: String,
        /// How long to wait, seconds.
        #[serde(default = "default_drain_s")]
        timeout_s: u64,
    },
    /// Latencies of an export since the start.
    #[serde(alias = "snapshot")]
    Histogram {
        /// Its name.
        export: String,
    },
    /// Why the scheduler is what it is.
    Explain {
        /// Number of the disk.
        #[serde(default)]
        disk: usize,
    },
}

fn default_drain_s() -> u64 {
    10
}

impl Order {
    /// Does it change something at once? A drain waits for clients and holds nothing meanwhile.
    fn is_change(&self) -> bool {
        !matches!(
            self,
            Order::List {} | Order::Stats {} | Order::Drain { .. } | Order::Histogram { .. } | Order::Explain { .. }
        )
    }
}

impl Inspector {
    /// Carries out an order; the answer as JSON.
    pub fn order(&self, order: Order) -> Result<Value, Error> {
        let _others_wait = order.is_change().then(|| self.hold_changes());
        let to_export = |export: String, question| self.ask_export(&export, question).and_then(value);
        match order {
            Order::List {} => self.list(),
            Order::Stats {} => Ok(json!({
                "connections": self.connections(), "failed_negotiations": self.failed_negotiations(),
                "log_lines_left_out": self.log_lines_left_out(), "disks": self.stats()?,
            })),
            Order::SetWeight { export, weight } => to_export(export.clone(), Question::Weight { export, weight }),
            Order::SetLimit { export, iops, bytes } => {
                to_export(export.clone(), Question::Limit { export, iops, bytes })
            }
            Order::SetReservation { export, iops } => to_export(export.clone(), Question::Reservation { export, iops }),
            Order::SetScheduler { scheduler, disk } => value(self.ask_shard(disk, Question::Scheduler { scheduler })?),
            Order::SetSetting { name, value: number, disk } => {
                value(self.ask_shard(disk, Question::Setting { name, value: i128::from(number) })?)
            }
            Order::SetDepth { depth, disk } => value(self.ask_shard(disk, Question::DeviceDepth { depth })?),
            Order::Add { export, disk } => {
                if self.common.directory.shard_of(&export.name).is_some() {
                    return Err(Error::Export {
                        export: export.name,
                        what: "an export of this name exists already".into(),
                    });
                }
                value(self.ask_shard(disk, Question::Add { export: Box::new(export) })?)
            }
            Order::Remove { export, hard } => self.remove(export, hard),
            Order::Resize { export, size } => to_export(export.clone(), Question::Resize { export, size }),
            Order::Drain { export, timeout_s } => self.drain(&export, Duration::from_secs(timeout_s)),
            Order::Histogram { export } => to_export(export.clone(), Question::Histogram { export }),
            Order::Explain { disk } => value(self.ask_shard(disk, Question::Explain)?),
        }
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

    fn remove(&self, export: String, hard: bool) -> Result<Value, Error> {
        let question = || Question::Remove { export: export.clone(), hard };
        match self.ask_export(&export, question()) {
            // New clients do not find one that leaves, but it has a disk as long as it has clients.
            Err(Error::NoExport(_)) if hard => {
                let disks = self.stats()?;
                let mut leaving = disks.iter().map(|disk| disk.exports.iter().any(|e| e.leaving && e.name == export));
                let disk = leaving.position(|here| here).ok_or_else(|| Error::NoExport(export.clone()))?;
                value(self.ask_shard(disk, question())?)
            }
            answer => value(answer?),
        }
    }

    fn drain(&self, export: &str, patience: Duration) -> Result<Value, Error> {
        let shard = self.common.directory.shard_of(export).ok_or_else(|| Error::NoExport(export.to_owned()))?;
        value(self.ask_shard(shard, Question::Remove { export: export.to_owned(), hard: false })?)?;
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

fn value(answer: Answer) -> Result<Value, Error> {
    match answer {
        Answer::Done | Answer::Devices(_) | Answer::Settings(_) => Ok(json!({})),
        Answer::Stats(stats) => Ok(json!(stats)),
        Answer::Histogram(histogram) => Ok(json!(histogram)),
        Answer::Explanation(explanation) => Ok(json!(explanation)),
        Answer::Refused(error) => Err(error),
    }
}

/// The answer to one line.
pub(crate) fn answer_line(inspector: &Inspector, line: &str) -> Value {
    let answer = serde_json::from_str::<Order>(line)
        .map_err(|e| Error::Settings(format!("expected a command such as {{\"command\": \"stats\"}}: {e}")))
        .and_then(|order| inspector.order(order));
    match answer {
        Ok(answer) => json!({ "return": answer }),
        Err(error) => json!({ "error": error.to_string() }),
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
        let _ = std::fs::remove_file(&self.path);
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
