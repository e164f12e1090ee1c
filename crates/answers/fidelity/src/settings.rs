//! The scheduler of a recording, with its settings.

use std::collections::BTreeMap;

use dumbwaiter_scenario::SchedulerSpec;
use dumbwaiter_schedulers::find;

use crate::recording::Recording;

/// Our scheduler of the recorded name, as of the recorded kernel and with the recorded settings. `None` if there is none.
pub fn scheduler_of(recording: &Recording) -> Option<SchedulerSpec> {
    let entry = find(&recording.scheduler)?;
    let known = |name: &str| entry.tunables.iter().any(|t| t.name == name);
    let set = recording.iosched.iter().filter(|(name, _)| known(name));
    let mut tunables: BTreeMap<String, String> = set.map(|(name, value)| (name.clone(), value.clone())).collect();
    if !entry.kernels().is_empty() {
        tunables.insert("kernel".to_owned(), recording.kernel.clone());
    }
    Some(SchedulerSpec { tunables, ..SchedulerSpec::named(entry.name) })
}
