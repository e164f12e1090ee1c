//! Ctrl-C and other signals that end the program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dumbwaiter_experiment::Control;
use dumbwaiter_linux::undo;
use signal_hook::consts::{SIGINT, SIGTERM};

/// How often a thread checks whether a signal arrived.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A result that takes longer to write ends with the program, after a signal.
const TAKES: Duration = Duration::from_secs(1);

/// Sets `control.cancel` on the first SIGINT or SIGTERM; a second one ends the program at once.
///
/// # Errors
/// If the system refuses a handler.
pub fn cancel_on_signal(control: &Arc<Control>) -> io::Result<()> {
    let received = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&received))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&received)))
            .map_err(no_handler)?;
    }
    cancel_when(received, control, true);
    Ok(())
}

/// Sets `control.cancel` on the first SIGINT, SIGTERM or SIGHUP; a second one restores the changed settings of this machine
/// and ends the program at once.
///
/// # Errors
/// If the system refuses a handler.
pub fn cancel_on_signal_and_undo(control: &Arc<Control>) -> Result<(), dumbwaiter_linux::Error> {
    let received = Arc::new(AtomicBool::new(false));
    undo::on_signals(Some(Arc::clone(&received)))?;
    cancel_when(received, control, false);
    Ok(())
}

/// While it exists, SIGINT and SIGTERM end the program at once: nothing was changed or begun yet.
pub struct Checking {
    received: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

/// Handles Ctrl-C while input is read and checked, even where the program was started with the signal ignored. To lose no signal,
/// keep the result until the next handler of signals is in place.
///
/// # Errors
/// If the system refuses a handler.
pub fn end_on_signal() -> io::Result<Checking> {
    let (received, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&received)).map_err(no_handler)?;
    }
    let checking = Checking { received: Arc::clone(&received), over: Arc::clone(&over) };
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            end_if(&received);
            std::thread::sleep(POLL_INTERVAL);
        }
    });
    Ok(checking)
}

impl Drop for Checking {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        end_if(&self.received);
    }
}

fn end_if(received: &AtomicBool) {
    if received.load(Ordering::Relaxed) {
        crate::tell!("dumbwaiter: interrupted before the first run was finished");
        std::process::exit(130);
    }
}

/// `ends`: the program ends, too, where a result is on its way that nobody takes.
fn cancel_when(received: Arc<AtomicBool>, control: &Arc<Control>, ends: bool) {
    let control = Arc::clone(control);
    std::thread::spawn(move || {
        while !received.load(Ordering::Relaxed) {
            std::thread::sleep(POLL_INTERVAL);
        }
        control.cancel.store(true, Ordering::Relaxed);
        crate::tell!("\ninterrupted: reporting completed runs (Ctrl-C again to quit)");
        if !ends {
            return;
        }
        let since = std::time::Instant::now();
        loop {
            std::thread::sleep(POLL_INTERVAL);
            if since.elapsed() >= TAKES && dumbwaiter_text::writing_for().is_some_and(|time| time >= TAKES) {
                crate::tell!("interrupted: the result could not be written within a second");
                std::process::exit(130);
            }
        }
    });
}

fn no_handler(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot handle Ctrl-C: {error}"))
}
