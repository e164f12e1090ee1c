//! Controllers between a task and the scheduler, without clock or I/O: one controller a file, each a
//! [`dumbwaiter_block::Controller`].
//!
//! | controller | what it does |
//! |---|---|
//! | [`limits`] | parks what is beyond a tenant's I/Os or bytes per second |
//! | [`io_max`] | parks what is beyond a tenant's bytes or I/Os per second, by slices of a tenth of a second (Linux) |
//! | [`io_latency`] | slows the tenants beside one that misses its latency target (Linux) |
//! | [`prio_class`] | sets the priority class of a tenant's I/Os (`io.prio.class`) |
//! | [`reservations`] | raises the weight of a tenant that gets fewer I/Os than are reserved for it |
//! | [`depth_search`] | finds the smallest device depth that moves nearly as much as a deep one |
//! | [`deadlines`] | refuses an I/O that would wait for longer than its task's deadline |
//! | [`io_cost`] | shares the device by weight and modelled cost (Linux) |
//! | [`wbt`] | keeps few buffered writes in the device while reads are slow (Linux) |
//! | [`adaptive`] | exchanges the scheduler by what [`switching`] decides |
#![forbid(unsafe_code)]

pub mod adaptive;
mod adaptive_settings;
pub mod deadlines;
pub mod depth_search;
pub mod io_cost;
pub mod io_latency;
pub mod io_max;
pub mod kernel_controls;
pub mod kernel_timer;
pub mod limits;
pub mod prio_class;
pub mod reservations;
pub mod switching;
mod tenant_controls;
mod token_bucket;
pub mod wbt;

pub use adaptive::Adaptive;
pub use deadlines::{Deadlines, set_deadline};
pub use depth_search::{DepthSearch, search_depth};
pub use io_latency::IoLatency;
pub use io_max::IoMax;
pub use kernel_controls::{KernelControls, LatencyTarget, WbtTarget};
pub use limits::Limits;
pub use prio_class::{PrioClass, PrioClasses};
pub use reservations::Reservations;
pub use tenant_controls::{TenantControls, set_io_max, set_tenant_controls};
