//! `--destroy PATH`: the one flag that allows writing to a file or device.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// What may be destroyed.
#[derive(clap::Args)]
#[group(id = "destroy_or_older")]
pub(crate) struct Destroy {
    /// Let the load write to PATH, also where it is mounted or in use: this destroys the data on it. PATH must be the file or
    /// device that the command runs on
    #[arg(long, value_name = "PATH")]
    destroy: Option<PathBuf>,
    /// Before --destroy: the same, unless the device is in use
    #[arg(long, hide = true, conflicts_with = "destroy")]
    allow_writes: bool,
    /// Before --destroy: with --allow-writes, also where the device is in use
    #[arg(long, hide = true, value_name = "PATH", requires = "allow_writes", conflicts_with = "destroy")]
    i_know_this_destroys: Option<PathBuf>,
}

impl Destroy {
    /// May the load write?
    pub(crate) fn allows_writes(&self) -> bool {
        self.destroy.is_some() || self.allow_writes
    }

    /// The path whose loss is accepted, whoever uses it.
    pub(crate) fn confirmed(&self) -> Option<PathBuf> {
        self.destroy.clone().or_else(|| self.i_know_this_destroys.clone())
    }

    /// The flag as it is repeated in a command.
    pub(crate) fn typed(&self, on: &Path) -> Option<(&'static str, String)> {
        let path = self.confirmed().unwrap_or_else(|| on.to_owned());
        self.allows_writes().then(|| ("--destroy", path.display().to_string()))
    }

    /// Checks that the flag names what the command runs on, and says how the older flags are spelled now.
    pub(crate) fn check(&self, target: Option<&Path>, flag: &str) -> Result<()> {
        let Some(target) = target else {
            if self.allows_writes() {
                bail!("--destroy: expected {flag}, the file or device to run on");
            }
            return Ok(());
        };
        if let Some(named) = self.destroy.as_deref().filter(|named| named.as_os_str() != target.as_os_str()) {
            bail!("--destroy names {}, but the target is {}", named.display(), target.display());
        }
        if self.allow_writes {
            super::renamed("--allow-writes", &format!("--destroy {}", target.display()));
        }
        Ok(())
    }
}
