//! Tables of measured scores by load: what the model proposes.

use std::collections::BTreeMap;
use std::path::Path;

use dumbwaiter_policy::{Prior, Signature};
use serde::Deserialize;

use crate::Error;
use crate::candidate::Candidate;

/// Older tables only advise.
const DAYS_MAX: i64 = 30;
/// The share of the best score that the worst candidate of a table that only orders has.
const ORDER_FLOOR: f64 = 0.75;

/// One measured load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// What it is, for readers.
    #[serde(default)]
    #[allow(dead_code)]
    about: String,
    /// Share of sequential tasks, share of writers, log2 of sectors by 12, log2 of tasks by 12.
    load: [f64; 4],
    /// Score of each scheduler, higher is better, such as MB/s.
    scores: BTreeMap<String, f64>,
}

/// Scores of schedulers for loads that were measured.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreTable {
    /// Where it comes from.
    pub source: String,
    /// Release of the kernel that it was measured on; none for simulated scores.
    kernel: Option<String>,
    /// Day of the measurement, `2026-11-23`; none for simulated scores.
    date: Option<String>,
    #[serde(default, rename = "row")]
    rows: Vec<Row>,
}

impl ScoreTable {
    /// Reads a table; `path` is for messages.
    pub fn from_toml(text: &str, path: &Path) -> Result<ScoreTable, Error> {
        let refuse = |reason: String| Error::Config { path: path.to_owned(), reason };
        let table: ScoreTable = toml::from_str(text).map_err(|e| refuse(e.to_string()))?;
        for (number, row) in table.rows.iter().enumerate() {
            let numbers = row.load.iter().chain(row.scores.values());
            if let Some(bad) = numbers.into_iter().find(|value| !value.is_finite() || **value < 0.0) {
                return Err(refuse(format!("row {}: {bad} is no load or score; expected 0 or more", number + 1)));
            }
        }
        if let Some(date) = &table.date
            && days(date).is_none()
        {
            return Err(refuse(format!("date = \"{date}\": expected a day such as 2026-11-23")));
        }
        Ok(table)
    }

    /// Reads a file.
    pub fn from_file(path: &Path) -> Result<ScoreTable, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::Config { path: path.to_owned(), reason: e.to_string() })?;
        ScoreTable::from_toml(&text, path)
    }

    /// The table that comes with the program, made in the simulator.
    pub(crate) fn shipped(rotating: bool) -> ScoreTable {
        let text =
            if rotating { include_str!("../tables/rotating.toml") } else { include_str!("../tables/flash.toml") };
        // A test reads both.
        ScoreTable::from_toml(text, Path::new("shipped table")).unwrap_or_default()
    }

    /// Why its scores may advise but not switch a device by themselves; `None` if they may.
    pub(crate) fn only_advises(&self, kernel: &str, unix_s: u64) -> Option<String> {
        let (Some(of_kernel), Some(date)) = (&self.kernel, &self.date) else {
            return Some(format!(
                "the table ({}) was not measured on a drive; by = \"both\" lets trials decide",
                self.source
            ));
        };
        if of_kernel != kernel {
            return Some(format!("the table was measured on kernel {of_kernel}, this is {kernel}"));
        }
        let age = days(date).map_or(i64::MAX, |day| (unix_s / 86_400) as i64 - day);
        (age > DAYS_MAX).then(|| format!("the table is {age} days old; at most {DAYS_MAX} are trusted"))
    }

    /// The scores of these candidates. A candidate with a moved setting has the score of its scheduler. With `only_order`
    /// the scores tell which candidate to try first, and rule none out.
    pub(crate) fn prior(&self, candidates: &[Candidate], only_order: bool) -> Prior {
        let mut prior = Prior::default();
        for row in &self.rows {
            let best = row.scores.values().copied().fold(f64::MIN_POSITIVE, f64::max);
            let score = |candidate: &Candidate| {
                let named = row.scores.get(&candidate.name).or_else(|| row.scores.get(&candidate.scheduler));
                let score = named.copied().unwrap_or(0.0);
                if only_order { ORDER_FLOOR + (1.0 - ORDER_FLOOR) * score / best } else { score }
            };
            prior.add(Signature { parts: row.load }, candidates.iter().map(score).collect());
        }
        prior
    }
}

/// Days since 1970 of a day such as 2026-11-23.
fn days(date: &str) -> Option<i64> {
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some()
        || !(1970..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
    {
        return None;
    }
    // Years that begin in March end with the leap day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    Some(365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(head: &str) -> Result<ScoreTable, Error> {
        let row = "[[row]]\nload = [0.0, 0.0, 0.25, 0.4]\nscores = { none = 90, kyber = 130 }\n";
        ScoreTable::from_toml(&format!("source = 'x'\n{head}{row}"), Path::new("t.toml"))
    }

    #[test]
    fn an_old_table_or_one_of_another_kernel_only_advises() {
        let day = 86_400 * days("2026-11-23").unwrap() as u64;
        let fresh = table("kernel = '6.18'\ndate = '2026-11-01'\n").unwrap();
        assert_eq!(fresh.only_advises("6.18", day), None);
        assert!(fresh.only_advises("6.12", day).unwrap().contains("6.18"));
        assert!(fresh.only_advises("6.18", day + 10 * 86_400).unwrap().contains("32 days"));
        assert!(table("").unwrap().only_advises("6.18", day).is_some());
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let known = [("1970-01-01", 0), ("2000-02-29", 11_016), ("2000-03-01", 11_017), ("2026-11-23", 20_780)];
        for (date, expected) in known {
            assert_eq!(days(date), Some(expected), "{date}");
        }
        assert_eq!((days("2026-13-01"), days("yesterday"), days("2026-11")), (None, None, None));
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_place() {
        assert!(table("date = 'soon'\n").unwrap_err().to_string().contains("2026-11-23"));
        let bad =
            ScoreTable::from_toml("source = 'x'\n[[row]]\nload = [0, 0, 0, -1]\nscores = {}\n", Path::new("t.toml"));
        assert!(bad.unwrap_err().to_string().contains("row 1"));
    }

    #[test]
    fn the_shipped_tables_are_read_and_name_only_kernel_schedulers() {
        for rotating in [false, true] {
            let table = ScoreTable::shipped(rotating);
            assert!(table.rows.len() >= 4, "{}", table.source);
            for row in &table.rows {
                assert!(row.scores.keys().all(|name| ["none", "mq-deadline", "kyber", "bfq"].contains(&name.as_str())));
                assert_eq!(row.scores.len(), 4, "{}", row.about);
            }
        }
    }
}
