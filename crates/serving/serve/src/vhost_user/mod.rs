//! vhost-user-blk: sockets for virtual machines, and their devices while they are connected.

mod accept;
mod device_socket;
mod requests;
mod session;
#[cfg(test)]
mod session_tests;

pub(crate) use device_socket::{DeviceSocket, SOCKET_OWNER, socket_path};
