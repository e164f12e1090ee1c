//! RocksDB's own `db_bench` on a file system of a real device, as the paper of 2023 ran it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{Cell, CellResult, Control, DbBench};
use dumbwaiter_linux::Roots;
use dumbwaiter_linux::diskstats::Diskstats;
use dumbwaiter_linux::filesystem::{self, KillGuard, TemporaryFolder};
use dumbwaiter_linux::meters::cpu;
use dumbwaiter_measure::{Recorder, RecorderConfig, RunFacts, RunResult, grouped};

use crate::DeviceUnderTest;
use crate::error::{Doing, Error};
use crate::lock::lock;
use crate::time::{stamp, unix_ns};

/// Sizes of the paper's pairs, bytes.
const KEY_BYTES: u64 = 16;
const VALUE_BYTES: u64 = 4096;
const PAIR_BYTES: u64 = KEY_BYTES + VALUE_BYTES;
/// The paper's number of pairs.
const PAIRS_MAX: u64 = 23_000_000;
/// A database of fewer pairs says nothing.
const PAIRS_MIN: u64 = 5000;
/// Share of the free space that is filled; the rest is for the log and for files that replace others.
const FILLED_PERCENT: u64 = 60;
/// How often the program's state is read.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A database on the device, made when it is first needed.
pub(crate) struct Database {
    device: PathBuf,
    dev: (u32, u32),
    folder: Option<PathBuf>,
    pairs: u64,
    refusal: Option<String>,
    files: Mutex<Option<TemporaryFolder>>,
}

/// db_bench's report of one benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reported {
    operations: u64,
    seconds: f64,
}

impl Database {
    /// On the file system that the folder of the options is on, or on a new one on the device.
    pub(crate) fn new(device: &DeviceUnderTest) -> Database {
        let options = &device.options().database;
        let room = match &options.folder {
            Some(folder) => free_bytes(folder),
            None => Ok(device.facts().bytes),
        };
        let bytes = room.as_ref().map_or(0, |room| (room / 100 * FILLED_PERCENT).min(options.bytes_max));
        let pairs = (bytes / PAIR_BYTES).min(PAIRS_MAX);
        let refusal = match room {
            Err(e) if installed("db_bench") => Some(e.to_string()),
            _ => refusal(device, pairs),
        };
        Database {
            device: device.path().to_owned(),
            dev: device.facts().dev.unwrap_or_default(),
            folder: options.folder.clone(),
            pairs,
            refusal,
            files: Mutex::default(),
        }
    }

    /// An error, in one line, where it cannot be run.
    pub(crate) fn supported(&self) -> Result<(), String> {
        self.refusal.clone().map_or(Ok(()), Err)
    }

    /// Its size in words.
    pub(crate) fn size(&self) -> String {
        format!("{:.1} GB", (self.pairs * PAIR_BYTES) as f64 / 1e9)
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!(
            "the database has {} pairs ({}; the paper's 23 000 000, 87 GB)",
            grouped(self.pairs),
            self.size()
        )];
        if self.folder.is_none() {
            notes.push(format!("{} has an ext4 file system now: what was on it is gone", self.device.display()));
        }
        notes
    }

    /// Has it been filled?
    pub(crate) fn filled(&self) -> bool {
        lock(&self.files).is_some()
    }

    /// Removes it: unmounts its file system, or removes its folder.
    pub(crate) fn close(&self) {
        lock(&self.files).take();
    }

    /// Makes a file system where there is none, and fills the database. `false` where `control` cancelled it.
    pub(crate) fn fill(&self, control: &Control) -> Result<bool, Error> {
        let files = match &self.folder {
            Some(folder) => TemporaryFolder::inside(folder)?,
            None => {
                filesystem::make_ext4(&self.device)?;
                TemporaryFolder::mount(&self.device, "ext4")?
            }
        };
        let mut command = self.command(files.dir(), "fillseq");
        command.args(["--disable_wal=1", "--use_direct_io_for_flush_and_compaction=1"]);
        let filled = run(&mut command, "fillseq", control)?.is_some();
        if filled {
            *lock(&self.files) = Some(files);
        }
        Ok(filled)
    }

    fn command(&self, dir: &Path, benchmark: &str) -> Command {
        let mut command = Command::new("db_bench");
        command.arg(format!("--benchmarks={benchmark}")).arg(format!("--db={}", dir.join("db").display()));
        command.arg(format!("--num={}", self.pairs));
        command.args([format!("--key_size={KEY_BYTES}"), format!("--value_size={VALUE_BYTES}")]);
        // The paper's database is larger than memory: next to nothing is found in a cache.
        command.args(["--compression_type=none", "--cache_size=1048576", "--use_direct_reads=1"]);
        command
    }

    /// Reads random keys. The I/Os of the result are those that the device counts meanwhile.
    pub(crate) fn readrandom(&self, bench: DbBench, cell: &Cell, control: &Control) -> Result<CellResult, Error> {
        let files = lock(&self.files);
        let files = files.as_ref().ok_or_else(|| Error::failed("there is no database"))?;
        let mut command = self.command(files.dir(), "readrandom");
        let DbBench { threads, seconds } = bench;
        command.args(["--use_existing_db=1", "--readonly=1"]);
        command.args([
            format!("--threads={threads}"),
            format!("--duration={seconds}"),
            format!("--seed={}", seed_of(cell)),
        ]);
        let roots = Roots::default();
        let before = Diskstats::of(self.dev, &roots)?;
        let done = run(&mut command, "readrandom", control)?;
        let ended = unix_ns();
        let moved = Diskstats::of(self.dev, &roots)?.since(&before);
        let Some((reported, usage)) = done else { return Ok(self.cancelled(cell)) };
        if moved.reads == 0 {
            let made = reported.operations;
            return Err(Error::failed(format!("the device counted no reads while db_bench made {made}")));
        }
        let mut run = self.result(reported, usage, moved, cell);
        // It opens the database first.
        stamp(&mut run, ended.saturating_sub((reported.seconds * 1e9) as u64));
        Ok(CellResult::of(run))
    }

    /// The result of a run that was cancelled: without figures.
    pub(crate) fn cancelled(&self, cell: &Cell) -> CellResult {
        CellResult { cancelled: true, ..CellResult::of(self.empty(cell, Nanos::ZERO)) }
    }

    fn empty(&self, cell: &Cell, length: Nanos) -> RunResult {
        let facts = RunFacts {
            device: self.device.display().to_string(),
            scheduler: cell.scheduler.to_string(),
            completion: "interrupt".into(),
            world: "real".into(),
            via: "kernel".into(),
            replicate: cell.replicate,
            seed: seed_of(cell),
            ..RunFacts::default()
        };
        let config =
            RecorderConfig { warmup: Nanos(0), interval: Nanos::from_secs(1), tenants: Vec::new(), tasks: Vec::new() };
        Recorder::new(config).finish(length, facts)
    }

    fn result(&self, reported: Reported, usage: cpu::Usage, moved: Diskstats, cell: &Cell) -> RunResult {
        let mut result = self.empty(cell, Nanos((reported.seconds * 1e9) as u64));
        let ios = moved.reads as f64;
        result.requests = moved.reads;
        result.completed = moved.reads;
        result.iops = ios / reported.seconds;
        result.mb_per_s = moved.read_bytes as f64 / 1e6 / reported.seconds;
        result.latency_us.mean = moved.read_ms as f64 * 1e3 / ios;
        result.cpu.usr_s = usage.usr_s;
        result.cpu.sys_s = usage.sys_s;
        result.cpu.us_per_io = (usage.usr_s + usage.sys_s) * 1e6 / ios;
        result.cpu.ctx_per_io = (usage.voluntary + usage.involuntary) as f64 / ios;
        result.host_counters.insert("gets_per_s".into(), reported.operations as f64 / reported.seconds);
        result
    }
}

fn seed_of(cell: &Cell) -> u64 {
    u64::from(cell.replicate) + 1
}

/// Why no database of this many pairs can be made on the device.
fn refusal(device: &DeviceUnderTest, pairs: u64) -> Option<String> {
    let (path, uses) = (device.path().display(), &device.facts().uses);
    let new = device.options().database.folder.is_none();
    if !installed("db_bench") {
        Some("db_bench is not installed (Debian: apt-get install rocksdb-tools)".to_owned())
    } else if new && !device.options().allow_writes {
        Some(format!(
            "RocksDB needs a file system, and making one destroys what is on {path}: --destroy {path} allows it; on \
             a mounted drive give --dir FOLDER in place of --on"
        ))
    } else if new && !uses.is_empty() {
        Some(format!(
            "no file system can be made on {path}, which is in use ({}); give --dir FOLDER in place of --on",
            uses.join("; ")
        ))
    } else if new && !installed("mkfs.ext4") {
        Some("mkfs.ext4 is not installed (Debian: apt-get install e2fsprogs)".to_owned())
    } else if pairs < PAIRS_MIN {
        Some(format!("{path} has too little room for a database of {PAIRS_MIN} pairs"))
    } else {
        None
    }
}

/// Free bytes of the file system of a folder.
fn free_bytes(dir: &Path) -> Result<u64, Error> {
    let out = Command::new("df").args(["-P", "-B1"]).arg(dir).output().doing("cannot run df")?;
    let text = String::from_utf8_lossy(&out.stdout);
    let free = text.lines().nth(1).and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    free.ok_or_else(|| Error::failed(format!("the free space of {} is not known", dir.display())))
}

/// Is there such a program?
fn installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// A child process that is killed when this is dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs db_bench. Returns its report and the CPU time that it took, as last read before its end; `None` where `control`
/// cancelled it.
fn run(command: &mut Command, benchmark: &str, control: &Control) -> Result<Option<(Reported, cpu::Usage)>, Error> {
    let folder = tempfile::tempdir().doing("no folder for db_bench's output")?;
    let file = |name: &str| folder.path().join(name);
    let make = |name: &str| File::create(file(name)).doing(file(name).display());
    command.stdin(Stdio::null()).stdout(make("out")?).stderr(make("err")?);
    let mut child = KillOnDrop(dumbwaiter_linux::process::end_with_us(command).spawn().doing("cannot start db_bench")?);
    let _guard = KillGuard::on(child.0.id())?;
    let mut usage = cpu::Usage::default();
    let status = loop {
        if let Ok(now) = cpu::other_process(child.0.id())
            && now.usr_s + now.sys_s >= usage.usr_s + usage.sys_s
        {
            // The switches of threads that ended are no longer counted.
            let (voluntary, involuntary) = (now.voluntary.max(usage.voluntary), now.involuntary.max(usage.involuntary));
            usage = cpu::Usage { voluntary, involuntary, ..now };
        }
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        if control.cancelled() {
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    let read = |name: &str| std::fs::read(file(name)).map(|b| String::from_utf8_lossy(&b).into_owned());
    let (out, err) = (read("out")?, read("err")?);
    if !status.success() {
        // A terminal sends Ctrl-C to the child as well.
        if control.cancelled() {
            return Ok(None);
        }
        let reason = last_line(&err).or(last_line(&out)).unwrap_or("it gives no reason");
        return Err(Error::failed(format!("db_bench failed ({status}): {reason}")));
    }
    Ok(Some((reported(&out, benchmark)?, usage)))
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().map(str::trim).find(|l| !l.is_empty())
}

/// Finds the benchmark's line, such as
/// `readrandom   :     223.136 micros/op 35475 ops/sec 1.099 seconds 38992 operations;  139.1 MB/s (4999 of 4999 found)`.
fn reported(text: &str, benchmark: &str) -> Result<Reported, Error> {
    let line =
        text.lines().find(|line| line.strip_prefix(benchmark).is_some_and(|rest| rest.trim_start().starts_with(':')));
    let line = line.ok_or_else(|| Error::failed(format!("db_bench: expected a line of `{benchmark}`, found none")))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let before = |unit: &str| {
        let at = words.iter().position(|w| w.trim_end_matches(';') == unit)?;
        words.get(at.checked_sub(1)?)?.parse::<f64>().ok()
    };
    match (before("operations"), before("seconds")) {
        (Some(operations), Some(seconds)) if operations > 0.0 && seconds > 0.0 => {
            let found = line.rsplit_once('(').and_then(|(_, rest)| rest.split_once(" of "));
            if benchmark == "readrandom" && found.is_some_and(|(n, _)| n == "0") {
                return Err(Error::failed(format!("db_bench found none of the keys: {}", line.trim())));
            }
            Ok(Reported { operations: operations as u64, seconds })
        }
        _ => Err(Error::failed(format!("db_bench: expected operations and seconds, found `{}`", line.trim()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Keys:       16 bytes each (+ 0 bytes user-defined timestamp)
readrandomly
DB path: [db]
readrandom   :     223.136 micros/op 35475 ops/sec 1.099 seconds 38992 operations;  139.1 MB/s (4999 of 4999 found)

fillseq      :     132.885 micros/op 7524 ops/sec 6.645 seconds 50000 operations;   29.5 MB/s
";

    #[test]
    fn a_report_of_db_bench_is_read() {
        assert_eq!(reported(TEXT, "readrandom").unwrap(), Reported { operations: 38_992, seconds: 1.099 });
        assert_eq!(reported(TEXT, "fillseq").unwrap(), Reported { operations: 50_000, seconds: 6.645 });
    }

    #[test]
    fn a_report_without_figures_is_an_error() {
        for (text, part) in [
            ("", "expected a line of `readrandom`"),
            ("readrandom : 0.0 micros/op", "found `readrandom : 0.0 micros/op`"),
            ("readrandom : 1 micros/op 1 ops/sec 0.000 seconds 0 operations;", "expected operations"),
            ("readrandom : 1 micros/op 1 ops/sec 1.0 seconds 5 operations; 1 MB/s (0 of 5 found)", "none of the keys"),
        ] {
            let message = reported(text, "readrandom").unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn free_space_is_known() {
        assert!(free_bytes(&std::env::temp_dir()).unwrap() > 0);
        assert!(free_bytes(Path::new("/nowhere/at/all")).is_err());
    }
}
