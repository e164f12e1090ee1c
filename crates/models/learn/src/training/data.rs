//! Recorded runs: `DIR/<repeat>/<workload>.csv[.zst]`, one line per request in issue order.

mod file;

use std::fs;
use std::path::{Path, PathBuf};

use crate::RequestRecord;

use crate::training::Error;

/// The classifier's workloads, in the order of its outputs.
pub const CLASSES: [&str; 8] = [
    "readseq",
    "readreverse",
    "readwhilewriting",
    "readrandomwriterandom",
    "readrandom",
    "mixgraph",
    "fillseq",
    "fill100k",
];

/// Workloads on which latency models are trained and evaluated: the classes, a mail server and a database.
pub const LATENCY_WORKLOADS: [&str; 10] = [
    "readseq",
    "readreverse",
    "readwhilewriting",
    "readrandomwriterandom",
    "readrandom",
    "mixgraph",
    "fillseq",
    "fill100k",
    "varmail",
    "oltp",
];

/// Consecutive requests of one run, in issue order. No history reaches from one segment into the next.
pub type Segment = Vec<RequestRecord>;

/// One run of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The folder it is in: one repeat of all workloads.
    pub repeat: String,
    /// Its workload.
    pub workload: String,
    /// Its requests.
    pub segments: Vec<Segment>,
    /// CRC-32C of its file.
    pub checksum: u32,
}

impl Run {
    /// `repeat/workload`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.repeat, self.workload)
    }

    /// The classifier's output for its workload; `None` if it is in no class.
    pub fn class(&self) -> Option<usize> {
        CLASSES.iter().position(|&class| class == self.workload)
    }

    /// Is it of a workload of latency models?
    pub fn is_for_latency(&self) -> bool {
        LATENCY_WORKLOADS.contains(&self.workload.as_str())
    }
}

/// Runs, sorted by repeat and workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataSet {
    /// All runs.
    pub runs: Vec<Run>,
}

impl DataSet {
    /// Reads a folder. `repeats` names those to read; empty means all. A folder with data files of its own is one repeat.
    pub fn read(folder: &Path, repeats: &[String]) -> Result<DataSet, Error> {
        let mut found = Vec::new();
        if !data_files(folder)?.is_empty() {
            found.push((
                folder.file_name().map_or("data".into(), |name| name.to_string_lossy().into_owned()),
                folder.into(),
            ));
        }
        for path in sorted_entries(folder)?.into_iter().filter(|path| path.is_dir()) {
            if let Some(name) = path.file_name() {
                found.push((name.to_string_lossy().into_owned(), path));
            }
        }
        for wanted in repeats {
            if !found.iter().any(|(name, _)| name == wanted) {
                let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
                let problem = format!("there is no repeat `{wanted}`; it has: {}", names.join(", "));
                return Err(Error::Data { path: folder.into(), problem });
            }
        }
        let mut runs = Vec::new();
        for (repeat, path) in found {
            if repeats.is_empty() || repeats.contains(&repeat) {
                for (workload, path) in data_files(&path)? {
                    runs.push(file::read(&path, &repeat, &workload)?);
                }
            }
        }
        if runs.is_empty() {
            let problem = "no data: expected <repeat>/<workload>.csv.zst".to_owned();
            return Err(Error::Data { path: folder.into(), problem });
        }
        Ok(DataSet { runs })
    }

    /// The segments of all runs.
    pub fn segments(&self) -> impl Iterator<Item = &[RequestRecord]> {
        self.runs.iter().flat_map(|run| run.segments.iter().map(Vec::as_slice))
    }

    /// Names of its repeats, in order.
    pub fn repeats(&self) -> Vec<String> {
        let mut repeats: Vec<String> = self.runs.iter().map(|run| run.repeat.clone()).collect();
        repeats.dedup();
        repeats
    }

    /// The runs of some repeats.
    pub fn only(&self, repeats: &[String]) -> DataSet {
        DataSet { runs: self.runs.iter().filter(|run| repeats.contains(&run.repeat)).cloned().collect() }
    }
}

/// Reads one data file as a run, named for its folder and file.
pub fn read_run(path: &Path) -> Result<Run, Error> {
    let name = |part: Option<&std::ffi::OsStr>| part.map_or(String::new(), |part| part.to_string_lossy().into_owned());
    let repeat = name(path.parent().and_then(Path::file_name));
    let file = name(path.file_name());
    let workload = file.strip_suffix(".zst").unwrap_or(&file);
    file::read(path, &repeat, workload.strip_suffix(".csv").unwrap_or(workload))
}

/// The data files of a folder, with the workloads they are named for, sorted. `runs.csv` is a table about runs.
fn data_files(folder: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut files = Vec::new();
    for path in sorted_entries(folder)?.into_iter().filter(|path| path.is_file()) {
        let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        if let Some(workload) = name.strip_suffix(".csv.zst").or_else(|| name.strip_suffix(".csv"))
            && workload != "runs"
        {
            files.push((workload.to_owned(), path));
        }
    }
    Ok(files)
}

fn sorted_entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::file(folder))? {
        paths.push(entry.map_err(Error::file(folder))?.path());
    }
    paths.sort();
    Ok(paths)
}
