//! Reports of the replays at the end of a run.

use std::collections::BTreeMap;

use dumbwaiter_traces::StatusHandle;

use crate::load::error::Error;
use crate::load::trace::OPEN_LOOP_DEPTH;

/// Handles on the replays of a run.
#[derive(Default)]
pub struct Replays(pub(crate) Vec<StatusHandle>);

impl Replays {
    /// Counts of records that were skipped or changed, by reason. `issued_late` counts the I/Os of open loops that waited
    /// for earlier ones.
    ///
    /// # Errors
    /// The read error that ended a replay early.
    pub fn finish(self, issued_late: u64) -> Result<BTreeMap<String, u64>, Error> {
        let mut skipped = BTreeMap::new();
        for status in self.0 {
            if let Ok(status) = status.lock() {
                if let Some(error) = status.error.clone() {
                    return Err(Error::Trace(error));
                }
                for s in status.skipped.iter().chain(&status.changed) {
                    *skipped.entry(s.reason.to_string()).or_insert(0) += s.count;
                }
            }
        }
        if issued_late > 0 {
            let reason = format!(
                "issued late: the device does not keep up with the recorded times, and {OPEN_LOOP_DEPTH} were outstanding; latencies are lower bounds"
            );
            skipped.insert(reason, issued_late);
        }
        Ok(skipped)
    }
}
