//! The advice for a drive as text.

use dumbwaiter_advise::completion::Methods;
use dumbwaiter_advise::{Advice, Metric, rank};

use crate::compare::commands_text;
use crate::table::{Align, Style, folded, table, widest};

/// A load of the survey: its column of the table and its line below it.
pub struct SurveyPoint<'a> {
    /// Its name in the results.
    pub name: &'a str,
    /// A description.
    pub about: &'a str,
    /// The metric to show.
    pub metric: Metric,
}

/// The advice as text for a terminal: the answer, the commands, then the tables; the first of `points` is the load that decides.
pub fn advice_text(advice: &Advice, points: &[SurveyPoint<'_>], style: Style) -> String {
    let head = format!("{}: {}", advice.device, advice.headline());
    let mut text = format!("{}\n", style.bold(&folded(&head, style.width, "  ")));
    let mut say = |line: &str| {
        text += &format!("  {}\n", folded(line, style.width.map(|w| w.saturating_sub(2)), "").replace('\n', "\n  "));
    };
    say(&advice.sentence);
    advice.losses.iter().for_each(|loss| say(&loss.sentence(&advice.recommended)));
    let runs = advice.survey.runs.len();
    say(&format!("({}; {runs} runs in {:.0} s)", advice.criterion, advice.seconds));
    if advice.is_to_be_applied() {
        text += &commands_text(&advice.commands, &advice.undo, style);
    }
    text += "\n";
    if let Some((shown, of_schedulers)) = schedulers_table(advice, points, style) {
        text += &of_schedulers;
        for point in &points[..shown] {
            text += &format!("{}\n", folded(&format!("{}: {}", point.name, point.about), style.width, "  "));
        }
        if shown < points.len() {
            let more = format!("{} more loads: --wide shows them", points.len() - shown);
            text += &format!("{}\n", style.faint(&more));
        }
        text += "\n";
    }
    if !advice.completion.measured.is_empty() {
        text += &completion_table(&advice.completion, style);
        text += "\n";
    }
    text += &format!("{}\n", folded(&advice.completion.sentence, style.width, ""));
    for how in &advice.completion.how {
        text += &format!("  {how}\n");
    }
    for note in advice.survey.notes.iter().skip(1) {
        text += &format!("{}\n", folded(&format!("note: {note}"), style.width, "  "));
    }
    text
}

/// Columns of the survey's table before those of the loads that do not decide: mark, name, latency, throughput.
const COLUMNS_MIN: usize = 4;

/// As many columns as fit, and how many loads they show; `None` where the load that decides did not run.
fn schedulers_table(advice: &Advice, points: &[SurveyPoint<'_>], style: Style) -> Option<(usize, String)> {
    let (mut header, mut lines) = survey_table(advice, points)?;
    loop {
        let text = table(&header, &lines, Style { width: None, ..style });
        if header.len() <= COLUMNS_MIN || style.width.is_none_or(|width| widest(&text) <= width.into()) {
            return Some((1 + header.len() - COLUMNS_MIN, text));
        }
        header.pop();
        lines.iter_mut().for_each(|line| line.truncate(header.len()));
    }
}

/// Titles and their alignment, and rows.
pub(crate) type Cells = (Vec<(String, Align)>, Vec<Vec<String>>);

/// The schedulers with their figures at each load; `None` where the load that decides did not run.
pub(crate) fn survey_table(advice: &Advice, points: &[SurveyPoint<'_>]) -> Option<Cells> {
    let rankings = rank(&advice.survey.runs, advice.survey.goal);
    let mut columns = vec![
        ("shared", Metric::FocusP99, "interactive p99 us".to_owned()),
        ("shared", Metric::MbPerS, "shared MB/s".to_owned()),
    ];
    for point in &points[1..] {
        let unit = point.metric.unit().scale(f64::NAN).name;
        columns.push((point.name, point.metric, format!("{} {unit}", point.name)));
    }
    let mut header = vec![(String::new(), Align::Left), ("scheduler".to_owned(), Align::Left)];
    header.extend(columns.iter().map(|(.., title)| (title.clone(), Align::Right)));
    let shared = rankings.iter().find(|r| r.variant == "shared")?;
    let mut lines = Vec::new();
    for scheduler in shared.rows.iter().map(|row| &row.scheduler) {
        let mark = if *scheduler == advice.recommended { "▸" } else { "" };
        let mut line = vec![mark.to_owned(), scheduler.clone()];
        for (point, metric, _) in &columns {
            let row = rankings.iter().find(|r| r.variant == *point);
            let row = row.and_then(|r| r.rows.iter().find(|row| row.scheduler == *scheduler));
            line.push(row.map_or(String::new(), |r| match r.mean(*metric) {
                starved if starved.is_infinite() => "starved".to_owned(),
                mean => format!("{mean:.0}"),
            }));
        }
        lines.push(line);
    }
    Some((header, lines))
}

fn completion_table(methods: &Methods, style: Style) -> String {
    let (header, lines) = completion_cells(methods);
    table(&header, &lines, style)
}

/// The completion methods by depth.
pub(crate) fn completion_cells(methods: &Methods) -> Cells {
    let header = [
        ("depth", Align::Right),
        ("completion", Align::Left),
        ("p50 us", Align::Right),
        ("p99 us", Align::Right),
        ("IOPS", Align::Right),
        ("CPU/IO us", Align::Right),
        ("median", Align::Left),
    ];
    let lines: Vec<Vec<String>> = methods
        .measured
        .iter()
        .map(|m| {
            let median =
                m.median.as_ref().map_or(String::new(), |g| format!("{:+.0} %, p = {:.3}", g.change * 100.0, g.p));
            vec![
                m.depth.to_string(),
                m.completion.clone(),
                format!("{:.1}", m.p50_us),
                format!("{:.1}", m.p99_us),
                format!("{:.0}", m.iops),
                format!("{:.1}", m.cpu_us_per_io),
                median,
            ]
        })
        .collect();
    (header.map(|(title, align)| (title.to_owned(), align)).to_vec(), lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use dumbwaiter_advise::Confidence;

    const POINTS: [SurveyPoint<'static>; 1] =
        [SurveyPoint { name: "shared", about: "a user beside a backup", metric: Metric::FocusP99 }];

    #[test]
    fn the_advice_begins_with_what_to_set_and_how_and_fits_80_columns() {
        let advice = sample::advice(crate::compare::tests::document());
        let text = advice_text(&advice, &POINTS, Style { width: Some(80), colour: false });
        assert!(text.starts_with("/dev/sda: use mq-deadline instead of none · clear (p = 0.003)\n"), "{text}");
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part}: {text}"));
        let order = ["Use mq-deadline", "echo mq-deadline |", "Undo:", "echo none |", "interactive p99", "shared:"];
        assert!(order.windows(2).all(|w| at(w[0]) < at(w[1])), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_doubtful_advice_gives_no_commands() {
        let mut advice = sample::advice(crate::compare::tests::document());
        advice.confidence = Confidence::Inconclusive;
        let text = advice_text(&advice, &POINTS, Style::default());
        assert!(text.starts_with("/dev/sda: keep none for now · inconclusive"), "{text}");
        assert!(!text.contains("echo "), "{text}");
    }
}
