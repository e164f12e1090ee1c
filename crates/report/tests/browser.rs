//! Opens a report in headless Chromium.

mod sample;

use dumbwaiter_advise::Document;
use dumbwaiter_advise::Goal;
use dumbwaiter_report::write_html;
use std::path::Path;
use std::process::Command;

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn document(schedulers: usize, replicates: u32) -> Document {
    let scenario = serde_json::json!({"name": "shared-disk", "duration_s": 20, "seed": 42});
    let versions = [("dumbwaiter".to_string(), "0.1.0".to_string())].into();
    Document::new("A shared disk", scenario, versions, sample::runs(schedulers, replicates), Goal::default())
}

/// What the browser prints: the page after its scripts ran, and its log.
fn open(browser: &str, page: &Path, more: &[&str]) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--v=0"])
        .args(["--virtual-time-budget=20000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(more)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_report_opens_without_a_console_error() {
    let works = |b: &&&str| Command::new(b).arg("--version").output().is_ok_and(|o| o.status.success());
    let Some(browser) = BROWSERS.iter().find(works) else {
        println!("skipped: no Chromium");
        eprintln!("skipped: no Chromium");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("report.html");
    // Five schedulers, one alone, nothing at all; 13 plots on each of two devices, and two maps of each scheduler.
    for (document, plots) in [(document(5, 3), 46), (document(1, 1), 30), (document(0, 0), 0)] {
        write_html(&document, &page).unwrap();
        let (dom, log) = open(browser, &page, &["--dump-dom"]);
        let console: Vec<&str> = log.lines().filter(|l| l.contains("CONSOLE")).collect();
        assert!(console.is_empty(), "{}", console.join("\n"));
        assert_eq!(dom.matches("<figcaption>").count(), plots);
        // Set once all are drawn.
        assert!(dom.contains(&format!("data-plots=\"{plots}\"")), "not all plots were drawn");
        assert_eq!(dom.matches("class=\"plot-container plotly\"").count(), plots, "a plot is empty");
    }
}
