use std::io;
use std::path::PathBuf;

/// What can go wrong with a device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no driver.
    #[error("{}: {source}; `modprobe ublk_drv` loads the driver (Linux 6.5 or later), and only root may use it", path.display())]
    NoDriver {
        /// The node that cannot be opened.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The driver refused a command.
    #[error("ublk device {device}: {what}: {source}")]
    Refused {
        /// Its number.
        device: u32,
        /// What it was to do.
        what: &'static str,
        /// What it answered.
        source: io::Error,
    },
    /// The driver does not answer.
    #[error("ublk device {device}: {what}: the driver does not answer within {seconds} s")]
    Silent {
        /// Its number.
        device: u32,
        /// What it was to do.
        what: &'static str,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The system cannot give what the device needs.
    #[error("{what}: {source}")]
    System {
        /// What was wanted.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// The driver refused, with this error number.
    pub fn refusal(&self) -> Option<i32> {
        match self {
            Error::Refused { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
