//! Recordings of controllers, all that are at hand.

use std::path::{Path, PathBuf};

use dumbwaiter_workloads::page_cache::Thresholds;

use super::*;
use crate::score;

/// The scores of the recordings of a controller, by their names; `None` where there are no recordings.
fn scored(kind: Recorded) -> Option<Vec<(String, ControllerScore)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/kernel-throttling");
    let Ok(files) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: no shared data");
        return None;
    };
    let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".csv.zst"));
    paths.sort();
    let scores = paths.iter().flat_map(|path| score(path, None).unwrap());
    let name = if kind == Recorded::Wbt { "wbt" } else { "io.max" };
    let of_kind = scores.filter_map(|score| Some((score.file, score.controller.filter(|own| own.controller == name)?)));
    Some(of_kind.collect())
}

#[test]
fn every_window_of_wbt_is_judged_as_the_kernel_did() {
    let Some(scores) = scored(Recorded::Wbt) else { return };
    assert!(!scores.is_empty());
    for (file, score) in scores {
        assert_eq!(score.first_difference, None, "{file}");
        let has_target = !file.contains("-lat0-") && !file.starts_with("bfq-default");
        assert_eq!(score.verdicts > 0, has_target, "{file}: {} verdicts", score.verdicts);
    }
}

#[test]
fn each_io_behind_io_max_goes_on_in_the_tick_of_the_kernel() {
    let Some(scores) = scored(Recorded::IoMax) else { return };
    assert!(!scores.is_empty());
    for (file, score) in scores {
        assert!(score.kinds.iter().all(|kind| kind.verdicts > 0), "{file}");
        assert_eq!(score.first_difference, None, "{file}");
    }
}

/// The factor by which the kernel multiplies a writer's base rate, at each of its checks: `dirty`, `limit`, `setpoint` in pages, rates in
/// KiB/s. The base rate is near the bandwidth in these.
#[test]
fn writers_are_slowed_as_the_kernel_slows_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/kernel-throttling");
    let mut checks = 0;
    for name in
        ["mq-deadline-lat0-d1", "mq-deadline-lat2000-d1", "mq-deadline-lat75000-d1-6.18", "none-lat75000-defaults"]
    {
        let Ok(packed) = std::fs::File::open(folder.join(format!("{name}.csv.zst"))) else {
            eprintln!("skipped: no shared data");
            return;
        };
        let rows = std::io::read_to_string(zstd::Decoder::new(packed).unwrap()).unwrap();
        for row in rows.lines().filter(|row| row.contains(",balance_dirty_pages,")) {
            let figure = |key: &str| {
                let (_, rest) = row.split_once(&format!(" {key}=")).or(row.split_once(&format!(",{key}="))).unwrap();
                rest.split([' ', ',']).next().unwrap().parse::<u64>().unwrap()
            };
            let (limit, setpoint, base) = (figure("limit"), figure("setpoint"), figure("dirty_ratelimit"));
            let thresholds = Thresholds { background: 0, freerun: 0, setpoint, limit };
            let ours = thresholds.position(figure("dirty"), base / 4) as f64 / Thresholds::POSITION_ONE as f64;
            let theirs = figure("task_ratelimit") as f64 / base as f64;
            assert!((ours - theirs).abs() < 0.04, "{name}: {ours}, and the kernel's {theirs}: {row}");
            checks += 1;
        }
    }
    assert!(checks > 900, "{checks}");
}

/// Why a recording of io.max with this description and these rows is refused.
fn refused(about: &str, rows: &str) -> String {
    let about = serde_json::from_str(about).unwrap();
    let rows = format!("ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu\n{rows}\n");
    let read = Events::read(Path::new("r.csv"), rows.as_bytes(), Path::new("r.json"), about).unwrap();
    Recorded::IoMax.score(&read, None).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_replayed_is_an_error_that_names_it() {
    let group =
        |limits: &str| format!(r#"{{"kernel":"6.12.1","groups":[{{"path":"a","io.max":"{limits}","pids":[5]}}]}}"#);
    let submit = "1,bio_submit,,8,4096,R,,5,,0";
    assert_eq!(refused(r#"{"kernel":"mine"}"#, submit), "r.json: kernel: expected a release such as 6.12.117");
    assert_eq!(
        refused(&group("rbps=0"), submit),
        "r.json: group `a`: io.max: rbps: `0`: expected max or a number from 1"
    );
    assert_eq!(
        refused(&group("rbps=9"), "1,mark,,,,,io.max group=b riops=7,,,0"),
        "r.csv, line 2: group `b` is not among the `groups` of the JSON"
    );
    assert_eq!(
        refused(&group("rbps=9"), "1,mark,,,,,io.max group=a riops=x,,,0"),
        "r.csv, line 2: io.max: riops: `x`: expected max or a number from 1"
    );
    assert!(refused(&group("rbps=1"), "86400000000001,bio_submit,,8,4096,R,,5,,0").contains("more than a day"));
}

#[test]
fn a_rest_counts_no_bytes_whoever_submits_before_it() {
    // The limit lets 4 KiB and a little through in a slice: the rest of what process 5 split goes at once.
    let about =
        r#"{"kernel":"6.12.1","groups":[{"path":"a","io.max":"rbps=45000","pids":[5]},{"path":"b","pids":[6]}]}"#;
    let rows = [
        "0,bio_submit,,0,4096,R,,5,,0",
        "10,bio_queue,,0,4096,R,,5,,0",
        "20,split,,0,0,R,,5,,0",
        "30,bio_submit,,900,4096,R,,6,,0",
        "40,bio_queue,,900,4096,R,,6,,0",
        "50,bio_submit,,4,2048,R,,5,,0",
        "60,getrq,1,4,2048,R,,5,,0",
    ];
    let rows = format!("ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu\n{}\n", rows.join("\n"));
    let about = serde_json::from_str(about).unwrap();
    let read = Events::read(Path::new("r.csv"), rows.as_bytes(), Path::new("r.json"), about).unwrap();
    let score = Recorded::IoMax.score(&read, None).unwrap();
    assert_eq!((score.verdicts, score.first_difference), (3, None));
}

#[test]
fn metadata_passes_whatever_the_limit() {
    let about = r#"{"kernel":"6.18.1","groups":[{"path":"a","io.max":"riops=10","pids":[5]}]}"#;
    let row = |at: u64, flags: &str| {
        format!("{at},bio_submit,,{at},4096,R,{flags},5,,0\n{},bio_queue,,{at},4096,R,{flags},5,,0\n", at + 1)
    };
    let rows: String = (0..9).map(|n| row(10 * n, if n > 0 { "SM" } else { "S" })).collect();
    let rows = format!("ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu\n{rows}");
    let about = serde_json::from_str(about).unwrap();
    let read = Events::read(Path::new("r.csv"), rows.as_bytes(), Path::new("r.json"), about).unwrap();
    let score = Recorded::IoMax.score(&read, None).unwrap();
    assert_eq!((score.verdicts, score.first_difference), (9, None));
}

#[test]
fn controllers_beside_a_scheduler_are_a_list_of_names() {
    let of = |text: &str| Recorded::beside_scheduler(&serde_json::from_str(text).unwrap());
    assert_eq!(of("{}").unwrap(), []);
    let both = of(r#"{"controllers":["io.max","wbt"]}"#).unwrap();
    assert_eq!(both, [Recorded::IoMax, Recorded::Wbt]);
    assert!(of(r#"{"controllers":["magic"]}"#).unwrap_err().contains("expected wbt, io.max or io.cost"));
    assert!(of(r#"{"controllers":"wbt"}"#).unwrap_err().contains("a list of names"));
}

/// Flushes without data have no place, and rows that name their group have a field more: the scheduler's reader takes both.
#[test]
fn a_recording_with_flushes_and_groups_is_one_of_its_scheduler_too() {
    let header = "ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu";
    let read = |rows: &str| {
        let about = br#"{"scheduler":"mq-deadline","kernel":"6.12"}"#;
        crate::Recording::read(Path::new("r.csv"), rows.as_bytes(), Path::new("r.json"), about)
    };
    let found =
        read(&format!("{header},group\n1,getrq,1,18446744073709551615,0,F,S,5,,0,a/x\n2,getrq,2,8,4096,R,,5,,0,\n"));
    assert_eq!(found.unwrap().rows.iter().map(|row| row.sector).collect::<Vec<_>>(), [0, 8]);
    let short = read(&format!("{header},group\n1,getrq,1,8,4096,R,,5,,0\n")).err().unwrap().to_string();
    assert!(short.contains("line 2") && short.contains("expected 11 fields, found 10"), "{short}");
}
