use std::io;
use std::path::PathBuf;

/// An error of a ublk device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The driver is missing.
    #[error("{}: {source}; `modprobe ublk_drv` loads the driver (Linux 6.5 or later), and only root may use it", path.display())]
    NoDriver {
        /// The node that cannot be opened.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The driver refused a command.
    #[error("ublk device {device}: {what}: {source}")]
    Refused {
        /// Its number.
        device: u32,
        /// The operation.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// The driver does not answer.
    #[error("ublk device {device}: {what}: the driver did not answer within {seconds} s")]
    Silent {
        /// Its number.
        device: u32,
        /// The operation.
        what: &'static str,
        /// The timeout, seconds.
        seconds: u64,
    },
    /// A resource of the system is missing.
    #[error("{what}: {source}")]
    System {
        /// The resource.
        what: String,
        /// The system's reason.
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
