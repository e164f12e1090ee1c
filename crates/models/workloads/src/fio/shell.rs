//! What a shell reads: words, lines that go on, prompts, and where a command of fio begins.

/// Whether a text is a command line of fio rather than a job file: it has a command and no section.
pub fn is_command_line(text: &str) -> bool {
    let section = |line: &str| {
        let line = line.trim();
        line.len() > 2 && line.starts_with('[') && line.ends_with(']')
    };
    !text.lines().any(section) && logical_lines(text).iter().any(|(line, text)| starts(&split(text, *line)).is_some())
}

/// The lines of a text with those that go on one another joined: behind a backslash (or what other shells have for it), and before
/// options that a page has wrapped. Each has the number of its first.
pub(super) fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate().peekable();
    let mut found = Vec::new();
    while let Some((number, line)) = lines.next() {
        let mut whole = line.trim_end().to_string();
        loop {
            let goes_on = whole.ends_with(['\\', '^', '`']);
            let wrapped = |(_, next): &(usize, &str)| {
                next.trim_start().trim_start_matches("> ").starts_with("--") && whole.contains("fio")
            };
            if !goes_on && !lines.peek().is_some_and(wrapped) {
                break;
            }
            whole.truncate(whole.len() - usize::from(goes_on));
            let Some((_, next)) = lines.next() else { break };
            whole += "\n";
            whole += next.trim().trim_start_matches("> ");
        }
        found.push((number + 1, whole));
    }
    found
}

/// Whether a line beside the sections of a job file is what a shell was told: how the file was shown, written or run.
pub(super) fn is_shell(line: &str) -> bool {
    let prompt = line.find(['$', '#']).is_some_and(|at| line[at..].starts_with(['$', '#']) && line[..at].contains('@'));
    let words = split(line, 1);
    let told = words.first().is_some_and(|(_, word)| matches!(word.as_str(), "$" | "cat"));
    line == "EOF" || told || prompt && words.len() > 1 || starts(&words).is_some()
}

/// The number of the word `fio` of a command among the words of a line.
pub(super) fn starts(words: &[(usize, String)]) -> Option<usize> {
    let program = |word: &str| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
        matches!(name.trim_start_matches(['$', '#', '%', '>']), "fio" | "fio.exe")
    };
    let option =
        |word: &str| undashed(word).is_some_and(|name| name.starts_with(char::is_alphabetic)) || is_job_file(word);
    words.windows(2).take(24).position(|pair| program(&pair[0].1) && option(&pair[1].1))
}

pub(super) fn is_job_file(word: &str) -> bool {
    [".fio", ".ini", ".job"].iter().any(|end| word.ends_with(end))
}

/// An option's word without its dashes, which a word processor may have changed.
pub(super) fn undashed(word: &str) -> Option<&str> {
    let rest = word.trim_start_matches(['-', '–', '—', '−']);
    (rest.len() < word.len() && !rest.is_empty()).then_some(rest)
}

/// The words of a line as a shell splits it; quotes are taken off. A word that ends the command (`;`, `|`, `>`) is one of its own.
pub(super) fn split(text: &str, first_line: usize) -> Vec<(usize, String)> {
    let (mut words, mut word, mut quote, mut line) = (Vec::new(), None::<String>, None, first_line);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        match (quote, c) {
            (Some(open), c) if closes(open, c) => quote = None,
            (None, '\'' | '"' | '“' | '”' | '‘' | '’') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"' | '“' | '”'), '\\') if chars.peek().is_some_and(|next| !next.is_alphanumeric()) => {
                let next = chars.next().unwrap_or_default();
                // fio's own escape of a colon stays.
                let kept = if next == ':' { "\\:".to_string() } else { next.to_string() };
                if next != '\n' {
                    word.get_or_insert_default().push_str(&kept);
                }
            }
            (None, c) if c.is_whitespace() => words.extend(word.take().map(|word| (line, word))),
            (None, ';' | '|' | '&' | '>' | '<') => {
                words.extend(word.take().map(|word| (line, word)));
                words.push((line, c.to_string()));
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.map(|word| (line, word)));
    words
}

fn closes(open: char, c: char) -> bool {
    match open {
        '“' | '”' => matches!(c, '“' | '”'),
        '‘' | '’' => matches!(c, '‘' | '’'),
        open => open == c,
    }
}
