use std::path::{Path, PathBuf};

/// Where the kernel's file systems are; a test puts them elsewhere.
#[derive(Clone, Debug)]
pub struct Roots {
    /// sysfs, `/sys`.
    pub sys: PathBuf,
    /// procfs, `/proc`.
    pub proc: PathBuf,
}

impl Default for Roots {
    fn default() -> Roots {
        Roots { sys: "/sys".into(), proc: "/proc".into() }
    }
}

impl Roots {
    /// `sys` and `proc` in this folder.
    pub fn under(dir: &Path) -> Roots {
        Roots { sys: dir.join("sys"), proc: dir.join("proc") }
    }
}
