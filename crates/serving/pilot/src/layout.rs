//! The layout map of a mounted ext4 file system.

use std::path::Path;

use dumbwaiter_learn::layout::LayoutMap;
use dumbwaiter_linux::ext4;

use crate::Error;

/// The journal's inode, which no folder has.
const JOURNAL: u64 = 8;

/// Inodes of one call of `debugfs`, whose output is some hundred bytes for each.
const INODES_AT_ONCE: usize = 4096;

/// Reads the kind of data in each block of the file system on `device`, with the names of files below `mount`, if it is given.
///
/// # Errors
/// e2fsprogs is missing, the device has no ext4, or the output of a tool is not as expected.
pub fn layout_map(device: &Path, mount: Option<&Path>) -> Result<LayoutMap, Error> {
    layout_of_at_most(device, mount, usize::MAX)
}

/// The same, refused if there are more files and folders than that.
pub(crate) fn layout_of_at_most(device: &Path, mount: Option<&Path>, files_max: usize) -> Result<LayoutMap, Error> {
    let refused = |error: &dyn std::fmt::Display| Error::Refused(format!("{}: {error}", device.display()));
    let groups = ext4::groups(device).map_err(|error| refused(&error))?;
    let mut map = LayoutMap::from_dumpe2fs(&groups).map_err(|error| refused(&error))?;
    let mut inodes = vec![JOURNAL];
    if let Some(mount) = mount {
        inodes.extend(ext4::inodes_below(mount).map_err(|error| refused(&error))?);
    }
    if inodes.len() > files_max {
        return Err(refused(&format!("more than {files_max} files")));
    }
    for some in inodes.chunks(INODES_AT_ONCE) {
        let text = ext4::inodes(device, some).map_err(|error| refused(&error))?;
        map.add_inodes(&text).map_err(|error| refused(&error))?;
    }
    Ok(map)
}
