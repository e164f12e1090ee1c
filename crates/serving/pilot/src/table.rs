//! The table of scores of a disk, and whether it alone justifies a switch.

use std::sync::Arc;

use dumbwaiter_controllers::switching::{Goal, Kind, Prior, ScoreTable};

use crate::candidate::Candidate;

/// Tables older than this only advise.
const DAYS_MAX: i64 = 30;

/// Scores of schedulers by load, and the place of their measurement.
#[derive(Clone, Debug)]
pub struct DeviceTable {
    scores: Arc<ScoreTable>,
    /// Release of the kernel under which this drive was measured; none for simulated scores.
    kernel: Option<String>,
    /// Day of the measurement, `2026-11-23`; none for simulated scores.
    date: Option<String>,
}

impl DeviceTable {
    /// A table, with kernel and day where it was measured on the drive itself. The error says what is wrong.
    pub fn new(scores: ScoreTable, kernel: Option<String>, date: Option<String>) -> Result<DeviceTable, String> {
        match date.as_deref().filter(|date| days(date).is_none()) {
            Some(date) => Err(format!("table_date = \"{date}\": expected a day such as 2026-11-23")),
            None => Ok(DeviceTable { scores: Arc::new(scores), kernel, date }),
        }
    }

    /// The built-in table, made in the simulator.
    pub(crate) fn shipped() -> DeviceTable {
        // A test of its crate checks that it is valid.
        let scores = ScoreTable::shipped().unwrap_or_default();
        DeviceTable { scores, kernel: None, date: None }
    }

    /// Why its scores alone do not justify a switch, only advice; `None` if they do.
    pub(crate) fn only_advises(&self, kernel: &str, unix_s: u64) -> Option<String> {
        let (Some(of_kernel), Some(date)) = (&self.kernel, &self.date) else {
            let made_by = self.scores.made_by.split(" --").next().unwrap_or_default();
            return Some(format!(
                "the table was not measured on this drive (made by {made_by}); only trials may switch: by = \"both\", without \
                 --once"
            ));
        };
        if of_kernel != kernel {
            return Some(format!("the table was measured on kernel {of_kernel}, this is {kernel}"));
        }
        let age = days(date).map_or(i64::MAX, |day| (unix_s / 86_400) as i64 - day);
        if age < -1 {
            return Some(format!("the table is dated {} days from now: check the clock, or table_date", -age));
        }
        (age > DAYS_MAX).then(|| format!("the table is {age} days old; at most {DAYS_MAX} are trusted"))
    }

    /// Scores of these candidates. One with a changed setting has the score of its scheduler.
    pub(crate) fn prior(&self, device: Kind, candidates: &[Candidate], goal: Goal) -> Prior {
        let names: Vec<&str> = candidates.iter().map(|candidate| candidate.scheduler.as_str()).collect();
        self.scores.prior(device, &names, goal, None)
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
    // With years that begin in March, the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    Some(365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(kernel: Option<&str>, date: Option<&str>) -> DeviceTable {
        let scores = ScoreTable::new("a test".into(), String::new(), Vec::new());
        DeviceTable::new(scores, kernel.map(str::to_owned), date.map(str::to_owned)).unwrap()
    }

    #[test]
    fn an_old_table_or_one_of_another_kernel_only_advises() {
        let day = 86_400 * days("2026-11-23").unwrap() as u64;
        let fresh = table(Some("6.18"), Some("2026-11-01"));
        assert_eq!(fresh.only_advises("6.18", day), None);
        assert!(fresh.only_advises("6.12", day).unwrap().contains("6.18"));
        assert!(fresh.only_advises("6.18", day + 10 * 86_400).unwrap().contains("32 days"));
        assert!(fresh.only_advises("6.18", day - 30 * 86_400).unwrap().contains("from now"));
        assert!(table(None, None).only_advises("6.18", day).unwrap().contains("a test"));
        let scores = ScoreTable::new("a test".into(), String::new(), Vec::new());
        assert!(DeviceTable::new(scores, None, Some("soon".into())).unwrap_err().contains("2026-11-23"));
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
    fn the_shipped_table_advises_for_both_kinds_of_device() {
        for rotational in [false, true] {
            let prior = DeviceTable::shipped().prior(Kind { rotational, depth: 32 }, &[], Goal::Throughput);
            assert!(prior.is_empty(), "no candidates, no rows");
            let candidates = ["none", "kyber"].map(|name| Candidate {
                name: name.into(),
                scheduler: name.into(),
                settings: Vec::new(),
            });
            assert!(
                !DeviceTable::shipped().prior(Kind { rotational, depth: 32 }, &candidates, Goal::Latency).is_empty()
            );
        }
    }
}
