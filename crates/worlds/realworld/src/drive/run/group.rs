//! Several rings at the same time, each with a disk of its own on a thread pinned to its CPU, and one outcome of all.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::ring_group::RingGroup;
use super::{Outcome, Parts, Run};
use crate::drive::{Error, Target, cpus};

/// From when all are ready to when they begin: long enough to reach every thread on a busy machine.
const LEAD: Duration = Duration::from_millis(10);

/// A panic on one ring ends the others too.
struct StopOnPanic<'a>(&'a RingGroup);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

/// Runs all parts at the same time, each pinned to its CPU; a single one on this thread.
pub(crate) fn run(mut parts: Vec<(Option<usize>, Parts<'_>)>, group: &RingGroup) -> Result<Outcome, Error> {
    let Some((_, first)) = parts.first() else {
        return Err(no_thread());
    };
    let target = first.target;
    let mut outcomes = match parts.len() {
        1 => parts.pop().map(|(_, parts)| Run::new(parts)?.finish()).into_iter().collect::<Result<Vec<_>, _>>()?,
        _ => side_by_side(parts, group)?,
    };
    for outcome in &outcomes {
        conserved(outcome, target)?;
    }
    // The last to end covers the whole time; one that failed ended first.
    outcomes.sort_by_key(|outcome| outcome.closed.end);
    let joined = outcomes.into_iter().reduce(join);
    joined.ok_or_else(no_thread)
}

fn side_by_side(parts: Vec<(Option<usize>, Parts<'_>)>, group: &RingGroup) -> Result<Vec<Outcome>, Error> {
    std::thread::scope(|scope| {
        let (ready, all_ready) = mpsc::channel();
        let (begins, threads): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .map(|(cpu, parts)| {
                let ready = ready.clone();
                let (begin, when) = mpsc::channel();
                (begin, scope.spawn(move || one(cpu, parts, group, ready, &when)))
            })
            .unzip();
        drop(ready);
        // Ends when each thread is ready or gone.
        if all_ready.iter().count() == threads.len() {
            let begin = Instant::now() + LEAD;
            for one in &begins {
                // A thread that does not receive it has failed.
                let _ = one.send(begin);
            }
        }
        drop(begins);
        let ended: Vec<_> =
            threads.into_iter().map(|t| t.join().unwrap_or_else(|lost| std::panic::resume_unwind(lost))).collect();
        // The error of one matters more than that the others never began.
        ended.into_iter().collect::<Result<Vec<_>, _>>().map(|all| all.into_iter().flatten().collect())
    })
}

/// One ring, on its thread. `None` if the others could not begin.
fn one(
    cpu: Option<usize>,
    parts: Parts<'_>,
    group: &RingGroup,
    ready: mpsc::Sender<()>,
    when: &mpsc::Receiver<Instant>,
) -> Result<Option<Outcome>, Error> {
    let _guard = StopOnPanic(group);
    // First, so that memory is allocated near this CPU.
    let pinned = cpu.map_or(Ok(()), cpus::stay_on);
    let mut run = Run::new(parts)?;
    if let Err(e) = pinned {
        run.notes.push(format!("a ring cannot be pinned to its CPU: {e}"));
    }
    let _ = ready.send(());
    drop(ready);
    let Ok(begin) = when.recv() else { return Ok(None) };
    run.begin_at(begin);
    run.finish().map(Some)
}

fn no_thread() -> Error {
    dumbwaiter_path::Error::NoRing("a load without a thread needs no ring".into()).into()
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
    // CPU time is that of the whole program.
    a.closed = b.closed;
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
        waits: a.waits + b.waits,
        rings: a.rings + b.rings,
        ..a
    }
}
