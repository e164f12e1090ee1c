//! The verdict from outside: its contract in JSON, the first screen, `report`, `diff`.

use std::path::Path;

use serde_json::Value;

use crate::common::{dumbwaiter, file, json};

const LOADED: &str = r#"
name = "loaded"
duration = "200ms"
warmup = "20ms"
devices = ["ssd:850pro-256"]
schedulers = ["none", "mq-deadline", "kyber", "headway"]
replicates = 3
[[tenant]]
name = "user"
focus = true
[[tenant.task]]
name = "reads"
rw = "randread"
[[tenant]]
name = "backup"
[[tenant.task]]
name = "writes"
rw = "randwrite"
bs = "64k"
iodepth = 32
"#;

fn ok(args: &[&str]) -> String {
    let out = dumbwaiter(args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Runs a scenario; the path of its results.
fn compared(dir: &Path, name: &str, more: &[&str]) -> String {
    let scenario = file(dir, "loaded.toml", LOADED.as_bytes());
    let path = dir.join(name).to_str().unwrap().to_owned();
    ok(&[&["compare", &scenario, "--json", &path], more].concat());
    path
}

#[test]
fn the_json_has_a_verdict_for_each_device_and_says_where_it_comes_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = compared(dir.path(), "a.json", &["--jobs", "1", "--wide"]);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.trim_start_matches(['{', ' ', '\n']).starts_with("\"schema\": 2"), "schema is first");
    let result = json(Path::new(&path));
    let verdict = &result["verdict"]["ssd:850pro-256"];
    let confidence = verdict["confidence"].as_str().unwrap();
    assert!(["clear", "likely", "open"].contains(&confidence), "{confidence}");
    for key in ["because", "decided_by", "certainty", "pool_rule"] {
        assert!(verdict[key].is_string(), "{key}");
    }
    let pool: Vec<&str> = verdict["pool"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
    assert!(!pool.is_empty() && !pool.contains(&"headway"), "only what can be set competes: {pool:?}");
    let apply = verdict["apply"].as_array().unwrap();
    assert_eq!(verdict["recommended"].is_null(), apply.is_empty());
    assert_eq!(apply.is_empty(), verdict["undo"].as_array().unwrap().is_empty());
    if let Some(name) = verdict["recommended"].as_str() {
        assert!(pool.contains(&name) && apply[0] == format!("echo {name} | sudo tee /sys/block/sdX/queue/scheduler"));
    }
    let provenance = &result["provenance"];
    assert!(provenance["version"].is_string() && provenance["machine"].is_null() && provenance["drive"].is_null());
    let command = provenance["command"].as_str().unwrap();
    assert!(command.starts_with("dumbwaiter compare ") && !command.contains("--jobs"), "{command}");
    // The format of the output and the number of concurrent runs change no byte.
    let again = compared(dir.path(), "b.json", &["--jobs", "2", "--format", "csv"]);
    assert_eq!(text, std::fs::read_to_string(again).unwrap());
}

#[test]
fn a_task_may_be_what_decides() {
    let dir = tempfile::tempdir().unwrap();
    let tasks = LOADED
        .replace("[[tenant]]\nname = \"user\"\nfocus = true\n[[tenant.task]]\n", "[[task]]\nfocus = true\n")
        .replace("[[tenant]]\nname = \"backup\"\n[[tenant.task]]\n", "[[task]]\n");
    let path = dir.path().join("r.json");
    let printed = ok(&["compare", &file(dir.path(), "tasks.toml", tasks.as_bytes()), "--json", path.to_str().unwrap()]);
    assert!(printed.contains("reads p99"), "{printed}");
    let result = json(&path);
    let run = &result["runs"][0];
    assert_eq!((run["tenants"].as_array().unwrap().len(), &run["focus_tasks"]["names"][0]), (1, &"reads".into()));
    let front = &result["verdict"]["ssd:850pro-256"]["frontier"][0];
    let of = |run: &&Value| run["scheduler"] == front["scheduler"];
    let n: Vec<u64> = result["runs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(of)
        .map(|run| run["focus_tasks"]["samples"].as_u64().unwrap())
        .collect();
    assert!(
        n.contains(&front["focus_requests"].as_u64().unwrap_or(front["focus_requests"].as_f64().unwrap() as u64)),
        "{n:?} {front}"
    );
    // What was written is read again.
    assert!(ok(&["report", path.to_str().unwrap()]).contains("reads p99"));
}

#[test]
fn how_long_write_back_takes_decides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[builder]\nrw=randwrite\nbs=8k\ndirect=0\nend_fsync=1\nsize=2g\nruntime=3\ntime_based\n";
    let path = dir.path().join("r.json");
    let job = file(dir.path(), "build.fio", text.as_bytes());
    let printed = ok(&["compare", &job, "-d", "ssd:850pro-256", "--json", path.to_str().unwrap()]);
    assert!(printed.starts_with("ssd:850pro-256: keep mq-deadline"), "{printed}");
    let said = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("But nobody waits for what is written back, so latency does not count."), "{printed}");
    let result = json(&path);
    let p99 = |name: &str| {
        let run = result["runs"].as_array().unwrap().iter().find(|run| run["scheduler"] == name).unwrap();
        assert!(
            run["waited"]["count"].as_u64().unwrap() <= run["other"]["count"].as_u64().unwrap(),
            "{}",
            run["waited"]
        );
        run["latency_us"]["p99"].as_f64().unwrap()
    };
    // That alone would be worth a change.
    assert!(p99("none") < 0.7 * p99("mq-deadline"));
    let verdict = &result["verdict"]["ssd:850pro-256"];
    let front = &verdict["frontier"];
    assert!(front[1]["focus_mean_us"].is_null() && front[1]["latency_change"] == 0.0, "{front}");
    assert!(!printed.contains("starved") && !printed.contains("mean") && !printed.contains(" n "), "{printed}");
    // A log that is synced is waited for, however seldom it gets through.
    let log = "\n[log]\nrw=write\nbs=16k\ndirect=0\nfdatasync=1\nrate_iops=2\nsize=1g\nruntime=3\ntime_based\n";
    let both = file(dir.path(), "both.fio", format!("{text}{log}").as_bytes());
    let printed = ok(&["compare", &both, "-d", "ssd:850pro-256"]);
    assert!(!printed.contains("nobody waits") && !printed.contains("all requests"), "{printed}");
}

#[test]
fn the_first_screen_fits_80_columns() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = file(dir.path(), "loaded.toml", LOADED.as_bytes());
    let printed = ok(&["compare", &scenario]);
    let wide: Vec<&str> = printed.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty() && printed.starts_with("ssd:850pro-256: "), "{printed}");
    assert!(printed.contains("headway †") && printed.contains("(headway is ours)"), "{printed}");
    let all = ok(&["compare", &scenario, "--wide"]);
    assert!(all.lines().any(|line| line.chars().count() > 80) && all.contains("PV"), "{all}");
}

#[test]
fn a_result_is_shown_again_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let path = compared(dir.path(), "a.json", &[]);
    let again = ok(&["report", &path, "--format", "json"]);
    assert_eq!(again, std::fs::read_to_string(&path).unwrap());
    let markdown = ok(&["report", &path, "--format", "markdown"]);
    assert!(markdown.starts_with("## ssd:850pro-256: ") && markdown.contains("\n| scheduler |"), "{markdown}");
    let csv = ok(&["report", &path, "--format", "csv"]);
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().count() == 5 && csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
    assert!(ok(&["report", &path]).starts_with("ssd:850pro-256: "));
    let out = dumbwaiter(&["compare", "--format", "yaml"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("`yaml` is not a format of results: table, csv, markdown"));
    let binary = file(dir.path(), "b.json", &[0xff, 0xfe, 0, 1]);
    let out = dumbwaiter(&["report", &binary]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("is not a result of `compare --json`"), "{out:?}");
    let out = dumbwaiter(&["report", &path, "--format", "yaml"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("expected table, csv, markdown, json, udev, nixos"));
    let rule = ok(&["report", &path, "--format", "udev"]);
    assert!(rule.starts_with("# ssd:850pro-256: ") && !rule.contains("sudo"), "{rule}");
}

#[test]
fn two_results_are_compared_scheduler_by_scheduler() {
    let dir = tempfile::tempdir().unwrap();
    let a = compared(dir.path(), "a.json", &[]);
    let b = compared(dir.path(), "b.json", &["--device", "hdd:st1000dm003"]);
    let same: Value = serde_json::from_str(&ok(&["report", "diff", &a, &a, "--json", "-"])).unwrap();
    assert_eq!(same["schema"], 1);
    let all = same["differences"].as_array().unwrap();
    assert!(!all.is_empty() && all.iter().all(|d| d["verdict"] == "no-difference" && d["effect"] == 0.0), "{all:?}");
    let drives: Value = serde_json::from_str(&ok(&["report", "diff", &a, &b, "--json", "-"])).unwrap();
    let rate = drives["differences"].as_array().unwrap().iter();
    let rate = rate.clone().find(|d| d["scheduler"] == "none" && d["metric"] == "mb_per_s").unwrap();
    assert_eq!((&rate["verdict"], &rate["device_b"]), (&Value::from("worse"), &Value::from("hdd:st1000dm003")));
    assert!(rate["effect"].as_f64().unwrap() < -0.5 && rate["ci95"][1].as_f64().unwrap() < 0.0, "{rate}");
    // What is set runs too, says so, and is compared.
    let scenario = file(dir.path(), "loaded.toml", LOADED.as_bytes());
    let told = ok(&["compare", &scenario, "--schedulers", "noop,deadline"]).replace("\n  ", " ");
    assert!(told.contains("note: mq-deadline runs too: the kernel sets it by itself on ssd:850pro-256"), "{told}");
    let other = compared(dir.path(), "c.json", &["--schedulers", "noop,deadline", "--incumbent", "noop"]);
    let out = dumbwaiter(&["report", "diff", &a, &other]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("nothing to compare"));
    let text = ok(&["report", "diff", &a, &b]);
    assert!(text.lines().all(|line| line.chars().count() <= 80) && text.contains("worse"), "{text}");
}

#[test]
fn replicates_are_added_until_it_is_settled() {
    let dir = tempfile::tempdir().unwrap();
    let path = compared(dir.path(), "a.json", &["--until", "30%", "--replicates", "2"]);
    let result = json(Path::new(&path));
    assert_eq!(
        (&result["until"]["within"], &result["until"]["error_per_look"]),
        (&Value::from(0.3), &Value::from(0.01))
    );
    let looks = result["until"]["looks"].as_u64().unwrap();
    assert!((1..=5).contains(&looks));
    assert_eq!(result["runs"].as_array().unwrap().len() as u64, 4 * (2 << (looks - 1)));
    let out = dumbwaiter(&["compare", "--until", "often"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("--until: `often` is not a difference"));
}
