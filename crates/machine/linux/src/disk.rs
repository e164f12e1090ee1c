//! Which disk a path is or is a partition of.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::{Error, Roots};

/// Folder in sysfs of the disk that `path` is or is a partition of; `None` for a regular file.
pub fn disk_of(path: &Path, roots: &Roots) -> Result<Option<PathBuf>, Error> {
    let meta = std::fs::metadata(path).map_err(|e| Error::file("open", path, e))?;
    let kind = meta.file_type();
    if kind.is_file() {
        return Ok(None);
    }
    if !kind.is_block_device() {
        let text = format!("{} is neither a regular file nor a block device", path.display());
        return Err(Error::Refused(text));
    }
    Ok(Some(folders(number(meta.rdev()), roots)?.1))
}

pub(crate) fn number(dev: u64) -> (u32, u32) {
    (libc::major(dev), libc::minor(dev))
}

/// Folder of a device, and of the whole disk.
pub(crate) fn folders((major, minor): (u32, u32), roots: &Roots) -> Result<(PathBuf, PathBuf), Error> {
    let link = roots.sys.join(format!("dev/block/{major}:{minor}"));
    let own = link.canonicalize().map_err(|e| Error::file("find the device", &link, e))?;
    let disk = match own.parent() {
        Some(parent) if own.join("partition").exists() => parent.to_owned(),
        _ => own.clone(),
    };
    Ok((own, disk))
}
