//! vhost-user-blk: sockets for virtual machines, and their devices while they are connected.

mod requests;
mod session;
mod sockets;

pub(crate) use sockets::{DeviceSocket, SOCKET_OWNER, socket_path};
