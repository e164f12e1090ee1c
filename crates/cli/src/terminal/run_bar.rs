//! The progress bar of runs that take a known time: those on real devices.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{Control, Step};
use dumbwaiter_text::escape_line;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::progress::{LINE_INTERVAL, REDRAW_INTERVAL};

/// Steps of a bar of time.
const TIME_STEPS: u32 = 100;

/// The bar of runs on a real device; empty until the runs are known.
#[derive(Clone, Default)]
pub struct RunBar(Arc<Mutex<Option<Bar>>>);

impl RunBar {
    /// A control that shows each run, and says beforehand what will run on `path`.
    pub fn control(&self, path: &Path, writes: bool) -> Arc<Control> {
        let path = path.display().to_string();
        self.observing(move |cells, each| {
            let runs = if cells == 1 { "run" } else { "runs" };
            let each = each.map_or("unknown length".to_owned(), |t| t.to_string());
            let writes = if writes { "WRITES TO IT" } else { "only reads" };
            crate::tell!("{path}: {cells} {runs} of {each}, {writes}");
        })
    }

    /// A control that only shows each run.
    pub fn quiet_control(&self) -> Arc<Control> {
        self.observing(|_, _| {})
    }

    fn observing(&self, planned: impl Fn(u64, Option<Nanos>) + Send + Sync + 'static) -> Arc<Control> {
        let bar = self.clone();
        Arc::new(Control::observed(move |step| match step {
            Step::Planned { cells, each } => {
                planned(*cells, *each);
                bar.start(*cells, Duration::from_nanos(each.unwrap_or(Nanos::from_secs(1)).0));
            }
            Step::Began(cell) => bar.with(|bar| bar.begin(&cell.to_string())),
            Step::Finished(..) => bar.with(Bar::done),
        }))
    }

    /// A control that shows how much of `budget` is over, for runs whose number is not known.
    pub fn timed_control(&self, budget: Duration) -> Arc<Control> {
        self.start_timed(budget);
        let (bar, began) = (self.clone(), Instant::now());
        Arc::new(Control::observed(move |step| {
            if let Step::Began(cell) = step {
                bar.at(began.elapsed(), &format!("{}, {cell}", cell.variant));
            }
        }))
    }

    /// Starts a bar of time, which [`RunBar::at`] moves.
    pub fn start_timed(&self, budget: Duration) {
        self.start(u64::from(TIME_STEPS), budget / TIME_STEPS);
    }

    /// Shows that `what` began, `since` the start of the first.
    pub fn at(&self, since: Duration, what: &str) {
        self.with(|bar| bar.at(since, what));
    }

    /// A closure for [`RunBar::start_timed`] work whose parts have numbers: it moves the bar, and prints a line now and then where
    /// stderr is no terminal.
    pub fn steps(&self) -> impl FnMut(usize, usize, &str) {
        let (bar, began, mut last_line) = (self.clone(), Instant::now(), None::<Instant>);
        move |number, of, what| {
            bar.at(began.elapsed(), what);
            let due = last_line.is_none_or(|at| at.elapsed() >= LINE_INTERVAL);
            if due && !std::io::stderr().is_terminal() {
                last_line = Some(Instant::now());
                crate::tell!("{number} of {of}: {what}");
            }
        }
    }

    fn start(&self, runs: u64, each: Duration) {
        *self.lock() = Some(Bar::new(runs, each));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.lock().take();
    }

    fn with(&self, show: impl FnOnce(&Bar)) {
        if let Some(bar) = self.lock().as_ref() {
            show(bar);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Bar>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Progress of runs that each take a known time.
struct Bar {
    bar: ProgressBar,
    each: Duration,
    runs: u64,
}

impl Bar {
    fn new(runs: u64, each: Duration) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{bar:30}] {pos}/{len} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(REDRAW_INTERVAL);
        Bar { bar, each, runs }
    }

    fn begin(&self, what: &str) {
        let left = self.each * (self.runs - self.bar.position()).min(u64::from(u32::MAX)) as u32;
        self.bar.set_message(format!("{} (about {} s left)", escape_line(what), left.as_secs()));
    }

    /// `since` the start of the first run, where only the time of all runs together is known.
    fn at(&self, since: Duration, what: &str) {
        let steps = since.as_secs_f64() / self.each.as_secs_f64();
        self.bar.set_position((steps as u64).min(self.runs));
        self.begin(what);
    }

    fn done(&self) {
        self.bar.inc(1);
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.finish();
    }
}
