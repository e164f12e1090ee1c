//! How far predictions of the simulator were from real drives, by class of drive and kind of load.
//!
//! The table is made by `dumbwaiter fidelity --measured CASES.csv --errors FILE`, and is data: nothing here computes an error.

use serde::{Deserialize, Serialize};

/// The table: source, class, load, rows, and errors as fractions.
const TABLE: &str = include_str!("measured_errors.csv");

/// The columns of such a table.
pub const ERROR_COLUMNS: [&str; 8] =
    ["source", "class", "load", "rows", "iops", "latency", "iops_difference", "latency_difference"];

/// The kind of a load, as far as the accuracy of a prediction depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadKind {
    /// Reads of one kind on one drive.
    ReadsOfOneDrive,
    /// The same from three busy CPUs and more, under a scheduler with one lock.
    LockBound,
    /// Reads of one kind that go over several drives.
    ReadsOfSeveralDrives,
    /// Different readers beside each other.
    ReadsBesideReads,
    /// Readers beside writers.
    ReadsBesideWrites,
    /// Writes alone.
    Writes,
}

impl LoadKind {
    /// All kinds.
    pub const ALL: [LoadKind; 6] = [
        LoadKind::ReadsOfOneDrive,
        LoadKind::LockBound,
        LoadKind::ReadsOfSeveralDrives,
        LoadKind::ReadsBesideReads,
        LoadKind::ReadsBesideWrites,
        LoadKind::Writes,
    ];

    /// Its name in JSON and in tables of errors.
    pub fn name(self) -> &'static str {
        match self {
            LoadKind::ReadsOfOneDrive => "reads-of-one-drive",
            LoadKind::LockBound => "lock-bound",
            LoadKind::ReadsOfSeveralDrives => "reads-of-several-drives",
            LoadKind::ReadsBesideReads => "reads-beside-reads",
            LoadKind::ReadsBesideWrites => "reads-beside-writes",
            LoadKind::Writes => "writes",
        }
    }

    /// In sentences, after `under`.
    pub(crate) fn words(self) -> &'static str {
        match self {
            LoadKind::ReadsOfOneDrive => "reads alone",
            LoadKind::LockBound => "reads that wait for a scheduler's lock",
            LoadKind::ReadsOfSeveralDrives => "reads of several drives",
            LoadKind::ReadsBesideReads => "reads beside reads",
            LoadKind::ReadsBesideWrites => "reads beside writes",
            LoadKind::Writes => "writes alone",
        }
    }
}

/// The class of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveClass {
    /// Flash and other drives without moving parts.
    Flash,
    /// A rotating disk.
    Disk,
    /// A volume of a cloud.
    Volume,
}

impl DriveClass {
    /// All classes.
    pub const ALL: [DriveClass; 3] = [DriveClass::Flash, DriveClass::Disk, DriveClass::Volume];

    /// Its name in JSON and in tables of errors.
    pub fn name(self) -> &'static str {
        match self {
            DriveClass::Flash => "flash",
            DriveClass::Disk => "disk",
            DriveClass::Volume => "volume",
        }
    }
}

/// Errors of predictions, as fractions: nineteen of twenty rows are within each. 0.25 is a prediction of 80 % to 125 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RelativeError {
    /// Rows that they rest on.
    pub rows: u64,
    /// Of I/Os per second.
    pub iops: f64,
    /// Of the p99, or of the highest percentile that was measured.
    pub latency: f64,
    /// Of the ratio of two schedulers' I/Os per second under the same load; NaN where one alone was measured.
    pub iops_difference: f64,
    /// The same of their latencies: a predicted difference that is smaller may be none.
    pub latency_difference: f64,
}

/// The errors that were found for a load of this kind on a drive of this class: the largest, where several drives were measured.
/// `None` where none was.
pub fn measured_error(class: DriveClass, load: LoadKind) -> Option<RelativeError> {
    let rows = read(TABLE).filter(|row| row.0 == class && row.1 == load).map(|row| row.2);
    rows.reduce(|a, b| RelativeError {
        rows: a.rows + b.rows,
        iops: a.iops.max(b.iops),
        latency: a.latency.max(b.latency),
        iops_difference: a.iops_difference.max(b.iops_difference),
        latency_difference: a.latency_difference.max(b.latency_difference),
    })
}

/// The rows of a table; what cannot be read is left out, which a test of the table rules out.
fn read(table: &str) -> impl Iterator<Item = (DriveClass, LoadKind, RelativeError)> + '_ {
    table.lines().skip(1).filter_map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let [_, class, load, rows, errors @ ..] = cells.as_slice() else { return None };
        let class = DriveClass::ALL.into_iter().find(|own| own.name() == *class)?;
        let load = LoadKind::ALL.into_iter().find(|own| own.name() == *load)?;
        let number = |i: usize| match errors.get(i) {
            Some(text) if !text.is_empty() => text.parse::<f64>().ok(),
            Some(_) => Some(f64::NAN),
            None => None,
        };
        let rows = rows.parse().ok()?;
        let error = RelativeError {
            rows,
            iops: number(0)?,
            latency: number(1)?,
            iops_difference: number(2)?,
            latency_difference: number(3)?,
        };
        Some((class, load, error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read() {
        assert_eq!(TABLE.lines().next(), Some(ERROR_COLUMNS.join(",").as_str()));
        assert_eq!(read(TABLE).count(), TABLE.lines().count() - 1);
        assert!(read(TABLE).all(|(_, _, error)| error.rows > 0 && error.latency >= 0.0));
    }

    #[test]
    fn of_several_drives_the_largest_error_counts() {
        let table = "header\na,disk,writes,3,0.1,0.5,,\nb,disk,writes,2,0.2,0.4,0.3,0.1\n";
        let rows: Vec<_> = read(table).collect();
        assert_eq!(rows.len(), 2);
        assert!(rows[0].2.iops_difference.is_nan());
        assert_eq!(0.3_f64.max(f64::NAN), 0.3);
        assert!(measured_error(DriveClass::Flash, LoadKind::ReadsBesideWrites).is_some());
    }
}
