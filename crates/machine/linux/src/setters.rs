//! Who else sets the scheduler of a disk: rules of udev and the active profile of tuned.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folders of udev rules, the one whose files count first.
const RULES: [&str; 3] = ["etc/udev/rules.d", "run/udev/rules.d", "usr/lib/udev/rules.d"];
/// Folders of tuned's profiles, the one whose files count first.
const PROFILES: [&str; 4] = ["etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"];

/// A file that sets the scheduler of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setter {
    /// The file.
    pub file: PathBuf,
    /// The scheduler.
    pub scheduler: String,
}

/// What sets the scheduler of this disk on a system whose files are below `root`, in the order in which they do it: the last one
/// counts. A rule counts unless its kernel name, or whether it is for rotating disks, rules the disk out; what else it asks for is not
/// known here.
pub fn setters(root: &Path, disk: &str, rotational: Option<bool>) -> Vec<Setter> {
    let mut files: BTreeMap<String, PathBuf> = BTreeMap::new();
    for folder in RULES {
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".rules") {
                // A file hides those of the same name in later folders.
                files.entry(name).or_insert_with(|| entry.path());
            }
        }
    }
    let mut found: Vec<Setter> = Vec::new();
    for file in files.into_values() {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let text = text.replace("\\\n", " ");
        let rules = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let last = rules.filter_map(|rule| set_by_rule(rule, disk, rotational)).next_back();
        found.extend(last.map(|scheduler| Setter { file, scheduler }));
    }
    found.extend(set_by_tuned(root));
    found
}

/// Whether what was applied to a disk holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holds {
    /// It is set now, and nothing sets another after it.
    pub holds: bool,
    /// What was found, a sentence each.
    pub lines: Vec<String>,
}

/// The file that applies a result to a disk.
pub fn own_file(disk: &str) -> String {
    format!("99-zz-io-scheduler-{disk}.rules")
}

/// Whether the rule that applies a result to this disk holds, where `current` is set now; `None` without such a rule.
pub fn check(root: &Path, disk: &str, rotational: Option<bool>, current: &str) -> Option<Holds> {
    let all = setters(root, disk, rotational);
    let place = all.iter().position(|of| of.file.file_name().is_some_and(|name| *name == *own_file(disk)))?;
    let own = &all[place];
    let later: Vec<&Setter> = all[place + 1..].iter().filter(|of| of.scheduler != own.scheduler).collect();
    let is_set = own.scheduler == current;
    let mut lines = vec![if is_set {
        format!("{disk}: {current} is set, as {} says", own.file.display())
    } else {
        format!("{disk}: {current} is set, and {} says {}", own.file.display(), own.scheduler)
    }];
    lines.extend(later.iter().map(|of| format!("{} sets {} after it", of.file.display(), of.scheduler)));
    Some(Holds { holds: is_set && later.is_empty(), lines })
}

/// What else sets the scheduler of this disk, a sentence each.
pub fn remarks(root: &Path, disk: &str, rotational: Option<bool>) -> Vec<String> {
    let others = setters(root, disk, rotational).into_iter();
    let others = others.filter(|of| of.file.file_name().is_none_or(|name| *name != *own_file(disk)));
    let one = |of: Setter| {
        let is_rule = of.file.extension().is_some_and(|extension| extension == "rules");
        let file = of.file.display().to_string();
        match is_rule {
            true => {
                format!("{file} sets {} too; a rule for {disk} in {} counts after it", of.scheduler, own_file(disk))
            }
            false => format!("{file} sets {} too, after the rules of udev: take it out there", of.scheduler),
        }
    };
    others.map(one).collect()
}

/// The scheduler that a rule assigns, unless it cannot be meant for this disk.
fn set_by_rule(rule: &str, disk: &str, rotational: Option<bool>) -> Option<String> {
    let quoted = |text: &str| Some(text.trim_start().strip_prefix('"')?.split_once('"')?.0.to_owned());
    let assigned = rule.split("ATTR{queue/scheduler}").skip(1).filter_map(|rest| {
        let rest = rest.trim_start().strip_prefix('=').or_else(|| rest.trim_start().strip_prefix(":="))?;
        quoted(rest)
    });
    let scheduler = assigned.last()?;
    let asked = |key: &str| quoted(rule.split_once(key)?.1.trim_start().strip_prefix("==")?);
    if asked("KERNEL").is_some_and(|patterns| !patterns.split('|').any(|pattern| matches(pattern, disk))) {
        return None;
    }
    let wanted = asked("ATTR{queue/rotational}");
    let is = rotational.map(|rotates| if rotates { "1" } else { "0" });
    match (wanted, is) {
        (Some(wanted), Some(is)) if wanted != is => None,
        _ => Some(scheduler),
    }
}

/// Whether a pattern of udev matches a whole name: `*`, `?` and sets in brackets.
fn matches(pattern: &str, name: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => name.is_empty(),
        Some('*') => {
            let starts = name.char_indices().map(|(i, _)| i).chain([name.len()]);
            starts.into_iter().any(|i| matches(rest.as_str(), &name[i..]))
        }
        Some('[') => {
            let Some((set, after)) = rest.as_str().split_once(']') else { return false };
            let Some(first) = name.chars().next() else { return false };
            let (set, inverted) = set.strip_prefix(['!', '^']).map_or((set, false), |set| (set, true));
            is_in(set, first) != inverted && matches(after, &name[first.len_utf8()..])
        }
        Some(own) => match name.chars().next() {
            Some(first) if own == '?' || own == first => matches(rest.as_str(), &name[first.len_utf8()..]),
            _ => false,
        },
    }
}

/// Whether a set such as `a-z0` has a character.
fn is_in(set: &str, wanted: char) -> bool {
    let all: Vec<char> = set.chars().collect();
    let in_range = all.windows(3).any(|w| w[1] == '-' && (w[0]..=w[2]).contains(&wanted));
    in_range || all.contains(&wanted)
}

/// What the active profile of tuned sets, on all disks or on some.
fn set_by_tuned(root: &Path) -> Option<Setter> {
    let active = std::fs::read_to_string(root.join("etc/tuned/active_profile")).ok()?;
    let profile = active.split_whitespace().last()?;
    if profile.contains('/') || profile.starts_with('.') {
        return None;
    }
    let files = PROFILES.iter().map(|folder| root.join(folder).join(profile).join("tuned.conf"));
    let file = files.into_iter().find(|file| file.is_file())?;
    let text = std::fs::read_to_string(&file).ok()?;
    let value =
        |line: &str| Some(line.trim().strip_prefix("elevator")?.trim_start().strip_prefix('=')?.trim().to_owned());
    text.lines().filter_map(value).next_back().map(|scheduler| Setter { file, scheduler })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_count_in_the_order_of_their_names_and_a_file_hides_its_namesakes() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let rule =
            |matching: &str, name: &str| format!("# a remark\n{matching}, \\\n ATTR{{queue/scheduler}}=\"{name}\"\n");
        write(
            "usr/lib/udev/rules.d/60-io.rules",
            &rule("KERNEL==\"sd[a-z]|vd*\", ATTR{queue/rotational}==\"1\"", "bfq"),
        );
        write("usr/lib/udev/rules.d/50-hidden.rules", &rule("KERNEL==\"sd*\"", "kyber"));
        write("etc/udev/rules.d/50-hidden.rules", "# nothing\n");
        write("etc/udev/rules.d/99-zz-io-scheduler-sda.rules", &rule("KERNEL==\"sda\"", "none"));
        write("run/udev/rules.d/70-asks.rules", "ATTR{queue/scheduler}==\"none\", ENV{A}=\"1\"\n");
        write("etc/tuned/active_profile", "throughput-performance\n");
        write("usr/lib/tuned/throughput-performance/tuned.conf", "[disk]\nelevator = mq-deadline\n");
        let names = |disk: &str, rotates: bool| -> Vec<(String, String)> {
            let all = setters(root.path(), disk, Some(rotates)).into_iter();
            all.map(|of| (of.file.file_name().unwrap().to_string_lossy().into_owned(), of.scheduler)).collect()
        };
        let own = |file: &str, name: &str| (file.to_owned(), name.to_owned());
        let tuned = own("tuned.conf", "mq-deadline");
        let expected = [own("60-io.rules", "bfq"), own("99-zz-io-scheduler-sda.rules", "none"), tuned.clone()];
        assert_eq!(names("sda", true), expected);
        assert_eq!(names("sdb", false), std::slice::from_ref(&tuned));
        // What tuned sets comes after the rule; without it the rule holds.
        let found = check(root.path(), "sda", Some(true), "none").unwrap();
        assert!(!found.holds && found.lines[1].ends_with("tuned.conf sets mq-deadline after it"), "{found:?}");
        assert!(remarks(root.path(), "sda", Some(true))[0].contains("60-io.rules sets bfq too"));
        std::fs::remove_file(root.path().join("etc/tuned/active_profile")).unwrap();
        assert!(check(root.path(), "sda", Some(true), "none").unwrap().holds);
        assert!(!check(root.path(), "sda", Some(true), "bfq").unwrap().holds);
        assert_eq!(check(root.path(), "sdb", Some(true), "bfq"), None);
        write("etc/tuned/active_profile", "throughput-performance\n");
        assert_eq!(names("nvme0n1", false), [tuned]);
        assert!(setters(&root.path().join("nowhere"), "sda", None).is_empty());
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, fits) in [
            ("sd*", "sda", true),
            ("sd*[!0-9]", "sda1", false),
            ("sd*[!0-9]", "sda", true),
            ("nvme[0-9]n?", "nvme0n1", true),
            ("sd", "sda", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
