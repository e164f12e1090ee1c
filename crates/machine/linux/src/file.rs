//! Small files of the kernel: sysfs, procfs, cgroups, tracefs.

use std::path::Path;

use crate::Error;

/// Reads a small file of the kernel, without the line end.
pub fn read(path: &Path) -> Result<String, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim_end().to_owned()),
        Err(cause) => Err(Error::file("read", path, cause)),
    }
}

/// Like [`read`]; `None` where the file cannot be read.
pub fn read_some(path: &Path) -> Option<String> {
    read(path).ok()
}

/// Writes to a file of the kernel, which must exist.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    use std::io::Write;
    let open = std::fs::OpenOptions::new().write(true).open(path);
    // One write call: files of the kernel take a value whole.
    open.and_then(|mut f| f.write_all(text.as_bytes()))
        .map_err(|cause| Error::file(format!("write \"{text}\" to"), path, cause))
}

/// Names of what is in a folder, sorted.
pub fn names(dir: &Path) -> Result<Vec<String>, Error> {
    let entries = std::fs::read_dir(dir).map_err(|e| Error::file("read", dir, e))?;
    let mut all: Vec<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    all.sort();
    Ok(all)
}
