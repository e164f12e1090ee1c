//! A meter whose counters a thread samples while it runs.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::meters::energy::{Energy, Source};
use crate::meters::files::MeterError;

/// Reads counters or a gauge and accumulates energy.
pub(crate) trait Probe: Send {
    /// The kind of meter.
    fn source(&self) -> Source;
    /// A short description of what it measures.
    fn about(&self) -> String;
    /// Sampling period.
    fn period(&self) -> Duration;
    /// Resets the sums; the next reading is the first.
    fn reset(&mut self);
    /// Takes a reading; `at` is the time since the first.
    fn sample(&mut self, at: Duration) -> Result<(), MeterError>;
    /// The accumulated parts: name, energy in J, whether it counts towards the sum.
    fn parts(&self) -> Vec<(String, f64, bool)>;
    /// A warning about energies of intervals of this length.
    fn warning(&self, _length: Duration) -> Option<String> {
        None
    }
}

/// An energy meter: start it, do the work, stop it.
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

/// Energy over time between start and stop of a meter.
#[derive(Clone, Debug)]
pub struct MeteredEnergy {
    /// The total.
    pub energy: Energy,
    /// Time of the first reading, ns since 1970.
    began_unix_ns: u64,
    /// Energy since the first reading, J, by time since then.
    readings: Vec<(Duration, f64)>,
}

impl MeteredEnergy {
    /// Energy between two times (ns since 1970), J, interpolated between readings.
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

/// Sum of the parts that count, J.
fn sum(parts: &[(String, f64, bool)]) -> f64 {
    parts.iter().filter(|(_, _, counts)| *counts).map(|(_, joules, _)| joules).sum()
}

impl Meter {
    pub(crate) fn new(probe: Box<dyn Probe>) -> Meter {
        Meter { source: probe.source(), about: probe.about(), state: State::Idle(probe) }
    }

    /// The kind of meter.
    pub fn source(&self) -> Source {
        self.source
    }

    /// A short description of what it measures.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Takes the first reading; a thread takes more until [`Meter::stop`].
    ///
    /// # Errors
    /// A meter that is running already, or whose counters cannot be read.
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

    /// Takes the last reading and returns the energy since [`Meter::start`].
    ///
    /// # Errors
    /// A meter that is not running, or whose counters could not be read.
    pub fn stop(&mut self) -> Result<MeteredEnergy, MeterError> {
        let (stop, thread, began_unix_ns) = match std::mem::replace(&mut self.state, State::Lost) {
            State::Running { stop, thread, began_unix_ns } => (stop, thread, began_unix_ns),
            other => {
                self.state = other;
                return Err(MeterError("the meter is not running".into()));
            }
        };
        // The thread has ended already if a reading failed; its error is returned below.
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
        Ok(MeteredEnergy { energy, began_unix_ns, readings })
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
    fn energy_is_split_by_time() {
        let energy =
            Energy { joules: 40.0, source: Source::Perf, parts: vec![], seconds: 4.0, sigma: None, warning: None };
        let second = Duration::from_secs(1);
        // Idle for two seconds, then busy.
        let readings = vec![(second, 1.0), (2 * second, 2.0), (4 * second, 40.0)];
        let drawn = MeteredEnergy { energy, began_unix_ns: 7_000_000_000, readings };
        let between = |from: f64, to: f64| drawn.between((from * 1e9) as u64, (to * 1e9) as u64);
        assert_eq!(between(7.0, 11.0), 40.0);
        assert_eq!(between(7.0, 7.5), 0.5);
        assert_eq!(between(9.0, 11.0), 38.0);
        assert_eq!(between(8.5, 10.0), 0.5 + 19.0);
        // Nothing is counted before the first and after the last reading.
        assert_eq!(between(0.0, 9.0), 2.0);
        assert_eq!(between(11.0, 20.0), 0.0);
    }
}
