//! Power sensors in `/sys/class/hwmon`: an energy counter if there is one, else a power gauge that is sampled and
//! integrated.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::meters::energy::Source;
use crate::meters::files::{MeterError, folders, read, read_number};
use crate::meters::sampler::{Meter, Probe};

/// The chip name of an ACPI power meter, which measures the whole machine.
const WHOLE_MACHINE: &str = "power_meter";
/// Fewest readings of a gauge for a fair average.
const GAUGE_READINGS_MIN: u32 = 60;

struct Sensor {
    about: String,
    file: PathBuf,
    period: Duration,
    reading: Reading,
    joules: f64,
}

enum Reading {
    /// Energy since some time, µJ.
    Counter { last: Option<u64> },
    /// Power, µW, with the time of the reading.
    Gauge { last: Option<(Duration, u64)> },
}

/// Opens the meter of the whole machine.
pub(crate) fn open(root: &Path) -> Result<Meter, MeterError> {
    open_named(root, WHOLE_MACHINE)
}

/// Opens a sensor by the name of its chip: its number in `/sys` changes from boot to boot.
pub(crate) fn open_named(root: &Path, name: &str) -> Result<Meter, MeterError> {
    let dir = root.join("sys/class/hwmon");
    let mut names = Vec::new();
    for chip in folders(&dir) {
        let own = read(&chip.join("name")).unwrap_or_default();
        if own == name {
            return Sensor::open(&chip, name).map(|s| Meter::new(Box::new(s)));
        }
        names.push(own);
    }
    let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(MeterError(format!("hwmon: no sensor \"{name}\" in {} (found: {found})", dir.display())))
}

impl Sensor {
    fn open(chip: &Path, name: &str) -> Result<Sensor, MeterError> {
        let about = |what: &str| format!("hwmon {name}, {what}");
        let sensor = |file: &str, period, reading, what: &str| Sensor {
            about: about(what),
            file: chip.join(file),
            period,
            reading,
            joules: 0.0,
        };
        if chip.join("energy1_input").exists() {
            let period = Duration::from_secs(20);
            return Ok(sensor("energy1_input", period, Reading::Counter { last: None }, "energy counter"));
        }
        if read_number(&chip.join("power1_is_battery")).is_ok_and(|b| b != 0) {
            return Err(MeterError(format!("hwmon: {name} tells a battery's power, not the machine's")));
        }
        let interval = read_number(&chip.join("power1_average_interval")).ok().map(Duration::from_millis);
        let second = Duration::from_secs(1);
        for (file, period) in [("power1_average", interval.unwrap_or(second)), ("power1_input", second)] {
            if chip.join(file).exists() {
                let period = period.clamp(Duration::from_millis(100), second * 60);
                return Ok(sensor(file, period, Reading::Gauge { last: None }, file));
            }
        }
        Err(MeterError(format!("hwmon: {name} at {} has neither energy nor power", chip.display())))
    }

    fn read(&self) -> Result<u64, MeterError> {
        // A sensor that is not ready yet is read once more.
        read_number(&self.file).or_else(|_| read_number(&self.file))
    }
}

impl Probe for Sensor {
    fn source(&self) -> Source {
        Source::Hwmon
    }

    fn about(&self) -> String {
        self.about.clone()
    }

    fn period(&self) -> Duration {
        self.period
    }

    fn reset(&mut self) {
        self.joules = 0.0;
        match &mut self.reading {
            Reading::Counter { last } => *last = None,
            Reading::Gauge { last } => *last = None,
        }
    }

    fn sample(&mut self, at: Duration) -> Result<(), MeterError> {
        let began = Instant::now();
        let now = self.read()?;
        let took = began.elapsed();
        let period = self.period;
        match &mut self.reading {
            Reading::Counter { last } => {
                if let Some(before) = last.replace(now) {
                    let grown = now.checked_sub(before).ok_or_else(|| {
                        MeterError(format!("{} went back from {before} to {now}", self.file.display()))
                    })?;
                    self.joules += grown as f64 * 1e-6;
                }
            }
            // A slow reading has an uncertain time and is dropped in favour of its neighbours, unless it is the first.
            Reading::Gauge { last: Some(_) } if took * 2 > period => {}
            Reading::Gauge { last } => {
                if let Some((before, power)) = last.replace((at, now)) {
                    // Trapezoid rule.
                    self.joules += (power as f64 + now as f64) / 2.0 * 1e-6 * at.saturating_sub(before).as_secs_f64();
                }
            }
        }
        Ok(())
    }

    fn parts(&self) -> Vec<(String, f64, bool)> {
        vec![(self.about.clone(), self.joules, true)]
    }

    fn warning(&self, length: Duration) -> Option<String> {
        let gauge = matches!(self.reading, Reading::Gauge { .. });
        let least = self.period * GAUGE_READINGS_MIN;
        (gauge && length < least).then(|| {
            let (period, least) = (self.period.as_secs_f64(), least.as_secs_f64());
            format!("a gauge read every {period} s tells little of less than {least} s")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chip(root: &Path, number: u32, files: &[(&str, &str)]) -> PathBuf {
        let dir = root.join(format!("sys/class/hwmon/hwmon{number}"));
        std::fs::create_dir_all(&dir).unwrap();
        for (file, text) in files {
            std::fs::write(dir.join(file), text).unwrap();
        }
        dir
    }

    #[test]
    fn a_gauge_is_integrated_by_trapezoids() {
        let dir = tempfile::tempdir().unwrap();
        chip(dir.path(), 0, &[("name", "coretemp")]);
        let files = [("name", "power_meter"), ("power1_average", "40000000"), ("power1_average_interval", "500")];
        let chip = chip(dir.path(), 1, &files);
        let mut sensor = Sensor::open(&chip, WHOLE_MACHINE).unwrap();
        assert_eq!(sensor.period, Duration::from_millis(500));
        for (at, microwatts) in [(0, 40_000_000), (2, 60_000_000), (3, 60_000_000)] {
            std::fs::write(chip.join("power1_average"), microwatts.to_string()).unwrap();
            sensor.sample(Duration::from_secs(at)).unwrap();
        }
        assert!((sensor.joules - 160.0).abs() < 1e-9, "{}", sensor.joules);
        assert!(sensor.warning(Duration::from_secs(3)).is_some());
        assert!(sensor.warning(Duration::from_secs(31)).is_none());
        let meter = open(dir.path()).unwrap();
        assert_eq!((meter.source(), meter.about()), (Source::Hwmon, "hwmon power_meter, power1_average"));
    }

    #[test]
    fn an_energy_counter_is_preferred_to_a_gauge_and_never_falls() {
        let dir = tempfile::tempdir().unwrap();
        let chip = chip(dir.path(), 3, &[("name", "amd_energy"), ("energy1_input", "5000000"), ("power1_input", "1")]);
        let mut sensor = Sensor::open(&chip, "amd_energy").unwrap();
        sensor.sample(Duration::ZERO).unwrap();
        std::fs::write(chip.join("energy1_input"), "7500000").unwrap();
        sensor.sample(Duration::from_secs(1)).unwrap();
        assert_eq!(sensor.joules, 2.5);
        std::fs::write(chip.join("energy1_input"), "1").unwrap();
        assert!(sensor.sample(Duration::from_secs(2)).unwrap_err().to_string().contains("went back"));
        let none = open(dir.path()).unwrap_err().to_string();
        assert!(none.contains("amd_energy"), "{none}");
    }

    #[test]
    fn a_battery_is_not_a_meter_of_the_machine() {
        let dir = tempfile::tempdir().unwrap();
        let files = [("name", "power_meter"), ("power1_average", "1"), ("power1_is_battery", "1")];
        chip(dir.path(), 0, &files);
        assert!(open(dir.path()).unwrap_err().to_string().contains("battery"));
    }
}
