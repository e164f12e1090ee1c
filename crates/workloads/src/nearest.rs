//! "Did you mean …?"

/// The candidate most similar to `word`, with at most one edit in three letters; `None` if there is none.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // No name is this long, and the comparison is quadratic.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|c| (distance(word.as_bytes(), c.as_bytes()), c))
        .filter(|(d, c)| *d <= word.len().max(c.len()).div_ceil(3))
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
    fn typing_errors_are_recognised_and_other_words_are_not() {
        let names = ["iodepth", "rwmixread", "runtime", "rw"];
        assert_eq!(nearest("iodpeth", names), Some("iodepth"));
        assert_eq!(nearest("RunTime", names), Some("runtime"));
        assert_eq!(nearest("rwmixraed", names), Some("rwmixread"));
        assert_eq!(nearest("banana", names), None);
        assert_eq!(nearest("", names), None);
    }
}
