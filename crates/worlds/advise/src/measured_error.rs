//! How far predictions of the simulator were from real drives, by kind of load.

use serde::{Deserialize, Serialize};

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
}
