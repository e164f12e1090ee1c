//! The conditions of the runs, and where the results come from.

use dumbwaiter_advise::{Document, Provenance};
use dumbwaiter_measure::{RunResult, latency_text};

/// Conditions of the runs: name and value.
pub(super) fn conditions(document: &Document) -> Vec<(&'static str, String)> {
    let runs = &document.runs;
    let distinct = |of: &dyn Fn(&RunResult) -> String| {
        let mut seen: Vec<String> = Vec::new();
        for text in runs.iter().map(of) {
            if !text.is_empty() && !seen.contains(&text) {
                seen.push(text);
            }
        }
        seen.join(", ")
    };
    let measured = {
        let (least, most) =
            runs.iter().fold((f64::INFINITY, 0.0f64), |(a, b), r| (a.min(r.duration_s), b.max(r.duration_s)));
        match (latency_text(least * 1e6), latency_text(most * 1e6)) {
            (a, b) if a == b => a,
            (a, b) => format!("{a} to {b}"),
        }
    };
    let requests: u64 = runs.iter().map(|r| r.completed).sum();
    let mut all = vec![
        ("Devices", distinct(&|r| r.device.clone())),
        ("Loads", loads(document)),
        ("Filled to", fills(document)),
        ("Schedulers", distinct(&|r| r.scheduler.clone())),
        ("Run", distinct(&|r| if r.world == "sim" { "simulated".into() } else { r.world.clone() })),
        ("Block layer", distinct(&|r| if r.via == "sim" { String::new() } else { r.via.clone() })),
        ("Completion", distinct(&|r| r.completion.clone())),
        ("Goal", document.goal.name().to_string()),
        ("Runs", format!("{} ({requests} requests measured)", runs.len())),
        ("Measured time of a run", if runs.is_empty() { String::new() } else { measured }),
        ("Seeds", distinct(&|r| r.seed.to_string())),
    ];
    let versions: Vec<String> = document.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    all.extend(document.until.iter().map(|until| ("Replicates added", until.clause())));
    all.push(("Versions", versions.join(", ")));
    all.extend(provenance(&document.provenance));
    all.retain(|(_, text)| !text.is_empty());
    all
}

/// The scenarios of a suite, or the loads of a survey, each once; empty where all runs have the same.
fn loads(document: &Document) -> String {
    let mut names: Vec<&str> = Vec::new();
    let of_cases = document.suite.iter().flat_map(|suite| &suite.cases).map(|case| case.scenario.as_str());
    let of_runs = document.runs.iter().map(|run| run.variant.as_str()).filter(|_| document.suite.is_none());
    for name in of_cases.chain(of_runs) {
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    // A name may hold a comma.
    names.join("; ")
}

/// How much of the drives holds data, where a suite says it.
fn fills(document: &Document) -> String {
    let cases = document.suite.iter().flat_map(|suite| &suite.cases);
    let percents: std::collections::BTreeSet<u8> = cases.filter_map(|case| case.fill_percent).collect();
    percents.iter().map(|percent| format!("{percent} %")).collect::<Vec<_>>().join(", ")
}

/// Where the results come from: name and value.
fn provenance(of: &Provenance) -> Vec<(&'static str, String)> {
    let mut all = vec![("Command", of.command.clone()), ("Commit", of.commit.clone().unwrap_or_default())];
    if let Some(machine) = &of.machine {
        let memory = machine.memory_bytes as f64 / 1e9;
        all.push(("Kernel", machine.kernel.clone()));
        all.push(("Machine", format!("{} · {} CPUs · {memory:.1} GB", machine.cpu, machine.cpus)));
        all.push(("Load before and after", format!("{:.2}, {:.2}", machine.load_before, machine.load_after)));
    }
    if let Some(drive) = &of.drive {
        let named = [drive.model.as_str(), &drive.firmware].map(str::trim).join(" ");
        all.push(("Drive", format!("{} {} · {:.1} GB", drive.path, named.trim(), drive.bytes as f64 / 1e9)));
        let queue: Vec<String> = drive.queue.iter().map(|(name, value)| format!("{name}={value}")).collect();
        all.push(("Queue settings", queue.join(", ")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbwaiter_advise::{Suite, SuiteCase};

    #[test]
    fn conditions_name_each_load_of_a_suite_once_and_its_fills() {
        let document = crate::compare::tests::document();
        let case = |(scenario, fill_percent): (&str, u8)| SuiteCase {
            scenario: scenario.to_owned(),
            device: document.runs[0].device.clone(),
            variant: format!("{scenario}, {fill_percent} % full"),
            drive_class: String::new(),
            fill_percent: Some(fill_percent),
        };
        let cases = [("copy, large", 10), ("build", 10), ("copy, large", 90), ("build", 90)].map(case).to_vec();
        let of = |document: &Document, name: &str| {
            conditions(document).into_iter().find(|(found, _)| *found == name).map(|(_, text)| text)
        };
        assert_eq!((of(&document, "Loads"), of(&document, "Filled to")), (None, None));
        let suite = document.with_suite(Suite::new("s", cases));
        assert_eq!(of(&suite, "Loads").as_deref(), Some("copy, large; build"));
        assert_eq!(of(&suite, "Filled to").as_deref(), Some("10 %, 90 %"));
    }
}
