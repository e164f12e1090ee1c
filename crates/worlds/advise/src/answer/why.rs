//! Why: where the time goes that makes the difference between two schedulers.

use super::field::{Answer, Field};
use super::words::Words;
use crate::row::Axes;

/// A part explains a difference of means from this part of it on.
const EXPLAINS: f64 = 0.5;
/// Smaller differences have nothing to explain.
const DIFFERENCE: f64 = 0.10;

/// One sentence on the pair of the first line: the part that makes most of the difference of their means.
pub(crate) fn why(field: &Field<'_>, found: &Answer) -> Vec<String> {
    let other = if found.pick == field.incumbent { best_trade(field, found) } else { Some(found.pick) };
    let Some(other) = other.filter(|_| found.doubt.is_none() && field.objective.waits) else { return Vec::new() };
    let focus = &field.objective.focus;
    let of = |i: usize| focus.time_parts(&field.groups[i]);
    let (Some(own), Some(set)) = (of(other), of(field.incumbent)) else { return Vec::new() };
    let mean = |parts: &[(&str, f64)]| parts.iter().map(|(_, part)| part).sum::<f64>();
    let (slow, fast, slower, quicker) = if mean(&own) > mean(&set) {
        (&own, &set, other, field.incumbent)
    } else {
        (&set, &own, field.incumbent, other)
    };
    let difference = mean(slow) - mean(fast);
    if difference.is_nan() || difference <= DIFFERENCE * mean(fast) {
        return Vec::new();
    }
    let most = (0..slow.len()).max_by(|a, b| (slow[*a].1 - fast[*a].1).total_cmp(&(slow[*b].1 - fast[*b].1)));
    let Some(most) = most.filter(|i| slow[*i].1 - fast[*i].1 >= EXPLAINS * difference) else { return Vec::new() };
    let words = Words { field, found, axes: Axes::of_rows(field.rows) };
    let share = |parts: &[(&str, f64)]| 100.0 * parts[most].1 / mean(parts);
    let unit = |us: f64| crate::Unit::Us.text(us);
    vec![format!(
        "{} is slower{}: {:.0} % of the time is spent {} (of {} {} in place of {} under {}).",
        words.name(slower),
        if words.has_smaller_p99(slower, quicker) { " on average" } else { "" },
        share(slow),
        slow[most].0,
        focus.name(),
        unit(slow[most].1),
        unit(fast[most].1),
        words.name(quicker)
    )]
}

/// The alternative whose latency differs most from the incumbent's, of those on the frontier.
fn best_trade(field: &Field<'_>, found: &Answer) -> Option<usize> {
    let members = found.frontier(field.incumbent).into_iter().filter(|i| *i != field.incumbent);
    let latency = |i: &usize| found.of(*i).map_or(0.0, |of| of.latency.abs());
    members.reduce(|a, b| if latency(&b) > latency(&a) { b } else { a })
}
