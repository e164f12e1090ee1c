//! Opens a report in headless Chromium.

mod sample;

use dumbwaiter_advise::Document;
use dumbwaiter_advise::Goal;
use dumbwaiter_report::write_html;
use dumbwaiter_testkit::{Browser, Page};

fn document(schedulers: usize, replicates: u32) -> Document {
    let scenario = serde_json::json!({"name": "shared-disk", "duration_s": 20, "seed": 42});
    let versions = [("dumbwaiter".to_string(), "0.1.0".to_string())].into();
    Document::new("A shared disk", scenario, versions, sample::runs(schedulers, replicates), Goal::default())
}

#[test]
fn the_report_opens_without_a_console_error() {
    let Some(browser) = Browser::find() else {
        println!("skipped: no Chromium");
        eprintln!("skipped: no Chromium");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("report.html");
    // Five schedulers, one alone, nothing at all; 13 plots on each of two devices, and two maps of each scheduler.
    for (document, plots) in [(document(5, 3), 46), (document(1, 1), 30), (document(0, 0), 0)] {
        write_html(&document, &page).unwrap();
        let Page { dom, console } = browser.open(&format!("file://{}", page.display()), &[]);
        assert!(console.is_empty(), "{}", console.join("\n"));
        assert_eq!(dom.matches("<figcaption>").count(), plots);
        // Set once all are drawn.
        assert!(dom.contains(&format!("data-plots=\"{plots}\"")), "not all plots were drawn");
        assert_eq!(dom.matches("class=\"plot-container plotly\"").count(), plots, "a plot is empty");
    }
}
