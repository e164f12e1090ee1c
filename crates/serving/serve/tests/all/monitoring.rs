//! The dashboard and the alert rules of the manual name only what a server exports.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dumbwaiter_linux::service::openmetrics::text_format;
use dumbwaiter_protocols::nbd::Command as NbdCommand;
use dumbwaiter_serve::openmetrics;

use crate::running::Running;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/monitoring")
}

fn read(name: &str) -> String {
    let path = folder().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// All words of a text that begin like a metric of ours.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("dumbwaiter_")).map(str::to_owned).collect()
}

/// Names of the samples, and of the labels, that a server exports.
fn exported() -> (BTreeSet<String>, BTreeSet<String>) {
    let running = Running::start("null", &["a"]);
    assert_eq!(running.connect("a").call(NbdCommand::Read, 0, 4096).0, 0);
    let text = openmetrics(&running.server().inspector().stats().unwrap(), 0);
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let name = |line: &&str| line.split(['{', ' ']).next().unwrap().to_owned();
    let labels = samples.iter().flat_map(|line| line.split(['{', ',']).filter_map(|part| part.split_once("=\"")));
    (samples.iter().map(name).collect(), labels.map(|(label, _)| label.to_owned()).collect())
}

#[test]
fn every_metric_of_the_dashboard_and_the_alerts_is_exported() {
    let (exported, labels) = exported();
    let board: serde_json::Value = serde_json::from_str(&read("grafana.json")).unwrap();
    let expressions: Vec<&str> = board["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    assert!(expressions.len() >= 15, "{expressions:?}");
    let alerts = read("alerts.yml");
    let rules = alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let queries = board["templating"]["list"].as_array().unwrap().iter().filter_map(|v| v["query"]["query"].as_str());
    for expression in expressions.into_iter().chain(rules).chain(queries) {
        let named = metrics_in(expression);
        assert!(!named.is_empty() || expression.starts_with("up{"), "{expression}");
        for metric in named {
            assert!(exported.contains(&metric), "{expression}: `{metric}` is not exported");
        }
        for group in expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next()) {
            for label in group.split(", ") {
                assert!(labels.contains(label), "{expression}: there is no label `{label}`");
            }
        }
    }
}

#[test]
fn prometheus_reads_the_rules_and_the_metrics() {
    if Command::new("promtool").arg("--version").output().is_err() {
        eprintln!("skipped: promtool is not installed");
        return;
    }
    let rules = folder().join("alerts.yml");
    let checked = Command::new("promtool").args(["check", "rules"]).arg(&rules).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    // It reads the older text format, and remarks on what is unusual.
    let running = Running::start("null", &["a"]);
    let text = text_format(&openmetrics(&running.server().inspector().stats().unwrap(), 0));
    let piped =
        || Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut checking = piped().unwrap();
    checking.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let checked = checking.wait_with_output().unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{}", String::from_utf8_lossy(&checked.stderr));
}
