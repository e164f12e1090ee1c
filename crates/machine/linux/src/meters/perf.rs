//! RAPL through the perf events of the `power` unit: system-wide, one counter per package.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::path::Path;
use std::time::Duration;

use crate::meters::energy::Source;
use crate::meters::files::{MeterError, read, read_number};
use crate::meters::sampler::{Meter, Probe};

/// Events by importance: name, and whether it counts towards the sum.
const EVENTS: [(&str, bool); 5] = [
    ("energy-pkg", true),
    ("energy-ram", true),
    ("energy-cores", false),
    ("energy-gpu", false),
    ("energy-psys", false),
];

/// The first version of `struct perf_event_attr` (64 bytes), which suffices to count.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    rest: [u64; 6],
}

/// An event as sysfs describes it.
#[derive(Debug, PartialEq)]
struct Event {
    name: &'static str,
    counts: bool,
    config: u64,
    scale: f64,
}

/// Type, CPUs and events of the unit.
fn find(root: &Path) -> Result<(u32, Vec<i32>, Vec<Event>), MeterError> {
    let dir = root.join("sys/bus/event_source/devices/power");
    if !dir.is_dir() {
        return Err(MeterError(format!("perf: no {} (no RAPL, or a virtual machine)", dir.display())));
    }
    let kind = read_number(&dir.join("type"))? as u32;
    let cpus = cpus(&read(&dir.join("cpumask"))?).map_err(|e| MeterError(format!("{}/cpumask: {e}", dir.display())))?;
    let mut events = Vec::new();
    for (name, counts) in EVENTS {
        let file = dir.join("events").join(name);
        if !file.exists() {
            continue;
        }
        let text = read(&file)?;
        let config = text.strip_prefix("event=0x").and_then(|h| u64::from_str_radix(h, 16).ok());
        let config = config.ok_or_else(|| {
            MeterError(format!("{}: expected event=0x and a number, found \"{text}\"", file.display()))
        })?;
        let unit = read(&dir.join("events").join(format!("{name}.unit")))?;
        let scale = read(&dir.join("events").join(format!("{name}.scale")))?;
        let scale = scale.parse().ok().filter(|_| unit == "Joules").ok_or_else(|| {
            MeterError(format!("{}: expected a scale in Joules, found \"{scale}\" {unit}", file.display()))
        })?;
        events.push(Event { name, counts, config, scale });
    }
    if events.iter().any(|e| e.counts) {
        Ok((kind, cpus, events))
    } else {
        Err(MeterError(format!("perf: {} has no energy-pkg", dir.display())))
    }
}

/// Parses a CPU list such as `0,18` or `0-1,4`.
fn cpus(text: &str) -> Result<Vec<i32>, String> {
    let bad = || format!("expected numbers of CPUs, found \"{text}\"");
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<i32>().map_err(|_| bad())?, last.parse::<i32>().map_err(|_| bad())?);
        all.extend(first..=last);
    }
    Ok(all)
}

struct Perf {
    /// One counter for each event and CPU of the mask.
    counters: Vec<(Event, Vec<File>)>,
    first: Vec<u64>,
    last: Vec<u64>,
}

pub(crate) fn open(root: &Path) -> Result<Meter, MeterError> {
    let (kind, cpus, events) = find(root)?;
    let mut counters = Vec::new();
    for event in events {
        let opened: Result<Vec<File>, MeterError> = cpus.iter().map(|cpu| count(kind, &event, *cpu)).collect();
        match opened {
            Ok(files) => counters.push((event, files)),
            Err(e) if event.counts => return Err(e),
            // Events that this processor lacks are left out, except the package.
            Err(_) => {}
        }
    }
    Ok(Meter::new(Box::new(Perf { counters, first: Vec::new(), last: Vec::new() })))
}

fn count(kind: u32, event: &Event, cpu: i32) -> Result<File, MeterError> {
    let attributes =
        Attributes { kind, size: size_of::<Attributes>() as u32, config: event.config, ..Attributes::default() };
    // SAFETY: the kernel reads `size` bytes of the structure, which lives through the call, and returns a descriptor.
    let got = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1 as libc::pid_t,
            cpu as libc::c_int,
            -1 as libc::c_int,
            0x8 as libc::c_ulong, // PERF_FLAG_FD_CLOEXEC
        )
    };
    if got < 0 {
        let cause = std::io::Error::last_os_error();
        let hint = match cause.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => {
                "; it needs CAP_PERFMON, or 0 or less in /proc/sys/kernel/perf_event_paranoid"
            }
            _ => "",
        };
        return Err(MeterError(format!("perf: power/{}/ on CPU {cpu}: {cause}{hint}", event.name)));
    }
    // SAFETY: the kernel has just returned the descriptor; nothing else owns it.
    Ok(unsafe { File::from_raw_fd(got as i32) })
}

impl Probe for Perf {
    fn source(&self) -> Source {
        Source::Perf
    }

    fn about(&self) -> String {
        let names: Vec<&str> = self.counters.iter().filter(|(e, _)| e.counts).map(|(e, _)| e.name).collect();
        format!("RAPL by perf, {} (no disks, fans or power supply)", names.join(" + "))
    }

    fn period(&self) -> Duration {
        Duration::from_millis(100)
    }

    fn reset(&mut self) {
        self.first.clear();
        self.last.clear();
    }

    fn sample(&mut self, _at: Duration) -> Result<(), MeterError> {
        self.last.clear();
        for (event, files) in &mut self.counters {
            let mut sum = 0u64;
            for file in files {
                let mut bytes = [0; 8];
                file.read_exact(&mut bytes)
                    .map_err(|e| MeterError(format!("perf: cannot read power/{}/: {e}", event.name)))?;
                sum = sum.wrapping_add(u64::from_ne_bytes(bytes));
            }
            self.last.push(sum);
        }
        if self.first.is_empty() {
            self.first.clone_from(&self.last);
        }
        Ok(())
    }

    fn parts(&self) -> Vec<(String, f64, bool)> {
        let ends = self.first.iter().zip(&self.last);
        let joules = ends.map(|(first, last)| last.wrapping_sub(*first) as f64);
        self.counters
            .iter()
            .zip(joules)
            .map(|((e, _), counted)| (e.name.to_owned(), counted * e.scale, e.counts))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_of_the_unit_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert!(open(dir.path()).unwrap_err().to_string().contains("no "));
        let unit = dir.path().join("sys/bus/event_source/devices/power");
        std::fs::create_dir_all(unit.join("events")).unwrap();
        for (file, text) in [
            ("type", "21"),
            ("cpumask", "0,18"),
            ("events/energy-pkg", "event=0x02"),
            ("events/energy-pkg.unit", "Joules"),
            ("events/energy-pkg.scale", "2.3283064365386962890625e-10"),
        ] {
            std::fs::write(unit.join(file), format!("{text}\n")).unwrap();
        }
        let (kind, cpus, events) = find(dir.path()).unwrap();
        assert_eq!((kind, cpus), (21, vec![0, 18]));
        let scale = 2f64.powi(-32);
        assert_eq!(events, [Event { name: "energy-pkg", counts: true, config: 2, scale }]);
        std::fs::write(unit.join("events/energy-pkg.unit"), "Watts").unwrap();
        assert!(find(dir.path()).unwrap_err().to_string().contains("Watts"));
        assert_eq!(super::cpus("0-1,4").unwrap(), [0, 1, 4]);
        assert!(super::cpus("all").is_err());
    }

    #[test]
    fn an_unknown_unit_is_refused_by_name() {
        let event = Event { name: "energy-pkg", counts: true, config: 2, scale: 1.0 };
        let said = count(0x7fff_0000, &event, 0).unwrap_err().to_string();
        assert!(said.contains("energy-pkg") && said.contains("CPU 0"), "{said}");
    }
}
