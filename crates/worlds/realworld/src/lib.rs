//! Experiments on real files and block devices.
//!
//! [`DeviceUnderTest::open`] opens a file or device with every check; nothing writes unless
//! [`DeviceOptions::allow_writes`] says so. Three worlds run cells on it: [`Engine`], our block layer and schedulers over
//! io_uring, [`Kernel`], the kernel's own schedulers with worker processes and cgroups, and [`Served`], our schedulers in a served disk
//! with NBD clients. [`compare`] compares the schedulers of an experiment in the first, the second or both side by side.
//!
//! The kernel tells tasks and cgroups apart by process, so [`Kernel`] starts worker processes: any program that calls
//! [`worker::run`] can be one ([`WorkerProgram`]).
//!
//! [`drive`] is the load of a cell on a disk, without a world; [`fit`] makes a device model from a survey of a drive.

mod compare;
mod completion;
mod database;
mod device;
pub mod drive;
mod engine;
mod error;
pub mod fit;
mod host_runs;
mod kernel;
mod load_pattern;
mod lock;
mod options;
mod power_log;
mod recommend;
mod served;
mod time;
mod tune;
pub mod worker;

pub use compare::{Via, compare, compare_all};
pub use device::DeviceUnderTest;
pub use engine::Engine;
pub use host_runs::{HostRunOptions, HostRuns, host_runs};
pub use kernel::{Kernel, KernelOptions};
pub use options::{Announce, DatabaseOptions, DeviceOptions, EnergySource};
pub use power_log::PowerLog;
pub use recommend::{Survey, io_cost_world};
pub use served::Served;
pub use tune::tune;
pub use worker::WorkerProgram;
