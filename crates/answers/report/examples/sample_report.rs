//! Writes a report of made-up runs, to look at the page without running anything:
//! `cargo run -p dumbwaiter-report --example sample_report -- report.html survey.html`. The second is that of a survey.

#[path = "../tests/sample/mod.rs"]
mod sample;

use dumbwaiter_advise::{Document, Goal, Metric};
use dumbwaiter_report::{Error, Style, SurveyPoint, compare_text, write_advice_html, write_html};

fn main() -> Result<(), Error> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "report.html".into());
    let scenario = serde_json::json!({"name": "shared-disk", "duration_s": 20, "seed": 42});
    let versions = [("dumbwaiter".to_string(), env!("CARGO_PKG_VERSION").to_string())].into();
    let document =
        Document::new("A shared disk (made-up runs)", scenario, versions, sample::runs(5, 3), Goal::default());
    print!("{}", compare_text(&document, Style { width: Some(100), colour: false }));
    write_html(&document, path.as_ref())?;
    let Some(survey) = std::env::args_os().nth(2) else { return Ok(()) };
    let points = [SurveyPoint { name: "shared", about: "a user beside a backup", metric: Metric::FocusP99 }];
    write_advice_html(&sample::advice(document), &points, survey.as_ref())
}
