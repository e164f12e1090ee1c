//! What a program that runs for long needs: notes to systemd, Unix sockets, HTTP for metrics, OpenMetrics text.
#![forbid(unsafe_code)]

mod clients;
mod config_text;
mod http;
pub mod openmetrics;
pub mod systemd;
mod unix_socket;
mod user;

pub use clients::{ClientThreads, Listen};
pub use config_text::config_text;
pub use http::{HttpServer, Response};
pub use unix_socket::bind_unix;
pub use user::ServiceUser;
