//! The command as users and scripts meet it: exit codes, messages, JSON keys, files.

use std::path::{Path, PathBuf};
use std::process::Command;

use dumbwaiter_testkit::program;
use serde_json::Value;

use crate::common::{dumbwaiter, ok, refused, text};

fn file(dir: &tempfile::TempDir, name: &str, content: &[u8]) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

const SMALL: &str = r#"
name = "small"
duration = "50ms"
devices = ["ull:optane-900p", "null:0us"]
schedulers = ["none", "mq-deadline:fifo_batch=4"]
replicates = 2
[[tenant]]
name = "one"
weight = 100
[[tenant.task]]
name = "t"
rw = "randrw"
iodepth = 4
[[tenant]]
name = "two"
weight = 300
[[tenant.task]]
name = "t"
rw = "randread"
iodepth = 4
"#;

#[test]
fn compare_json_has_the_keys_that_scripts_rely_on() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = file(&dir, "small.toml", SMALL.as_bytes());
    let json: Value = serde_json::from_str(&ok(&["compare", &scenario, "--json", "-"])).unwrap();
    assert!(json["scenario"].is_object());
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * 2 * 2);
    let run = &runs[0];
    for key in [
        "device",
        "scheduler",
        "replicate",
        "seed",
        "requests",
        "completed",
        "duration_s",
        "iops",
        "mb_per_s",
        "latency_us",
        "read",
        "write",
        "tenants",
        "fairness",
        "cpu",
        "series",
    ] {
        assert!(!run[key].is_null(), "{key}");
    }
    for place in ["latency_us", "read", "write"] {
        for key in ["mean", "p50", "p95", "p99", "p99_9", "max", "stddev"] {
            assert!(run[place][key].is_number(), "{place}.{key}");
        }
    }
    let tenants = run["tenants"].as_array().unwrap();
    assert_eq!(tenants.len(), 2);
    for key in ["name", "weight", "share", "iops", "mb_per_s", "latency_us"] {
        assert!(!tenants[1][key].is_null(), "tenants.{key}");
    }
    assert_eq!(tenants[1]["weight"], 300);
    assert!(run["fairness"]["pv"].is_number() && run["fairness"]["jain"].is_number());
    assert_eq!(json["ranking"].as_array().unwrap().len(), 4, "one row a device and scheduler");
}

#[test]
fn results_do_not_depend_on_the_number_of_workers_or_on_repetition() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = file(&dir, "small.toml", SMALL.as_bytes());
    let one = ok(&["compare", &scenario, "--jobs", "1", "--json", "-"]);
    assert_eq!(one, ok(&["compare", &scenario, "--jobs", "4", "--json", "-"]));
    assert_eq!(one, ok(&["compare", &scenario, "--json", "-"]));
}

#[test]
fn a_comparison_prints_a_table_and_writes_all_files() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = file(&dir, "small.toml", SMALL.as_bytes());
    let at = |name: &str| dir.path().join(name);
    let printed = ok(&[
        "compare",
        &scenario,
        "--json",
        at("a.json").to_str().unwrap(),
        "--html",
        at("a.html").to_str().unwrap(),
        "--parquet",
        at("tables").to_str().unwrap(),
    ]);
    assert!(printed.contains("mq-deadline:fifo_batch=4") && printed.contains("null:0us: "), "{printed}");
    let html = std::fs::read_to_string(at("a.html")).unwrap();
    assert!(html.contains("small") && html.len() > 100_000);
    assert!(at("a.json").is_file() && at("tables/runs.parquet").is_file());
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|n| !n.to_string_lossy().ends_with(".part")), "{left:?}");
}

#[test]
fn scenarios_that_cannot_be_are_refused_with_line_key_and_value() {
    let dir = tempfile::tempdir().unwrap();
    let case = |change: (&str, &str), parts: &[&str]| {
        let path = file(&dir, "bad.toml", SMALL.replacen(change.0, change.1, 1).as_bytes());
        refused(&["compare", &path], parts);
    };
    case(("duration", "durration"), &["bad.toml", "durration"]);
    case(("\"50ms\"", "\"50 parsecs\""), &["50 parsecs"]);
    case(("\"none\"", "\"nonne\""), &["nonne", "none"]);
    case(("fifo_batch=4", "fifo_batch=-4"), &["fifo_batch", "-4", "0 to"]);
    case(("fifo_batch=4", "fifo_bach=4"), &["fifo_bach", "fifo_batch"]);
    case(("optane-900p", "optane-9000p"), &["optane-9000p", "optane-900p"]);
    case(("weight = 100", "weight = -5"), &["weight", "-5"]);
    case(("weight = 100", "weight = 0"), &["weight", "0"]);
    case(("iodepth = 4", "iodepth = 0"), &["iodepth", "0"]);
    case(("replicates = 2", "replicates = 0"), &["replicates"]);
    case(("replicates = 2", "replicates = 100000000"), &["replicates", "100000000", "10000"]);
    case(("name = \"two\"", "name = \"one\""), &["one"]);
    case(("[[tenant]]", "[[tenant"), &["bad.toml"]);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let dir = tempfile::tempdir().unwrap();
    refused(&["compare", "no-such-file"], &["no-such-file"]);
    refused(&["compare", dir.path().to_str().unwrap()], &["folder"]);
    let empty = file(&dir, "empty", b"");
    refused(&["compare", &empty], &["empty"]);
    refused(&["trace", "stat", &empty], &["empty"]);
    let garbage: Vec<u8> = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let garbage = file(&dir, "garbage", &garbage);
    refused(&["trace", "stat", &garbage], &["garbage"]);
    refused(&["compare", &garbage], &["garbage"]);
    refused(&["fidelity", &garbage], &["garbage"]);
    let packed = zstd::encode_all(&b"1.0,2,3\n".repeat(10_000)[..], 3).unwrap();
    let cut = file(&dir, "cut.zst", &packed[..packed.len() / 2]);
    refused(&["trace", "stat", &cut], &["cut.zst"]);
}

#[test]
fn a_fio_job_runs_and_a_wrong_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let job = "[global]\nioengine=libaio\ndirect=1\nruntime=50ms\ntime_based\ngroup_reporting\n[r]\nrw=randread\nbs=4k\niodepth=8\n[w]\nrw=randwrite\nbs=16k\niodepth=4\nprioclass=3\n";
    let path = file(&dir, "job.fio", job.as_bytes());
    let json: Value = serde_json::from_str(&ok(&[
        "compare",
        &path,
        "--device",
        "ull:optane-900p",
        "--schedulers",
        "none,kyber",
        "--replicates",
        "1",
        "--json",
        "-",
    ]))
    .unwrap();
    let tasks: Vec<&str> =
        json["runs"][0]["tasks"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert!(tasks.contains(&"r") && tasks.contains(&"w"), "{tasks:?}");
    let wrong = file(&dir, "wrong.fio", job.replace("iodepth=4", "iodeph=4").as_bytes());
    refused(&["compare", &wrong], &["wrong.fio", "iodeph", "iodepth"]);
}

#[test]
fn a_trace_is_counted_converted_and_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let rows: String = (0..2000)
        .map(|i| format!("{}.{:03} 0 {} {} {}\n", i / 10, i % 10 * 100, (i * 7919 % 5000) * 4096, 4096, i % 3 % 2))
        .collect();
    let trace = file(&dir, "a.trace", rows.as_bytes());
    let stat: Value =
        serde_json::from_str(&ok(&["trace", "stat", &trace, "--format", "msr-cut", "--json", "-"])).unwrap();
    for key in [
        "format",
        "records",
        "reads",
        "writes",
        "bytes",
        "duration_s",
        "mean_read_bytes",
        "mean_write_bytes",
        "sequential_share",
        "footprint_bytes",
        "skipped",
    ] {
        assert!(!stat[key].is_null(), "{key}");
    }
    assert_eq!((stat["records"].as_u64(), stat["reads"].as_u64()), (Some(2000), Some(667)));
    let columnar = dir.path().join("a.dwt");
    let columnar = columnar.to_str().unwrap();
    ok(&["trace", "convert", &trace, columnar, "--format", "msr-cut"]);
    let again: Value = serde_json::from_str(&ok(&["trace", "stat", columnar, "--json", "-"])).unwrap();
    for key in ["records", "reads", "bytes", "duration_s", "sequential_share", "footprint_bytes"] {
        assert_eq!(stat[key], again[key], "{key}");
    }
    assert!(ok(&["trace", "head", columnar, "-n", "3"]).lines().count() >= 4);
    for how in [&["--speed", "2"][..], &["--depth", "8"], &["--closed-per-task"]] {
        let mut args =
            vec!["compare", columnar, "--device", "ull:optane-900p", "--schedulers", "none,mq-deadline", "--json", "-"];
        args.extend(how);
        let json: Value = serde_json::from_str(&ok(&args)).unwrap();
        assert_eq!(json["runs"][0]["requests"], 2000, "{how:?}");
    }
}

#[test]
fn records_beyond_the_device_are_counted_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let rows: String =
        (0..100).map(|i| format!("{i},R,{},4096\n", u64::from(i % 2 == 0) * (1u64 << 50) + i * 4096)).collect();
    let trace = file(&dir, "far.csv", rows.as_bytes());
    let out = dumbwaiter(&[
        "compare",
        &trace,
        "--columns",
        "time_ms,op,offset_bytes,size_bytes",
        "--device",
        "null:0us",
        "--schedulers",
        "none",
        "--fit",
        "truncate",
    ]);
    let printed = text(&out.stdout);
    assert!(out.status.success() && printed.contains("50 of 100 records"), "{printed}{}", text(&out.stderr));
}

#[test]
fn a_device_that_no_record_reaches_is_not_recommended_for() {
    let dir = tempfile::tempdir().unwrap();
    let rows: String = (0..100u64).map(|i| format!("{i},R,{},4096\n", 500_000_000_000 + i * 4096)).collect();
    let trace = file(&dir, "far.csv", rows.as_bytes());
    let columns = "time_ms,op,offset_bytes,size_bytes";
    let args = |devices| {
        ["compare", &trace, "--columns", columns, "--schedulers", "none", "--fit", "truncate", "--device", devices]
    };
    refused(&args("ssd:850pro-256"), &["ssd:850pro-256", "no request", "100 records: beyond the device", "--fit"]);
    let printed = ok(&args("ssd:850pro-256,null:0us"));
    assert!(printed.contains("null:0us: ") && !printed.contains("\nssd:850pro-256: "), "{printed}");
    assert!(printed.contains("note: ssd:850pro-256: no request reached it"), "{printed}");
}

#[test]
fn a_run_that_ends_before_its_first_request_says_so() {
    let dir = tempfile::tempdir().unwrap();
    // The application begins at a second.
    let scenario = file(&dir, "app.toml", b"[[task]]\nname = \"t\"\napp = \"oowriter-like\"\n");
    let printed = ok(&["compare", &scenario, "--device", "null:0us", "--schedulers", "none", "--duration", "10ms"]);
    assert!(printed.contains("No I/O finished in the measured time"), "{printed}");
}

#[test]
fn options_that_only_a_trace_can_use_are_refused_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = file(&dir, "small.toml", SMALL.as_bytes());
    refused(&["compare", "--speed", "2"], &["--speed", "trace"]);
    refused(&["compare", &scenario, "--depth", "4"], &["--depth", "trace"]);
    refused(&["compare", &scenario, "--fit", "scale"], &["--fit", "trace"]);
}

#[test]
fn an_open_loop_that_the_device_cannot_follow_stays_bounded_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let rows: String = (0..90_000u64).map(|i| format!("{i},R,{},4096\n", i * 7919 % 90_000 * 4096)).collect();
    let trace = file(&dir, "fast.csv", rows.as_bytes());
    let printed = ok(&[
        "compare",
        &trace,
        "--columns",
        "time_us,op,offset_bytes,size_bytes",
        "--device",
        "hdd:st1000dm003",
        "--schedulers",
        "none",
    ]);
    assert!(printed.contains("issued late"), "{printed}");
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_any_work() {
    refused(&["compare", "--json", "/no-such-folder/a.json"], &["/no-such-folder/a.json"]);
    let dir = tempfile::tempdir().unwrap();
    refused(&["compare", "--html", dir.path().to_str().unwrap()], &["folder"]);
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    if !Path::new("/dev/full").exists() {
        println!("skipped: no /dev/full");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let scenario = file(&dir, "small.toml", SMALL.as_bytes());
    refused_after_work(&["compare", &scenario, "--json", "/dev/full"], &["/dev/full"]);
    // Outputs that can be written are written, the JSON before all else.
    let json = dir.path().join("r.json");
    refused_after_work(
        &["compare", &scenario, "--html", "/dev/full", "--json", json.to_str().unwrap()],
        &["/dev/full"],
    );
    assert!(json.exists());
}

fn refused_after_work(args: &[&str], parts: &[&str]) {
    let out = dumbwaiter(args);
    let message = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{message}");
    for part in parts {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn wrong_flags_are_refused() {
    refused(&["compare", "--device", "floppy"], &["floppy"]);
    refused(&["compare", "--schedulers", "cfq2"], &["cfq2", "known:"]);
    refused(&["compare", "--jobs", "0"], &["jobs"]);
    refused(&["compare", "--duration", "yesterday"], &["yesterday"]);
    refused(&["compare", "--queue-depth", "0"], &["queue_depth"]);
    refused(&["devices", "validate", "hdd:none-such"], &["none-such"]);
    refused(&["schedulers", "elevator"], &["elevator"]);
    assert_eq!(dumbwaiter(&["compare", "--no-such-flag"]).status.code(), Some(2));
}

#[test]
fn lists_manuals_completions_and_man_pages_are_there() {
    for entry in ["none", "noop", "deadline", "mq-deadline", "kyber", "sstf", "c-look"] {
        assert!(ok(&["schedulers"]).contains(entry));
        assert!(ok(&["schedulers", entry]).contains("When not"), "{entry}");
    }
    assert!(ok(&["devices"]).contains("hdd:st1000dm003"));
    assert!(ok(&["devices", "show", "hdd:st1000dm003"]).contains("rpm"));
    assert!(ok(&["completions", "bash"]).contains("_dumbwaiter"));
    assert!(ok(&["man"]).contains(".TH"));
    assert!(ok(&["trace", "formats"]).contains("blkparse"));
    let dir = tempfile::tempdir().unwrap();
    ok(&["man", "--dir", dir.path().to_str().unwrap()]);
    assert!(dir.path().join("dumbwaiter-compare.1").is_file());
}

#[test]
fn an_interrupt_ends_with_what_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("part.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_dumbwaiter"))
        .args(["compare", "--device", "null:0us,ull:optane-900p", "--duration", "1h", "--schedulers", "none,kyber"])
        .args(["--replicates", "1", "--jobs", "1", "--json", json.to_str().unwrap()])
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    program::interrupt(&mut child, "INT");
    let out = child.wait_with_output().unwrap();
    let message = text(&out.stderr);
    // An hour of a null device is not simulated at once: nothing was finished, and that is said.
    assert!(message.contains("interrupted"), "{message}");
    assert!(matches!(out.status.code(), Some(2 | 130)), "{:?}", out.status);
    assert!(!json.exists());
}

fn shared() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    path.is_dir().then_some(path)
}

#[test]
fn fidelity_json_has_the_keys_that_checks_use() {
    let Some(shared) = shared() else {
        println!("skipped: no shared data");
        return;
    };
    let at = |name: &str| shared.join("kernel-dispatch").join(name).display().to_string();
    let (kyber, bfq) = (at("kyber-merges.csv.zst"), at("bfq-bursts.csv.zst"));
    let json: Value = serde_json::from_str(&ok(&["fidelity", &kyber, &bfq, "--json", "-"])).unwrap();
    let first = &json["files"][0];
    for key in [
        "file",
        "scheduler",
        "kernel",
        "calls",
        "call_agreement",
        "dispatch_agreement",
        "none_agreement",
        "choice_calls",
        "choice_agreement",
        "identical_share",
        "kendall_tau_distance",
        "mean_displacement",
        "missing",
        "extra",
    ] {
        assert!(!first[key].is_null(), "{key}");
    }
    assert!(first.get("first_difference").is_some());
    let summary = json["summary"].as_array().unwrap();
    assert!(summary.iter().any(|s| s["scheduler"] == "kyber" && s["worst"].as_f64() >= Some(0.995)));
    assert!(summary.iter().all(|s| s["pooled"].as_f64() >= Some(0.99) && s["trivial"] == false), "{summary:?}");
    if dumbwaiter(&["schedulers", "bfq"]).status.code() == Some(2) {
        assert_eq!(json["files"][1]["unsupported"], true);
    }
}

#[test]
fn the_closed_loop_lists_what_it_compared_and_why_not_the_rest() {
    let Some(shared) = shared() else {
        println!("skipped: no shared data");
        return;
    };
    let at = |name: &str| shared.join("kernel-dispatch").join(name).display().to_string();
    let (kyber, scsi) = (at("kyber-merges.json"), at("bfq-weights-scsi.csv.zst"));
    let out = dumbwaiter(&["fidelity", "--closed-loop", &kyber, &scsi, "--json", "-"]);
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json.as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!((&json[0]["file"], &json[0]["scheduler"]), (&"kyber-merges.json".into(), &"kyber".into()));
    for key in ["mb_ratio", "mean_ratio", "p95_ratio", "share_error"] {
        assert!(json[0][key].is_f64(), "{key}");
    }
    let said = text(&out.stderr);
    assert!(said.contains("bfq-weights-scsi.csv.zst: its device is scsi_debug, not null_blk"), "{said}");
    let said = ok(&["fidelity", "--closed-loop", &kyber, &scsi]);
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    assert!(said.contains("1 of 1 recordings of schedulers agree"), "{said}");
    refused(&["fidelity", "--closed-loop", "--explain", "1", &kyber], &["--explain"]);
    refused(&["fidelity", "--closed-loop", "missing.json"], &["missing.json"]);
    let itself = ok(&["fidelity", "--closed-loop", &kyber, &scsi, "--against", &at("")]);
    assert!(itself.contains("2 of 2 recordings of schedulers agree"), "{itself}");
    refused(&["fidelity", &kyber, "--against", &at("")], &["--closed-loop"]);
}

#[test]
fn a_recording_is_refused_before_anything_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let plain = file(&dir, "plain", b"no device");
    let output = dir.path().join("out.dwt").to_str().unwrap().to_owned();
    refused(&["record", &plain, "-o", &output], &["plain", "is a file", "block device"]);
    refused(&["record", "/dev/null", "-o", &output], &["/dev/null", "block device"]);
    refused(&["record", "/dev/nowhere", "-o", &output], &["/dev/nowhere", "No such file"]);
    refused(&["record", &plain, "-o", "out.unknown"], &["out.unknown", ".dwt"]);
    refused(&["record", &plain, "-o", &output, "--for", "soon"], &["--for", "soon"]);
    refused(&["record", &plain], &["--output"]);
    assert!(!Path::new(&output).exists());
}

#[test]
fn reproduced_rows_are_a_list_with_the_keys_that_checks_use() {
    let rows: Value = serde_json::from_str(&ok(&["reproduce", "poll-2022:table-1", "--quick", "--json", "-"])).unwrap();
    let rows = rows.as_array().expect("a list");
    assert_eq!(rows.len(), 12);
    let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    let expected = [
        "calibrated",
        "case",
        "figure",
        "fitted",
        "judged",
        "metric",
        "ordering_holds",
        "ours",
        "paper",
        "paper_value",
        "place",
        "statement",
        "status",
        "unit",
        "within_tolerance",
    ];
    assert_eq!(keys, expected);
    assert_eq!((&rows[0]["statement"], &rows[0]["place"]), (&"poll-2022/tab1-1".into(), &"table 1".into()));
    let counts: Value = serde_json::from_str(&ok(&["reproduce", "list", "--json", "-"])).unwrap();
    let count = counts.as_array().expect("a list").iter().find(|count| count["paper"] == "bfq-2015").unwrap();
    let of = |key: &str| count[key].as_u64().unwrap();
    assert_eq!(of("holds") + of("fails") + of("cannot"), of("statements"), "{count}");
    assert!(of("statements") >= 120 && of("fitted") > 0, "{count}");
    let cannot: Value = serde_json::from_str(&ok(&["reproduce", "bfq-2015:not-modelled", "--json", "-"])).unwrap();
    assert!(cannot.as_array().unwrap().iter().all(|row| row["status"] == "cannot" && row["reason"].is_string()));
    refused(&["reproduce", "bfq-2014"], &["bfq-2014", "bfq-2015"]);
}

#[test]
fn control_characters_from_files_are_shown_and_not_sent_to_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let hostile = "x\\u001b]0;owned\\u0007\\u009b31m\\u202e";
    let scenario = SMALL.replace("name = \"small\"", &format!("name = \"{hostile}\""));
    let scenario = scenario.replace("name = \"one\"", &format!("name = \"{hostile}\""));
    let name = "evil\x1b[31m\u{202e}.toml";
    let evil = file(&dir, name, scenario.as_bytes());
    let broken = file(&dir, "\x1b[2Jbroken.toml", b"name = 3");
    let trace = file(&dir, "\x1b[2J.csv", b"\x1b[2J,\x07\n1,2\n");
    let recording = file(&dir, "rows\x1b[2J.csv", b"ts_ns,event,req,sector,bytes,op,flags,pid,ioprio,cpu\n0,\x1b,x\n");
    let about = "{\"scheduler\": \"\\u001b[2Jcfq\", \"kernel\": \"6\\u001b[2J\"}";
    file(&dir, "rows\x1b[2J.json", about.as_bytes());
    let missing = format!("{}/\x1b[31mmissing", dir.path().display());
    let calls: [&[&str]; 8] = [
        &["compare", &evil, "--duration", "10ms"],
        &["compare", &evil, "--duration", "10ms", "--json", "-"],
        &["compare", &broken],
        &["compare", &trace],
        &["trace", "stat", &trace],
        &["fidelity", &recording],
        &["fidelity", &missing],
        &["compare", &evil, "--html", &missing, "--json", &missing],
    ];
    let unsafe_char = |c: &char| (c.is_control() && *c != '\n') || ('\u{202a}'..='\u{202e}').contains(c);
    for args in calls {
        for colour in [false, true] {
            let mut command = crate::common::command();
            if colour {
                command.env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR");
            }
            let out = command.args(args).output().unwrap();
            for said in [text(&out.stdout), text(&out.stderr)] {
                let plain = said.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "");
                assert!(plain.chars().all(|c| !unsafe_char(&c)), "{args:?}: {said:?}");
            }
            // The first prints no names.
            let said = text(&out.stdout) + &text(&out.stderr);
            let shown = ["\\u001b", "\\u{1b}", "\\x1b"].iter().any(|form| said.contains(form));
            assert!(shown || args == calls[0], "{args:?}: {said}");
        }
    }
}

#[test]
fn a_link_at_an_outputs_name_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = file(&dir, "small.toml", SMALL.as_bytes());
    let victim = file(&dir, "victim", b"precious");
    let link = dir.path().join("link").to_str().unwrap().to_owned();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    for flag in ["--json", "--html"] {
        refused(&["compare", &scenario, flag, &link], &["cannot write", "it is a symbolic link to", "victim"]);
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
}

/// Each command stands in one group of `--help`, and each group's line fits a terminal.
#[test]
fn help_lists_every_command_in_one_of_four_groups() {
    let help = ok(&["--help"]);
    for group in ["Decide:", "Look:", "Run:", "Build:"] {
        assert!(help.lines().any(|line| line == group), "{help}");
    }
    let listed = |line: &&str| line.starts_with("  ") && line.chars().nth(2).is_some_and(|c| c.is_ascii_lowercase());
    let (groups, _) = help.split_once("Options:").unwrap();
    let names: Vec<&str> = groups.lines().filter(listed).map(|line| line.split_whitespace().next().unwrap()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len(), "{names:?}");
    let scripts = ok(&["completions", "bash"]);
    for name in &names {
        assert!(scripts.contains(&format!("dumbwaiter,{name})")), "{name}");
        ok(&[name, "--help"]);
    }
    assert_eq!(names.len(), 20, "{names:?}");
    assert!(groups.lines().all(|line| line.chars().count() <= 80), "{groups}");
}

#[test]
fn older_spellings_work_and_name_the_new_ones() {
    let cases: [(&[&str], &str); 3] = [
        (&["devices", "--show", "hdd:st1000dm003"], "devices --show is now devices show"),
        (&["diff", "nowhere.json", "nowhere.json"], "diff is now report diff"),
        (&["top", "--once", "--control", "/no/such/socket"], "top is now ctl top"),
    ];
    for (args, told) in cases {
        let done = dumbwaiter(args);
        assert!(String::from_utf8_lossy(&done.stderr).contains(told), "{args:?}");
    }
    let show = |args: &[&str]| dumbwaiter(args).stdout;
    assert_eq!(show(&["devices", "--show", "ull:optane-900p"]), show(&["devices", "show", "ull:optane-900p"]));
}
