//! RAPL through `/sys/class/powercap/intel-rapl:*` (AMD's processors appear under the same name).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::meters::energy::Source;
use crate::meters::files::{MeterError, folders, read, read_number};
use crate::meters::sampler::{Meter, Probe};

/// Sampling period: fine enough to separate the warm-up. (A counter wraps after about an hour at 80 W.)
const PERIOD: Duration = Duration::from_millis(100);
/// Time in which a working counter moves: hardware updates it about every millisecond under load. One that does not is
/// a stub.
const STUB_TIMEOUT: Duration = Duration::from_millis(100);

/// One counter (a RAPL zone).
struct Zone {
    name: String,
    file: PathBuf,
    /// Value at which it wraps, µJ.
    range: u64,
    /// Packages and memory count towards the sum; cores are inside packages, and psys contains them.
    counts: bool,
    last: Option<u64>,
    sum: u64,
}

impl Zone {
    fn open(dir: &Path, parent: Option<&str>) -> Result<Zone, MeterError> {
        let own = read(&dir.join("name"))?;
        let counts = match parent {
            None => own.starts_with("package"),
            Some(parent) => own == "dram" && parent.starts_with("package"),
        };
        let name = parent.map_or_else(|| own.clone(), |p| format!("{p}/{own}"));
        let file = dir.join("energy_uj");
        read_number(&file)?;
        Ok(Zone { name, file, range: read_number(&dir.join("max_energy_range_uj"))?, counts, last: None, sum: 0 })
    }

    fn sample(&mut self) -> Result<(), MeterError> {
        let now = read_number(&self.file)?;
        if let Some(last) = self.last.replace(now) {
            self.sum = self.sum.saturating_add(difference(last, now, self.range));
        }
        Ok(())
    }
}

/// Increase of a counter that wraps at `range`.
fn difference(last: u64, now: u64, range: u64) -> u64 {
    if now >= last { now - last } else { range.saturating_sub(last).saturating_add(now) }
}

struct Powercap {
    zones: Vec<Zone>,
}

/// Finds all counters.
fn find(root: &Path) -> Result<Powercap, MeterError> {
    let dir = root.join("sys/class/powercap");
    let mut zones = Vec::new();
    for package in folders(&dir) {
        // `intel-rapl:0`; not its children, which are listed here too, nor the duplicate `intel-rapl-mmio:0`.
        let name = package.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(number) = name.strip_prefix("intel-rapl:").filter(|n| !n.contains(':')) else { continue };
        let zone = Zone::open(&package, None)?;
        let parent = zone.name.clone();
        zones.push(zone);
        for child in folders(&package) {
            let child_name = child.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if child_name.starts_with(&format!("intel-rapl:{number}:")) {
                zones.push(Zone::open(&child, Some(&parent))?);
            }
        }
    }
    if zones.iter().any(|z| z.counts) {
        Ok(Powercap { zones })
    } else {
        Err(MeterError(format!("RAPL: no intel-rapl package in {} (a virtual machine has none)", dir.display())))
    }
}

impl Powercap {
    /// Checks under load that a counter moves.
    fn check(mut self) -> Result<Powercap, MeterError> {
        self.sample(Duration::ZERO)?;
        let began = Instant::now();
        while began.elapsed() < STUB_TIMEOUT {
            std::hint::spin_loop();
        }
        self.sample(STUB_TIMEOUT)?;
        if self.zones.iter().any(|z| z.counts && z.sum > 0) {
            self.reset();
            return Ok(self);
        }
        Err(MeterError(format!("RAPL: {} does not count: a stub", self.zones[0].file.display())))
    }
}

pub(crate) fn open(root: &Path) -> Result<Meter, MeterError> {
    Ok(Meter::new(Box::new(find(root)?.check()?)))
}

impl Probe for Powercap {
    fn source(&self) -> Source {
        Source::RaplPowercap
    }

    fn about(&self) -> String {
        let names: Vec<&str> = self.zones.iter().filter(|z| z.counts).map(|z| z.name.as_str()).collect();
        format!("RAPL by powercap, {} (no disks, fans or power supply)", names.join(" + "))
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    fn reset(&mut self) {
        for zone in &mut self.zones {
            zone.last = None;
            zone.sum = 0;
        }
    }

    fn sample(&mut self, _at: Duration) -> Result<(), MeterError> {
        self.zones.iter_mut().try_for_each(Zone::sample)
    }

    fn parts(&self) -> Vec<(String, f64, bool)> {
        self.zones.iter().map(|z| (z.name.clone(), z.sum as f64 * 1e-6, z.counts)).collect()
    }

    fn warning(&self, length: Duration) -> Option<String> {
        (length < Duration::from_millis(50)).then(|| "under 50 ms RAPL tells noise".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(root: &Path, path: &str, name: &str, energy: u64, range: u64) {
        let dir = root.join("sys/class/powercap").join(path);
        std::fs::create_dir_all(&dir).unwrap();
        for (file, text) in
            [("name", name), ("energy_uj", &energy.to_string()), ("max_energy_range_uj", &range.to_string())]
        {
            std::fs::write(dir.join(file), format!("{text}\n")).unwrap();
        }
    }

    fn set(root: &Path, path: &str, energy: u64) {
        std::fs::write(root.join("sys/class/powercap").join(path).join("energy_uj"), format!("{energy}\n")).unwrap();
    }

    #[test]
    fn packages_and_memory_add_up_once_and_counters_may_wrap() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        zone(root, "intel-rapl:0", "package-0", 900_000, 1_000_000);
        zone(root, "intel-rapl:0/intel-rapl:0:0", "core", 100, 1_000_000);
        zone(root, "intel-rapl:0/intel-rapl:0:1", "dram", 500, 2_000_000);
        zone(root, "intel-rapl:1", "psys", 0, 1_000_000);
        zone(root, "intel-rapl-mmio:0", "package-0", 900_000, 1_000_000);
        let mut found = find(root).unwrap();
        found.sample(Duration::ZERO).unwrap();
        set(root, "intel-rapl:0", 950_000);
        found.sample(Duration::from_secs(1)).unwrap();
        set(root, "intel-rapl:0", 50_000);
        set(root, "intel-rapl:0/intel-rapl:0:0", 60_100);
        set(root, "intel-rapl:0/intel-rapl:0:1", 20_500);
        set(root, "intel-rapl:1", 400_000);
        found.sample(Duration::from_secs(2)).unwrap();
        let parts = found.parts();
        let names: Vec<(&str, bool)> = parts.iter().map(|(n, _, c)| (n.as_str(), *c)).collect();
        assert_eq!(names, [("package-0", true), ("package-0/core", false), ("package-0/dram", true), ("psys", false)]);
        let joules: Vec<f64> = parts.iter().map(|(_, j, _)| (j * 1e6).round()).collect();
        assert_eq!(joules, [150_000.0, 60_000.0, 20_000.0, 400_000.0]);
    }

    #[test]
    fn missing_and_forbidden_counters_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let none = open(dir.path()).unwrap_err().to_string();
        assert!(none.contains("no intel-rapl package"), "{none}");
        zone(dir.path(), "intel-rapl:0", "package-0", 5, 1000);
        let stub = open(dir.path()).unwrap_err().to_string();
        assert!(stub.contains("does not count"), "{stub}");
        std::fs::write(dir.path().join("sys/class/powercap/intel-rapl:0/energy_uj"), "lots").unwrap();
        let bad = open(dir.path()).unwrap_err().to_string();
        assert!(bad.contains("energy_uj") && bad.contains("lots"), "{bad}");
        let denied = MeterError::file("read", Path::new("/x/energy_uj"), &std::io::ErrorKind::PermissionDenied.into());
        assert!(denied.to_string().contains("/x/energy_uj") && denied.to_string().contains("root"), "{denied}");
    }

    #[test]
    fn the_meter_adds_up_the_counters_of_the_files() {
        let dir = tempfile::tempdir().unwrap();
        zone(dir.path(), "intel-rapl:0", "package-0", 0, u64::MAX);
        let mut meter = Meter::new(Box::new(find(dir.path()).unwrap()));
        assert!(meter.stop().is_err());
        meter.start().unwrap();
        assert!(meter.start().is_err());
        set(dir.path(), "intel-rapl:0", 2_500_000);
        let energy = meter.stop().unwrap().energy;
        assert_eq!((energy.joules, energy.source), (2.5, Source::RaplPowercap));
        meter.start().unwrap();
        std::fs::remove_file(dir.path().join("sys/class/powercap/intel-rapl:0/energy_uj")).unwrap();
        assert!(meter.stop().is_err());
    }
}
