//! What commands have changed: kept for the next start, and when the configuration is read again.
//!
//! Three versions of each setting decide: that of the configuration as it was, that which is served, and that of the configuration as it
//! is now. What a command has set stays until the configuration itself changes there.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Error;
use crate::inspector::Inspector;
use crate::question::{Answer, Question};
use crate::settings::{ServeSettings, TargetSettings};

/// Version of the file.
const SCHEMA: u32 = 1;
/// A file that is larger is none of ours: 4,096 exports need less than 4 MiB.
const MAX_BYTES: u64 = 16 << 20;

/// The file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    schema: u32,
    /// Targets of the configuration when it was read last.
    configured: Vec<TargetSettings>,
    /// Targets as they are served.
    served: Vec<TargetSettings>,
    /// The most I/Os that each has served in a second, into which reservations must fit.
    #[serde(default)]
    shown_iops: Vec<u64>,
}

/// What a server begins with.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    pub(crate) targets: Vec<TargetSettings>,
    /// A line for each change by a command.
    pub(crate) notes: Vec<String>,
    /// The most I/Os in a second that each target has shown; none if nothing is known.
    pub(crate) shown_iops: Vec<u64>,
}

/// The settings with what commands changed before the last end of the server.
pub(crate) fn restore(settings: &ServeSettings) -> Result<Restored, Error> {
    let unchanged = || Restored { targets: settings.targets.clone(), ..Restored::default() };
    let Some(path) = settings.state.as_ref().filter(|_| settings.control.is_some()) else { return Ok(unchanged()) };
    let refuse = |reason: String| Error::Config {
        path: path.clone(),
        reason: format!("{reason}. It keeps what `dumbwaiter ctl` has set; remove it to start as configured"),
    };
    // Not through a link, which the next change would replace, and not from a FIFO, which may never be written.
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(unchanged()),
        Err(e) => return Err(refuse(e.to_string())),
        Ok(found) if !found.is_file() => return Err(refuse("it is no regular file".into())),
        Ok(_) => {}
    }
    let text = dumbwaiter_text::read_text(path, MAX_BYTES).map_err(|e| refuse(e.to_string()))?;
    let file: StateFile = serde_json::from_str(&text).map_err(|e| refuse(format!("no state of a server: {e}")))?;
    if file.schema != SCHEMA {
        return Err(refuse(format!("schema {}: expected {SCHEMA}", file.schema)));
    }
    let (targets, notes) = merge(&file.configured, &file.served, &settings.targets);
    // A command may have removed the last export of a target, and another one may add some.
    let checked: Vec<_> = targets.iter().filter(|target| !target.exports.is_empty()).cloned().collect();
    if !checked.is_empty() {
        ServeSettings { targets: checked, ..settings.clone() }.check().map_err(|e| refuse(e.to_string()))?;
    }
    let same = |(at, target): (usize, &TargetSettings)| {
        let same = file.served.get(at).is_some_and(|old| old.target == target.target);
        file.shown_iops.get(at).copied().filter(|_| same).unwrap_or(0)
    };
    let shown_iops = targets.iter().enumerate().map(same).collect();
    Ok(Restored { targets, notes, shown_iops })
}

/// Targets of the configuration with what commands have changed since it was `before`, and a line for each change.
pub(crate) fn merge(
    before: &[TargetSettings],
    served: &[TargetSettings],
    configured: &[TargetSettings],
) -> (Vec<TargetSettings>, Vec<String>) {
    let mut notes = Vec::new();
    let merged = configured.iter().enumerate().map(|(number, new)| {
        let same = |all: &'_ [TargetSettings]| all.get(number).filter(|old| old.target == new.target).cloned();
        match (same(before), same(served)) {
            (Some(before), Some(served)) => merge_target(&before, &served, new, &mut notes),
            _ => new.clone(),
        }
    });
    (merged.collect(), notes)
}

fn merge_target(
    before: &TargetSettings,
    served: &TargetSettings,
    new: &TargetSettings,
    notes: &mut Vec<String>,
) -> TargetSettings {
    let own = |settings: &TargetSettings| {
        // A scheduler has one name, however it was written.
        let scheduler = dumbwaiter_schedulers::Choice::parse(&settings.scheduler);
        let scheduler = scheduler.map_or(settings.scheduler.clone(), |choice| choice.label().to_owned());
        map_of(&TargetSettings { scheduler, exports: Vec::new(), ..settings.clone() })
    };
    let merged = merge_keys([&own(before), &own(served), &own(new)], &new.target, notes);
    let mut exports = Vec::new();
    let find = |all: &TargetSettings, name: &str| all.exports.iter().find(|export| export.name == name).cloned();
    for export in &new.exports {
        let subject = format!("export `{}`", export.name);
        match (find(before, &export.name), find(served, &export.name)) {
            (Some(before), None) if before == *export => {
                notes.push(format!("{subject}: a command has removed it, and it stays away; the configuration has it"));
            }
            (Some(_), None) => {
                notes.push(format!(
                    "{subject}: a command had removed it, but the configuration has changed it: it is back"
                ));
                exports.push(export.clone());
            }
            (Some(before), Some(served)) => {
                let maps = [&map_of(&before), &map_of(&served), &map_of(export)];
                let merged = settings_of(merge_keys(maps, &subject, notes));
                // One that commands have not changed is kept once.
                exports.push(merged.filter(|merged| merged != export).unwrap_or_else(|| export.clone()));
            }
            (None, _) => exports.push(export.clone()),
        }
    }
    for added in &served.exports {
        if find(before, &added.name).is_none() && find(new, &added.name).is_none() {
            notes.push(format!(
                "export `{}`: a command has added it, and it stays; the configuration has it not",
                added.name
            ));
            exports.push(added.clone());
        }
    }
    TargetSettings { exports, ..settings_of(merged).unwrap_or_else(|| new.clone()) }
}

fn map_of(settings: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(map)) => map,
        // Settings are objects.
        _ => Map::new(),
    }
}

fn settings_of<T: for<'de> Deserialize<'de>>(map: Map<String, Value>) -> Option<T> {
    serde_json::from_value(Value::Object(map)).ok()
}

/// The keys of one object as they were configured, are served, and are configured now.
fn merge_keys(
    [before, served, configured]: [&Map<String, Value>; 3],
    subject: &str,
    notes: &mut Vec<String>,
) -> Map<String, Value> {
    let mut merged = configured.clone();
    for (key, now) in &mut merged {
        let (was, set) = (before.get(key), served.get(key));
        let Some(set) = set.filter(|set| Some(*set) != was && *set != now) else { continue };
        if was == Some(now) {
            notes.push(format!(
                "{subject}: {key} stays {}, as a command set it; the configuration says {}",
                shown(set),
                shown(now)
            ));
            *now = set.clone();
        } else {
            notes.push(format!(
                "{subject}: {key} is {} now, as the configuration has changed; a command had set {}",
                shown(now),
                shown(set)
            ));
        }
    }
    merged
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => format!("`{text}`"),
        other => other.to_string(),
    }
}

impl Inspector {
    /// The targets as they are served.
    pub(crate) fn served(&self) -> Result<Vec<TargetSettings>, Error> {
        let ask = |number| match self.ask_shard(number, Question::Settings)? {
            Answer::Settings(settings) => Ok(*settings),
            _ => Err(Error::Gone),
        };
        (0..self.shards.len()).map(ask).collect()
    }

    /// Writes what is served to the state file, beside the targets as `configured`; `None` without such a file.
    pub(crate) fn save(&self, configured: &[TargetSettings]) -> Result<Option<PathBuf>, Error> {
        let settings = &self.common.settings;
        let Some(path) = settings.state.as_ref().filter(|_| settings.control.is_some()) else { return Ok(None) };
        let shown_iops = self.stats()?.iter().map(|disk| disk.shown_iops).collect();
        let file = StateFile { schema: SCHEMA, configured: configured.to_vec(), served: self.served()?, shown_iops };
        let text = serde_json::to_string_pretty(&file).map_err(|e| Error::Settings(e.to_string()))?;
        write(path, &text).map_err(Error::io(format!("cannot write the state file {}", path.display())))?;
        Ok(Some(path.clone()))
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    dumbwaiter_text::write(path, |out| {
        // It has names that are secrets.
        out.get_ref().file().set_permissions(Permissions::from_mode(0o600))?;
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ExportSettings;

    fn target(scheduler: &str, exports: &[&str]) -> TargetSettings {
        let exports = exports.iter().map(|text| ExportSettings::parse(text).unwrap().into()).collect();
        TargetSettings { scheduler: scheduler.into(), exports, ..TargetSettings::new("null") }
    }

    fn merged(before: &TargetSettings, served: &TargetSettings, new: &TargetSettings) -> (TargetSettings, Vec<String>) {
        let one = std::slice::from_ref;
        let (targets, notes) = merge(one(before), one(served), one(new));
        (targets.into_iter().next().unwrap(), notes)
    }

    #[test]
    fn what_a_command_set_stays_until_the_configuration_changes_there() {
        let before = target("headway", &["db:weight=400,size=1G", "batch:offset=1G,size=1G", "old:offset=2G,size=1G"]);
        let served = target(
            "bfq",
            &["db:weight=800,size=1G,limit_iops=50", "batch:offset=1G,size=1G", "logs:offset=3G,size=1G"],
        );
        let (same, notes) = merged(&before, &served, &before);
        assert_eq!(same, served);
        assert_eq!(notes.len(), 5, "{notes:#?}");
        assert!(
            notes[0].contains("null: scheduler stays `bfq`, as a command set it; the configuration says `headway`")
        );
        assert!(notes.iter().any(|note| note.contains("weight stays 800")), "{notes:#?}");
        assert!(
            notes
                .iter()
                .any(|note| note.contains("limit_iops stays 50, as a command set it; the configuration says none"))
        );
        let new = target(
            "headway",
            &["db:weight=500,size=1G", "batch:offset=1G,size=1G,weight=7", "old:offset=2G,size=1G,weight=3"],
        );
        let (changed, notes) = merged(&before, &served, &new);
        let weights: Vec<_> = changed.exports.iter().map(|e| (e.name.as_str(), e.weight, e.limit_iops)).collect();
        assert_eq!(weights, [("db", 500, Some(50)), ("batch", 7, None), ("old", 3, None), ("logs", 100, None)]);
        assert!(notes.iter().any(|note| note.contains("weight is 500 now, as the configuration has changed; a command had set 800")));
        assert!(notes.iter().any(|note| note.contains("export `old`: a command had removed it, but")), "{notes:#?}");
    }

    #[test]
    fn nothing_is_said_where_no_command_changed_anything() {
        let before = target("bfq:slice_idle=0", &["db:weight=400"]);
        let new = target("none", &["db:weight=500", "new:readonly"]);
        assert_eq!(merged(&before, &before, &new), (new.clone(), Vec::new()));
        // Another target in its place is another drive.
        let other = TargetSettings { target: "null:1G".into(), ..new };
        assert_eq!(merged(&before, &target("none", &["db:weight=9"]), &other), (other.clone(), Vec::new()));
    }

    #[test]
    fn a_file_reads_back_what_was_written() {
        let served = vec![target("bfq", &["db:weight=8,limit_iops=5,burst_iops=50,reservation=3,over_commit,shared"])];
        let file =
            StateFile { schema: SCHEMA, configured: served.clone(), served: served.clone(), shown_iops: vec![7] };
        let text = serde_json::to_string(&file).unwrap();
        assert_eq!(serde_json::from_str::<StateFile>(&text).unwrap().served, served);
    }
}
