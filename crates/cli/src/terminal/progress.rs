//! How far simulated runs are, on stderr.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{Control, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::signals::cancel_on_signal;

/// Steps of the bar.
const BAR_STEPS: u64 = 1000;
/// How often the end of the work is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often a bar is drawn anew.
pub(crate) const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Work shorter than this shows nothing.
const QUIET_TIME: Duration = Duration::from_millis(700);
/// How often a line is printed where stderr is no terminal.
pub(crate) const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Work that takes longer is long: how to make it shorter is said, once.
const LONG_TIME: Duration = Duration::from_secs(600);

/// Shows on stderr how far simulated work is; Ctrl-C cancels it.
pub struct Watched {
    progress: Arc<Progress>,
    control: Arc<Control>,
    /// What makes the work shorter.
    shorter: Option<&'static str>,
}

impl Watched {
    /// Begins to handle Ctrl-C; nothing is shown before [`Watched::run`].
    ///
    /// # Errors
    /// If the system refuses a handler.
    pub fn start() -> io::Result<Watched> {
        let progress = Arc::new(Progress::default());
        let control = Arc::new(progress.control());
        cancel_on_signal(&control)?;
        Ok(Watched { progress, control, shorter: None })
    }

    /// With what is said of work that takes long, or has no end in sight.
    pub fn shortened_by(self, how: &'static str) -> Watched {
        Watched { shorter: Some(how), ..self }
    }

    /// The control that the runs observe.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Counts anew, for runs called `label`.
    pub fn restart(&self, label: &str) {
        self.progress.restart(label);
    }

    /// Does `work`, which runs cells under [`Watched::control`], and shows how far it is.
    pub fn run<T: Send>(&self, work: impl FnOnce(&Control) -> T + Send) -> T {
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| work(&self.control));
            self.show(|| worker.is_finished());
            match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn show(&self, is_over: impl Fn() -> bool) {
        let started = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(Some(BAR_STEPS), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{bar:30}] {msg}  {elapsed} (eta {eta})") {
            bar.set_style(style.progress_chars("=> "));
        }
        let mut last_line = started;
        let mut shorter = self.shorter;
        while !is_over() {
            std::thread::sleep(POLL_INTERVAL);
            let elapsed = started.elapsed();
            if elapsed < QUIET_TIME {
                continue;
            }
            let share = self.progress.share(&self.control);
            let message = self.progress.line(&self.control, elapsed);
            let is_long = elapsed >= LINE_INTERVAL && elapsed.as_secs_f64() > share * LONG_TIME.as_secs_f64();
            if let Some(how) = shorter.take_if(|_| is_long) {
                bar.suspend(|| crate::tell!("{how}"));
            }
            if terminal {
                bar.set_position((share.clamp(0.0, 1.0) * BAR_STEPS as f64) as u64);
                bar.set_message(message);
                std::thread::sleep(REDRAW_INTERVAL);
            } else if last_line.elapsed() >= LINE_INTERVAL {
                last_line = Instant::now();
                crate::tell!("{:.0} % after {:.0} s: {message}", share * 100.0, elapsed.as_secs_f64());
            }
        }
        bar.finish_and_clear();
    }
}

/// How far the runs of an experiment are.
#[derive(Default)]
struct Progress {
    planned: AtomicU64,
    done: AtomicU64,
    /// Length of one run in nanoseconds; 0 if unknown.
    each_ns: AtomicU64,
    /// Shown before the figures; empty for none.
    label: Mutex<String>,
}

impl Progress {
    /// Begins again from nothing, for runs called `label`.
    fn restart(&self, label: &str) {
        self.planned.store(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        *self.label.lock().unwrap_or_else(PoisonError::into_inner) = format!("{label}: ");
    }

    /// A control that keeps this progress up to date.
    fn control(self: &Arc<Progress>) -> Control {
        let progress = Arc::clone(self);
        Control::observed(move |step| match step {
            Step::Planned { cells, each } => {
                progress.planned.fetch_add(*cells, Ordering::Relaxed);
                progress.each_ns.store(each.map_or(0, |each| each.0), Ordering::Relaxed);
            }
            Step::Began(_) => {}
            Step::Finished(..) => {
                progress.done.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    fn label(&self) -> String {
        self.label.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Share of the work that is done, from 0 to 1: of virtual time where the length of a run is known, else of runs.
    fn share(&self, control: &Control) -> f64 {
        let planned = self.planned.load(Ordering::Relaxed).max(1) as f64;
        match self.each_ns.load(Ordering::Relaxed) {
            0 => self.done.load(Ordering::Relaxed) as f64 / planned,
            // The control's time goes on from one label to the next.
            _ if !self.label().is_empty() => self.done.load(Ordering::Relaxed) as f64 / planned,
            each => control.elapsed_ns.load(Ordering::Relaxed) as f64 / (each as f64 * planned),
        }
    }

    fn line(&self, control: &Control, elapsed: Duration) -> String {
        let (done, runs) = (self.done.load(Ordering::Relaxed), self.planned.load(Ordering::Relaxed));
        let rate = control.finished.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64() / 1e6;
        let mut line = format!("{}{done}/{runs} runs, {rate:.2} M I/Os simulated per second", self.label());
        if self.each_ns.load(Ordering::Relaxed) == 0 {
            let simulated = Nanos(control.elapsed_ns.load(Ordering::Relaxed));
            line += &format!(", {:.0} s simulated so far", simulated.as_secs_f64());
        }
        line
    }
}
