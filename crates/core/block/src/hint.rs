//! Hints in errors about a name that does not exist: the most similar name, and the names that exist.

/// The end of such an error: "; did you mean `bs`?", or nothing where no name is similar.
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    suggest(nearest(word, names))
}

/// The end of such an error with this name.
pub fn suggest(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// The end of such an error where the names are few: "; did you mean `b`? known: a, b".
pub fn did_you_mean_of(word: &str, names: &[&str]) -> String {
    let hint = did_you_mean(word, names.iter().copied());
    format!("{}known: {}", if hint.is_empty() { "; ".to_owned() } else { hint + " " }, names.join(", "))
}

/// The candidate most similar to `word`, with at most one edit in three letters; `None` if there is none.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // No name is this long, and the comparison is quadratic.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let most = |c: &str| word.len().max(c.len()).div_ceil(3);
    candidates
        .into_iter()
        // There are at least as many edits as the lengths differ by.
        .filter(|c| word.len().abs_diff(c.len()) <= most(c))
        .map(|c| (distance(word.as_bytes(), c.as_bytes()), c))
        .filter(|(d, c)| *d <= most(c))
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// Edit distance between `a` and `b` (insert, delete, replace, swap of neighbours).
fn distance(a: &[u8], b: &[u8]) -> usize {
    let width = b.len() + 1;
    let mut rows = vec![0; (a.len() + 1) * width];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i * width + j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[(i - 1) * width + j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut best = replaced.min(rows[(i - 1) * width + j] + 1).min(rows[i * width + j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[(i - 2) * width + j - 2] + 1);
                }
                best
            };
        }
    }
    rows[rows.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_name_comes_before_all_names() {
        assert_eq!(did_you_mean_of("kybr", &["none", "kyber"]), "; did you mean `kyber`? known: none, kyber");
        assert_eq!(did_you_mean_of("banana", &["none", "kyber"]), "; known: none, kyber");
        assert_eq!(did_you_mean("banana", ["none"]), "");
    }

    #[test]
    fn typing_errors_are_recognised_and_other_words_are_not() {
        let names = ["iodepth", "rwmixread", "runtime", "rw"];
        assert_eq!(nearest("iodpeth", names), Some("iodepth"));
        assert_eq!(nearest("RunTime", names), Some("runtime"));
        assert_eq!(nearest("rwmixraed", names), Some("rwmixread"));
        assert_eq!(nearest("banana", names), None);
        assert_eq!(nearest("", names), None);
    }
}
