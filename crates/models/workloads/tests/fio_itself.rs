//! The job files in `tests/jobs`, run by fio itself, which logs its I/Os on files in place of devices, and by the generator: the
//! same I/Os in the same order, or of the same shape where the generator's random numbers are not fio's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dumbwaiter_block::{Nanos, Op, SECTOR_BYTES};
use dumbwaiter_workloads::Next;
use dumbwaiter_workloads::fio::{self, FioJob, Outside};
use dumbwaiter_workloads::generate::{BuildContext, Extent};

/// Size of each device.
const CAPACITY_BYTES: u64 = 256 << 20;
/// I/Os of each job that are compared.
const MOST: usize = 2000;

/// Jobs whose offsets are drawn from other random numbers than fio's.
const ALIKE: [&str; 7] = ["lfsr", "normal", "pareto", "tausworthe64", "zipf", "zoned", "zoned-absolute"];

/// Operation, number of the file, offset in it and length in bytes.
type Io = (String, usize, u64, u64);

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jobs");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

/// The job file for fio: each job logs its I/Os, and devices are files of their size. A file cannot be discarded from, so
/// that discards are given to the engine that does nothing.
fn for_fio(text: &str, dir: &Path) -> String {
    let (mut out, mut section) = (String::new(), None::<String>);
    let engine = if text.contains("trim") {
        format!("ioengine=null\nfilesize={CAPACITY_BYTES}")
    } else {
        "ioengine=psync".into()
    };
    let end = |section: &Option<String>| match section.as_deref() {
        None | Some("global") => String::new(),
        Some(name) => format!("{engine}\ndirect=0\nnumber_ios={MOST}\nwrite_iolog={name}.log\n"),
    };
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            out += &end(&section);
            section = Some(name.to_owned());
        }
        let line = line.replace("filename=/dev/", "filename=");
        if let Some(name) = line.strip_prefix("filename=") {
            std::fs::File::create(dir.join(name)).unwrap().set_len(CAPACITY_BYTES).unwrap();
        }
        out += &line;
        out.push('\n');
    }
    out + &end(&section)
}

/// The I/Os that fio logged.
fn logged(path: &Path) -> (Vec<Io>, u64) {
    let (mut files, mut ios) = (BTreeMap::new(), Vec::new());
    for line in std::fs::read_to_string(path).unwrap().lines().skip(1) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[2..] {
            ["add"] => drop(files.insert(words[1].to_owned(), files.len())),
            ["open" | "close"] => {}
            [op, offset, length] => {
                let length = if op.ends_with("sync") { 0 } else { length.parse().unwrap() };
                let offset = if length == 0 { 0 } else { offset.parse().unwrap() };
                let file = if length == 0 { 0 } else { files[words[1]] };
                ios.push((op.to_owned(), file, offset, length));
            }
            _ => panic!("a line of fio's log: {line}"),
        }
    }
    (ios, files.len() as u64)
}

/// What differs between two lists in the shares of operations and sizes, of tenths of the offsets (which each generator
/// scatters in its own way where few are hot), of the hottest places, and in the bounds.
fn shape_differs(title: &str, a: &[Io], b: &[Io]) -> Option<String> {
    let share =
        |list: &[Io], of: &dyn Fn(&Io) -> bool| list.iter().filter(|io| of(io)).count() as f64 / list.len() as f64;
    let far = |name: String, of: &dyn Fn(&Io) -> bool| {
        let (a, b) = (share(a, of), share(b, of));
        ((a - b).abs() > 0.04).then(|| format!("{title}: {name}: fio {a:.3}, ours {b:.3}"))
    };
    let tenths = |list: &[Io]| {
        let mut tenths = [0.0; 10];
        list.iter().for_each(|io| tenths[(io.2 * 10 / CAPACITY_BYTES) as usize] += 1.0 / list.len() as f64);
        tenths
    };
    let hot = |list: &[Io]| {
        let mut counts = BTreeMap::new();
        list.iter().for_each(|io| *counts.entry(io.2).or_insert(0usize) += 1);
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
        [1, 10, 100].map(|n| counts.iter().take(n).sum::<usize>() as f64 / list.len() as f64)
    };
    if a.is_empty() || a.len() != b.len() {
        return Some(format!("{title}: {} I/Os of fio, {} of ours", a.len(), b.len()));
    }
    let tenths = |list: &[Io]| if ["zipf.fio", "pareto.fio"].contains(&title) { [0.0; 10] } else { tenths(list) };
    let pairs = tenths(a).into_iter().zip(tenths(b)).chain(hot(a).into_iter().zip(hot(b)));
    let shape = pairs.enumerate().find(|(_, (a, b))| (a - b).abs() > 0.04);
    far("reads".into(), &|io| io.0 == "read")
        .or_else(|| a.iter().find_map(|one| far(format!("I/Os of {}", one.3), &|io| io.3 == one.3)))
        .or_else(|| {
            shape.map(|(n, (a, b))| {
                format!("{title}: share {n} (10 tenths, 1, 10, 100 hottest): fio {a:.3}, ours {b:.3}")
            })
        })
        .or_else(|| {
            b.iter().find(|io| io.2 + io.3 > CAPACITY_BYTES || io.2 % 4096 > 0).map(|io| format!("{title}: {io:?}"))
        })
}

/// The I/Os of the generator, if each completes at once, in files of `file_bytes`.
fn generated(job: &FioJob, file_bytes: u64) -> Vec<Io> {
    let capacity_sectors = CAPACITY_BYTES / SECTOR_BYTES;
    let context = BuildContext { seed: 1, capacity_sectors, first_sector: 0, job: 0, instance: 0, replicate: 0 };
    let mut workload = job.spec.build(context).unwrap();
    let (mut now, mut ios) = (Nanos::ZERO, Vec::new());
    while ios.len() < MOST {
        match workload.next(now) {
            Next::Issue(want) => {
                let (offset, length) = (want.sector * SECTOR_BYTES, u64::from(want.sectors) * SECTOR_BYTES);
                let name = match want.op {
                    Op::Read => "read",
                    Op::Write => "write",
                    Op::Discard => "trim",
                    _ => "sync",
                };
                let name = if name == "sync" && job.spec.fdatasync > 0 { "datasync" } else { name };
                let (file, offset) =
                    if length == 0 { (0, 0) } else { ((offset / file_bytes) as usize, offset % file_bytes) };
                ios.push((name.to_owned(), file, offset, length));
                workload.completed(now, 0, Nanos::ZERO);
            }
            Next::Wait(until) | Next::Pause(until) => now = until,
            Next::Blocked | Next::Done => break,
        }
    }
    ios
}

#[test]
fn job_files_do_the_ios_that_fio_does() {
    let version = match Command::new("fio").arg("--version").output() {
        Ok(found) => String::from_utf8_lossy(&found.stdout).trim().to_owned(),
        Err(e) => return println!("skipped: fio: {e}"),
    };
    let minor = version.strip_prefix("fio-3.").and_then(|rest| rest.split(['.', '-']).next()?.parse::<u32>().ok());
    if !minor.is_some_and(|minor| (30..=34).contains(&minor)) {
        return println!("skipped: {version} has other random numbers than fio 3.30 to 3.34");
    }
    let (mut failures, mut jobs, mut exact, mut ios) = (Vec::new(), 0, 0, 0);
    let files = files();
    let started = files.iter().map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("data")).unwrap();
        std::fs::write(dir.path().join("job.fio"), for_fio(&text, dir.path())).unwrap();
        let mut fio = Command::new("fio");
        fio.arg("job.fio").current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::piped());
        (path.file_name().unwrap().to_string_lossy().into_owned(), text, fio.spawn().unwrap(), dir)
    });
    // fio waits most of the time.
    for (title, text, fio, dir) in started.collect::<Vec<_>>() {
        let done = fio.wait_with_output().unwrap();
        if !done.status.success() {
            failures.push(format!("{title}: {}", String::from_utf8_lossy(&done.stderr)));
            continue;
        }
        for job in &fio::parse(&text, &title, &Outside::NOTHING).unwrap().jobs {
            let (theirs, files) = logged(&dir.path().join(format!("{}.log", job.name)));
            let ours = match job.spec.size {
                Some(Extent::Bytes(bytes)) if files > 1 => generated(job, bytes / files),
                _ => generated(job, u64::MAX),
            };
            if ALIKE.contains(&title.trim_end_matches(".fio")) {
                jobs += 1;
                failures.extend(shape_differs(&title, &theirs, &ours));
                continue;
            }
            let same = theirs.iter().zip(&ours).take_while(|(a, b)| a == b).count();
            // The generator is asked for so many at most; fio counts flushes besides.
            let most = theirs.len().min(MOST);
            jobs += 1;
            exact += 1;
            ios += same;
            if most == 0 || same < most || ours.len() > most {
                let at = |list: &[Io]| format!("{:?}", list.get(same));
                failures.push(format!(
                    "{title}, {}: {same} of {most} equal, then {}, ours ({}) {}",
                    job.name,
                    at(&theirs),
                    ours.len(),
                    at(&ours)
                ));
            }
        }
    }
    println!("{} files, {jobs} jobs, {ios} I/Os equal", files.len());
    assert_eq!((files.len(), exact, jobs), (38, 39, 46), "docs/scenario.md says so");
    assert!(failures.is_empty(), "{} of {jobs} jobs differ:\n{}", failures.len(), failures.join("\n"));
}
