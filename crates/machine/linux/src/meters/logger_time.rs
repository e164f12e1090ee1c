//! Parses dates and times as loggers and spreadsheets write them.

/// Seconds since 1970 of a date and time, read as UTC; the error says what is wrong.
///
/// `03/28/23 02:15:00 PM`, `03/28/2023 14:15:00`, `2023-03-28 14:15:00`, `2023-03-28T14:15:00Z`; fractions of seconds
/// are allowed, missing seconds are not: the runs could not be aligned without them.
pub(crate) fn parse(text: &str) -> Result<f64, String> {
    let bad =
        |what: &str| format!("\"{text}\" {what}; expected a time such as 03/28/23 02:15:00 PM or 2023-03-28 14:15:00");
    let plain = text.trim().trim_end_matches('Z');
    let (date, rest) = plain.split_once([' ', 'T']).ok_or_else(|| bad("is not a date and time"))?;
    let numbers = |text: &str, separator: char| -> Option<Vec<i64>> {
        text.split(separator).map(|n| n.parse().ok().filter(|n| *n >= 0)).collect()
    };
    let (year, month, day) = match (numbers(date, '/').as_deref(), numbers(date, '-').as_deref()) {
        (Some([m, d, y]), _) => (if *y < 100 { 2000 + y } else { *y }, *m, *d),
        (_, Some([y, m, d])) => (*y, *m, *d),
        _ => return Err(bad("has no date")),
    };
    let rest = rest.trim();
    let (clock, half) = match rest.split_once(' ') {
        Some((clock, half)) => (clock, Some(half.trim().to_ascii_uppercase())),
        None => (rest, None),
    };
    let fields: Vec<&str> = clock.split(':').collect();
    let [hour, minute, second] = fields[..] else {
        let what = if fields.len() == 2 { "has no seconds (a spreadsheet drops them)" } else { "has no time" };
        return Err(bad(what));
    };
    let whole = |text: &str| -> Option<i64> {
        let digits = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse().ok())?
    };
    let hour = whole(hour).ok_or_else(|| bad("has no hour"))?;
    let minute = whole(minute).ok_or_else(|| bad("has no minute"))?;
    let second: f64 = second.replace(',', ".").parse().map_err(|_| bad("has no seconds"))?;
    let hour = match half.as_deref() {
        None => hour,
        Some("AM") if (1..=12).contains(&hour) => hour % 12,
        Some("PM") if (1..=12).contains(&hour) => hour % 12 + 12,
        Some(_) => return Err(bad("has an hour out of range")),
    };
    let sane =
        (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=days_of_month(year, month)).contains(&day);
    if !sane || hour > 23 || minute > 59 || !(0.0..61.0).contains(&second) {
        return Err(bad("is out of range"));
    }
    Ok((days(year, month, day) * 86_400 + hour * 3600 + minute * 60) as f64 + second)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1 January 1970 in the Gregorian calendar. Years begin in March, so that the leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468
}

/// The time zone in a text such as `GMT-05:00` or `GMT+0530`, in minutes east of Greenwich.
pub fn zone(text: &str) -> Option<i32> {
    let at = text.find("GMT").or_else(|| text.find("UTC"))?;
    let rest = text[at + 3..].trim_end_matches('"');
    let sign = match rest.chars().next() {
        Some('+') => 1,
        Some('-') => -1,
        _ => return Some(0).filter(|_| rest.trim().is_empty()),
    };
    let digits: String =
        rest[1..].chars().take_while(|c| c.is_ascii_digit() || *c == ':').filter(|c| *c != ':').collect();
    let number: i32 = digits.parse().ok()?;
    let minutes = if digits.len() <= 2 { number * 60 } else { number / 100 * 60 + number % 100 };
    (minutes <= 14 * 60).then_some(sign * minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_formats_give_the_same_time() {
        for text in ["03/28/23 02:15:00 PM", "03/28/2023 14:15:00", "2023-03-28 14:15:00", "2023-03-28T14:15:00.0Z"] {
            assert_eq!(parse(text).unwrap(), 1_680_012_900.0, "{text}");
        }
        assert_eq!(parse("02/29/2000 12:00:00 AM").unwrap(), 951_782_400.0);
        assert_eq!(parse("01/01/1970 00:00:00").unwrap(), 0.0);
    }

    #[test]
    fn text_that_is_not_a_time_is_refused() {
        assert!(parse("3/28/2023 14:15").unwrap_err().contains("no seconds"));
        for bad in [
            "",
            "soon",
            "13/13/23 01:00:00",
            "03/28/23 14:00:00 PM",
            "03/28/23 25:00:00",
            "03/28/23 1:2:3:4",
            "2023-03-28 -20:45:00",
            "2023-03-28 20:-45:00",
            "2023-03-28 20:45:-1",
            "2023-02-31 00:00:00",
            "2023-02-29 00:00:00",
            "1900-02-29 00:00:00",
            "2023-04-31 00:00:00",
            "2023-03-28 20:45:nan",
        ] {
            parse(bad).unwrap_err();
        }
    }

    #[test]
    fn zones_are_in_minutes() {
        assert_eq!(zone("Date Time, GMT-05:00"), Some(-300));
        assert_eq!(zone("Date Time, GMT+0530"), Some(330));
        assert_eq!(zone("Date Time, UTC"), Some(0));
        assert_eq!(zone("Date Time"), None);
    }
}
