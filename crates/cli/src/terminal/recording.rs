//! Recordings of the kernel's block layer.

use dumbwaiter_linux::recording::Summary;
use dumbwaiter_measure::grouped;

/// A recording's counts and files, and a line for each remark.
pub fn recording_text(s: &Summary) -> String {
    let what = if s.method.is_some() { "rows" } else { "I/Os" };
    let mut lines = Vec::new();
    if s.requests == 0 {
        let kept = if s.files.is_empty() { "; nothing is written" } else { "" };
        lines.push(format!(
            "dumbwaiter: no request in {:.1} s, so there is nothing to compare{kept}; record while the device is used",
            s.seconds
        ));
    }
    let files: Vec<String> = s.files.iter().map(|f| f.display().to_string()).collect();
    if !files.is_empty() {
        lines.push(format!(
            "{} {what} and {} requests in {:.1} s, {} events lost: {}",
            grouped(s.records),
            grouped(s.requests),
            s.seconds,
            grouped(s.lost),
            files.join(", ")
        ));
    }
    if !files.is_empty() && !s.controllers.is_empty() {
        lines.push(format!("before the scheduler: {}", s.controllers.join(", ")));
    }
    lines.extend(s.notes.iter().map(|note| format!("note: {note}")));
    lines.join("\n")
}
