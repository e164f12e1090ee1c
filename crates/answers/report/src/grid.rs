//! A table of text on a page.

use serde::Serialize;

use crate::table::Cells;

/// A table of text.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Grid {
    /// Its title.
    pub title: String,
    /// One cell per column.
    pub header: Vec<String>,
    /// Cells; the first of a row is its name.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table under a title.
    pub(crate) fn of(title: &str, (header, rows): Cells) -> Grid {
        Grid { title: title.to_owned(), header: header.into_iter().map(|(title, _)| title).collect(), rows }
    }
}

/// Texts that are in place of a figure.
const INSTEAD_OF_FIGURES: [&str; 6] = ["", "\u{2013}", "best", "starved", "never", "undefined"];

/// Which columns hold words, to be aligned left: those of which most cells are no figures.
pub(crate) fn word_columns(rows: &[Vec<String>]) -> Vec<bool> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let is_figure = |cell: &str| {
        let bare = cell.trim_matches(|c: char| "()+-\u{2212}<\u{2264}\u{2265}\u{2248}~ ".contains(c));
        INSTEAD_OF_FIGURES.contains(&bare) || bare.starts_with(|c: char| c.is_ascii_digit())
    };
    let holds_words = |column: usize| {
        let cells = || rows.iter().filter_map(|row| row.get(column));
        2 * cells().filter(|cell| is_figure(cell)).count() < cells().count()
    };
    (0..columns).map(holds_words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_words_are_told_from_columns_of_figures() {
        let rows = [
            ["hard disk", "10 %", "boot-storm", "none, clear", "0 %", "best", "(+83)", "1.12 3/4/5", "\u{2013}"],
            ["SATA SSD", "", "quiet-guest", "no difference", "8 % (bfq)", "best", "(starved)", "< 0.1", "\u{2265} 3"],
        ];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        assert_eq!(word_columns(&rows), [true, false, true, true, false, false, false, false, false]);
        assert!(word_columns(&[]).is_empty());
    }
}
