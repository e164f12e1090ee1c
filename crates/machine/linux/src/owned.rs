//! The original settings of a queue, and the state in which they are ours to put back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::file::read_some;
use crate::queue::{Queue, Snapshot, chosen};

/// Attributes by name; `scheduler` is the name in force.
pub type Values = BTreeMap<String, String>;

/// Original values, and the condition under which they are put back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Owned {
    original: Snapshot,
    schedulers: Vec<String>,
    in_force: Values,
}

impl Owned {
    pub(crate) fn new(queue: &Queue, original: &Values, schedulers: &[String], in_force: Values) -> Owned {
        Owned { original: queue.snapshot_of(original), schedulers: schedulers.to_vec(), in_force }
    }

    pub(crate) fn queue(&self) -> Queue {
        self.original.queue()
    }

    /// Is what we left in force there still?
    fn is_ours(&self) -> bool {
        let queue = self.queue();
        let Some(text) = read_some(&queue.file("scheduler")) else { return false };
        let same = |(name, value): (&String, &String)| {
            name == "scheduler" || read_some(&queue.file(name)).is_none_or(|now| now == *value)
        };
        self.schedulers.contains(&chosen(&text)) && self.in_force.iter().all(same)
    }

    /// Puts the original values back, unless another user has changed the settings since.
    pub(crate) fn restore(&self) -> Vec<String> {
        if self.is_ours() { self.original.restore() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn disk(dir: &Path) -> PathBuf {
        let disk = dir.join("disk");
        std::fs::create_dir_all(disk.join("queue/iosched")).unwrap();
        for (name, value) in [("diskseq", "7"), ("queue/scheduler", "[aaaa] bbbb"), ("queue/nr_requests", "128")] {
            std::fs::write(disk.join(name), format!("{value}\n")).unwrap();
        }
        disk
    }

    fn owned(queue: &Queue, in_force: &[(&str, &str)]) -> Owned {
        let values = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let original = values(&[("scheduler", "aaaa"), ("nr_requests", "128")]);
        Owned::new(queue, &original, &["aaaa".into(), "bbbb".into()], values(in_force))
    }

    #[test]
    fn what_is_ours_is_put_back_and_what_another_user_set_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = disk(dir.path());
        let queue = Queue::at(&path);
        let put = |name: &str, text: &str| std::fs::write(path.join("queue").join(name), text).unwrap();
        put("nr_requests", "256\n");
        assert_eq!(owned(&queue, &[("nr_requests", "256")]).restore(), Vec::<String>::new());
        assert_eq!(queue.get("nr_requests").unwrap(), "128");
        // Another value than the one that we left.
        put("nr_requests", "512\n");
        assert_eq!(owned(&queue, &[("nr_requests", "256")]).restore(), Vec::<String>::new());
        assert_eq!(queue.get("nr_requests").unwrap(), "512");
        // A scheduler that we never set.
        put("scheduler", "aaaa bbbb [cccc]\n");
        owned(&queue, &[]).restore();
        assert_eq!(queue.get("nr_requests").unwrap(), "512");
        // Another disk under the same name.
        put("scheduler", "[aaaa] bbbb\n");
        let old = owned(&queue, &[("nr_requests", "512")]);
        std::fs::write(path.join("diskseq"), "8\n").unwrap();
        old.restore();
        assert_eq!(queue.get("nr_requests").unwrap(), "512");
    }
}
