//! NBD: the listener that negotiates, and connections in transmission.

pub(crate) mod connection;
pub(crate) mod directory;
mod export_socket;
pub(crate) mod listener;
pub(crate) mod status;
