//! Errors and rows as the remarks at the head of a fitted file.

use std::fmt::Write as _;

use crate::measured::answer::MeasuredAgainst;
use crate::measured::summary::Group;

pub(super) fn groups(text: &mut String, title: &str, groups: &[Group]) {
    for group in groups {
        let errors: Vec<String> =
            group.errors.iter().map(|(name, e)| format!("{name} {:.0} %", e.median * 100.0)).collect();
        let _ =
            writeln!(text, "# {title}: {} rows of {}, median errors: {}", group.rows, group.name, errors.join(", "));
    }
}

/// A line for each row; with `cpu` also processor time.
pub(super) fn rows(text: &mut String, title: &str, rows: &[MeasuredAgainst], cpu: bool) {
    for row in rows.iter().filter(|row| row.was_run() && !row.total) {
        let f = &row.figures;
        let mut ratios = vec![f.iops_ratio, f.mean_ratio, f.p50_ratio, f.p95_ratio, f.p99_ratio];
        ratios.extend(cpu.then_some(f.cpu_ratio));
        let ratios =
            ratios.into_iter().map(|ratio| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")));
        let ratios: Vec<String> = ratios.collect();
        let place = [&row.figure, &row.condition, &row.scheduler, &row.role].map(String::as_str).join(" ");
        let _ = writeln!(text, "# {title}  {}: {}", place.trim(), ratios.join(" "));
    }
}
