//! What an ext4 file system says of its layout, by the programs of e2fsprogs. Nothing is changed, and no kernel patch is needed.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;
use crate::process::run;

/// Inodes that one call asks for at most.
const INODES_MAX: usize = 1 << 22;

/// Superblock and block groups: what `dumpe2fs` prints.
///
/// # Errors
/// The program is missing, or refuses the device.
pub fn groups(device: &Path) -> Result<String, Error> {
    run(Command::new("dumpe2fs").env("LC_ALL", "C").arg(device), "read the layout of", device)
}

/// Type, size and extents of inodes: what `debugfs` prints for `stat <INODE>`, in one process for all of them.
///
/// # Errors
/// The program is missing, or refuses the device.
pub fn inodes(device: &Path, inodes: &[u64]) -> Result<String, Error> {
    let refused = |cause: std::io::Error| Error::Refused(format!("cannot run debugfs: {cause}"));
    let mut command = Command::new("debugfs");
    command.env("LC_ALL", "C").args(["-f", "-"]).arg(device);
    let mut debugfs =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(refused)?;
    let questions: String = inodes.iter().map(|inode| format!("stat <{inode}>\n")).collect();
    let mut input = debugfs.stdin.take();
    let out = std::thread::scope(|scope| {
        // It answers while it is asked, so both ends are served.
        scope.spawn(move || input.as_mut().map(|input| input.write_all(questions.as_bytes())));
        debugfs.wait_with_output()
    });
    let out = out.map_err(refused)?;
    if !out.status.success() {
        return Err(Error::Refused(format!("debugfs cannot read {}", device.display())));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The inodes of a folder and of all below it that are on the same file system, sorted.
///
/// # Errors
/// The folder itself cannot be read; what disappears meanwhile is left out.
pub fn inodes_below(folder: &Path) -> Result<Vec<u64>, Error> {
    let about = std::fs::metadata(folder).map_err(|e| Error::file("read", folder, e))?;
    let device = about.dev();
    let mut inodes = vec![about.ino()];
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(about) = entry.metadata() else { continue };
            if about.dev() != device {
                continue;
            }
            inodes.push(about.ino());
            if about.is_dir() {
                open.push(entry.path());
            }
            if inodes.len() > INODES_MAX {
                return Err(Error::Refused(format!("{} has more than {INODES_MAX} files", folder.display())));
            }
        }
    }
    inodes.sort_unstable();
    inodes.dedup();
    Ok(inodes)
}
