//! One line of a reproduction: the paper beside ours.

use serde::Serialize;

/// What came of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Ours is as stated.
    Holds,
    /// It is not.
    Fails,
    /// It cannot be judged, for the row's reason.
    Cannot,
}

/// A value of a paper, or a statement about an order, beside what the models give. The names of the fields are those of
/// the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Id of the statement, which stays. `None`: the paper does not state it, and the row is shown beside those that it states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    /// Where the paper states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// What came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Why it cannot be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it fails: what was measured, or "unknown".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What was chosen after the paper was seen and touches this row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fitted: Vec<String>,
    /// Name of the paper.
    pub paper: String,
    /// Name of the figure or table.
    pub figure: String,
    /// The measured quantity.
    pub metric: String,
    /// Under which conditions.
    pub case: String,
    /// The value that the paper prints; `None`: its text gives no number.
    pub paper_value: Option<f64>,
    /// The value of the models or of the real device.
    pub ours: f64,
    /// Unit of both.
    pub unit: String,
    /// Does the order hold that the paper states? `None`: it states none of this row.
    pub ordering_holds: Option<bool>,
    /// Is ours as near to the paper's value as a reproduction must be? `None` without a value.
    pub within_tolerance: Option<bool>,
    /// Is it a statement? All of them count. Other rows are shown beside those.
    pub judged: bool,
    /// Was a constant of the models fitted to this very value? Agreement is no evidence then.
    pub calibrated: bool,
    /// `real` for a real device; nothing for the models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// Path of the real device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// What the list of statements calls the case, where `case` has figures of the run in it.
    #[serde(skip)]
    pub key: Option<String>,
    /// One of many values that people read in the figure's tables.
    #[serde(skip)]
    pub detail: bool,
}

impl Row {
    /// A row without a value of the paper's.
    pub fn new(paper: &str, figure: &str, metric: &str, case: impl Into<String>, ours: f64, unit: &str) -> Row {
        Row {
            statement: None,
            place: None,
            status: None,
            reason: None,
            cause: None,
            fitted: Vec::new(),
            key: None,
            paper: paper.to_owned(),
            figure: figure.to_owned(),
            metric: metric.to_owned(),
            case: case.into(),
            paper_value: None,
            ours,
            unit: unit.to_owned(),
            ordering_holds: None,
            within_tolerance: None,
            judged: false,
            calibrated: false,
            world: None,
            device: None,
            detail: false,
        }
    }

    /// With the paper's value and how far off ours may be, relative (0.03 is 3 %).
    pub fn value(self, paper_value: f64, tolerance: f64) -> Row {
        // A value exactly at the limit, as decimals, is within it.
        let near = (self.ours - paper_value).abs() <= (tolerance + 1e-12) * paper_value.abs();
        Row { paper_value: Some(paper_value), within_tolerance: Some(near), judged: true, ..self }
    }

    /// With the paper's value and the answer whether ours is near enough, where that is not a matter of percent.
    pub fn judged(self, paper_value: f64, near: bool) -> Row {
        Row { paper_value: Some(paper_value), within_tolerance: Some(near), judged: true, ..self }
    }

    /// With the answer whether the stated order holds.
    pub fn ordering(self, holds: bool) -> Row {
        Row { ordering_holds: Some(holds), judged: true, ..self }
    }

    /// With the answer whether the stated order holds, where it can be told.
    pub fn order(self, ordering_holds: Option<bool>) -> Row {
        Row { ordering_holds, judged: self.judged || ordering_holds.is_some(), ..self }
    }

    /// A statement that cannot be judged, and why.
    pub fn cannot(self, reason: &str) -> Row {
        Row { judged: true, reason: Some(reason.to_owned()), ..self }
    }

    /// A case whose text has figures of the run, by the name that stays.
    pub fn keyed(self, key: &str) -> Row {
        Row { key: Some(key.to_owned()), ..self }
    }

    /// What came of the statement; `None`: it is none.
    pub(crate) fn outcome(&self) -> Option<Status> {
        let answers = [self.ordering_holds, self.within_tolerance];
        match self.judged {
            false => None,
            true if self.reason.is_some() || answers.iter().all(Option::is_none) => Some(Status::Cannot),
            true if answers.contains(&Some(false)) => Some(Status::Fails),
            true => Some(Status::Holds),
        }
    }

    /// A value that a table shows too.
    pub fn detail(self) -> Row {
        Row { detail: true, ..self }
    }

    /// Measured on a real device: not the paper's, so that nearness to its values says nothing, and nothing is fitted.
    pub fn real(self, device: &str) -> Row {
        let (world, device) = (Some("real".to_owned()), Some(device.to_owned()));
        let another = "another drive than the paper's: nearness to its value says nothing";
        let reason = if self.ordering_holds.is_none() { self.reason.or(Some(another.to_owned())) } else { self.reason };
        let reason = if self.judged { reason } else { None };
        Row { within_tolerance: None, reason, calibrated: false, world, device, ..self }
    }

    /// A constant was fitted to this value.
    pub fn calibrated(self) -> Row {
        Row { calibrated: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_keys_of_the_json_and_what_is_not_known_is_null() {
        let row = Row::new("p", "f", "m", "c", f64::INFINITY, "us").ordering(false);
        let json = serde_json::to_value(&row).unwrap();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        let mut expected = [
            "paper",
            "figure",
            "metric",
            "case",
            "paper_value",
            "ours",
            "unit",
            "ordering_holds",
            "within_tolerance",
            "judged",
            "calibrated",
        ];
        expected.sort_unstable();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
        assert!(json["paper_value"].is_null() && json["within_tolerance"].is_null() && json["ours"].is_null());
        assert_eq!((json["ordering_holds"].as_bool(), json["calibrated"].as_bool()), (Some(false), Some(false)));
        let real = serde_json::to_value(row.clone().value(1.0, 0.5).calibrated().real("/dev/sda")).unwrap();
        assert_eq!((&real["world"], &real["device"]), (&"real".into(), &"/dev/sda".into()));
        assert!(real["paper_value"].is_number() && real["within_tolerance"].is_null() && real["calibrated"] == false);
        assert!(row.judged && !Row::new("p", "f", "m", "c", 1.0, "").judged);
        let number = Row::new("p", "f", "m", "c", 1.0, "").value(1.0, 0.1);
        assert_eq!((row.outcome(), number.outcome()), (Some(Status::Fails), Some(Status::Holds)));
        assert_eq!(Row::new("p", "f", "m", "c", 1.0, "").outcome(), None);
        let elsewhere = number.real("/dev/sda");
        assert!(elsewhere.outcome() == Some(Status::Cannot) && elsewhere.reason.is_some());
        assert_eq!(row.clone().cannot("no writes").outcome(), Some(Status::Cannot));
        let judged = row.judged(3.1, true);
        assert_eq!((judged.paper_value, judged.within_tolerance), (Some(3.1), Some(true)));
    }

    #[test]
    fn the_tolerance_is_of_the_papers_value() {
        let row = |ours| Row::new("p", "f", "m", "c", ours, "us").value(10.0, 0.03).within_tolerance;
        assert_eq!([row(10.3), row(9.7), row(10.31), row(9.69)], [Some(true), Some(true), Some(false), Some(false)]);
        assert_eq!(Row::new("p", "f", "m", "c", f64::NAN, "us").value(1.0, 0.5).within_tolerance, Some(false));
    }
}
