//! Text for a terminal: control characters that come from files, names and recordings are shown, not obeyed.

use std::borrow::Cow;
use std::io::Write;

/// Characters of a line of a message at most; of a longer one beginning and end are shown.
const LINE_MAX: usize = 2_000;
const HEAD: usize = 1_200;
const TAIL: usize = 600;
/// Lines of a message at most.
const LINES_MAX: usize = 60;

/// ANSI code that starts bold text.
pub const BOLD: &str = "\x1b[1m";
/// ANSI code that starts faint text.
pub const FAINT: &str = "\x1b[2m";
/// ANSI code that ends bold and faint text.
pub const RESET: &str = "\x1b[0m";

/// `text` with control characters as `\u001b`: C0 but newline and tab, DEL, C1, and the characters that change the
/// direction of text. What is valid JSON or TOML stays so and means the same.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_where(text, |c| c != '\n' && c != '\t' && is_unsafe(c))
}

/// Like [`escape`] for text that is to stay in one line: newlines and tabs are escaped too.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape_where(text, is_unsafe)
}

/// Like [`escape`] for text that holds our own [`BOLD`], [`FAINT`] and [`RESET`], which stay.
pub fn escape_styled(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        safe += &escape(&rest[..at]);
        rest = &rest[at..];
        let code = [BOLD, FAINT, RESET].into_iter().find(|code| rest.starts_with(code));
        safe += &code.map_or_else(|| escape("\x1b"), Cow::Borrowed);
        rest = &rest[code.map_or(1, str::len)..];
    }
    safe += &escape(rest);
    Cow::Owned(safe)
}

/// A message of a bearable length: of a line of more than 2,000 characters beginning and end, of the lines the first 60. What is left
/// out comes from the input that the message is about.
pub fn shortened(message: &str) -> Cow<'_, str> {
    if message.len() <= LINE_MAX {
        return Cow::Borrowed(message);
    }
    let mut lines: Vec<Cow<'_, str>> = message.lines().take(LINES_MAX).map(short_line).collect();
    let left_out = message.lines().count() - lines.len();
    if left_out > 0 {
        lines.push(format!("… ({left_out} lines left out)").into());
    }
    Cow::Owned(lines.join("\n"))
}

fn short_line(line: &str) -> Cow<'_, str> {
    let length = line.chars().count();
    if length <= LINE_MAX {
        return Cow::Borrowed(line);
    }
    let at = |n: usize| line.char_indices().nth(n).map_or(line.len(), |(at, _)| at);
    let (head, tail) = (&line[..at(HEAD)], &line[at(length - TAIL)..]);
    format!("{head} … ({} characters left out) … {tail}", length - HEAD - TAIL).into()
}

/// Control characters (C0, DEL, C1), and those that change the direction of the text around them.
fn is_unsafe(c: char) -> bool {
    let direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || direction
}

fn escape_where(text: &str, escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&escaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !escaped(c) => safe.push(c),
            c => safe += &format!("\\u{:04x}", u32::from(c)),
        }
    }
    Cow::Owned(safe)
}

/// Prints a line of the program's own on stderr, control characters escaped. A closed stderr is no error: it must not
/// keep anyone from restoring what was changed.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "dumbwaiter: {}", escape(&shortened(line)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        let hostile = "a\x1b]0;title\x07b\r\x7fc\u{9b}31md\u{202e}e\u{2066}";
        let shown = "a\\u001b]0;title\\u0007b\\u000d\\u007fc\\u009b31md\\u202ee\\u2066";
        assert_eq!(escape(hostile), shown);
        assert_eq!(escape("two\nlines\tand Größe 日本"), "two\nlines\tand Größe 日本");
        assert_eq!(escape_line("two\nlines"), "two\\u000alines");
    }

    #[test]
    fn only_our_own_styles_pass() {
        let text = format!("{BOLD}name{RESET} \x1b[31mred\x1b");
        assert_eq!(escape_styled(&text), format!("{BOLD}name{RESET} \\u001b[31mred\\u001b"));
    }

    #[test]
    fn a_long_message_keeps_its_beginning_and_its_end() {
        assert_eq!(shortened("bs: \"x\" is not a size"), "bs: \"x\" is not a size");
        let long = format!("j.fio:2: rw: {:?} is not one of read, write", "ä".repeat(200_000));
        let short = shortened(&long);
        assert!(short.starts_with("j.fio:2: rw: \"ä") && short.ends_with("\" is not one of read, write"), "{short}");
        assert!(short.contains(" … (198241 characters left out) … ") && short.chars().count() < 2_000, "{short}");
        assert!(shortened(&"line\n".repeat(100_000)).ends_with("line\n… (99940 lines left out)"));
    }

    proptest::proptest! {
        #[test]
        fn nothing_unsafe_is_left(text in "\\PC*|[\\x00-\\xff\\u{200e}-\\u{2069}]*") {
            proptest::prop_assert!(!escape_line(&text).contains(is_unsafe));
            let kept = |c: char| c != '\n' && c != '\t' && is_unsafe(c);
            proptest::prop_assert!(!escape(&text).contains(kept));
            let styled = escape_styled(&text).replace(BOLD, "").replace(FAINT, "").replace(RESET, "");
            proptest::prop_assert!(!styled.contains(kept));
        }
    }
}
