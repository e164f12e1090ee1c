//! Trial results of a pilot, kept in a folder across restarts.

use std::io::Write;
use std::path::{Path, PathBuf};

use dumbwaiter_controllers::switching::Memory;
use serde::{Deserialize, Serialize};

/// Folder of a pilot whose configuration names no other.
pub const DEFAULT_STATE: &str = "/var/lib/dumbwaiter/pilot";
/// Version of the document.
const SCHEMA: u32 = 1;
/// Largest file, in bytes.
const BYTES_MAX: u64 = 1 << 20;
/// Trial results that are older than this are not used.
const SECONDS_MAX: u64 = 30 * 86_400;
const DAY: i128 = 86_400;

/// Trial results of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Version of the document: 1.
    pub schema: u32,
    /// Identity of the disk; empty where it reports none.
    pub disk: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Time of writing, in seconds since 1970.
    pub unix_s: u64,
    /// The workloads.
    pub memory: Memory,
}

impl Learned {
    pub(crate) fn new(disk: String, kernel: String, unix_s: u64, memory: Memory) -> Learned {
        Learned { schema: SCHEMA, disk, kernel, unix_s, memory }
    }

    /// Whether it is of this disk, under this kernel, and recent.
    pub(crate) fn fits(&self, disk: &str, kernel: &str, unix_s: u64) -> bool {
        let age = i128::from(unix_s) - i128::from(self.unix_s);
        // Tolerates a clock that was set back a little.
        self.disk == disk && self.kernel == kernel && (-DAY..=i128::from(SECONDS_MAX)).contains(&age)
    }
}

/// The folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// A store in `folder`, which is created on the first write.
    pub fn new(folder: &Path) -> Store {
        Store { folder: folder.to_owned() }
    }

    fn file(&self, device: &Path) -> PathBuf {
        let name: String = device
            .to_string_lossy()
            .trim_start_matches("/dev/")
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_.:".contains(c) { c } else { '_' })
            .collect();
        self.folder.join(format!("{name}.json"))
    }

    /// Trial results of a disk; `None` where there are none. The error says why a file cannot be used.
    pub fn learned(&self, device: &Path) -> Result<Option<Learned>, String> {
        let path = self.file(device);
        let place = |why: String| format!("{}: {why}; trials start over", path.display());
        let Some(bytes) = read(&path).map_err(place)? else { return Ok(None) };
        let learned: Learned = serde_json::from_slice(&bytes).map_err(|error| place(error.to_string()))?;
        if learned.schema != SCHEMA || !learned.memory.is_sound() {
            return Err(place("not what a pilot of this version writes".to_owned()));
        }
        Ok(Some(learned))
    }

    /// Saves the trial results of a disk.
    pub fn keep(&self, device: &Path, learned: &Learned) -> Result<(), String> {
        let path = self.file(device);
        let text = serde_json::to_vec_pretty(learned).map_err(|error| error.to_string())?;
        let written = dumbwaiter_text::create_folder(&self.folder)
            .and_then(|()| dumbwaiter_text::write(&path, |out| out.write_all(&text)));
        written.map_err(|error| format!("{}: {error}; trial results are not saved", path.display()))
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
        Ok(about) if about.len() > BYTES_MAX => return Err("longer than 1 MiB".to_owned()),
        Ok(_) => {}
    }
    std::fs::read(path).map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned() -> Learned {
        Learned::new("naa.5".to_owned(), "6.18".to_owned(), 1_000, Memory::default())
    }

    #[test]
    fn what_was_kept_of_a_disk_is_read_again_and_of_another_it_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(&folder.path().join("state"));
        let device = Path::new("/dev/disk/by-id/ata-X 1");
        assert_eq!(store.learned(device), Ok(None));
        store.keep(device, &learned()).unwrap();
        assert_eq!(store.learned(device), Ok(Some(learned())));
        assert!(learned().fits("naa.5", "6.18", 1_000 + SECONDS_MAX));
        for (disk, kernel, unix_s) in [("naa.6", "6.18", 1_000), ("naa.5", "6.19", 1_000), ("naa.5", "6.18", 9_000_000)]
        {
            assert!(!learned().fits(disk, kernel, unix_s), "{disk} {kernel} {unix_s}");
        }
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        for text in
            ["", "{}", "{\"schema\":2,\"disk\":\"\",\"kernel\":\"\",\"unix_s\":0,\"memory\":{\"workloads\":[]}}"]
        {
            std::fs::write(folder.path().join("sda.json"), text).unwrap();
            let error = store.learned(Path::new("/dev/sda")).unwrap_err();
            assert!(error.contains("sda.json"), "{text}: {error}");
        }
    }
}
