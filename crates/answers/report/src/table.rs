//! Plain tables for terminals.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use dumbwaiter_text::{BOLD, FAINT, RESET, escape, escape_line};

/// Titles of columns, and how they are aligned.
pub(crate) type Header = Vec<(String, Align)>;
/// A table: its header, and its rows.
pub(crate) type Cells = (Header, Vec<Vec<String>>);

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Options of text for a terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Width of the terminal in columns; `None` for no limit.
    pub width: Option<u16>,
    /// Whether ANSI codes are allowed. Callers check `NO_COLOR` and whether stdout is a terminal.
    pub colour: bool,
}

impl Style {
    /// `text` in bold, if allowed; control characters escaped.
    pub(crate) fn bold(self, text: &str) -> String {
        self.styled(BOLD, text)
    }

    /// `text` in a faint tone, if allowed; control characters escaped.
    pub(crate) fn faint(self, text: &str) -> String {
        self.styled(FAINT, text)
    }

    fn styled(self, code: &str, text: &str) -> String {
        let text = escape(text);
        if self.colour { format!("{code}{text}{RESET}") } else { text.into_owned() }
    }
}

/// A table with a header and rows of cells; short rows are padded with empty cells. Cells wrap
pub fn table(header: &[(impl AsRef<str>, Align)], rows: &[Vec<String>], style: Style) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = style.width {
        table.set_width(width);
    }
    let cell = |text: &str, align: Align| {
        let alignment = if align == Align::Left { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(escape_line(text)).set_alignment(alignment)
    };
    let is_rule = |text: &str| text.is_empty();
    table.set_header(header.iter().map(|(text, align)| cell(text.as_ref(), *align)));
    for row in rows {
        let text = |i: usize| row.get(i).map_or("", String::as_str);
        table.add_row(header.iter().enumerate().map(|(i, (_, align))| cell(text(i), *align)));
    }
    let mut text = String::new();
    for (i, line) in table.lines().enumerate() {
        let line = line.trim_end();
        text += &if i == 0 && !is_rule(line) { style.faint(line) } else { line.to_string() };
        text.push('\n');
    }
    text
}

/// Columns that the widest line of a text takes on a terminal: codes of styles take none.
pub(crate) fn widest(text: &str) -> usize {
    let plain = |line: &str| [BOLD, FAINT, RESET].iter().fold(line.to_owned(), |line, code| line.replace(code, ""));
    text.lines().map(|line| plain(line).chars().count()).max().unwrap_or(0)
}

/// Folds text at spaces into lines of at most `width`, those after the first with an indent.
pub(crate) fn folded(text: &str, width: Option<u16>, indent: &str) -> String {
    let width = usize::from(width.unwrap_or(u16::MAX));
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(format!("{indent}{word}"));
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_left_numbers_right() {
        let rows = vec![vec!["none".to_string(), "3.1".to_string()], vec!["mq-deadline".to_string()]];
        let text = table(&[("name", Align::Left), ("ns", Align::Right)], &rows, Style::default());
        insta::assert_snapshot!(text, @r"
         name          ns
         none         3.1
         mq-deadline
        ");
    }

    #[test]
    fn cells_and_styles_send_nothing_to_the_terminal() {
        let rows = vec![vec!["a\x1b[31mb\nforged".to_string()]];
        let style = Style { width: None, colour: true };
        let text = table(&[("head\x07", Align::Left)], &rows, style) + &style.bold("\x1b]0;x");
        let plain = text.replace(BOLD, "").replace(FAINT, "").replace(RESET, "");
        assert!(plain.contains("a\\u001b[31mb\\u000aforged") && plain.contains("head\\u0007"), "{plain}");
        assert!(plain.ends_with("\\u001b]0;x") && !plain.contains('\x1b'), "{plain}");
    }

    #[test]
    fn long_cells_wrap_to_the_width() {
        let rows = vec![vec!["x".to_string(), "a long description of many words".to_string()]];
        let style = Style { width: Some(24), colour: false };
        let text = table(&[("a", Align::Left), ("b", Align::Left)], &rows, style);
        assert!(text.lines().all(|l| l.chars().count() <= 24), "{text}");
        assert!(text.contains("description"));
    }
}
