//! How a device may be used.

use std::path::PathBuf;
use std::sync::Arc;

use crate::drive::{Rings, Verify};

use crate::power_log::PowerLog;

/// Shows a line to a person while an experiment runs.
pub type Announce = Arc<dyn Fn(&str) + Send + Sync>;

/// Where the energy of runs comes from.
#[derive(Clone, Debug, Default)]
pub enum EnergySource {
    /// Nowhere.
    None,
    /// The best meter of this machine, if it has one.
    #[default]
    Meter,
    /// A power logger's file, read after the last run.
    Log(PowerLog),
}

/// A database on the device, for [`dumbwaiter_experiment::DbBench`].
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// A folder on a mounted file system of the device; `None`: a new file system is made, which needs
    /// [`DeviceOptions::allow_writes`].
    pub folder: Option<PathBuf>,
    /// Largest size in bytes.
    pub bytes_max: u64,
}

impl DatabaseOptions {
    /// Size that is filled in a few minutes.
    pub const BYTES: u64 = 8_000_000_000;
    /// Size that is filled in a few seconds.
    pub const BYTES_QUICK: u64 = 64_000_000;
}

impl Default for DatabaseOptions {
    fn default() -> DatabaseOptions {
        DatabaseOptions { folder: None, bytes_max: DatabaseOptions::BYTES }
    }
}

/// How a device may be used.
#[derive(Clone)]
pub struct DeviceOptions {
    /// May loads write, discard and zero? That destroys what is on the device.
    pub allow_writes: bool,
    /// The same path again: allows writing to a device that is mounted or in use.
    pub confirmed: Option<PathBuf>,
    /// Through the page cache, not with `O_DIRECT`.
    pub buffered: bool,
    /// Go on after a failed I/O.
    pub keep_going: bool,
    /// Round I/Os that are not whole logical blocks out to blocks; otherwise such an I/O ends the run.
    pub round_out: bool,
    /// How many rings the engine uses.
    pub rings: Rings,
    /// Write checksums and check them, through the engine only.
    pub verify: Option<Verify>,
    /// Where energy comes from.
    pub energy: EnergySource,
    /// A minute of idling, full load and idling before the first run and after the last, by which the clock of a power
    /// logger is found.
    pub power_sync: bool,
    /// Where the device cannot be polled, `sqpoll` waits for interrupts; otherwise it is refused there.
    pub sqpoll_by_interrupts: bool,
    /// The database that `db_bench` reads.
    pub database: DatabaseOptions,
    /// Shows progress between runs; `None` is silent.
    pub announce: Option<Announce>,
}

impl Default for DeviceOptions {
    fn default() -> DeviceOptions {
        DeviceOptions {
            allow_writes: false,
            confirmed: None,
            buffered: false,
            keep_going: false,
            round_out: false,
            rings: Rings::Auto,
            verify: None,
            energy: EnergySource::default(),
            power_sync: false,
            sqpoll_by_interrupts: true,
            database: DatabaseOptions::default(),
            announce: None,
        }
    }
}
