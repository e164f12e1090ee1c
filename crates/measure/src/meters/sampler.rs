//! A meter that is read again and again while it runs.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Energy, MeterError, Source};

/// What reads counters or a gauge, and adds up.
pub(crate) trait Probe: Send {
    /// Which meter.
    fn source(&self) -> Source;
    /// What it measures, in a few words.
    fn about(&self) -> String;
    /// Time between two readings.
    fn period(&self) -> Duration;
    /// Forgets what was added up; the next reading is the first.
    fn reset(&mut self);
    /// Reads; `at` is the time since the first reading.
    fn sample(&mut self, at: Duration) -> Result<(), MeterError>;
    /// What was added up, in joules: name, and does it belong to the sum?
    fn parts(&self) -> Vec<(String, f64, bool)>;
    /// What speaks against an energy of so long an interval.
    fn warning(&self, _length: Duration) -> Option<String> {
        None
    }
}

/// An energy meter. Start it, do the work, stop it.
pub struct Meter {
    state: State,
    source: Source,
    about: String,
}

enum State {
    Idle(Box<dyn Probe>),
    Running {
        stop: Sender<()>,
        thread: JoinHandle<Sampled>,
    },
    /// Between two states, or after a panic of the sampling thread.
    Lost,
}

struct Sampled {
    probe: Box<dyn Probe>,
    length: Result<Duration, MeterError>,
}

impl Meter {
    pub(crate) fn new(probe: Box<dyn Probe>) -> Meter {
        Meter { source: probe.source(), about: probe.about(), state: State::Idle(probe) }
    }

    /// Which meter.
    pub fn source(&self) -> Source {
        self.source
    }

    /// What it measures, in a few words.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Takes the first reading; a thread takes more until [`Meter::stop`].
    pub fn start(&mut self) -> Result<(), MeterError> {
        let mut probe = match std::mem::replace(&mut self.state, State::Lost) {
            State::Idle(probe) => probe,
            other => {
                self.state = other;
                return Err(MeterError("the meter is running already".into()));
            }
        };
        probe.reset();
        let began = Instant::now();
        if let Err(e) = probe.sample(Duration::ZERO) {
            self.state = State::Idle(probe);
            return Err(e);
        }
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("meter".into()).spawn(move || {
            let period = probe.period();
            loop {
                let ends = !matches!(stopped.recv_timeout(period), Err(RecvTimeoutError::Timeout));
                let at = began.elapsed();
                let read = probe.sample(at);
                if ends || read.is_err() {
                    return Sampled { probe, length: read.map(|()| at) };
                }
            }
        });
        let thread = thread.map_err(|e| MeterError(format!("cannot start a thread for the meter: {e}")))?;
        self.state = State::Running { stop, thread };
        Ok(())
    }

    /// Takes the last reading and tells the energy since [`Meter::start`].
    pub fn stop(&mut self) -> Result<Energy, MeterError> {
        let (stop, thread) = match std::mem::replace(&mut self.state, State::Lost) {
            State::Running { stop, thread } => (stop, thread),
            other => {
                self.state = other;
                return Err(MeterError("the meter is not running".into()));
            }
        };
        // A thread that ended already, by an error, does not listen; its error is told below.
        let _ = stop.send(());
        let Ok(Sampled { probe, length }) = thread.join() else {
            return Err(MeterError("the thread that read the meter failed".into()));
        };
        let parts = probe.parts();
        let warning = length.as_ref().ok().and_then(|l| probe.warning(*l));
        self.state = State::Idle(probe);
        let length = length?;
        Ok(Energy {
            joules: parts.iter().filter(|(_, _, counts)| *counts).map(|(_, joules, _)| joules).sum(),
            source: self.source,
            parts: parts.into_iter().map(|(name, joules, _)| (name, joules)).collect(),
            seconds: length.as_secs_f64(),
            sigma: None,
            warning,
        })
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if matches!(self.state, State::Running { .. }) {
            let _ = self.stop();
        }
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Meter").field(&self.about).finish()
    }
}
