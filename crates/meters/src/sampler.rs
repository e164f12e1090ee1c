//! A meter that is read again and again while it runs.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Energy, MeterError, Source};

/// What reads counters or a gauge, and adds up.
pub(crate) trait Probe: Send {
    /// Which meter.
    fn source(&self) -> Source;
    /// What it measures, in a few words.
    fn about(&self) -> String;
    /// Time between two readings: how finely an energy can be told apart by time.
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
        began_unix_ns: u64,
    },
    /// Between two states, or after a panic of the sampling thread.
    Lost,
}

struct Sampled {
    probe: Box<dyn Probe>,
    readings: Vec<(Duration, f64)>,
    length: Result<Duration, MeterError>,
}

/// What a meter saw from its start to its end.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// All of it.
    pub energy: Energy,
    /// Nanoseconds since 1970 of the first reading.
    began_unix_ns: u64,
    /// Joules up to a time since then.
    readings: Vec<(Duration, f64)>,
}

impl Drawn {
    /// Joules between two times, in nanoseconds since 1970; evenly between two readings.
    pub fn between(&self, from_unix_ns: u64, to_unix_ns: u64) -> f64 {
        (self.up_to(to_unix_ns) - self.up_to(from_unix_ns)).max(0.0)
    }

    fn up_to(&self, unix_ns: u64) -> f64 {
        let at = Duration::from_nanos(unix_ns.saturating_sub(self.began_unix_ns));
        let next = self.readings.partition_point(|(time, _)| *time <= at);
        let last = next.checked_sub(1).map_or((Duration::ZERO, 0.0), |i| self.readings[i]);
        let Some((time, joules)) = self.readings.get(next) else { return last.1 };
        let part = (at - last.0).as_secs_f64() / (*time - last.0).as_secs_f64();
        last.1 + (joules - last.1) * part
    }
}

/// What counts of a probe's parts, added.
fn sum(parts: &[(String, f64, bool)]) -> f64 {
    parts.iter().filter(|(_, _, counts)| *counts).map(|(_, joules, _)| joules).sum()
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
        let began_unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("meter".into()).spawn(move || {
            let period = probe.period();
            let mut readings = Vec::new();
            loop {
                let ends = !matches!(stopped.recv_timeout(period), Err(RecvTimeoutError::Timeout));
                let at = began.elapsed();
                let read = probe.sample(at);
                readings.push((at, sum(&probe.parts())));
                if ends || read.is_err() {
                    return Sampled { probe, readings, length: read.map(|()| at) };
                }
            }
        });
        let thread = thread.map_err(|e| MeterError(format!("cannot start a thread for the meter: {e}")))?;
        self.state = State::Running { stop, thread, began_unix_ns };
        Ok(())
    }

    /// Takes the last reading and tells the energy since [`Meter::start`].
    pub fn stop(&mut self) -> Result<Drawn, MeterError> {
        let (stop, thread, began_unix_ns) = match std::mem::replace(&mut self.state, State::Lost) {
            State::Running { stop, thread, began_unix_ns } => (stop, thread, began_unix_ns),
            other => {
                self.state = other;
                return Err(MeterError("the meter is not running".into()));
            }
        };
        // A thread that ended already, by an error, does not listen; its error is told below.
        let _ = stop.send(());
        let Ok(Sampled { probe, readings, length }) = thread.join() else {
            return Err(MeterError("the thread that read the meter failed".into()));
        };
        let parts = probe.parts();
        let warning = length.as_ref().ok().and_then(|l| probe.warning(*l));
        self.state = State::Idle(probe);
        let length = length?;
        let energy = Energy {
            joules: sum(&parts),
            source: self.source,
            parts: parts.into_iter().map(|(name, joules, _)| (name, joules)).collect(),
            seconds: length.as_secs_f64(),
            sigma: None,
            warning,
        };
        Ok(Drawn { energy, began_unix_ns, readings })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_told_apart_by_time() {
        let energy =
            Energy { joules: 40.0, source: Source::Perf, parts: vec![], seconds: 4.0, sigma: None, warning: None };
        let second = Duration::from_secs(1);
        // Idle for two seconds, then busy.
        let readings = vec![(second, 1.0), (2 * second, 2.0), (4 * second, 40.0)];
        let drawn = Drawn { energy, began_unix_ns: 7_000_000_000, readings };
        let between = |from: f64, to: f64| drawn.between((from * 1e9) as u64, (to * 1e9) as u64);
        assert_eq!(between(7.0, 11.0), 40.0);
        assert_eq!(between(7.0, 7.5), 0.5);
        assert_eq!(between(9.0, 11.0), 38.0);
        assert_eq!(between(8.5, 10.0), 0.5 + 19.0);
        // Nothing is known of before and after.
        assert_eq!(between(0.0, 9.0), 2.0);
        assert_eq!(between(11.0, 20.0), 0.0);
    }
}
