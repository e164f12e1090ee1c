//! What each tenant received in a month beside what it was promised, as CSV: for invoices and for complaints.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};

use crate::Error;
use crate::inspector::Inspector;
use crate::question::Sums;

/// How often counts are looked at: those of an export that is removed are lost since the last look.
const LOOK: Duration = Duration::from_secs(1);
/// Looks between two writes of the file: a crash loses no more than this.
const LOOKS: u32 = 60;
/// The largest file: 4,096 exports need less than 2 MiB.
const MAX_BYTES: u64 = 16 << 20;
const HEADER: &str = "month,target,export,reads,writes,read_bytes,write_bytes,promised_bytes,short_s";

/// The sums of a month.
pub(crate) struct Accounts {
    folder: PathBuf,
    month: String,
    /// By target and export.
    booked: BTreeMap<(String, String), Sums>,
    /// Counts when they were last booked.
    seen: BTreeMap<(String, String), Sums>,
}

impl Accounts {
    /// Goes on with the month's file in a folder, if there is one.
    pub(crate) fn open(folder: &Path, now: SystemTime) -> Result<Accounts, Error> {
        let month = month_of(now);
        let path = file_of(folder, &month);
        let refuse = |reason: String| Error::Config { path: path.clone(), reason };
        let booked = match std::fs::symlink_metadata(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(e) => return Err(refuse(e.to_string())),
            Ok(found) if !found.is_file() => return Err(refuse("it is no regular file".into())),
            Ok(_) => {
                let text = dumbwaiter_text::read_text(&path, MAX_BYTES).map_err(|e| refuse(e.to_string()))?;
                read(&text).map_err(refuse)?
            }
        };
        dumbwaiter_text::check(&path).map_err(Error::io(format!("cannot write {}", path.display())))?;
        Ok(Accounts { folder: folder.to_owned(), month, booked, seen: BTreeMap::new() })
    }

    /// Adds what came since the last time, to the month that it is now; the file of one that is over is written.
    pub(crate) fn book(&mut self, now: SystemTime, tenants: Vec<(String, String, Sums)>) -> Result<(), Error> {
        let month = month_of(now);
        let over = if month == self.month { Ok(()) } else { self.write() };
        if month != self.month {
            (self.month, self.booked) = (month, BTreeMap::new());
        }
        for (target, export, counts) in tenants {
            let key = (target, export);
            let before = self.seen.insert(key.clone(), counts).unwrap_or_default();
            // An export that was removed and added again counts from zero.
            let anew = counts.iter().zip(before).any(|(count, before)| *count < before);
            let before = if anew { Sums::default() } else { before };
            let booked = self.booked.entry(key).or_default();
            for (sum, (count, before)) in booked.iter_mut().zip(counts.iter().zip(before)) {
                *sum += count - before;
            }
        }
        over
    }

    /// Writes the month's file.
    pub(crate) fn write(&self) -> Result<(), Error> {
        let path = file_of(&self.folder, &self.month);
        let written = dumbwaiter_text::write(&path, |out| {
            writeln!(out, "{HEADER}")?;
            for ((target, export), sums) in &self.booked {
                let sums = sums.map(|sum| sum.to_string()).join(",");
                writeln!(out, "{},{},{},{sums}", self.month, quoted(target), quoted(export))?;
            }
            Ok(())
        });
        written.map_err(Error::io(format!("cannot write {}", path.display())))
    }
}

fn file_of(folder: &Path, month: &str) -> PathBuf {
    folder.join(format!("{month}.csv"))
}

/// The month in UTC, as `2026-11`.
fn month_of(now: SystemTime) -> String {
    DateTime::<Utc>::from(now).format("%Y-%m").to_string()
}

/// A field of CSV (RFC 4180).
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// The fields of a line.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut inside) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if inside && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => inside = !inside,
            ',' if !inside => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

fn read(text: &str) -> Result<BTreeMap<(String, String), Sums>, String> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    if head != HEADER {
        return Err(format!("line 1: expected {HEADER}; move the file away to begin anew"));
    }
    let mut booked = BTreeMap::new();
    for (number, line) in lines.enumerate() {
        let fields = fields(line);
        let sums: Option<Vec<u64>> = fields.iter().skip(3).map(|field| field.parse().ok()).collect();
        let sums = sums.and_then(|sums| Sums::try_from(sums).ok());
        let (Some(sums), [_, target, export, ..]) = (sums, &fields[..]) else {
            return Err(format!("line {}: expected {HEADER}", number + 2));
        };
        booked.insert((target.clone(), export.clone()), sums);
    }
    Ok(booked)
}

/// The thread that books.
pub(crate) struct Bookkeeper {
    end: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Bookkeeper {
    /// Books every second, and writes every minute and at the end.
    pub(crate) fn start(folder: &Path, inspector: Inspector) -> Result<Bookkeeper, Error> {
        let mut accounts = Accounts::open(folder, SystemTime::now())?;
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("accounts".into()).spawn(move || {
            let report = |done: Result<(), Error>| {
                if let Err(error) = done {
                    inspector.common.log.about("accounts", &format!("the accounts are not kept: {error}"));
                }
            };
            for look in 1u32.. {
                let over = !matches!(ended.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout));
                // Disks that are gone were booked before.
                if let Ok(tenants) = inspector.sums() {
                    report(accounts.book(SystemTime::now(), tenants));
                }
                if over || look.is_multiple_of(LOOKS) {
                    report(accounts.write());
                }
                if over {
                    return;
                }
            }
        });
        let thread = thread.map_err(Error::io("cannot start a thread"))?;
        Ok(Bookkeeper { end, thread: Some(thread) })
    }
}

impl Drop for Bookkeeper {
    fn drop(&mut self) {
        let _ = self.end.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn at(days: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(days * 86_400)
    }

    fn counts(name: &str, reads: u64) -> Vec<(String, String, Sums)> {
        vec![("a, \"b\"".into(), name.into(), [reads, 0, reads * 4096, 0, 0, 0])]
    }

    #[test]
    fn sums_go_on_after_a_restart_and_begin_anew_with_the_month() {
        let folder = tempfile::tempdir().unwrap();
        let file = |month: &str| std::fs::read_to_string(folder.path().join(format!("{month}.csv"))).unwrap();
        let mut accounts = Accounts::open(folder.path(), at(20_783)).unwrap();
        accounts.book(at(20_783), counts("db", 100)).unwrap();
        accounts.book(at(20_784), counts("db", 150)).unwrap();
        // The export was added anew.
        accounts.book(at(20_784), counts("db", 7)).unwrap();
        accounts.write().unwrap();
        assert_eq!(file("2026-11"), format!("{HEADER}\n2026-11,\"a, \"\"b\"\"\",db,157,0,643072,0,0,0\n"));
        // The server, too.
        let mut accounts = Accounts::open(folder.path(), at(20_785)).unwrap();
        accounts.book(at(20_785), counts("db", 3)).unwrap();
        accounts.write().unwrap();
        assert!(file("2026-11").contains(",db,160,"), "{}", file("2026-11"));
        accounts.book(at(20_800), counts("db", 5)).unwrap();
        accounts.write().unwrap();
        assert!(file("2026-12").contains("2026-12,\"a, \"\"b\"\"\",db,2,"), "{}", file("2026-12"));
        assert!(file("2026-11").contains(",db,160,"));
    }

    #[test]
    fn a_file_of_others_is_not_taken_for_accounts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("2026-11.csv");
        for (text, reason) in [
            ("", "line 1"),
            ("a,b\n", "line 1"),
            (&format!("{HEADER}\n2026-11,t,e,1,2\n"), "line 2"),
            (&format!("{HEADER}\n\n"), "line 2"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Accounts::open(folder.path(), at(20_783)).err().unwrap().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "it is as it was");
        }
        assert!(Accounts::open(&folder.path().join("missing"), at(20_783)).is_err());
    }
}
