//! Parts of a program that runs for long: notes to systemd, Unix sockets, HTTP for metrics, OpenMetrics text, memory.
#![deny(unsafe_code)]

mod clients;
mod http;
mod memory;
pub mod openmetrics;
pub mod systemd;
mod unix_socket;
mod user;

pub use clients::{ClientThreads, Listen};
pub use http::{HttpServer, Response};
pub use memory::release_free_memory;
pub use unix_socket::bind_unix;
pub use user::ServiceUser;
