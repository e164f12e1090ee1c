//! Output on stdout and stderr, and its width.

use std::io::{self, IsTerminal, Write};

use dumbwaiter_report::Style;
use dumbwaiter_text::{escape, escape_styled, shortened};

/// Columns of the first screen where stdout is no terminal.
const SCREEN_COLUMNS: u16 = 80;
/// Fewer columns than this hold no table.
const SCREEN_COLUMNS_MIN: u16 = 40;

/// Prints results on stdout. Control characters are escaped, except those of our own styles.
///
/// # Errors
/// If stdout cannot be written; [`io::ErrorKind::BrokenPipe`] if its reader is gone.
pub fn print(text: &str) -> io::Result<()> {
    let text = if style().colour { escape_styled(text) } else { escape(text) };
    let _writing = dumbwaiter_text::Writing::begin();
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|e| io::Error::new(e.kind(), format!("cannot print the results: {e}")))
}

/// Prints a line on stderr, control characters escaped. A closed terminal ends no work.
#[macro_export]
macro_rules! tell {
    ($($what:tt)*) => { $crate::terminal::tell_line(format_args!($($what)*)) };
}

/// See [`tell!`](crate::tell).
pub fn tell_line(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", escape(&line.to_string()));
}

/// The style of tables on this terminal.
pub fn style() -> Style {
    let terminal = io::stdout().is_terminal();
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0");
    let colour = (terminal || forced) && std::env::var_os("NO_COLOR").is_none();
    let width = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).filter(|_| terminal);
    Style { width, colour }
}

/// The style of the first screen: 80 columns, or those of the terminal; `wide`: without a limit.
pub fn screen(wide: bool) -> Style {
    let style = style();
    Style { width: (!wide).then(|| style.width.unwrap_or(SCREEN_COLUMNS).max(SCREEN_COLUMNS_MIN)), ..style }
}

/// The error and its causes in one line, each part once: many errors name their cause themselves. What it quotes from the
/// input is shortened.
pub fn one_line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text += &format!(": {part}");
        }
        cause = error.source();
    }
    shortened(&text).into_owned()
}
