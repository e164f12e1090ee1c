//! Chooses the scheduler of live block devices: watches, advises, and with permission acts and restores.
#![forbid(unsafe_code)]

mod attached;
mod candidate;
mod config;
mod control;
mod daemon;
mod decision;
mod device;
mod error;
mod exchange;
mod fleet;
mod kernel;
mod load;
mod metrics;
mod ownership;
pub mod port;
mod presence;
mod replay;
mod status;
mod store;
mod table;
mod tunables;
mod turn;

pub use attached::HostContext;
pub use candidate::Wanted;
pub use config::{DEFAULT_CONTROL, DeviceConfig, LogLevel, PilotConfig};
pub use control::{Question, ask};
pub use daemon::{RunOptions, RunSummary, run};
pub use decision::{Action, Decision, Measured, TrialScore};
pub use device::{DevicePilot, State, Tally};
pub use error::Error;
pub use fleet::Fleet;
pub use kernel::KernelPort;
pub use load::LoadClass;
pub use metrics::openmetrics;
pub use ownership::ForeignChange;
pub use replay::{ReplayOptions, ReplaySummary, replay};
pub use status::{DeviceStatus, Status};
pub use store::{DEFAULT_STATE, Learned, Store};
pub use table::DeviceTable;
pub use tunables::{MOVABLE_TUNABLES, MovableTunable};
