//! What a recording says about its device and system, and the two files of a dispatch recording.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::event::{Event, Kind, text};
use super::rows::{Built, Row};
use super::{Method, Options, Summary, names};
use dumbwaiter_linux::file::{read, read_some};
use dumbwaiter_linux::queue::Queue;
use dumbwaiter_linux::target::{Kind as TargetKind, Target};
use dumbwaiter_linux::{Error, Roots};

/// The device, its queue and the system at the start.
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) dev: (u32, u32),
    /// The disk's number and its partitions', as the kernel's events tell them.
    numbers: Vec<u32>,
    /// Sectors that count, where the target is a partition.
    range: Option<(u64, u64)>,
    pub(crate) scheduler: String,
    queue: BTreeMap<String, String>,
    pub(crate) depth: u32,
    pub(crate) hw_queues: u32,
    kernel: String,
    cpus: u32,
}

fn number_of(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl About {
    pub(crate) fn of(target: &Target, disk: &Path, roots: &Roots) -> Result<About, Error> {
        let queue = Queue::at(disk);
        let dev_file = disk.join("dev");
        let dev = number_of(&read(&dev_file)?)
            .ok_or_else(|| Error::Refused(format!("{}: no device number", dev_file.display())))?;
        let mut all = vec![dev];
        for name in names(disk)? {
            let inside = disk.join(name);
            if inside.join("partition").exists() {
                all.extend(read_some(&inside.join("dev")).as_deref().and_then(number_of));
            }
        }
        let hardware: Vec<String> =
            names(&disk.join("mq")).unwrap_or_default().into_iter().filter(|n| n.parse::<u32>().is_ok()).collect();
        let depth = hardware.first().and_then(|h| read_some(&disk.join("mq").join(h).join("nr_tags"))?.parse().ok());
        let online = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        Ok(About {
            name: queue.name().to_owned(),
            dev,
            numbers: all.into_iter().map(|(major, minor)| major << 20 | minor).collect(),
            range: (target.kind == TargetKind::Partition)
                .then(|| (target.start, target.start + target.bytes / dumbwaiter_block::SECTOR_BYTES)),
            scheduler: queue.schedulers()?.0,
            queue: queue.attributes(),
            depth: depth.unwrap_or(128),
            hw_queues: hardware.len().max(1) as u32,
            kernel: read_some(&roots.proc.join("sys/kernel/osrelease")).unwrap_or_default(),
            cpus: online,
        })
    }

    /// The filter for events that tell their device.
    pub(crate) fn filter(&self) -> String {
        let each: Vec<String> = self.numbers.iter().map(|n| format!("dev == {n}")).collect();
        each.join(" || ")
    }

    /// Is an event one of this target? Events without a device (plugs, probes) may be of another.
    pub(crate) fn concerns(&self, e: &Event) -> bool {
        if !e.kind.has_device() {
            return true;
        }
        let inside = self.range.is_none_or(|(start, end)| {
            let placeless = matches!(e.kind, Kind::KyberAdjust | Kind::KyberThrottled);
            placeless || (start..end).contains(&e.sector)
        });
        inside && self.numbers.contains(&e.dev)
    }
}

/// A dispatch recording's name decides how it is packed, and names the description.
pub(crate) fn check_name(output: &Path) -> Result<(), Error> {
    match beside(output) {
        Some(_) => Ok(()),
        None => {
            let found = output.display();
            Err(Error::Refused(format!("{found}: a dispatch recording is named NAME.csv or NAME.csv.zst")))
        }
    }
}

/// Where the description of a dispatch recording goes; `None` where the name is not that of one.
pub fn beside(output: &Path) -> Option<PathBuf> {
    let name = output.file_name()?.to_str()?;
    let stem = name.strip_suffix(".zst").unwrap_or(name).strip_suffix(".csv").filter(|s| !s.is_empty())?;
    Some(output.with_file_name(format!("{stem}.json")))
}

/// When, modulo the period, the kernel's tick steps, on the rows' time scale, from the values that the probes took; and by
/// how much that may be off.
fn tick(events: &[Event], period: u64) -> Option<serde_json::Value> {
    let first = events.first()?.at;
    let seen = events.iter().filter(|e| e.kind == Kind::Dispatch && e.jiffies > 0);
    let mut seen = seen.map(|e| ((e.at - first) as i64, e.jiffies as i64)).peekable();
    let base = seen.peek()?.1;
    let period = i64::try_from(period).ok()?;
    let (mut low, mut high) = (i64::MIN, i64::MAX);
    for (at, jiffies) in seen {
        low = low.max(at - (jiffies - base + 1) * period);
        high = high.min(at - (jiffies - base) * period);
    }
    let middle = (low + high).div_euclid(2).rem_euclid(period);
    Some(json!({ "period_ns": period, "step_at_ns": middle, "uncertain_ns": (high - low).abs() / 2 + 1 }))
}

/// Ticks a second of the running kernel, where its configuration can be read; else by far the most common.
fn hz() -> u64 {
    let release = read_some(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
    let packed = std::fs::File::open("/proc/config.gz").ok().and_then(|f| {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(f), &mut text).ok().map(|_| text)
    });
    let text = packed.or_else(|| read_some(Path::new(&format!("/boot/config-{release}")))).unwrap_or_default();
    text.lines().find_map(|l| l.strip_prefix("CONFIG_HZ=")?.parse().ok()).filter(|hz| *hz > 0).unwrap_or(250)
}

/// A file under a name of its own until it is renamed; removed where it does not come to that.
struct Hidden(PathBuf);

impl Hidden {
    fn beside(path: &Path) -> Hidden {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Hidden(path.with_file_name(format!(".{name}.{}.part", std::process::id())))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Gives both files their names. An older description goes first: it must never stand beside rows that it does not describe.
fn publish(rows: (&Hidden, &Path), description: (&Hidden, &Path)) -> Result<(), Error> {
    match std::fs::remove_file(description.1) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::file("replace", description.1, e)),
        _ => {}
    }
    for (hidden, path) in [rows, description] {
        std::fs::rename(&hidden.0, path).map_err(|e| Error::file("write", path, e))?;
    }
    Ok(())
}

/// Writes rows and description, the description last: with it the recording is whole.
pub(crate) fn write(
    events: &[Event],
    built: &Built,
    about: &About,
    options: &Options,
    summary: &Summary,
) -> Result<Vec<PathBuf>, Error> {
    let output = &options.output;
    let fail = |e| Error::file("write", output, e);
    check_name(output)?;
    let description = beside(output).unwrap_or_default();
    let hidden = Hidden::beside(output);
    let file = std::io::BufWriter::new(std::fs::File::create(&hidden.0).map_err(fail)?);
    let packed = output.extension().is_some_and(|e| e == "zst");
    let written = if packed {
        zstd::Encoder::new(file, 9)
            .and_then(|mut out| lines(&mut out, &built.rows).and_then(|()| out.finish()))
            .and_then(|mut out| out.flush())
    } else {
        let mut out = file;
        lines(&mut out, &built.rows).and_then(|()| out.flush())
    };
    written.map_err(fail)?;
    let iosched: BTreeMap<&str, &str> =
        about.queue.iter().filter_map(|(k, v)| Some((k.strip_prefix("iosched/")?, v.as_str()))).collect();
    let mut queue: BTreeMap<&str, &str> =
        about.queue.iter().filter(|(k, _)| !k.contains('/')).map(|(k, v)| (k.as_str(), v.as_str())).collect();
    // Where the scheduler's limit is the queue's (Linux 6.18), readers still look for it with the scheduler's own.
    let depth = queue.remove("async_depth");
    let iosched: BTreeMap<&str, &str> = iosched.into_iter().chain(depth.map(|d| ("async_depth", d))).collect();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &built.rows {
        *counts.entry(row.event).or_default() += 1;
    }
    let processes: BTreeMap<String, &str> = events
        .iter()
        .filter(|e| matches!(e.kind, Kind::Allocated | Kind::Bio))
        .map(|e| (e.pid.to_string(), text(&e.comm)))
        .collect();
    let value = json!({
        "name": description.file_stem().map(|s| s.to_string_lossy().into_owned()),
        "scheduler": about.scheduler,
        "workload": null,
        "kernel": about.kernel,
        "cpus": about.cpus,
        "clock": "wall",
        "dispatches": match summary.method {
            Some(Method::Probes) => "probes",
            _ => "inferred from issues",
        },
        "device": { "kind": about.name, "attributes": { "hw_queue_depth": about.depth, "submit_queues": about.hw_queues } },
        "queue": queue,
        "iosched": iosched,
        "processes": processes,
        "jiffies": tick(events, 1_000_000_000 / hz()),
        "rows": built.rows.len(),
        "counts": counts,
        "duration_ns": built.rows.last().map_or(0, |r| r.at),
        "lost_events": summary.lost,
        "unmatched_rows": built.unmatched,
        "unfinished_requests": built.unfinished,
    });
    let mut text = serde_json::to_vec_pretty(&value).map_err(|e| fail(e.into()))?;
    text.push(b'\n');
    let hidden_description = Hidden::beside(&description);
    std::fs::write(&hidden_description.0, text).map_err(|e| Error::file("write", &description, e))?;
    publish((&hidden, output), (&hidden_description, &description))?;
    Ok(vec![output.clone(), description])
}

fn lines(out: &mut impl Write, rows: &[Row]) -> std::io::Result<()> {
    fn some<T: ToString>(value: Option<T>) -> String {
        value.map(|v| v.to_string()).unwrap_or_default()
    }
    writeln!(out, "ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu")?;
    for r in rows {
        let req = some((r.req != 0).then_some(r.req));
        let (sector, bytes, pid, ioprio) = (some(r.sector), some(r.bytes), some(r.pid), some(r.ioprio));
        writeln!(out, "{},{},{req},{sector},{bytes},{},{},{pid},{ioprio},{}", r.at, r.event, r.op, r.flags, r.cpu)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_lies_beside_the_rows() {
        assert_eq!(beside(Path::new("/a/b.csv.zst")), Some("/a/b.json".into()));
        assert_eq!(beside(Path::new("b.csv")), Some("b.json".into()));
        for bad in ["b.dwt", "b.zst", ".csv", "/"] {
            assert!(check_name(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_old_description_never_stands_beside_new_rows() {
        let dir = tempfile::tempdir().unwrap();
        let (rows, description) = (dir.path().join("a.csv"), dir.path().join("a.json"));
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let attempt = |text: Option<&str>| {
            let hidden = (Hidden::beside(&rows), Hidden::beside(&description));
            std::fs::write(&hidden.0.0, "new").unwrap();
            if let Some(text) = text {
                std::fs::write(&hidden.1.0, text).unwrap();
            }
            publish((&hidden.0, &rows), (&hidden.1, &description))
        };
        for path in [&rows, &description] {
            std::fs::write(path, "old").unwrap();
        }
        // The new one cannot be placed: then none is there.
        assert!(attempt(None).is_err());
        assert_eq!((read(&rows).as_str(), description.exists()), ("new", false));
        attempt(Some("new")).unwrap();
        assert_eq!((read(&rows), read(&description)), ("new".into(), "new".into()));
        // The old one cannot be removed: then the old rows stay too.
        std::fs::write(&rows, "old").unwrap();
        std::fs::remove_file(&description).unwrap();
        std::fs::create_dir(&description).unwrap();
        assert!(attempt(Some("newer")).unwrap_err().to_string().contains("a.json"));
        assert_eq!(read(&rows), "old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing hidden is left");
    }

    #[test]
    fn the_ticks_phase_follows_from_what_was_read_around_its_steps() {
        use super::super::rows::tests::event;
        // Steps at 3, 7, 11 ... ms after the first event.
        let events: Vec<Event> = (0..200)
            .map(|i| {
                let at = i * 130_000;
                let mut e = event(1000 + at, Kind::Dispatch, "", 0, 0);
                e.jiffies = 5000 + (at + 1_000_000) / 4_000_000;
                e
            })
            .collect();
        let found = tick(&events, 4_000_000).unwrap();
        let step = found["step_at_ns"].as_i64().unwrap();
        let uncertain = found["uncertain_ns"].as_i64().unwrap();
        assert!((step - 3_000_000).abs() <= uncertain && uncertain < 130_000, "{found}");
    }
}
