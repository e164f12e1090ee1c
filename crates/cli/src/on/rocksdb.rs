//! RocksDB's own `db_bench` on a file system of a real device, as the paper of 2023 ran it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use dumbwaiter_block::Nanos;
use dumbwaiter_linux::Roots;
use dumbwaiter_linux::diskstats::Diskstats;
use dumbwaiter_linux::place::{self, Leash, Place};
use dumbwaiter_linux::target::Target;
use dumbwaiter_measure::{Energy, Recorder, RecorderConfig, RunFacts, RunResult};
use dumbwaiter_meters::{Meter, cpu};

/// Sizes of the paper's pairs, bytes.
const KEY: u64 = 16;
const VALUE: u64 = 4096;
/// The paper's number of pairs.
const PAIRS: u64 = 23_000_000;
/// Bytes of pairs at most: what can be filled in a few minutes, and in a few seconds.
const BYTES: u64 = 8_000_000_000;
const BYTES_QUICK: u64 = 64_000_000;
/// Of the room that there is, in percent; the rest is for the log and for files that take the place of others.
const FILLED_PERCENT: u64 = 60;
/// Fewer pairs are no data base.
const PAIRS_MIN: u64 = 5000;
/// How often the program is looked at.
const BEAT: Duration = Duration::from_millis(10);

/// A data base on the device, made when it is first needed.
pub(super) struct Rocksdb {
    device: PathBuf,
    dev: (u32, u32),
    folder: Option<PathBuf>,
    pairs: u64,
    refused: Option<String>,
    place: Mutex<Option<Place>>,
}

/// What db_bench says of one benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Said {
    operations: u64,
    seconds: f64,
}

impl Rocksdb {
    /// On the file system that `folder` is on, or on a new one on the device.
    pub(super) fn new(path: &Path, facts: &Target, folder: Option<PathBuf>, allowed: bool, quick: bool) -> Rocksdb {
        let room = match &folder {
            Some(folder) => free_bytes(folder),
            None => Ok(facts.bytes),
        };
        let most = if quick { BYTES_QUICK } else { BYTES };
        let bytes = room.as_ref().map_or(0, |room| (room / 100 * FILLED_PERCENT).min(most));
        let pairs = (bytes / (KEY + VALUE)).min(PAIRS);
        let refused = if !installed("db_bench") {
            Some("skipped: db_bench is not installed (Debian: apt-get install rocksdb-tools)".to_owned())
        } else if let Err(e) = room {
            Some(format!("skipped: {e:#}"))
        } else if folder.is_none() && !allowed {
            Some(format!(
                "skipped: RocksDB needs a file system, and making one destroys what is on {}: --allow-writes allows it; on a \
                 mounted drive give --dir FOLDER in place of --on",
                path.display()
            ))
        } else if folder.is_none() && !facts.uses.is_empty() {
            Some(format!(
                "skipped: no file system can be made on {}, which is in use ({}); give --dir FOLDER in place of --on",
                path.display(),
                facts.uses.join("; ")
            ))
        } else if folder.is_none() && !installed("mkfs.ext4") {
            Some("skipped: mkfs.ext4 is not installed (Debian: apt-get install e2fsprogs)".to_owned())
        } else if pairs < PAIRS_MIN {
            Some(format!("skipped: {} has too little room for a data base of {PAIRS_MIN} pairs", path.display()))
        } else {
            None
        };
        let dev = facts.dev.unwrap_or_default();
        Rocksdb { device: path.to_owned(), dev, folder, pairs, refused, place: Mutex::default() }
    }

    /// Why it cannot be run, in one line.
    pub(super) fn refuses(&self) -> Option<String> {
        self.refused.clone()
    }

    /// Its size in words.
    pub(super) fn size(&self) -> String {
        format!("{:.1} GB", (self.pairs * (KEY + VALUE)) as f64 / 1e9)
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!(
            "the data base has {} pairs ({}; the paper's 23 000 000, 87 GB)",
            crate::output::grouped(self.pairs),
            self.size()
        )];
        if self.folder.is_none() {
            notes.push(format!("{} has an ext4 file system now: what was on it is gone", self.device.display()));
        }
        notes
    }

    /// Is there a data base?
    pub(super) fn filled(&self) -> bool {
        super::reproduce::lock(&self.place).is_some()
    }

    /// Takes it away again: unmounts, or removes its folder.
    pub(super) fn leave(&self) {
        super::reproduce::lock(&self.place).take();
    }

    /// Makes a file system where there is none, and fills the data base. `false`: ended from outside.
    pub(super) fn fill(&self, stop: &AtomicBool) -> Result<bool> {
        let place = match &self.folder {
            Some(folder) => Place::inside(folder)?,
            None => {
                place::make_ext4(&self.device)?;
                Place::mount(&self.device, "ext4")?
            }
        };
        let mut command = self.command(place.dir(), "fillseq");
        command.args(["--disable_wal=1", "--use_direct_io_for_flush_and_compaction=1"]);
        let done = run(&mut command, "fillseq", stop)?.is_some();
        if done {
            *super::reproduce::lock(&self.place) = Some(place);
        }
        Ok(done)
    }

    fn command(&self, dir: &Path, benchmark: &str) -> Command {
        let mut command = Command::new("db_bench");
        command.arg(format!("--benchmarks={benchmark}")).arg(format!("--db={}", dir.join("db").display()));
        command.arg(format!("--num={}", self.pairs));
        command.args([format!("--key_size={KEY}"), format!("--value_size={VALUE}")]);
        // The paper's data base is larger than memory: next to nothing is found in a cache.
        command.args(["--compression_type=none", "--cache_size=1048576", "--use_direct_reads=1"]);
        command
    }

    /// Gets for so many seconds. The I/Os are those that the device counts meanwhile. `None`: ended from outside.
    pub(super) fn readrandom(
        &self,
        threads: u32,
        seconds: u32,
        replicate: u32,
        mut meter: Option<&mut Meter>,
        stop: &AtomicBool,
    ) -> Result<Option<RunResult>> {
        let place = super::reproduce::lock(&self.place);
        let place = place.as_ref().ok_or_else(|| anyhow!("there is no data base"))?;
        let mut command = self.command(place.dir(), "readrandom");
        let seed = u64::from(replicate) + 1;
        command.args(["--use_existing_db=1", "--readonly=1"]);
        command.args([format!("--threads={threads}"), format!("--duration={seconds}"), format!("--seed={seed}")]);
        let roots = Roots::default();
        let before = Diskstats::of(self.dev, &roots)?;
        if let Some(meter) = &mut meter {
            meter.start()?;
        }
        let done = run(&mut command, "readrandom", stop)?;
        let ended = super::unix_ns();
        let drawn = meter.as_mut().map(|m| m.stop()).transpose()?;
        let moved = Diskstats::of(self.dev, &roots)?.since(&before);
        let Some((said, usage)) = done else { return Ok(None) };
        if moved.reads == 0 {
            bail!("the device counted no reads while db_bench made {}", said.operations);
        }
        let energy = drawn.zip(meter).map(|(drawn, meter)| {
            // It opens the data base first.
            let joules = drawn.between(ended.saturating_sub((said.seconds * 1e9) as u64), ended);
            Energy {
                joules,
                source: meter.about().to_owned(),
                j_per_mio: joules / moved.reads as f64 * 1e6,
                bytes_per_j: moved.read_bytes as f64 / joules,
            }
        });
        Ok(Some(self.result(said, usage, moved, energy, (replicate, seed))))
    }

    fn result(
        &self,
        said: Said,
        usage: cpu::Usage,
        moved: Diskstats,
        energy: Option<Energy>,
        (replicate, seed): (u32, u64),
    ) -> RunResult {
        let facts = RunFacts {
            device: self.device.display().to_string(),
            completion: "interrupt".into(),
            world: "real".into(),
            via: "kernel".into(),
            replicate,
            seed,
            ..RunFacts::default()
        };
        let config =
            RecorderConfig { warmup: Nanos(0), interval: Nanos::from_secs(1), tenants: Vec::new(), tasks: Vec::new() };
        let mut result = Recorder::new(config).finish(Nanos((said.seconds * 1e9) as u64), facts);
        let ios = moved.reads as f64;
        result.requests = moved.reads;
        result.completed = moved.reads;
        result.iops = ios / said.seconds;
        result.mb_per_s = moved.read_bytes as f64 / 1e6 / said.seconds;
        result.latency_us.mean = moved.read_ms as f64 * 1e3 / ios;
        result.cpu.usr_s = usage.usr_s;
        result.cpu.sys_s = usage.sys_s;
        result.cpu.us_per_io = (usage.usr_s + usage.sys_s) * 1e6 / ios;
        result.cpu.ctx_per_io = (usage.voluntary + usage.involuntary) as f64 / ios;
        result.energy = energy;
        result.host_counters.insert("gets_per_s".into(), said.operations as f64 / said.seconds);
        result
    }
}

/// Bytes that the file system of a folder has left.
fn free_bytes(dir: &Path) -> Result<u64> {
    let out = Command::new("df").args(["-P", "-B1"]).arg(dir).output().context("cannot run df")?;
    let text = String::from_utf8_lossy(&out.stdout);
    let free = text.lines().nth(1).and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    free.ok_or_else(|| anyhow!("the free space of {} cannot be told", dir.display()))
}

/// Is there such a program?
fn installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// A child that does not outlive its guard.
struct Tame(Child);

impl Drop for Tame {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs db_bench, and answers with what it said and the CPU time it took, as last seen before its end. `None`: ended from
/// outside.
fn run(command: &mut Command, benchmark: &str, stop: &AtomicBool) -> Result<Option<(Said, cpu::Usage)>> {
    let folder = tempfile::tempdir().context("no folder for db_bench's output")?;
    let file = |name: &str| folder.path().join(name);
    let make = |name: &str| File::create(file(name)).with_context(|| file(name).display().to_string());
    command.stdin(Stdio::null()).stdout(make("out")?).stderr(make("err")?);
    let mut child = Tame(place::end_with_us(command).spawn().context("cannot start db_bench")?);
    let _leash = Leash::on(child.0.id())?;
    let mut usage = cpu::Usage::default();
    let status = loop {
        if let Ok(now) = cpu::other_process(child.0.id())
            && now.usr_s + now.sys_s >= usage.usr_s + usage.sys_s
        {
            // Threads that ended take their switches with them.
            let (voluntary, involuntary) = (now.voluntary.max(usage.voluntary), now.involuntary.max(usage.involuntary));
            usage = cpu::Usage { voluntary, involuntary, ..now };
        }
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        std::thread::sleep(BEAT);
    };
    let read = |name: &str| std::fs::read(file(name)).map(|b| String::from_utf8_lossy(&b).into_owned());
    let (out, err) = (read("out")?, read("err")?);
    if !status.success() {
        // A terminal sends Ctrl-C to the child as well.
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        bail!("db_bench failed ({status}): {}", last_line(&err).or(last_line(&out)).unwrap_or("it gives no reason"));
    }
    Ok(Some((said(&out, benchmark)?, usage)))
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().map(str::trim).find(|l| !l.is_empty())
}

/// Finds the benchmark's line, such as
/// `readrandom   :     223.136 micros/op 35475 ops/sec 1.099 seconds 38992 operations;  139.1 MB/s (4999 of 4999 found)`.
fn said(text: &str, benchmark: &str) -> Result<Said> {
    let line =
        text.lines().find(|line| line.strip_prefix(benchmark).is_some_and(|rest| rest.trim_start().starts_with(':')));
    let line = line.ok_or_else(|| anyhow!("db_bench: expected a line of `{benchmark}`, found none"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let before = |unit: &str| {
        let at = words.iter().position(|w| w.trim_end_matches(';') == unit)?;
        words.get(at.checked_sub(1)?)?.parse::<f64>().ok()
    };
    match (before("operations"), before("seconds")) {
        (Some(operations), Some(seconds)) if operations > 0.0 && seconds > 0.0 => {
            let found = line.rsplit_once('(').and_then(|(_, rest)| rest.split_once(" of "));
            if benchmark == "readrandom" && found.is_some_and(|(n, _)| n == "0") {
                bail!("db_bench found none of the keys: {}", line.trim());
            }
            Ok(Said { operations: operations as u64, seconds })
        }
        _ => bail!("db_bench: expected operations and seconds, found `{}`", line.trim()),
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
    fn what_db_bench_says_is_read() {
        assert_eq!(said(TEXT, "readrandom").unwrap(), Said { operations: 38_992, seconds: 1.099 });
        assert_eq!(said(TEXT, "fillseq").unwrap(), Said { operations: 50_000, seconds: 6.645 });
    }

    #[test]
    fn what_it_does_not_say_is_an_error() {
        for (text, part) in [
            ("", "expected a line of `readrandom`"),
            ("readrandom : 0.0 micros/op", "found `readrandom : 0.0 micros/op`"),
            ("readrandom : 1 micros/op 1 ops/sec 0.000 seconds 0 operations;", "expected operations"),
            ("readrandom : 1 micros/op 1 ops/sec 1.0 seconds 5 operations; 1 MB/s (0 of 5 found)", "none of the keys"),
        ] {
            let message = said(text, "readrandom").unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn free_space_is_told() {
        assert!(free_bytes(&std::env::temp_dir()).unwrap() > 0);
        assert!(free_bytes(Path::new("/nowhere/at/all")).is_err());
    }
}
