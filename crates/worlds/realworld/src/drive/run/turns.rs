//! The turns of a run, from its begin until everything has drained.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use dumbwaiter_block::Nanos;
use dumbwaiter_path::exact_timers;

use super::{CONTROL_POLL_INTERVAL, Closed, Outcome, Run};
use crate::drive::Error;
use crate::drive::usage::Usage;

impl Run<'_> {
    /// Runs to the end and lets everything drain; what completes after the end is not measured.
    pub(crate) fn finish(mut self) -> Result<Outcome, Error> {
        exact_timers(true);
        let result = self.turns();
        exact_timers(false);
        if result.is_err() {
            self.group.stop();
        }
        let (closed, cancelled) = result?;
        let applications = self.load.outcomes(closed.end);
        if let Some(records) = &mut self.records {
            records.flush().map_err(Error::Log)?;
        }
        let mut counters = BTreeMap::new();
        self.disk.layer().counters(&mut |name, count| {
            counters.insert(name.to_owned(), count as f64);
        });
        let (ledger, switches) = (*self.disk.layer().ledger(), self.disk.layer().switches());
        let waits = self.disk.waits();
        // Its observer is the other owner of the verifier.
        drop(self.disk);
        Ok(Outcome {
            recorder: self.recorder,
            ledger,
            switches,
            counters,
            closed,
            issued_late: self.load.issued_late(),
            rounded: self.rounded,
            cancelled,
            failure: self.failure,
            failures: self.failures,
            verifier: self.verifier.and_then(Rc::into_inner).map(RefCell::into_inner),
            notes: self.notes,
            waits,
            rings: 1,
            applications,
        })
    }

    fn turns(&mut self) -> Result<(Closed, bool), Error> {
        let mut before = Usage::now();
        let mut warm = false;
        self.disk.start_clock(self.begin.unwrap_or_else(std::time::Instant::now));
        let mut closed = None;
        let mut cancelled = false;
        let mut looked = Nanos::ZERO;
        let mut counted = 0;
        self.wakes.start_stage(&mut self.load, self.now);
        loop {
            if !warm && self.now >= self.limit.warmup {
                warm = true;
                before = Usage::now();
            }
            self.change_due();
            self.wakes.make_due_ready(&mut self.load, self.now);
            self.pump_ready()?;
            self.send()?;
            if self.now.since(looked) >= CONTROL_POLL_INTERVAL {
                self.report_progress(&mut counted);
                looked = self.now;
                cancelled |= self.load.is_open() && self.control.cancel.load(Ordering::Relaxed);
            }
            let ends = self.load.is_over() || self.now >= self.limit.time || self.stopping || self.group.stopped();
            if self.load.is_open() && (ends || cancelled) {
                closed = Some(self.close(&before));
            }
            // The device works meanwhile.
            self.measure();
            if !self.load.is_open() && self.load.is_idle() {
                break;
            }
            self.wait()?;
        }
        self.report_progress(&mut counted);
        let closed = match closed {
            Some(closed) => closed,
            None => self.close(&before),
        };
        Ok((closed, cancelled))
    }

    /// Adds to the progress that other threads see; `counted` is how many I/Os were added before.
    fn report_progress(&self, counted: &mut u64) {
        let finished = self.recorder.finished();
        self.control.finished.fetch_add(finished - *counted, Ordering::Relaxed);
        self.control.elapsed_ns.fetch_add(self.group.advance(self.now).0, Ordering::Relaxed);
        *counted = finished;
    }

    /// Ends the measured part.
    fn close(&mut self, before: &Usage) -> Closed {
        self.load.close();
        if self.stopping {
            self.group.stop();
        }
        let usage = Usage::now().since(before);
        // Of the log, what is unfinished is the end.
        self.measure();
        self.measure_unfinished();
        Closed { end: self.now, usage }
    }
}
