//! Progress on stderr, and Ctrl-C.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{Control, Step};
use dumbwaiter_linux::undo;
use dumbwaiter_output::escape_line;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often the bar moves.
const BEAT: Duration = Duration::from_millis(100);
/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(700);
/// A line this often where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Sets `control.cancel` on the first SIGINT or SIGTERM; a second one ends the program at once.
pub(crate) fn cancel_on_signal(control: &Arc<Control>) -> Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&asked)))
            .context("cannot handle Ctrl-C")?;
    }
    cancel_when(asked, control);
    Ok(())
}

/// While it exists, SIGINT and SIGTERM end the program at once: nothing was changed or begun yet.
pub(crate) struct Checking {
    asked: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

/// Hears Ctrl-C while input is read and checked, even where the program was started with the signal ignored. To lose no signal, keep
/// the result until whatever handles signals next is in place.
pub(crate) fn end_on_signal() -> Result<Checking> {
    let (asked, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&asked)).context("cannot handle Ctrl-C")?;
    }
    let checking = Checking { asked: Arc::clone(&asked), over: Arc::clone(&over) };
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            end_if(&asked);
            std::thread::sleep(BEAT / 5);
        }
    });
    Ok(checking)
}

fn end_if(asked: &AtomicBool) {
    if asked.load(Ordering::Relaxed) {
        crate::tell!("dumbwaiter: interrupted before the first run was finished");
        std::process::exit(130);
    }
}

impl Drop for Checking {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        end_if(&self.asked);
    }
}

fn cancel_when(asked: Arc<AtomicBool>, control: &Arc<Control>) {
    let control = Arc::clone(control);
    std::thread::spawn(move || {
        while !asked.load(Ordering::Relaxed) {
            std::thread::sleep(BEAT / 5);
        }
        control.cancel.store(true, Ordering::Relaxed);
        crate::tell!("\ninterrupted: reporting completed runs (Ctrl-C again to quit)");
    });
}

/// How far the runs of an experiment are.
#[derive(Default)]
pub(crate) struct Progress {
    planned: AtomicU64,
    done: AtomicU64,
    /// Length of one run in nanoseconds; 0 if unknown.
    each_ns: AtomicU64,
    /// Shown before the figures; empty for none.
    label: Mutex<String>,
}

impl Progress {
    /// Begins again from nothing, for runs called `label`.
    pub(crate) fn restart(&self, label: &str) {
        self.planned.store(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        *self.label.lock().unwrap_or_else(PoisonError::into_inner) = format!("{label}: ");
    }

    /// A control that keeps this progress up to date.
    pub(crate) fn control(self: &Arc<Progress>) -> Control {
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
            // The control's time goes on from one label to the next.
            _ if !self.label().is_empty() => self.done.load(Ordering::Relaxed) as f64 / planned,
            0 => self.done.load(Ordering::Relaxed) as f64 / planned,
            each => control.elapsed_ns.load(Ordering::Relaxed) as f64 / (each as f64 * planned),
        }
    }
}

/// Shows on stderr how far `work` is, which simulates under `control`.
pub(crate) fn watch<T: Send>(progress: &Progress, control: &Control, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        let started = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{bar:30}] {msg}  {elapsed} (eta {eta})") {
            bar.set_style(style.progress_chars("=> "));
        }
        let mut last_line = started;
        while !worker.is_finished() {
            std::thread::sleep(BEAT.min(Duration::from_millis(20)));
            let elapsed = started.elapsed();
            if elapsed < PATIENCE {
                continue;
            }
            let share = progress.share(control);
            let (done, runs) = (progress.done.load(Ordering::Relaxed), progress.planned.load(Ordering::Relaxed));
            let rate = control.finished.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64() / 1e6;
            let label = progress.label();
            let message = format!("{label}{done}/{runs} runs, {rate:.2} M I/Os simulated per second");
            if terminal {
                bar.set_position((share.clamp(0.0, 1.0) * 1000.0) as u64);
                bar.set_message(message);
                std::thread::sleep(BEAT);
            } else if last_line.elapsed() >= LINE_EVERY {
                last_line = Instant::now();
                crate::tell!("{:.0} % after {:.0} s: {message}", share * 100.0, elapsed.as_secs_f64());
            }
        }
        bar.finish_and_clear();
        match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Sets `control.cancel` on the first SIGINT, SIGTERM or SIGHUP; a second one puts back what was changed on this system
/// and ends the program at once.
pub(crate) fn cancel_on_signal_and_undo(control: &Arc<Control>) -> Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    undo::on_signals(Some(Arc::clone(&asked)))?;
    cancel_when(asked, control);
    Ok(())
}

/// The bar of runs on a real device; empty until the runs are known.
#[derive(Clone, Default)]
pub(crate) struct RunBar(Arc<Mutex<Option<Bar>>>);

impl RunBar {
    /// A control that shows each run, and says beforehand what will run on `path`.
    pub(crate) fn control(&self, path: &Path, writes: bool) -> Arc<Control> {
        let path = path.display().to_string();
        self.observing(move |cells, each| {
            let runs = if cells == 1 { "run" } else { "runs" };
            let each = each.map_or("unknown length".to_owned(), |t| t.to_string());
            let writes = if writes { "WRITES TO IT" } else { "only reads" };
            crate::tell!("{path}: {cells} {runs} of {each}, {writes}");
        })
    }

    /// A control that only shows each run.
    pub(crate) fn quiet_control(&self) -> Arc<Control> {
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

    /// Starts a bar of so many runs of so long each.
    pub(crate) fn start(&self, runs: u64, each: Duration) {
        *self.lock() = Some(Bar::new(runs, each));
    }

    /// See [`Bar::at`].
    pub(crate) fn at(&self, since: Duration, what: &str) {
        self.with(|bar| bar.at(since, what));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
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
pub(crate) struct Bar {
    bar: ProgressBar,
    each: Duration,
    runs: u64,
}

impl Bar {
    /// Of so many runs of so long each.
    pub(crate) fn new(runs: u64, each: Duration) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{bar:30}] {pos}/{len} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(BEAT);
        Bar { bar, each, runs }
    }

    /// A run begins.
    pub(crate) fn begin(&self, what: &str) {
        let left = self.each * (self.runs - self.bar.position()).min(u64::from(u32::MAX)) as u32;
        self.bar.set_message(format!("{} (about {} s left)", escape_line(what), left.as_secs()));
    }

    /// So long after the first began; how many there will be is not known, only how long they may take together.
    pub(crate) fn at(&self, since: Duration, what: &str) {
        let steps = since.as_secs_f64() / self.each.as_secs_f64();
        self.bar.set_position((steps as u64).min(self.runs));
        self.begin(what);
    }

    /// It is over.
    pub(crate) fn done(&self) {
        self.bar.inc(1);
    }

    /// All are.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.finish();
    }
}
