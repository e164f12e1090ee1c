//! A comparison as a piece of HTML that a notebook shows below a cell: the verdict and the ranking of each device.

use dumbwaiter_advise::{Document, Extent, Ranking, RankingRow};
use dumbwaiter_text::escape_line;

use crate::compare::{NOT_OFFERED, absent_note, circumstances, headline, is_absent};
use crate::ranking_columns::{BEST, Column, TIE, columns};

/// The verdicts and the rankings, with the columns that a terminal shows first. Notebooks have their own style: there is none here.
pub fn notebook_html(document: &Document) -> String {
    let mut html: String = document.rankings().iter().map(of_ranking).collect();
    let remarks = document.warnings.iter().chain(&document.notes);
    let remarks: String = remarks.map(|remark| format!("<li>{}</li>", escaped(remark))).collect();
    if !remarks.is_empty() {
        html += &format!("<ul>{remarks}</ul>");
    }
    html
}

fn escaped(text: &str) -> String {
    escape_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn of_ranking(ranking: &Ranking) -> String {
    let verdict = &ranking.verdict;
    let mut html = format!("<h4>{}: {}</h4>", escaped(&ranking.place()), escaped(&headline(verdict)));
    let caveats: String = verdict.caveats.iter().map(|caveat| format!("<li>But {}.</li>", escaped(caveat))).collect();
    if !caveats.is_empty() {
        html += &format!("<ul>{caveats}</ul>");
    }
    html += &format!("<p>{} ({})</p>", escaped(&verdict.sentence()), escaped(&verdict.certainty));
    let more = verdict.trades.iter().chain(&verdict.why);
    html.extend(more.map(|line| format!("<p>{}</p>", escaped(line))));
    html += &table(ranking);
    let mut legend = vec![format!("{BEST} best of its column")];
    legend.extend(ranking.is_tested().then(|| format!("{TIE} no significant difference from the best (95 %)")));
    legend.extend(absent_note(ranking));
    legend.push(circumstances(ranking));
    html + &format!("<p><small>{}</small></p>", escaped(&legend.join("; ")))
}

fn table(ranking: &Ranking) -> String {
    let columns = columns(ranking, Extent::FirstScreen);
    let titles: String = columns.iter().map(|column| format!("<th>{}</th>", escaped(column.title().trim()))).collect();
    let rows: String = ranking.rows.iter().map(|row| row_of(ranking, row, &columns)).collect();
    format!("<table><thead><tr><th>scheduler</th>{titles}</tr></thead><tbody>{rows}</tbody></table>")
}

fn row_of(ranking: &Ranking, row: &RankingRow, columns: &[Column]) -> String {
    let mut name = escaped(&row.name(ranking.axes()));
    if Some(&row.scheduler) == ranking.verdict.recommended.as_ref() && row.rank == 1 {
        name = format!("<b>{name}</b>");
    }
    if is_absent(ranking, row) {
        name += &format!(" {NOT_OFFERED}");
    }
    let cells: String = columns.iter().map(|column| format!("<td>{}</td>", escaped(column.cell(row).trim()))).collect();
    format!("<tr><td>{name}</td>{cells}</tr>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::document;

    #[test]
    fn every_device_has_its_verdict_and_every_scheduler_a_row() {
        let mut document = document();
        document.notes = vec!["3 < 4 & more".to_owned()];
        let html = notebook_html(&document);
        let rankings = document.rankings();
        assert_eq!(html.matches("<table>").count(), rankings.len());
        assert_eq!(html.matches("<tr>").count(), rankings.iter().map(|r| r.rows.len() + 1).sum::<usize>());
        for ranking in &rankings {
            assert!(html.contains(&escaped(&ranking.verdict.sentence())), "{html}");
        }
        assert!(html.contains("MB/s</th>") && html.contains("<li>3 &lt; 4 &amp; more</li>"), "{html}");
    }
}
