//! The text of a job file: sections with their settings, variables filled in.

/// `key=value`, or a bare key, whose value is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: String,
}

/// A title and the settings below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) line: usize,
    pub(super) title: String,
    pub(super) settings: Vec<Setting>,
}

/// Splits a file into sections; the error is a line number and its reason.
pub(super) fn sections(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Section>, (usize, String)> {
    let mut sections: Vec<Section> = Vec::new();
    for (number, raw) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = number + 1;
        let content = uncommented(raw).trim();
        if content.is_empty() {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            let title = rest.strip_suffix(']').map(str::trim).filter(|title| !title.is_empty());
            let Some(title) = title else {
                return Err((line, format!("{content:?} is not a section title such as [job1]")));
            };
            sections.push(Section { line, title: title.to_string(), settings: Vec::new() });
            continue;
        }
        if content.split(|c: char| c == '=' || c.is_whitespace()).next() == Some("include") {
            return Err((line, format!("{content:?}: include is not supported; put the file's options here")));
        }
        let (key, value) = match content.split_once('=') {
            Some((key, value)) => (key.trim(), expand(value.trim(), environment).map_err(|reason| (line, reason))?),
            None => (content, "1".to_string()),
        };
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err((line, format!("{content:?} is not an option such as bs=4k")));
        }
        let Some(section) = sections.last_mut() else {
            return Err((
                line,
                format!("{key} appears before the first section; put [global] or a job's name above it"),
            ));
        };
        section.settings.push(Setting { line, key: key.to_string(), value });
    }
    Ok(sections)
}

/// The line without its comment, which begins with `;` or `#` at the start or after a blank.
fn uncommented(line: &str) -> &str {
    let begins = |(at, c): &(usize, char)| {
        matches!(c, ';' | '#') && line[..*at].chars().next_back().is_none_or(char::is_whitespace)
    };
    let end = line.char_indices().find(begins).map_or(line.len(), |(at, _)| at);
    &line[..end]
}

/// Replaces each `${NAME}` in a value. An unset variable is an error; fio would silently insert nothing.
fn expand(value: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), value);
    while let Some(at) = rest.find("${") {
        let Some(end) = rest[at..].find('}') else {
            return Err(format!("{value:?} has a ${{ without its }}"));
        };
        let name = &rest[at + 2..at + end];
        let Some(found) = environment(name).filter(|found| !found.is_empty()) else {
            return Err(format!("{value:?}: the environment variable {name:?} is not set"));
        };
        out += &rest[..at];
        out += &found;
        rest = &rest[at + end + 1..];
    }
    Ok(out + rest)
}
