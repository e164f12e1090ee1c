//! The two files of a dispatch recording: its rows, and their description.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::file::read_some;
use dumbwaiter_text::OutputFile;
use serde_json::json;

use crate::recording::about::About;
use crate::recording::controllers::Controllers;
use crate::recording::event::{Event, Kind, text};
use crate::recording::options::{Method, Options, Summary};
use crate::recording::rows::{Built, Row};

/// Refuses a name that does not tell whether the recording is compressed; the description's name follows from it too.
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
pub(crate) fn beside(output: &Path) -> Option<PathBuf> {
    let name = output.file_name()?.to_str()?;
    let stem = name.strip_suffix(".zst").unwrap_or(name).strip_suffix(".csv").filter(|s| !s.is_empty())?;
    Some(output.with_file_name(format!("{stem}.json")))
}

/// The phase of the kernel's tick on the rows' time scale, modulo its period, from the values of `jiffies` that the probes
/// recorded; and its uncertainty.
fn tick(events: &[Event], of_controllers: &[(u64, u64)], period: u64) -> Option<serde_json::Value> {
    let first = events.first()?.at;
    let of_scheduler = events.iter().filter(|e| e.kind == Kind::Dispatch).map(|e| (e.at, e.jiffies));
    let seen = of_scheduler.chain(of_controllers.iter().copied()).filter(|(_, jiffies)| *jiffies > 0);
    let mut seen = seen.map(|(at, jiffies)| (at as i64 - first as i64, jiffies as i64)).peekable();
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

/// Ticks per second of the running kernel, where its configuration can be read; else 250, by far the most common.
fn hz() -> u64 {
    let release = read_some(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
    let packed = std::fs::File::open("/proc/config.gz").ok().and_then(|f| {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(f), &mut text).ok().map(|_| text)
    });
    let text = packed.or_else(|| read_some(Path::new(&format!("/boot/config-{release}")))).unwrap_or_default();
    text.lines().find_map(|l| l.strip_prefix("CONFIG_HZ=")?.parse().ok()).filter(|hz| *hz > 0).unwrap_or(250)
}

/// Gives both files their names. An older description goes first: it must never stand beside rows that it does not describe.
fn publish(rows: OutputFile, description: OutputFile, description_path: &Path) -> std::io::Result<()> {
    match dumbwaiter_text::remove(description_path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    rows.commit()?;
    description.commit().map(drop)
}

/// Writes rows and description, the description last: with it the recording is whole.
pub(crate) fn write(
    events: &[Event],
    built: &Built,
    about: &About,
    controllers: &Controllers,
    options: &Options,
    summary: &Summary,
) -> Result<Vec<PathBuf>, Error> {
    let output = &options.output;
    check_name(output)?;
    let description = beside(output).unwrap_or_default();
    let rows = write_rows(output, &built.rows).map_err(|e| Error::file("write", output, e))?;
    let mut value = describe(&description, events, built, about, summary);
    controllers.describe(&mut value, events.first().map_or(0, |event| event.at));
    let described = OutputFile::create(&description).and_then(|mut file| {
        let mut text = serde_json::to_vec_pretty(&value)?;
        text.push(b'\n');
        file.write_all(&text)?;
        publish(rows, file, &description)
    });
    described.map_err(|e| Error::file("write", &description, e))?;
    Ok(vec![output.clone(), description])
}

/// The file of the rows, complete but without its name.
fn write_rows(output: &Path, rows: &[Row]) -> std::io::Result<OutputFile> {
    let out = std::io::BufWriter::new(OutputFile::create(output)?);
    let out = if output.extension().is_some_and(|e| e == "zst") {
        let mut out = zstd::Encoder::new(out, 9)?;
        lines(&mut out, rows)?;
        out.finish()?
    } else {
        let mut out = out;
        lines(&mut out, rows)?;
        out
    };
    out.into_inner().map_err(std::io::IntoInnerError::into_error)
}

fn describe(path: &Path, events: &[Event], built: &Built, about: &About, summary: &Summary) -> serde_json::Value {
    let of_scheduler = about.queue.iter().filter_map(|(k, v)| Some((k.strip_prefix("iosched/")?, v.as_str())));
    let of_queue = about.queue.iter().filter(|(k, _)| !k.contains('/')).map(|(k, v)| (k.as_str(), v.as_str()));
    let mut queue: BTreeMap<&str, &str> = of_queue.collect();
    // Where the scheduler's limit is the queue's (Linux 6.18), readers still look for it with the scheduler's own.
    let depth = queue.remove("async_depth");
    let iosched: BTreeMap<&str, &str> = of_scheduler.chain(depth.map(|d| ("async_depth", d))).collect();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &built.rows {
        *counts.entry(row.event).or_default() += 1;
    }
    let processes: BTreeMap<String, &str> = events
        .iter()
        .filter(|e| matches!(e.kind, Kind::Allocated | Kind::Bio))
        .map(|e| (e.pid.to_string(), text(&e.comm)))
        .collect();
    let mut value = json!({
        "name": path.file_stem().map(|s| s.to_string_lossy().into_owned()),
        "scheduler": about.scheduler,
        "workload": null,
        "kernel": about.kernel,
        "cpus": about.cpus,
        "clock": "wall",
        "dispatches": match summary.method {
            Some(Method::Probes) => "probes",
            _ => "inferred from issues",
        },
        "device": { "kind": about.name, "attributes": { "hw_queue_depth": about.depth, "submit_queues": about.hw_queues, "queue_depth": about.reported_depth } },
        "queue": queue,
        // As it is now: nobody sets it for a real drive after its scheduler was attached.
        "rotational_at_attach": about.queue.get("rotational").is_some_and(|value| value == "1"),
        "iosched": iosched,
        "processes": processes,
        "jiffies": tick(events, &built.jiffies, 1_000_000_000 / hz()),
        "rows": built.rows.len(),
        "counts": counts,
        "duration_ns": built.rows.last().map_or(0, |r| r.at),
        "lost_events": summary.lost,
        "unmatched_rows": built.unmatched,
        "unfinished_requests": built.unfinished,
    });
    if !built.groups.is_empty() {
        value["groups"] = built.groups.clone().into();
    }
    value
}

fn lines(out: &mut impl Write, rows: &[Row]) -> std::io::Result<()> {
    fn some<T: ToString>(value: Option<T>) -> String {
        value.map(|v| v.to_string()).unwrap_or_default()
    }
    // A last column where any row names its group.
    let grouped = rows.iter().any(|row| !row.group.is_empty());
    writeln!(out, "ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu{}", if grouped { ",group" } else { "" })?;
    for r in rows {
        let req = some((r.req != 0).then_some(r.req));
        let (sector, bytes, pid, ioprio) = (some(r.sector), some(r.bytes), some(r.pid), some(r.ioprio));
        write!(out, "{},{},{req},{sector},{bytes},{},{},{pid},{ioprio},{}", r.at, r.event, r.op, r.flags, r.cpu)?;
        writeln!(out, "{}{}", if grouped { "," } else { "" }, r.group)?;
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
        let made = |path: &Path, text: &str| {
            let mut file = OutputFile::create(path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        for path in [&rows, &description] {
            std::fs::write(path, "old").unwrap();
        }
        publish(made(&rows, "new"), made(&description, "new"), &description).unwrap();
        assert_eq!((read(&rows), read(&description)), ("new".into(), "new".into()));
        // The new one cannot be placed: then none is there.
        let file = made(&description, "newer");
        let hidden = |p: &Path| p.file_name().unwrap().to_string_lossy().starts_with(".dumbwaiter-");
        let all = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path());
        all.filter(|p| hidden(p)).for_each(|p| std::fs::remove_file(p).unwrap());
        publish(made(&rows, "newer"), file, &description).unwrap_err();
        assert_eq!((read(&rows).as_str(), description.exists()), ("newer", false));
        // The old one cannot be removed: then the old rows stay too.
        let newest = (made(&rows, "newest"), made(&description, "newest"));
        std::fs::create_dir(&description).unwrap();
        publish(newest.0, newest.1, &description).unwrap_err();
        assert_eq!(read(&rows), "newer");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing hidden is left");
    }

    #[test]
    fn the_ticks_phase_follows_from_what_was_read_around_its_steps() {
        use crate::recording::rows::tests::event;
        // Steps at 3, 7, 11 ... ms after the first event.
        let events: Vec<Event> = (0..200)
            .map(|i| {
                let at = i * 130_000;
                let mut e = event(1000 + at, Kind::Dispatch, "", 0, 0);
                e.jiffies = 5000 + (at + 1_000_000) / 4_000_000;
                e
            })
            .collect();
        let found = tick(&events, &[], 4_000_000).unwrap();
        let step = found["step_at_ns"].as_i64().unwrap();
        let uncertain = found["uncertain_ns"].as_i64().unwrap();
        assert!((step - 3_000_000).abs() <= uncertain && uncertain < 130_000, "{found}");
    }
}
