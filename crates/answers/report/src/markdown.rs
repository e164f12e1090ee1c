//! A comparison as Markdown, for issues and wikis.

use dumbwaiter_advise::{Document, Extent, Ranking, Suite};
use dumbwaiter_text::escape_line;

use crate::compare::{NOT_OFFERED, absent_note, circumstances, headline, is_absent};
use crate::ranking_columns::{BEST, Column, TIE, columns};
use crate::suite::{figures, lines, totals};
use crate::table::Align;
use crate::table::Cells;

/// Legend of the tables of several scenarios.
const SUITE_LEGEND: &str = "A figure says by how many percent a scheduler is worse than the best by what decides; in parentheses it does not compete: \
     it cannot be set, starves something, or keeps too little throughput. Effect: how much worse the worst that can be set is than the best. \
     Below: the geometric mean of how many times worse than the best (1 is the best), and wins/ties/losses.\n";

/// Text that Markdown shows as it is.
fn plain(text: &str) -> String {
    let mut shown = String::new();
    for c in escape_line(text).chars() {
        if matches!(c, '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '\\') {
            shown.push('\\');
        }
        shown.push(c);
    }
    shown
}

fn row_of(cells: impl Iterator<Item = String>) -> String {
    format!("|{}\n", cells.map(|cell| format!(" {} |", cell.trim())).collect::<String>())
}

/// Headings, sentences and tables of all columns.
pub(crate) fn markdown(document: &Document) -> String {
    let of_suite = document.suite.as_ref().map(|suite| of_suite(document, suite));
    let rankings = if of_suite.is_some() { Vec::new() } else { document.rankings() };
    // Warnings come before the answer.
    let mut text: String =
        document.warnings.iter().map(|warning| format!("**Warning:** {}\n\n", plain(warning))).collect();
    if let Some(verdict) = &document.suite_verdict {
        text += &format!("**{}**\n\n", plain(&verdict.sentence));
        verdict
            .by_class
            .iter()
            .for_each(|of| text += &format!("- {}: {}\n", plain(&of.drive_class), plain(&of.sentence)));
        text.push('\n');
    }
    for (class, verdict) in document.class_verdicts(&rankings) {
        text += &format!(
            "## {}: {}\n\n{} ({})\n\n",
            plain(&class),
            plain(&headline(&verdict)),
            plain(&verdict.sentence()),
            plain(&verdict.certainty)
        );
        verdict.trades.iter().for_each(|line| text += &format!("- {}\n", plain(line)));
        text.push('\n');
    }
    text += &of_suite.map_or(String::new(), |tables| format!("{tables}\n{SUITE_LEGEND}\n"));
    for ranking in &rankings {
        let verdict = &ranking.verdict;
        text += &format!("## {}: {}\n\n", plain(&ranking.place()), plain(&headline(verdict)));
        verdict.caveats.iter().for_each(|caveat| text += &format!("- But {}.\n", plain(caveat)));
        text += &format!("\n{} ({})\n\n", plain(&verdict.sentence()), plain(&verdict.certainty));
        verdict.trades.iter().chain(&verdict.why).for_each(|line| text += &format!("- {}\n", plain(line)));
        text += &format!("\n{}\n\n", plain(&circumstances(ranking)));
        text += &markdown_table(ranking);
        for (title, commands) in [("Apply", &verdict.apply), ("Undo", &verdict.undo)] {
            if !commands.is_empty() {
                text += &format!("\n{title}:\n\n```sh\n{}\n```\n", commands.join("\n"));
            }
        }
        text.push('\n');
    }
    document.notes.iter().for_each(|note| text += &format!("- note: {}\n", plain(note)));
    if !document.provenance.command.is_empty() {
        text += &format!(
            "\nMade with dumbwaiter {}: `{}`\n",
            plain(&document.provenance.version),
            escape_line(&document.provenance.command).replace('`', "'")
        );
    }
    text
}

/// A line for each scenario and drive, then geometric means, wins and losses.
fn of_suite(document: &Document, suite: &Suite) -> String {
    let mut tables = vec![lines(suite, true), totals(suite, true)];
    if suite.name.is_empty() {
        tables.insert(1, figures(document, suite));
    }
    tables.iter().map(cells_table).collect::<Vec<_>>().join("\n")
}

fn cells_table((header, rows): &Cells) -> String {
    let rule = |align: &Align| if *align == Align::Right { "---:".to_owned() } else { "---".to_owned() };
    let mut text = row_of(header.iter().map(|(title, _)| plain(title)));
    text += &row_of(header.iter().map(|(_, align)| rule(align)));
    text.extend(rows.iter().map(|row| row_of(row.iter().map(|cell| plain(cell)))));
    text
}

fn markdown_table(ranking: &Ranking) -> String {
    let columns = columns(ranking, Extent::Page);
    let axes = ranking.axes();
    let mut text = row_of(["scheduler".to_owned()].into_iter().chain(columns.iter().map(Column::title)));
    text += &row_of(["---".to_owned()].into_iter().chain(columns.iter().map(|_| "---:".to_owned())));
    for row in &ranking.rows {
        let name = plain(&row.name(axes));
        let name = if Some(&row.scheduler) == ranking.verdict.recommended.as_ref() && row.rank == 1 {
            format!("**{name}**")
        } else {
            name
        };
        let name = if is_absent(ranking, row) { format!("{name} {NOT_OFFERED}") } else { name };
        text += &row_of([name].into_iter().chain(columns.iter().map(|c| c.cell(row).replace('*', "\\*"))));
    }
    let mut legend = vec![format!("\\{BEST} best of its column")];
    if ranking.is_tested() {
        legend.push(format!("{TIE} no significant difference from the best (95 % confidence)"));
    }
    legend.extend(absent_note(ranking));
    text + &format!("\n{}\n", legend.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::document;
    use dumbwaiter_advise::SuiteCase;

    #[test]
    fn warnings_come_first_and_marks_are_explained() {
        let mut document = document();
        document.warnings = vec!["2 of 100 records were left out".to_owned()];
        let text = markdown(&document);
        assert!(text.starts_with("**Warning:** 2 of 100 records"), "{text}");
        assert!(text.contains("share error") && !text.contains("PV"), "{text}");
        assert!(text.contains("| deadline † |") && text.contains("; † not in this kernel\n"), "{text}");
        assert!(text.contains("\\* best of its column; ≈ no significant difference"), "{text}");
    }

    #[test]
    fn names_of_scenarios_cannot_break_a_table_of_several() {
        let document = document();
        let case = SuiteCase {
            scenario: "a|b\n<script>".to_owned(),
            device: document.runs[0].device.clone(),
            variant: document.runs[0].variant.clone(),
            drive_class: String::new(),
            fill_percent: None,
        };
        let text = markdown(&document.with_suite(Suite::new("", vec![case])));
        let tables: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert!(tables[2].contains("a\\|b") && !text.contains("<script>"), "{text}");
        assert!(text.contains("wins/ties/losses"), "{text}");
    }
}
