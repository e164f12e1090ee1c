//! Lines for people, bounded for each subject: a client that breaks the rules again and again, or a disk that fails all the time, fills no log.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines about one subject in one period; more are counted.
const LINES: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);
/// Subjects with a bound of their own. Further ones share one, so that a client with ever new names cannot fill the log.
const MAX_SUBJECTS: usize = 1024;
const OTHERS: &str = "other clients";

/// The lines about a subject in its period.
struct Spoken {
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl Spoken {
    fn from(now: Instant) -> Spoken {
        Spoken { since: now, lines: 0, left_out: 0 }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.since) >= PERIOD
    }

    fn summary(&self, subject: &str) -> Option<String> {
        (self.left_out > 0).then(|| {
            format!("{subject}: {} more lines of the last {} s were left out", self.left_out, PERIOD.as_secs())
        })
    }
}

/// The log of a server.
pub(crate) struct Log {
    write: Box<dyn Fn(&str) + Send + Sync>,
    subjects: Mutex<BTreeMap<String, Spoken>>,
    left_out: AtomicU64,
}

impl Log {
    pub(crate) fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Log {
        Log { write: Box::new(write), subjects: Mutex::default(), left_out: AtomicU64::new(0) }
    }

    /// A line of the server's own, which no client can cause again and again.
    pub(crate) fn say(&self, line: &str) {
        (self.write)(line);
    }

    /// A line about a subject (a tenant, an address, a target), within its bound.
    pub(crate) fn about(&self, subject: &str, line: &str) {
        self.about_at(Instant::now(), subject, line);
    }

    /// Says how many lines were left out of periods that are over. To be called every few seconds.
    pub(crate) fn end_periods(&self) {
        self.end_where(|spoken| spoken.is_over(Instant::now()));
    }

    /// The server ends: says how many lines were left out.
    pub(crate) fn end(&self) {
        self.end_where(|_| true);
    }

    /// Lines that were left out since the start.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    fn subjects(&self) -> MutexGuard<'_, BTreeMap<String, Spoken>> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn about_at(&self, now: Instant, subject: &str, line: &str) {
        let summary = {
            let mut subjects = self.subjects();
            let known = subjects.contains_key(subject) || subjects.len() < MAX_SUBJECTS;
            let subject = if known { subject } else { OTHERS };
            let spoken = subjects.entry(subject.to_owned()).or_insert_with(|| Spoken::from(now));
            let summary = spoken.is_over(now).then(|| std::mem::replace(spoken, Spoken::from(now)).summary(subject));
            if spoken.lines == LINES {
                spoken.left_out += 1;
                self.left_out.fetch_add(1, Ordering::Relaxed);
                return;
            }
            spoken.lines += 1;
            summary.flatten()
        };
        if let Some(summary) = summary {
            self.say(&summary);
        }
        self.say(line);
    }

    fn end_where(&self, is_over: impl Fn(&Spoken) -> bool) {
        let mut summaries = Vec::new();
        self.subjects().retain(|subject, spoken| {
            let over = is_over(spoken);
            if over {
                summaries.extend(spoken.summary(subject));
            }
            !over
        });
        summaries.iter().for_each(|summary| self.say(summary));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn log() -> (Log, Arc<Mutex<Vec<String>>>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let written = lines.clone();
        (Log::new(move |line: &str| written.lock().unwrap().push(line.to_owned())), lines)
    }

    #[test]
    fn a_subject_has_ten_lines_a_minute_and_what_is_left_out_is_counted_and_said() {
        let (log, lines) = log();
        let begun = Instant::now();
        (0..1000).for_each(|number| log.about_at(begun, "export `a`", &format!("a {number}")));
        log.about_at(begun, "export `b`", "b");
        assert_eq!((lines.lock().unwrap().len(), log.left_out()), (11, 990));
        log.end_periods();
        assert_eq!(lines.lock().unwrap().len(), 11, "the minute goes on");
        log.about_at(begun + PERIOD, "export `a`", "again");
        let said = lines.lock().unwrap()[11..].to_vec();
        assert_eq!(said, ["export `a`: 990 more lines of the last 60 s were left out", "again"]);
    }

    #[test]
    fn what_is_left_out_is_said_although_no_line_follows() {
        let (log, lines) = log();
        (0..12).for_each(|_| log.about("a", "line"));
        log.end();
        log.end();
        assert_eq!(lines.lock().unwrap().last().unwrap(), "a: 2 more lines of the last 60 s were left out");
        assert_eq!(lines.lock().unwrap().len(), 11);
    }

    #[test]
    fn ever_new_names_are_bounded_together() {
        let (log, lines) = log();
        (0..3 * MAX_SUBJECTS).for_each(|number| log.about(&format!("client {number}"), "line"));
        assert_eq!(lines.lock().unwrap().len(), MAX_SUBJECTS + LINES as usize);
        assert_eq!(log.subjects().len(), MAX_SUBJECTS + 1);
        assert_eq!(log.left_out(), (2 * MAX_SUBJECTS - LINES as usize) as u64);
    }
}
