//! The jobs of the shared set's recordings do the I/Os that fio did in them, in its order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dumbwaiter_block::{Nanos, Op, SECTOR_BYTES};
use dumbwaiter_fidelity::recording::{Recording, RowKind};
use dumbwaiter_workloads::Next;
use dumbwaiter_workloads::fio::{self, FioFile, FioJob, Outside};
use dumbwaiter_workloads::generate::{BuildContext, Extent, Mix, PerDir};
use serde_json::Value;

/// I/Os of each process that are compared.
const MOST: usize = 2000;

/// Size of the recorded devices.
const CAPACITY_SECTORS: u64 = 1 << 24;

/// First sector, bytes and operation.
type Io = (u64, u64, Op);

fn descriptions() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data");
    let entries =
        ["kernel-dispatch", "kernel-dispatch-groups"].iter().filter_map(|f| std::fs::read_dir(data.join(f)).ok());
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.with_extension("csv.zst").exists() && path.extension().is_some_and(|e| e == "json"));
    paths.sort();
    paths
}

/// The job files of a recording.
fn job_files(about: &Value, name: &str) -> Vec<FioFile> {
    let groups = about["groups"].as_array().into_iter().flatten().map(|group| &group["job"]);
    let texts = groups.chain([&about["job"]]).filter_map(Value::as_str);
    texts.map(|text| fio::parse(text, name, &Outside::NOTHING).unwrap()).collect()
}

/// The first I/Os of a job whose I/Os complete at once.
fn sequence(job: &FioJob) -> Vec<Io> {
    let context = BuildContext {
        seed: 1,
        capacity_sectors: CAPACITY_SECTORS,
        first_sector: 0,
        job: 0,
        instance: 0,
        replicate: 0,
    };
    let mut workload = job.spec.build(context).unwrap();
    let (mut now, mut ios) = (Nanos::ZERO, Vec::new());
    while ios.len() < MOST {
        match workload.next(now) {
            Next::Issue(want) => {
                ios.push((want.sector, u64::from(want.sectors) * SECTOR_BYTES, want.op));
                workload.completed(now, 0, Nanos::ZERO);
            }
            Next::Wait(until) | Next::Pause(until) => now = until,
            Next::Blocked | Next::Done => break,
        }
    }
    ios
}

/// Whether a sector is in the region of a job.
fn is_inside(job: &FioJob, sector: u64) -> bool {
    let (Extent::Bytes(start), Some(Extent::Bytes(size))) = (job.spec.offset, job.spec.size) else { return true };
    (start..start + size).contains(&(sector * SECTOR_BYTES))
}

/// How many of the first I/Os are equal. Which direction is behind its rate decides in a mixed job with a rate, so there the
/// direction depends on the times of completions.
fn equal(job: &FioJob, a: &[Io], b: &[Io]) -> usize {
    let timed = job.spec.rw.mix == Mix::ReadWrite && job.spec.rate_iops != PerDir::all(None);
    let same = |(a, b): &(&Io, &Io)| (a.0, a.1) == (b.0, b.1) && (timed || a.2 == b.2);
    a.iter().zip(b).take_while(same).count()
}

#[test]
fn jobs_of_recordings_do_the_recorded_ios() {
    let paths = descriptions();
    if paths.is_empty() {
        println!("skipped: no shared data");
        return;
    }
    let (mut failures, mut jobs) = (Vec::new(), 0);
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let about: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let recording = Recording::open(&path.with_extension("csv.zst")).unwrap();
        let mut processes: BTreeMap<i32, Vec<Io>> = BTreeMap::new();
        for row in recording.rows.iter().filter(|row| row.kind == RowKind::Arrival) {
            processes.entry(row.pid).or_default().push((row.sector, row.bytes, row.op));
        }
        let files = job_files(&about, &name);
        // Other processes write the data that goes through the page cache.
        for job in files.iter().flat_map(|file| &file.jobs).filter(|job| job.spec.direct) {
            let ours = sequence(job);
            let of_job = |ios: &Vec<Io>| ios.iter().copied().filter(|io| is_inside(job, io.0)).collect::<Vec<_>>();
            let recorded = processes.values().map(of_job).max_by_key(|ios| equal(job, ios, &ours)).unwrap_or_default();
            let (same, most) = (equal(job, &recorded, &ours), recorded.len().min(ours.len()));
            jobs += 1;
            if same < most || most == 0 {
                let next = |ios: &[Io]| format!("{:?}", ios.get(same));
                let (theirs, ours) = (next(&recorded), next(&ours));
                failures.push(format!("{name}, {}: {same} of {most} equal, then {theirs}, ours {ours}", job.name));
            }
        }
    }
    println!("{jobs} jobs compared");
    assert!(failures.is_empty(), "{} of {jobs} jobs differ:\n{}", failures.len(), failures.join("\n"));
}
