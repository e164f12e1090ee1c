//! What a fuzzer feeds: everything that a server reads from people and programs, without a server.

use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::control::answer_lines;
use crate::inspector::Inspector;
use crate::nbd::directory::Directory;
use crate::settings::{ExportSettings, ServeSettings};
use crate::shard::Common;

/// An inspector of a server without disks, which refuses every order.
pub fn inspector() -> Inspector {
    let common = Common {
        directory: Directory::default(),
        connections: AtomicU32::new(0),
        settings: ServeSettings::default(),
        log: Box::new(|_| {}),
    };
    Inspector { shards: Vec::new(), common: Arc::new(common) }
}

/// A client of the control socket that sends these bytes: each line gets one answer, which is one line of JSON.
pub fn control(inspector: &Inspector, bytes: &[u8]) {
    let mut answers = Vec::new();
    // Memory takes everything.
    let _ = answer_lines(&mut BufReader::new(bytes), &mut answers, inspector);
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
    let answers: Vec<&[u8]> = answers.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(answers.len(), lines, "one answer a line");
    for answer in answers {
        assert!(answer.starts_with(b"{\"error\":\"") || answer.starts_with(b"{\"return\":"), "an answer says how it went");
    }
}

/// A configuration file, or an export as it is typed, with this text. What is accepted keeps the rules.
pub fn configuration(text: &str) {
    if let Ok(settings) = ServeSettings::from_toml(text, Path::new("fuzz.toml"))
        && settings.check().is_ok()
    {
        let mut names: Vec<&str> =
            settings.targets.iter().flat_map(|target| &target.exports).map(|export| export.name.as_str()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "names are unique");
        assert!(settings.targets.iter().flat_map(|t| &t.exports).all(|e| (1..=10_000).contains(&e.weight)));
    }
    if let Ok(export) = ExportSettings::parse(text) {
        assert!(export.check().is_ok());
    }
}
