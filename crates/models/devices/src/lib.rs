//! Simulated block devices: hard disk, flash SSD, ultra-low-latency SSD, cloud block volume.
//!
//! A device is a state machine in virtual time: it has no clock, no thread and no I/O of its own. The driver
//! hands commands and time in ([`Device`]); completions come out with a [`Breakdown`] that sums exactly to
//! their latency. One seed gives one result, whatever the cadence of the calls.
//!
//! Devices are described by parameter files: [`load`] takes `kind:name`, a path to a `.toml` file, and
//! overrides after a `?`.
//!
//! ```
//! use dumbwaiter_block::{Nanos, Op, TenantId};
//! use dumbwaiter_devices::{Command, load};
//!
//! let model = load("ull:optane-900p?jitter=0&tail_probability=0").expect("a built-in device");
//! let mut device = model.build(1);
//! let read = Command { tag: 0, op: Op::Read, fua: false, sector: 8, sectors: 8, queue: 0, tenant: TenantId(0) };
//! device.submit(Nanos(0), &read);
//! let mut done = Vec::new();
//! device.advance(Nanos::from_us(100), &mut done);
//! assert_eq!(done[0].at, Nanos(6_350));
//! ```
#![forbid(unsafe_code)]

mod arbiter;
mod catalogue;
pub mod closed_loop;
mod device;
mod error;
pub mod hdd;
mod held;
mod keys;
mod kind;
mod model;
pub mod null;
pub mod open_loop;
mod outbox;
mod rng;
pub mod ssd;
pub mod ull;
pub mod validate;
pub mod volume;

pub use arbiter::Arbiter;
pub use device::{Breakdown, Command, Completion, Counters, Device, Facts, Submitted};
pub use error::Error;
pub use keys::{Expect, Key};
pub use model::{DeviceModel, Kind, ModelInfo, Params, catalogue, filled, load, models, parse};
