//! Several scenarios in one comparison, suites, scenarios by name, and going on with a result.

use serde_json::Value;

use crate::common::{ok, refused};

/// Short runs on a fast device.
const QUICK: [&str; 10] =
    ["--duration", "20ms", "--warmup", "0ms", "-d", "ull:optane-900p", "-s", "none,kyber", "-r", "2"];

fn quick<'a>(input: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["compare"], input, &QUICK[..], more].concat()
}

#[test]
fn several_scenarios_give_one_table() {
    let dir = tempfile::tempdir().unwrap();
    let tables = dir.path().join("tables");
    let json = dir.path().join("r.json");
    let (tables, json) = (tables.to_str().unwrap(), json.to_str().unwrap());
    let told = ok(&quick(&["database", "noisy-neighbour"], &["--json", json, "--parquet", tables]));
    for part in ["database", "noisy-neighbour", "geometric mean", "wins/ties/losses"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let found: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(found["runs"].as_array().unwrap().len(), 2 * 2 * 2);
    let suite = &found["suite"];
    assert_eq!(suite["lines"].as_array().unwrap().len(), 2);
    for total in suite["totals"].as_array().unwrap() {
        let count = |key: &str| total[key].as_u64().unwrap();
        assert_eq!(count("wins") + count("ties") + count("losses"), 2, "{total}");
        assert!(total["times_worse"].as_f64().is_none_or(|times| times >= 1.0), "{total}");
    }
    let sentence = found["suite_verdict"]["by_class"][0]["sentence"].as_str();
    let sentence = sentence.or_else(|| found["suite_verdict"]["sentence"].as_str()).unwrap();
    assert!(sentence.contains(" of drive, "), "{sentence}");
    // Each scenario has the verdict that it has alone.
    let alone: Value = serde_json::from_str(&ok(&quick(&["database"], &["--json", "-"]))).unwrap();
    let line = &suite["lines"][0];
    assert_eq!(line["recommended"], alone["verdict"]["ull:optane-900p"]["recommended"]);
    assert_eq!(line["confidence"], alone["verdict"]["ull:optane-900p"]["confidence"]);
    let runs = std::fs::read(std::path::Path::new(tables).join("runs.parquet")).unwrap();
    assert!(runs.windows(8).any(|bytes| bytes == b"scenario"));
    assert!(ok(&["report", json, "--format", "markdown"]).contains("| database |"));
}

#[test]
fn suites_run_on_drives_that_are_partly_full() {
    let told = ok(&quick(&["suite:kv-store"], &["--json", "-"]));
    let found: Value = serde_json::from_str(&told).unwrap();
    let lines = found["suite"]["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 3 * 4);
    let fills: Vec<u64> = lines.iter().filter_map(|line| line["fill_percent"].as_u64()).collect();
    assert!([10, 50, 90].iter().all(|fill| fills.iter().filter(|f| *f == fill).count() == 4), "{fills:?}");
    refused(&["compare", "suite:desktp"], &["did you mean `suite:desktop`?"]);
    refused(&["compare", "suite:desktop", "database"], &["one suite alone"]);
    refused(&["compare", "databse"], &["did you mean `database`?"]);
}

#[test]
fn the_suite_of_isolation_says_what_its_page_says() {
    let stacks = "none,none+io.max=25%,mq-deadline+io.prio.class,bfq";
    let args = ["compare", "suite:isolation", "--schedulers", stacks, "-r", "1", "--duration", "300ms", "--json", "-"];
    let found: Value = serde_json::from_str(&ok(&args)).unwrap();
    let rows = found["isolation"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["scheduler"].as_str().unwrap()).collect::<Vec<_>>().len(), 4);
    let of = |stack: &str| rows.iter().find(|row| row["scheduler"] == stack).unwrap();
    let figure = |stack: &str, path: &str| of(stack).pointer(path).and_then(Value::as_f64).unwrap();
    // Limits keep any share of what is given away, and nobody gets what another leaves.
    assert!(figure("none+io.max=25%", "/share_error/0") < 0.03 && figure("none", "/share_error/0") > 0.2);
    assert!((0.2..0.35).contains(&figure("none+io.max=25%", "/front/0/throughput")));
    // Classes and bfq: nearly the latency of an idle drive, for nearly all of it.
    for stack in ["mq-deadline+io.prio.class", "bfq"] {
        assert!(figure(stack, "/front/0/p99_us") < 0.1 * figure("none", "/front/0/p99_us"), "{stack}");
        assert!(figure(stack, "/front/1/throughput") < 0.2, "{stack}");
    }
    assert!(of("mq-deadline+io.prio.class")["front"][0]["is_on_front"].as_bool().unwrap());
    assert!(figure("bfq", "/alone_cpu_us") > figure("none", "/alone_cpu_us"));
}

#[test]
fn a_result_can_be_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.json");
    let json = path.to_str().unwrap();
    for input in [&["database"][..], &["database", "noisy-neighbour"]] {
        let whole = ok(&quick(input, &["--json", "-"]));
        let mut part: Value = serde_json::from_str(&whole).unwrap();
        let runs = part["runs"].as_array_mut().unwrap();
        // Restored runs are not made again: a mark in one stays.
        runs.truncate(3);
        runs[0]["seed"] = 4242.into();
        std::fs::write(&path, part.to_string()).unwrap();
        let found: Value = serde_json::from_str(&ok(&quick(input, &["--json", "-", "--resume", json]))).unwrap();
        let whole: Value = serde_json::from_str(&whole).unwrap();
        let seeds =
            |of: &Value| of["runs"].as_array().unwrap().iter().map(|run| run["seed"].clone()).collect::<Vec<_>>();
        assert_eq!(found["runs"].as_array().unwrap().len(), whole["runs"].as_array().unwrap().len());
        assert_eq!(seeds(&found)[0], 4242);
        assert_eq!(seeds(&found)[1..], seeds(&whole)[1..]);
    }
    refused(&quick(&["noisy-neighbour", "nvme-random"], &["--resume", json]), &["another scenario"]);
    refused(&quick(&["noisy-neighbour"], &["--resume", json]), &["another scenario"]);
    ok(&quick(&["database"], &["--json", json]));
    let elsewhere =
        ["compare", "database", "--duration", "20ms", "--warmup", "0ms", "-d", "ssd:850pro-256", "--resume", json];
    refused(&elsewhere, &["no run of this comparison: its devices are ull:optane-900p, its schedulers kyber, none"]);
}
