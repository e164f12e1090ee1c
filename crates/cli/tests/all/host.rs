//! Profiles of hosts: shown, changed, named by commands and scenarios, fitted.

use std::path::Path;

use serde_json::Value;

use crate::common::{dumbwaiter, ok, refused, text};

const SCENARIO: &str = r#"
duration = "20ms"
devices = ["null:0us?latency_ns=20000"]
schedulers = ["none"]
[host]
cpus = 2
profile = "own.toml"
[[task]]
name = "t"
rw = "randread"
iodepth = 64
"#;

fn cpu_us(args: &[&str]) -> (f64, Value) {
    let json: Value = serde_json::from_str(&ok(&[&["compare"], args, &["--json", "-"]].concat())).unwrap();
    (json["runs"][0]["cpu"]["us_per_io"].as_f64().unwrap(), json)
}

#[test]
fn a_profile_is_a_file_beside_its_scenario_or_an_argument() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let scenario = write("s.toml", SCENARIO);
    refused(&["compare", &scenario], &["own.toml: No such file"]);
    let own = write("own.toml", "base = \"icpe24\"\nname = \"own\"\nissue_ns = 5000\n");
    let (slow, json) = cpu_us(&[&scenario]);
    assert_eq!(json["scenario"]["host"]["profile"]["issue_ns"], 5000, "a result carries the costs of a file");
    let (fast, json) = cpu_us(&[&scenario, "--host", "icpe24"]);
    assert_eq!(json["scenario"]["host"]["profile"], "icpe24");
    assert!(slow - fast > 4.0, "{slow} us an I/O, and {fast} of the base");
    let whole = write("whole.toml", &ok(&["host", "show", "icpe24"]).replace("name = \"icpe24\"", "name = \"copy\""));
    assert_eq!(cpu_us(&[&scenario, "--host", &whole]).0, fast);
    let command = json["provenance"]["command"].as_str().unwrap();
    assert!(command.contains("--host icpe24"), "{command}");
    std::fs::write(&own, "base = \"icpe24\"\nsub_ns = -5\n").unwrap();
    refused(&["compare", &scenario], &["own.toml:2: sub_ns = -5: expected a whole number from 0 to 10000000"]);
    std::fs::write(&own, "base = \"icpe24\"\n[schedulers.bqf]\nread_ns = 1\nwrite_ns = 1\n").unwrap();
    refused(&["compare", &scenario], &["[schedulers.bqf]: no such scheduler; did you mean `bfq`?"]);
}

#[test]
fn the_list_names_all_and_a_fit_needs_what_it_names() {
    let list: Value = serde_json::from_str(&ok(&["host", "--json", "-"])).unwrap();
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|profile| profile["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["r230-5.18", "r230-5.15", "default", "icpe24", "laptop", "free"]);
    refused(&["host", "show", "mine"], &["mine: expected a shipped profile: r230-5.18,"]);
    refused(&["host", "fit", "--from", "no.csv", "-d", "null:0us"], &["no.csv: No such file"]);
    refused(&["host", "fit", "--length", "1ms"], &["--length 1ms: expected at least 100ms"]);
}

/// fio on a device of our own: the whole way, short. What it finds is not asserted, since it is a matter of timing.
#[test]
fn this_machine_is_measured_and_fitted() {
    let dir = tempfile::tempdir().unwrap();
    let (cases, found) = (dir.path().join("cases.csv"), dir.path().join("found.toml"));
    let [cases_path, found_path] = [&cases, &found].map(|path| path.to_str().unwrap());
    let devices = || std::fs::read_dir("/sys/block").into_iter().flatten().count();
    let before = devices();
    let fit = ["host", "fit", "--rounds", "1", "--length", "100ms", "--parameters", "work_percent"];
    let out = dumbwaiter(&[&fit[..], &["--save", cases_path]].concat());
    if !out.status.success() {
        eprintln!("skipped: {}", text(&out.stderr));
        return;
    }
    std::fs::write(&found, &out.stdout).unwrap();
    let file = text(&out.stdout);
    assert!(file.starts_with("# A host's costs, fitted by `dumbwaiter host fit`"), "{file}");
    let of =
        |line: &str| line.starts_with("# work_percent = ") || line == "# Not determined, as in default: work_percent";
    assert_eq!(file.lines().filter(|line| of(line)).count(), 1, "{file}");
    assert!(file.contains("# kept back  between randread depth=8 processes=1 kept back none"), "{file}");
    assert!(!file.lines().any(|line| line.starts_with("# fitted  ") && line.contains("kept back")), "{file}");
    let table = std::fs::read_to_string(&cases).unwrap();
    assert!(table.contains("sleeping,randread depth=1 processes=1,none,1,reads,randread,4k,1,1,"), "{table}");
    let (us, _) = cpu_us(&["nvme-random", "--host", found_path, "--duration", "20ms", "-s", "none"]);
    assert!(us > 0.0);
    assert!(
        Path::new("/dev/shm").read_dir().into_iter().flatten().flatten().all(|file| {
            !file.file_name().to_string_lossy().contains(&format!("dumbwaiter-{}-", std::process::id()))
        })
    );
    // A loop device may stay, detached; one of null_blk goes.
    assert!(devices() <= before + 1, "{before} disks before, {} after", devices());
}
