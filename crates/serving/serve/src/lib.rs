//! Served disks: a file, a device or an emulated drive for many clients, shared by weight.
//!
//! [`Server::start`] opens the targets of [`ServeSettings`] and serves their exports over NBD and vhost-user-blk. Each disk has one thread with one
//! ring for its device and its clients' sockets; a thread before them accepts clients and negotiates. An export is a tenant
//! of its disk's scheduler; an NBD connection is a task of it, and so is each ring of a virtual machine's disk.
//!
//! ```text
//! listener: accept, negotiate ──► disk's thread: connection ──► volume: limits, counts ──► path::Disk: scheduler, device
//!                                      ▲                                                        │
//!                                      └──────────────────── replies ◄──────────────────────────┘
//! ```
#![deny(unsafe_code)]

mod access;
mod accounting;
mod accounts;
mod answers;
#[doc(hidden)]
pub mod bench;
mod buffers;
mod byte_size;
mod capacity;
mod client;
mod config_file;
mod control;
mod demo;
mod device_depth;
mod disk_thread;
mod error;
mod event;
mod export_text;
mod exports;
mod from_file;
#[doc(hidden)]
pub mod fuzzing;
mod histogram;
mod http;
mod inspector;
mod kept_socket;
mod log;
mod memory_store;
mod message;
mod metrics;
mod nbd;
mod open_files;
mod open_target;
mod operation;
mod order;
mod question;
mod reload;
mod scheduler;
mod server;
mod settings;
mod shard;
mod shares;
#[cfg(test)]
mod simulation;
mod spinner;
mod state;
pub mod systemd;
mod tenant;
#[cfg(test)]
mod test_volume;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "tls_absent.rs"]
mod tls;
mod tls_settings;
mod top;
mod ublk;
mod unix_socket;
mod vhost_user;
mod virtual_devices;
#[cfg(test)]
mod virtual_time_tests;
mod volume;
mod zeroes;

pub use access::{Access, AccessRules};
pub use control::send_order;
pub use demo::{DEMO_TARGET, DemoLoad, demo_settings};
pub use error::Error;
pub use inspector::Inspector;
pub use kept_socket::KeptSocket;
pub use metrics::openmetrics;
pub use open_files::raise_open_files_limit;
pub use open_target::null_bytes;
pub use order::Order;
pub use question::{DiskStats, Explanation, ExportStats, HistogramStats, Limit};
pub use server::Server;
pub use settings::{Cache, DeviceDepth, ExportSettings, ServeSettings, TargetSettings};
pub use shares::Shortfall;
pub use tls_settings::TlsSettings;
pub use top::{Activity, DiskView, TenantView, Top, TopView};
