//! Values that are not written as fio's manual says, and what fio 3.33 reads of them: a number ends where something else
//! begins, and the rest is left out without a word. Each was tried with fio, and each gets a warning here.

const WHOLE: &str = "100%";

/// What fio reads of this value, where that is not what stands there; arithmetic is done already.
pub(super) fn as_fio_reads(key: &str, value: &str) -> Option<String> {
    let read = match key {
        "bs" | "blocksize" => value.split(',').map(|size| cut(size, &['/', ':', '-'])).collect::<Vec<_>>().join(","),
        "bssplit" => value.split(',').map(split).collect::<Vec<_>>().join(","),
        "size" => share(value),
        _ => without_tail(value).to_string(),
    };
    (read != value).then_some(read)
}

/// Where the two differ: the first place, and how many others there are.
pub(super) fn told(key: &str, value: &str, read: &str) -> String {
    if (key, read) == ("size", WHOLE) {
        return format!("{value} is more than the device: {read} is taken");
    }
    let ends: &[char] = if key == "bssplit" { &[',', ':'] } else { &[','] };
    let mut places = value.split(ends).zip(read.split(ends)).filter(|(written, read)| written != read);
    let Some((written, read)) = places.next() else { return format!("fio reads {read}; so it is taken here") };
    let more = match places.count() {
        0 => String::new(),
        more => format!(", and of {more} more such a part"),
    };
    format!("of {written} fio reads {read}{more}; so it is taken here")
}

/// The sizes of a split, each with its percentage: of a range the first.
fn split(text: &str) -> String {
    let entry = |entry: &str| match entry.split_once('/') {
        Some((size, percent)) => format!("{}/{percent}", cut(size, &['-'])),
        None => cut(entry, &['-']).to_string(),
    };
    text.split(':').map(entry).collect::<Vec<_>>().join(":")
}

/// Beyond the device there is nothing: fio reads it once in order, and random I/O of such a size did not end there.
fn share(value: &str) -> String {
    let percent = value.trim().strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match percent {
        Some(percent) if percent > 100.0 && percent.is_finite() => WHOLE.to_string(),
        _ => without_tail(value).to_string(),
    }
}

/// Up to the first of these, if something stands before it.
fn cut<'a>(text: &'a str, ends: &[char]) -> &'a str {
    text.split_once(ends).map(|(number, _)| number).filter(|number| !number.trim().is_empty()).unwrap_or(text)
}

/// A number without the signs behind it, such as `60?`; units and words stay.
fn without_tail(value: &str) -> &str {
    let number = value.starts_with(|c: char| c.is_ascii_digit());
    let tail = |c: char| c.is_ascii_punctuation() && !matches!(c, '%' | ')' | ',');
    if number { value.trim_end_matches(tail) } else { value }
}
