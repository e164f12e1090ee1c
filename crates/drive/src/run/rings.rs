//! Several rings at the same time, each with a block layer of its own on a thread that stays on its CPU, and one outcome of
//! all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use dumbwaiter_block::Nanos;

use super::{Outcome, Parts, Run};
use crate::{Error, Target, cpus};

/// From when all are ready to when they begin: enough for all to hear of it on a busy machine.
const LEAD: Duration = Duration::from_millis(10);

/// What the rings of a run have in common.
#[derive(Default)]
pub(crate) struct Together {
    /// One of them failed: all end.
    stop: AtomicBool,
    /// How far the first of them is, ns.
    reached: AtomicU64,
}

impl Together {
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// One of them is at `now`: by how much all together are further.
    pub(super) fn advance(&self, now: Nanos) -> Nanos {
        now.since(Nanos(self.reached.fetch_max(now.0, Ordering::Relaxed)))
    }
}

/// A ring that breaks down must not leave the others running for the rest of an hour.
struct StopIfLost<'a>(&'a Together);

impl Drop for StopIfLost<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

/// Runs all parts, each with the CPU that it stays on, at the same time; a single one on this thread.
pub(crate) fn run(mut parts: Vec<(Option<usize>, Parts<'_>)>, together: &Together) -> Result<Outcome, Error> {
    let Some((_, first)) = parts.first() else {
        return Err(Error::NoRing("a load without a thread needs no ring".into()));
    };
    let target = first.target;
    let mut outcomes = match parts.len() {
        1 => parts.pop().map(|(_, parts)| Run::new(parts)?.finish()).into_iter().collect::<Result<Vec<_>, _>>()?,
        _ => side_by_side(parts, together)?,
    };
    for outcome in &outcomes {
        conserved(outcome, target)?;
    }
    // The one that ended last tells of the whole time; one that failed ended first.
    outcomes.sort_by_key(|outcome| outcome.closed.end);
    let joined = outcomes.into_iter().reduce(join);
    joined.ok_or_else(|| Error::NoRing("no ring was run".into()))
}

fn side_by_side(parts: Vec<(Option<usize>, Parts<'_>)>, together: &Together) -> Result<Vec<Outcome>, Error> {
    std::thread::scope(|scope| {
        let (ready, all_ready) = mpsc::channel();
        let (begins, threads): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .map(|(cpu, parts)| {
                let ready = ready.clone();
                let (begin, when) = mpsc::channel();
                (begin, scope.spawn(move || one(cpu, parts, together, ready, &when)))
            })
            .unzip();
        drop(ready);
        // Ends when each has said that it is ready, or is gone.
        if all_ready.iter().count() == threads.len() {
            let begin = Instant::now() + LEAD;
            // Who is not there to hear it has failed.
            for one in &begins {
                let _ = one.send(begin);
            }
        }
        drop(begins);
        let ended: Vec<_> =
            threads.into_iter().map(|t| t.join().unwrap_or_else(|lost| std::panic::resume_unwind(lost))).collect();
        // Why one of them failed comes before that the others never began.
        ended.into_iter().collect::<Result<Vec<_>, _>>().map(|all| all.into_iter().flatten().collect())
    })
}

/// One ring, on its thread. Nothing if the others could not begin.
fn one(
    cpu: Option<usize>,
    parts: Parts<'_>,
    together: &Together,
    ready: mpsc::Sender<()>,
    when: &mpsc::Receiver<Instant>,
) -> Result<Option<Outcome>, Error> {
    let _guard = StopIfLost(together);
    // Before anything is made: its memory is then near.
    let pinned = cpu.map_or(Ok(()), cpus::stay_on);
    let mut run = Run::new(parts)?;
    if let Err(e) = pinned {
        run.notes.push(format!("a ring does not stay on one CPU: {e}"));
    }
    let _ = ready.send(());
    drop(ready);
    let Ok(begin) = when.recv() else { return Ok(None) };
    run.begin_at(begin);
    run.finish().map(Some)
}

fn conserved(outcome: &Outcome, target: &Target) -> Result<(), Error> {
    match outcome.ledger.imbalance() {
        None => Ok(()),
        Some(what) => {
            let target = target.path().display().to_string();
            Err(Error::NotConserved { target, scheduler: String::new(), what })
        }
    }
}

/// `a` ended before `b`.
fn join(mut a: Outcome, b: Outcome) -> Outcome {
    a.recorder.join(b.recorder);
    a.ledger.join(&b.ledger);
    for (name, count) in b.counters {
        *a.counters.entry(name).or_insert(0.0) += count;
    }
    for (error, count) in b.failures {
        *a.failures.entry(error).or_insert(0) += count;
    }
    a.submitted_by_tenant.iter_mut().zip(&b.submitted_by_tenant).for_each(|(all, more)| *all += more);
    // The processor time is the program's, from when all began.
    let (outstanding, oldest) = (a.closed.outstanding + b.closed.outstanding, a.closed.oldest.max(b.closed.oldest));
    a.closed = super::Closed { outstanding, oldest, ..b.closed };
    a.notes.extend(b.notes);
    a.notes.sort();
    a.notes.dedup();
    a.applications.extend(b.applications);
    Outcome {
        issued_late: a.issued_late + b.issued_late,
        rounded: a.rounded + b.rounded,
        cancelled: a.cancelled || b.cancelled,
        failure: a.failure.or(b.failure),
        verifier: a.verifier.or(b.verifier),
        enters: a.enters + b.enters,
        rings: a.rings + b.rings,
        ..a
    }
}
