//! The first screen of a comparison: for each device the verdict, how sure it is, the commands that apply it, and the table.

use crate::applications::applications;
use crate::ranking_columns::{BEST, Column, TIE, columns};
use crate::suite::suite_text;
use crate::table::{Align, Style, folded, table, widest};
use dumbwaiter_advise::{Confidence, Decision, Document, Extent, Ranking, RankingRow, Verdict};
use dumbwaiter_measure::Difference;

/// Marks the scheduler that is recommended or kept.
const WINNER: &str = "▸";
/// Marks a scheduler that cannot be set.
pub(crate) const NOT_OFFERED: &str = "†";

/// For each device the verdict and a table of the schedulers, best first. Where the style has a width, the columns are those that
/// fit and texts are folded at words; else all columns are shown.
pub fn compare_text(document: &Document, style: Style) -> String {
    let warning = |w: &String| folded(&format!("warning: {w}"), style.width, "  ") + "\n";
    let mut text: String = document.warnings.iter().map(warning).collect();
    let of_suite = suite_text(document, style);
    let rankings = if of_suite.is_some() { Vec::new() } else { document.rankings() };
    text += &of_suite.unwrap_or_default();
    let classes = document.class_verdicts(&rankings);
    for (class, verdict) in &classes {
        text += &verdict_text(class, verdict, None, style);
    }
    for (number, ranking) in rankings.iter().enumerate() {
        // What is said of a class stands above.
        let of_class = document.provenance.classes.values().any(|models| models.contains(&ranking.device));
        text += &if of_class && !classes.is_empty() {
            format!("{}\n", style.bold(&format!("{}: {}", ranking.place(), headline(&ranking.verdict))))
        } else {
            let around = circumstances(ranking);
            verdict_text(
                &ranking.place(),
                &ranking.verdict,
                Some(around.as_str()).filter(|_| style.width.is_none()),
                style,
            )
        };
        text += &ranking_text(ranking, style);
        // Their start-up times and dropped frames are columns too.
        let of_applications = if style.width.is_none() { applications(document, ranking) } else { Vec::new() };
        for of in of_applications {
            text += &format!("\n{}\n{}", of.title, table(&of.header, &of.rows, style));
        }
        if style.width.is_none() || number + 1 < rankings.len() {
            text.push('\n');
        }
    }
    text += &footer(&rankings, style);
    if let Some(until) = &document.until {
        text += &format!("{}\n", folded(&format!("--until: {}", until.clause()), style.width, "  "));
    }
    for note in &document.notes {
        text += &format!("{}\n", folded(&format!("note: {note}"), style.width, "  "));
    }
    text
}

/// The verdict in a few words: `change mq-deadline to bfq · clear`.
pub(crate) fn headline(verdict: &Verdict) -> String {
    match verdict.decision {
        Decision::Keep | Decision::Change => format!("{} · {}", verdict.headline, verdict.confidence.name()),
        Decision::Depends | Decision::TooShort => verdict.headline.clone(),
    }
}

fn circumstances_in_short(ranking: &Ranking) -> String {
    let runs = ranking.rows.iter().map(|r| r.replicates).max().unwrap_or(0);
    let plural = if runs == 1 { "run" } else { "runs" };
    format!("{runs} {plural} of each, goal {}", ranking.goal.name())
}

/// How many runs, and how much there was to schedule.
pub(crate) fn circumstances(ranking: &Ranking) -> String {
    let mut text = circumstances_in_short(ranking);
    let usage = &ranking.verdict.usage;
    if !usage.drive_busy.is_nan() {
        let busy = usage.busy_text();
        text += &format!("; the drive was {busy} busy with {:.1} requests in flight", usage.requests_in_flight);
    }
    text
}

/// Caveats and trades on the first screen.
const CAVEATS_MAX: usize = 1;
const TRADES_MAX: usize = 1;

/// What a verdict says in the order of its importance: what weakens it, the answer, the trades, and where the time goes.
pub(crate) fn lines(verdict: &Verdict, caveats: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let narrow = caveats != usize::MAX;
    let because = if narrow && !verdict.brief.is_empty() { &verdict.brief } else { &verdict.because };
    if verdict.decision == Decision::TooShort || verdict.decision == Decision::Depends {
        lines.push(sentence_of(because));
    } else {
        let weakening = verdict.caveats.iter().take(verdict.weakened_by.min(caveats));
        lines.extend(weakening.map(|caveat| format!("But {caveat}.")));
        lines.push(sentence_of(because));
    }
    // Where a change is recommended, its trade is the reason, and the table has the others.
    let trades = match (narrow, verdict.decision) {
        (true, Decision::Change) => 0,
        (true, _) => TRADES_MAX,
        (false, _) => usize::MAX,
    };
    // Of a class of drives they are its models.
    let trades = if verdict.brief.is_empty() { usize::MAX } else { trades };
    lines.extend(verdict.trades.iter().take(trades).cloned());
    let without_levels = |why: &String| why.split_once(" (").map_or(why.clone(), |(head, _)| format!("{head}."));
    match narrow {
        true => lines.extend(verdict.why.first().map(without_levels)),
        false => lines.extend(verdict.why.iter().cloned()),
    }
    let others = verdict.caveats.iter().skip(verdict.weakened_by).filter(|_| caveats == usize::MAX);
    lines.extend(others.map(|caveat| format!("But {caveat}.")));
    if verdict.decision == Decision::Depends {
        lines.extend(verdict.next.as_deref().map(sentence_of));
    }
    lines.retain(|line| !line.is_empty() && line != ".");
    lines
}

/// A clause as a sentence, beginning with a capital letter unless it begins with a name in a line of its own.
fn sentence_of(clause: &str) -> String {
    let is_label = clause.split_once(": ").is_some_and(|(label, _)| !label.contains(' '));
    let mut text = if clause.ends_with('.') || clause.is_empty() { clause.to_owned() } else { format!("{clause}.") };
    if let Some(first) = text.get(..1).filter(|_| !is_label) {
        let first = first.to_uppercase();
        text.replace_range(..1, &first);
    }
    text
}

fn verdict_text(place: &str, verdict: &Verdict, around: Option<&str>, style: Style) -> String {
    let said_below = verdict.decision == Decision::TooShort || verdict.confidence == Confidence::Open;
    let head = match style.width.is_some() && said_below {
        true => format!("{place}: {}", headline(verdict)),
        false => format!("{place}: {} ({})", headline(verdict), verdict.certainty),
    };
    let mut text = format!("{}\n", style.bold(&folded(&head, style.width, "  ")));
    let caveats = if style.width.is_none() { usize::MAX } else { CAVEATS_MAX };
    let width = style.width.map(|w| w.saturating_sub(2));
    let mut say = |line: &str| text += &format!("  {}\n", folded(line, width, "  ").replace('\n', "\n  "));
    lines(verdict, caveats).iter().for_each(|line| say(line));
    if let Some(around) = around {
        say(&format!("({around})"));
    }
    text += &first_commands(&verdict.apply, &verdict.undo, style);
    if style.width.is_none() { text + "\n" } else { text }
}

/// On a first screen the commands that try a result; those for every boot and those that take it back are longer.
fn first_commands(apply: &[String], undo: &[String], style: Style) -> String {
    let tries: Vec<&String> =
        apply.iter().filter(|command| !command.contains(" /etc/") && is_setting(command)).collect();
    if style.width.is_none() || tries.is_empty() {
        return commands_text(apply, undo, style);
    }
    let line =
        |command: &String| if command.starts_with('#') { format!("  {command}\n") } else { format!("  $ {command}\n") };
    tries.into_iter().map(line).collect()
}

/// Whether a command sets something now, or says what is to be put into the next.
fn is_setting(command: &str) -> bool {
    ["echo ", "sudo systemctl set-property ", "# "].iter().any(|start| command.starts_with(start))
}

/// Below the drives of a first screen: what is the same for all of them.
fn footer(rankings: &[Ranking], style: Style) -> String {
    let Some(first) = rankings.first().filter(|_| style.width.is_some()) else { return String::new() };
    let has_commands = rankings.iter().any(|ranking| !ranking.verdict.apply.is_empty());
    let more = if has_commands { "all, every boot" } else { "all" };
    let around = circumstances_in_short(first).replace(", goal ", "; ") + ": " + &first.verdict.rate;
    let mut legend = format!("{BEST} best of its column");
    if rankings.iter().any(Ranking::is_tested) {
        legend += &format!("   {TIE} no significant difference");
    }
    if let Some(note) = rankings.iter().find_map(absent_note) {
        legend += &format!("   {note}");
    }
    let text = format!("{legend}   --wide: {more}\n{around}");
    let folded: Vec<String> = text.lines().map(|line| folded(line, style.width, "  ")).collect();
    format!("{}\n", style.faint(&folded.join("\n")))
}

/// The title of the commands that apply a result; of a simulated drive it says what its name stands for.
pub(crate) fn apply_title(apply: &[String]) -> String {
    // The rule of a simulated drive is for every drive of its kind.
    let any_drive = |command: &String| {
        ["nvme*", "sd*", "mmcblk["].iter().any(|kind| command.contains(&format!("KERNEL==\"{kind}")))
    };
    let names = ["sdX", "nvme0n1", "mmcblk0"].into_iter().filter(|_| apply.iter().any(any_drive));
    let name = names.into_iter().find(|name| apply[0].contains(&format!("/{name}/")));
    let stands_for = name.map_or(String::new(), |name| format!(" ({name}: the name of your drive)"));
    format!("Apply now and at every boot{stands_for}")
}

/// The commands that apply a result and take it back, after an empty line; nothing without commands.
pub(crate) fn commands_text(apply: &[String], undo: &[String], style: Style) -> String {
    if apply.is_empty() {
        return String::new();
    }
    let mut text = "\n".to_owned();
    for (title, commands) in [(apply_title(apply).as_str(), apply), ("Undo", undo)] {
        text += &format!("{title}:\n");
        text.extend(commands.iter().map(|command| format!("  {}\n", folded_command(command, style.width))));
    }
    text
}

/// A command in several lines that a shell reads as one: after a pipe, and in a udev rule after a comma.
fn folded_command(command: &str, width: Option<u16>) -> String {
    let width = usize::from(width.unwrap_or(u16::MAX)).saturating_sub(4);
    if command.chars().count() <= width {
        return command.to_owned();
    }
    let (rule, pipe) = command.split_once("' | ").unwrap_or((command, ""));
    let mut lines = vec![String::new()];
    for part in rule.split_inclusive(", ") {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() || line.chars().count() + part.chars().count() <= width {
            line.push_str(part);
        } else {
            lines.push(part.to_owned());
        }
    }
    let text = lines.join("\\\n    ");
    if pipe.is_empty() { text } else { format!("{text}' |\n    {pipe}") }
}

fn ranking_text(ranking: &Ranking, style: Style) -> String {
    let extent = if style.width.is_none() { Extent::All } else { Extent::FirstScreen };
    let mut columns = columns(ranking, extent);
    let mut body = body(ranking, &columns, style);
    // The least important columns are last: drop them rather than wrap lines.
    let width = style.width.map_or(usize::MAX, usize::from);
    while columns.len() > 2 && widest(&body) > width {
        columns.pop();
        body = self::body(ranking, &columns, style);
    }
    let body: String = body
        .lines()
        .map(|line| if line.trim_start().starts_with(WINNER) { style.bold(line) } else { line.to_string() } + "\n")
        .collect();
    if style.width.is_some() {
        // The legend is the same for all drives, and stands below the last.
        return body;
    }
    let mut legend = format!("{BEST} best of its column");
    if ranking.is_tested() {
        legend += &format!("   {TIE} no significant difference from the best (95 % confidence)");
    }
    if let Some(note) = absent_note(ranking) {
        legend += &format!("   {note}");
    }
    format!("{body}{}\n", style.faint(&legend))
}

/// Explanation of the mark of schedulers that the kernel lacks; `None` where it lacks none.
pub(crate) fn absent_note(ranking: &Ranking) -> Option<String> {
    let absent: Vec<&RankingRow> = ranking.rows.iter().filter(|row| is_absent(ranking, row)).collect();
    let ours = absent.iter().any(|row| row.scheduler.split(':').next() == Some("headway"));
    let whose = if ours { " (headway is ours)" } else { "" };
    (!absent.is_empty()).then(|| format!("{NOT_OFFERED} not in this kernel{whose}"))
}

/// Whether the kernel lacks the scheduler; our engine's one of the same name is no lack of it.
pub(crate) fn is_absent(ranking: &Ranking, row: &RankingRow) -> bool {
    !row.can_be_set && !ranking.rows.iter().any(|other| other.can_be_set && other.scheduler == row.scheduler)
}

fn body(ranking: &Ranking, columns: &[Column], style: Style) -> String {
    let axes = ranking.axes();
    let mut header = ["", "scheduler"].map(|title| (title.to_owned(), Align::Left)).to_vec();
    if axes.via {
        header.push(("via".to_owned(), Align::Left));
    }
    if axes.completion {
        header.push(("completion".to_owned(), Align::Left));
    }
    header.extend(columns.iter().map(|column| (column.title(), Align::Right)));
    let line = |row: &RankingRow| {
        let mark = match (row.rank, row.difference) {
            (1, _) if matches!(ranking.verdict.decision, Decision::Keep | Decision::Change) => WINNER,
            (_, Difference::Tie) => TIE,
            _ => "",
        };
        let name =
            if is_absent(ranking, row) { format!("{} {NOT_OFFERED}", row.scheduler) } else { row.scheduler.clone() };
        let mut line = vec![mark.to_string(), name];
        if axes.via {
            line.push(row.via.clone());
        }
        if axes.completion {
            line.push(row.completion.clone());
        }
        line.extend(columns.iter().map(|c| c.cell(row)));
        line
    };
    let rows: Vec<Vec<String>> = ranking.rows.iter().map(line).collect();
    table(&header, &rows, Style { width: None, ..style })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sample;
    use dumbwaiter_advise::Goal;
    use serde_json::json;

    fn of(replicates: u32) -> Document {
        let scenario = json!({"name": "sample", "duration_s": 20});
        let versions = [("dumbwaiter".to_string(), "0.0.0".to_string())].into();
        Document::new("A shared disk", scenario, versions, sample::runs(5, replicates), Goal::default())
    }

    /// Five schedulers on two devices, three runs of each.
    pub(crate) fn document() -> Document {
        of(3)
    }

    #[test]
    fn the_first_screen_begins_with_keep_or_change_and_types_nothing_that_changes_nothing() {
        let text = compare_text(&document(), Style { width: Some(80), colour: false });
        assert!(text.starts_with("hdd:st1000dm003: keep mq-deadline · "), "{text}");
        assert!(text.contains("\nssd:px-256m5s: keep mq-deadline · "), "{text}");
        assert!(text.contains(" ▸  mq-deadline ") && text.contains("none: ") && text.contains("deadline †"), "{text}");
        assert!(!text.contains("echo ") && !text.contains("Undo"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        // What is set is what another is changed from.
        let other = Document { incumbent: Some("none".to_owned()), ..document() };
        let text = compare_text(&other, Style { width: Some(80), colour: false });
        let second = text.split("\nssd:px-256m5s: ").nth(1).unwrap();
        let words = second.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(second.starts_with("change none to mq-deadline · "), "{text}");
        let order =
            ["mq-deadline: ", "if half the latency is worth", "$ echo mq-deadline |", " ▸ mq-deadline ", "--wide: "];
        let at = |part: &str| words.find(part).unwrap_or_else(|| panic!("no {part}: {second}"));
        // One line for each scheduler and one for their titles; the answer, the trades, why, and what is the same for all drives.
        assert!(text.lines().count() <= 2 * (6 + 8) + 3, "{text}");
        assert!(order.windows(2).all(|w| at(w[0]) < at(w[1])), "{second}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn single_runs_are_not_tested() {
        let text = compare_text(&of(1), Style::default());
        assert!(!text.contains(TIE) && text.contains("one run does not show it"), "{text}");
    }

    #[test]
    fn colour_is_used_only_if_allowed() {
        assert!(!compare_text(&document(), Style::default()).contains('\x1b'));
        let text = compare_text(&document(), Style { width: None, colour: true });
        assert!(text.lines().any(|l| l.starts_with("\x1b[1m") && l.contains(WINNER)), "{text}");
    }

    #[test]
    fn every_goal_names_a_scheduler_that_ran() {
        for goal in Goal::ALL {
            let d = Document { goal, ..document() };
            for r in d.rankings() {
                assert!(!r.verdict.caveats.is_empty());
            }
        }
    }
}
