//! Hashes of the files that a result follows from, beside the scenario, which it carries.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use dumbwaiter_scenario::{Scenario, Work};
use sha2::{Digest, Sha256};

/// SHA-256 of each trace file of a scenario, by its path; a file that cannot be read any more has none, and neither has a trace in memory.
pub(crate) fn hashes(scenario: &Scenario) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for task in scenario.tenants.iter().flat_map(|tenant| &tenant.tasks) {
        let Work::Trace(spec) = &task.work else { continue };
        if spec.rows.is_some() {
            continue;
        }
        for path in std::iter::once(&spec.path).chain(&spec.options.parts) {
            if !all.contains_key(path)
                && let Some(hash) = of_file(Path::new(path))
            {
                all.insert(path.clone(), hash);
            }
        }
    }
    all
}

fn of_file(path: &Path) -> Option<String> {
    // Not a pipe, which can be read only once.
    let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let mut reader = std::fs::File::open(path).ok()?.take(file.len());
    let (mut hasher, mut bytes) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match reader.read(&mut bytes).ok()? {
            0 => break,
            read => hasher.update(&bytes[..read]),
        }
    }
    Some(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
