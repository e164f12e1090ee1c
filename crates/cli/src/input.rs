//! What the user gave: a scenario, a fio job file or a trace, told apart by content.

use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use dumbwaiter_block::Nanos;
use dumbwaiter_workloads::units;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Scenario,
    FioJob,
    Trace,
}

/// Bytes looked at.
const LOOK: usize = 64 * 1024;

/// What this file is. A folder, a pipe, a missing or an empty file is refused here.
pub(crate) fn kind_of(path: &Path) -> Result<Kind> {
    let named = || path.display().to_string();
    // Asked before it is opened: to open a pipe can take for ever.
    let facts = std::fs::metadata(path).with_context(named)?;
    if facts.is_dir() {
        bail!("{}: is a folder; expected a scenario, a fio job file or a trace", named());
    }
    if !facts.is_file() && !facts.file_type().is_block_device() {
        bail!("{}: is a pipe or alike, which cannot be read twice; expected a file", named());
    }
    let mut file = std::fs::File::open(path).with_context(named)?;
    let mut head = vec![0; LOOK];
    let mut got = 0;
    while got < head.len() {
        match file.read(&mut head[got..]).with_context(named)? {
            0 => break,
            n => got += n,
        }
    }
    head.truncate(got);
    if head.is_empty() {
        bail!("{}: is empty; expected a scenario, a fio job file or a trace", named());
    }
    Ok(kind_of_content(path, &head))
}

fn kind_of_content(path: &Path, head: &[u8]) -> Kind {
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    if extension == "toml" {
        return Kind::Scenario;
    }
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with(['#', ';']));
    let first = lines.next().unwrap_or_default();
    let binary = head.contains(&0);
    if binary {
        return Kind::Trace;
    }
    // A section of a fio job; a TOML table array has two brackets, and its keys are quoted or numbers.
    if first.starts_with("[[") || (first.contains(" = ") && !first.contains(',')) {
        return Kind::Scenario;
    }
    if first.starts_with('[') && first.ends_with(']') || extension == "fio" {
        return Kind::FioJob;
    }
    Kind::Trace
}

/// Refuses a mixture: one scenario or job file, or one or more traces.
pub(crate) fn kind_of_all(paths: &[PathBuf]) -> Result<Option<Kind>> {
    let mut kinds = Vec::new();
    for path in paths {
        kinds.push(kind_of(path)?);
    }
    match kinds.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        all if all.iter().all(|k| *k == Kind::Trace) => Ok(Some(Kind::Trace)),
        _ => bail!("{} files given: expected one scenario, one fio job file, or traces only", paths.len()),
    }
}

/// A length of time that a flag gives; seconds where it has no unit.
pub(crate) fn time(flag: &str, text: &str) -> Result<Nanos> {
    units::time(text, units::BareTime::Seconds).map_err(|e| anyhow!("{flag}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_only_once_is_refused() {
        for path in ["/dev/null", "/dev/zero"] {
            let said = format!("{:#}", kind_of(Path::new(path)).unwrap_err());
            assert!(said.contains(path) && said.contains("cannot be read twice"), "{said}");
        }
    }

    #[test]
    fn content_decides() {
        let kind = |name: &str, text: &str| kind_of_content(Path::new(name), text.as_bytes());
        assert_eq!(kind("a.toml", "garbage"), Kind::Scenario);
        assert_eq!(kind("a", "# note\nname = \"x\"\n"), Kind::Scenario);
        assert_eq!(kind("a", "; job\n[global]\nrw=read\n"), Kind::FioJob);
        assert_eq!(kind("a", "[[task]]\n"), Kind::Scenario);
        assert_eq!(kind("job.fio", "rw=read"), Kind::FioJob);
        assert_eq!(kind("a", "8,0 3 1 0.000000000 697 G W 223490 + 8 [kjournald]\n"), Kind::Trace);
        assert_eq!(kind("a.fio", "\0\x01"), Kind::Trace);
        assert_eq!(kind("a.csv", "128166372003061629,hm,1,Read,383496192,32768,413\n"), Kind::Trace);
    }
}
