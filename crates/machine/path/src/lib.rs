//! A scheduled disk in real time: a [block layer](dumbwaiter_block::BlockLayer) with its scheduler over a file or block
//! device, through io_uring, for anyone who submits I/O: a benchmark, a disk server, a program.
//!
//! [`Target::open`] opens the file or device and finds out what it is. A [`Disk`] over it takes I/Os with their data
//! ([`Disk::submit`]), and each [`Disk::turn`] sends what the scheduler chooses, waits, and answers with [`Event`]s:
//! completed I/Os, watched descriptors that became ready, and calls of a [`Waker`] of another thread. A disk belongs to the
//! thread that made it. Nothing is allocated per I/O once its tables have grown to their size.
//!
//! ```no_run
//! use std::sync::Arc;
//! use dumbwaiter_block::{Config, Io, Op, Setup, TaskId, Tenant, Tenants, Ioprio};
//! use dumbwaiter_path::{Buffer, Data, Disk, DiskOptions, Event, OpenOptions, Target};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let target = Arc::new(Target::open("disk.img".as_ref(), &OpenOptions::default())?);
//! let setup = Setup { device_depth: 32, nr_requests: 64, ..Setup::default() };
//! let scheduler = dumbwaiter_schedulers::Choice::parse("mq-deadline")?.build(setup);
//! let mut tenants = Tenants::default();
//! let tenant = tenants.add_tenant(Tenant { weight: 100, parent: None });
//! let task = tenants.add_task(tenant, Ioprio::DEFAULT);
//! let config = Config { setup, ..Config::default() };
//! let mut disk = Disk::new(target, config, scheduler, tenants, DiskOptions::default())?;
//!
//! let io = Io { op: Op::Read, sector: 0, sectors: 8, task, tenant, token: 1, ..Io::default() };
//! disk.submit(io, Data::Buffer(Buffer::new(4096)))?;
//! let mut events = Vec::new();
//! while events.is_empty() {
//!     disk.turn(None, &mut events)?;
//! }
//! for event in events {
//!     if let Event::Completed { finished, data: Data::Buffer(read) } = event {
//!         println!("I/O {}: {:?}, begins with {:?}", finished.io.token, finished.result, &read[..16]);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod arena;
mod buffer;
mod clock;
pub mod closed_loop;
mod completion;
mod disk;
mod error;
mod hybrid;
mod observer;
mod options;
mod ring;
mod rings;
mod spinner;
mod target;
mod user_data;
mod virtual_device;

pub use buffer::{ALIGN, Buffer, Data, Iovecs, MAX_IOVECS};
pub use clock::{exact_timers, short_slices};
pub use completion::{CompletionMode, CompletionSupport, Sleep};
pub use disk::{Disk, DiskOptions, DriverCommand, Event, Interest, Outcome, Readiness, RequestFailure, Waker, WatchId};
pub use error::Error;
pub use observer::{Observer, Transfer};
pub use options::{Batching, OpenOptions};
pub use target::{Facts, Kind, Target};
pub use virtual_device::{VirtualDevice, VirtualRequest};
