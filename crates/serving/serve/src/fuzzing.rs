//! Entry points of fuzzers: everything that a server reads from people and programs, without a server.

use std::io::BufReader;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

use crate::control::answer_lines;
use crate::inspector::Inspector;
use crate::log::Log;
use crate::message::Common;
use crate::nbd::directory::Directory;
use crate::settings::{ExportSettings, ServeSettings};

/// An inspector of a server without disks, which refuses every order.
pub fn inspector() -> Inspector {
    let common = Common {
        directory: Directory::default(),
        connections: AtomicU32::new(0),
        tls: None,
        failed_negotiations: AtomicU64::new(0),
        configured: Mutex::default(),
        shown_iops: Vec::new(),
        settings: ServeSettings::default(),
        log: Log::new(|_| {}),
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
        assert!(
            answer.starts_with(b"{\"error\":\"") || answer.starts_with(b"{\"return\":"),
            "an answer says how it went"
        );
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::next_random;

    const LINES: [&str; 8] = [
        r#"{"command": "list"}"#,
        r#"{"command": "set-weight", "export": "db", "weight": 800}"#,
        r#"{"command": "set-limit", "export": "db", "iops": 5, "bytes": null}"#,
        r#"{"command": "set-scheduler", "scheduler": "bfq:low_latency=0", "disk": 1}"#,
        r#"{"command": "add", "export": {"name": "x", "weight": 3, "size": 4096}}"#,
        r#"{"command": "drain", "export": "db", "timeout_s": 18446744073709551615}"#,
        "db:weight=400,offset=1G,size=20G,limit_iops=7,readonly",
        "unix = '/run'\n[[target]]\ntarget = 'null'\n[[target.export]]\nname = 'a'\nsize = '2GiB'\nweight = 3\n",
    ];

    /// Some bytes of a line changed, cut out, doubled, or taken from another.
    fn mutated(random: &mut u64) -> Vec<u8> {
        let mut below = |bound: usize| (next_random(random) % bound as u64) as usize;
        let mut bytes = LINES[below(LINES.len())].as_bytes().to_vec();
        for _ in 0..1 + below(4) {
            let at = below(bytes.len() + 1);
            match below(5) {
                0 if at < bytes.len() => bytes[at] = below(256) as u8,
                1 => bytes.truncate(at),
                2 => bytes.insert(at, b"\n\"{}[]=:,0-9"[below(12)]),
                3 => {
                    let other = LINES[below(LINES.len())].as_bytes();
                    bytes.splice(at..at, other[below(other.len())..].iter().copied());
                }
                _ => bytes.extend_from_within(at..),
            }
        }
        bytes
    }

    #[test]
    fn any_line_gets_one_answer_and_any_configuration_is_read_or_refused() {
        let (inspector, mut random) = (inspector(), 1);
        for _ in 0..2000 {
            let bytes = mutated(&mut random);
            control(&inspector, &bytes);
            configuration(&String::from_utf8_lossy(&bytes));
        }
    }
}
