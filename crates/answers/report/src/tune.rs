//! The result of a search for better settings as text.

use dumbwaiter_advise::Metric;
use dumbwaiter_advise::tune::{TunedDevice, Tuning};

use crate::compare::commands_text;
use crate::table::{Align, Style, folded, table};

/// Candidates of the last round that are shown.
const SHOWN_MAX: usize = 6;

/// The result as text for a terminal: the answer first, then the commands and the candidates of the last round.
pub fn tune_text(tuning: &Tuning, style: Style) -> String {
    let each = tuning.devices.iter().map(|device| device_text(device, style));
    let mut text = each.collect::<Vec<_>>().join("\n");
    for note in &tuning.notes {
        text += &format!("{}\n", folded(&format!("note: {note}"), style.width, "  "));
    }
    text
}

fn device_text(found: &TunedDevice, style: Style) -> String {
    let verdict = match (found.keep, found.outcome) {
        (false, _) => format!("set {}", found.best),
        (true, dumbwaiter_advise::tune::Outcome::Unconfirmed) => "nothing is confirmed".to_owned(),
        (true, _) => format!("keep {}", found.defaults),
    };
    let head = format!("{}: {verdict}", found.device);
    let mut text = format!("{}\n", style.bold(&folded(&head, style.width, "  ")));
    let width = style.width.map(|w| w.saturating_sub(2));
    let about = format!("({} candidates, {} runs)", found.candidates, found.runs);
    for line in [&found.sentence, &about] {
        text += &format!("  {}\n", folded(line, width, "").replace('\n', "\n  "));
    }
    text += &commands_text(&found.apply, &found.undo, style);
    if !found.check.is_empty() {
        text += "Check the claim:\n";
        text.extend(found.check.iter().map(|command| format!("  {command}\n")));
    }
    text += "\n";
    text += &tried_table(found, style);
    text
}

fn tried_table(found: &TunedDevice, style: Style) -> String {
    let metric = Metric::of_key(&found.decided_by).unwrap_or(Metric::FocusP99);
    let header = [("tried", Align::Left), (metric.key(), Align::Right), ("mb_per_s", Align::Right)];
    let number = |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{v:.2}"));
    let defaults = found.tried.iter().position(|tried| tried.candidate == found.defaults);
    let shown = |i: &usize| *i < SHOWN_MAX || Some(*i) == defaults;
    let rows: Vec<Vec<String>> = (0..found.tried.len())
        .filter(shown)
        .map(|i| {
            let tried = &found.tried[i];
            let name = if Some(i) == defaults { format!("{} (set)", tried.candidate) } else { tried.candidate.clone() };
            vec![name, number(tried.figure), number(tried.mb_per_s)]
        })
        .collect();
    if rows.is_empty() { String::new() } else { table(&header, &rows, style) }
}
