//! Machines come: a disk's thread listens at its exports' sockets itself.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use dumbwaiter_path::Interest;
use dumbwaiter_protocols::vhost_user::BlockFacts;
use dumbwaiter_protocols::vhost_user::wire::MAX_QUEUES;

use super::device_socket::{DeviceSocket, SOCKET_OWNER, socket_path};
use super::session::Session;
use crate::Error;
use crate::event::ClientEvent;
use crate::shard::Shard;
use crate::unix_socket::bind_unix;

/// Requests that a ring may have under way at least. The bound is twice the device's depth: below that the device idles, and far
/// above it the queue in here would hide from the scheduler who waits.
const MIN_IN_FLIGHT: u32 = 32;
/// Machines that are taken or turned away in one go: one that connects without end does not delay others.
const MAX_ACCEPTED: u32 = 16;

impl Shard {
    /// Listens for the machine of a tenant, unless that is done already.
    pub(crate) fn open_socket(&mut self, tenant: u32) -> Result<(), Error> {
        let Some(folder) = self.common.settings.vhost_user.clone() else { return Ok(()) };
        let Some(name) = self.volume.tenant(tenant).map(|own| own.settings.name.clone()) else { return Ok(()) };
        let at = tenant as usize;
        if self.sockets.len() <= at {
            self.sockets.resize_with(at + 1, || None);
        }
        if self.sockets[at].is_some() {
            return Ok(());
        }
        let path = socket_path(&folder, &name);
        let listener = bind_unix(&path)?;
        listener.set_nonblocking(true).map_err(Error::io("cannot make a socket non-blocking"))?;
        let watch = self.volume.watch(listener.as_fd(), Interest::Read, SOCKET_OWNER | tenant)?;
        self.sockets[at] = Some(DeviceSocket { listener, successor: None, path, watch, name });
        Ok(())
    }

    /// Listens no more for the machine of a tenant.
    pub(crate) fn close_socket(&mut self, tenant: u32) -> Result<(), Error> {
        if let Some(socket) = self.sockets.get_mut(tenant as usize).and_then(Option::take) {
            self.volume.disk.unwatch(socket.watch)?;
        }
        Ok(())
    }

    /// Listens for no machine any more.
    pub(crate) fn close_sockets(&mut self) -> Result<(), Error> {
        (0..self.sockets.len() as u32).try_for_each(|tenant| self.close_socket(tenant))
    }

    /// Takes the machines that wait at a tenant's socket. A second one is turned away: two writers of a disk destroy it. One that comes while
    /// its predecessor, perhaps itself, is still being taken down waits for that.
    pub(crate) fn accept(&mut self, tenant: u32) -> Result<(), Error> {
        for _ in 0..MAX_ACCEPTED {
            let before = self.clients.iter().position(|client| {
                client.as_ref().is_some_and(|client| client.info().tenant == tenant && !client.info().may_shrink)
            });
            if let Some(index) = before
                && self.clients[index].as_ref().is_some_and(|client| client.is_gone())
            {
                return self.notify_client(index as u32, ClientEvent::Drop(None));
            }
            let Some(Some(socket)) = self.sockets.get_mut(tenant as usize) else { return Ok(()) };
            let accepted = socket.successor.take().or_else(|| socket.listener.accept().ok().map(|(stream, _)| stream));
            // No machine is waiting, or it has disconnected again.
            let Some(stream) = accepted else { return Ok(()) };
            if before.and_then(|index| self.clients[index].as_ref()).is_some_and(|client| client.is_gone()) {
                // The other one left since it was looked at.
                socket.successor = Some(stream);
                continue;
            }
            let peer = match rustix::net::sockopt::socket_peercred(&stream) {
                Ok(peer) => format!("machine of process {} of user {}", peer.pid.as_raw_nonzero(), peer.uid.as_raw()),
                Err(_) => "a machine".to_owned(),
            };
            let name = socket.name.clone();
            if before.is_some() {
                self.log_about(tenant, &format!("refused {peer}: another machine uses this disk"));
                continue;
            }
            if self.common.connections.fetch_add(1, Ordering::Relaxed) >= self.common.settings.max_connections {
                self.common.connections.fetch_sub(1, Ordering::Relaxed);
                self.log_about(
                    tenant,
                    &format!("refused {peer}: the server has as many connections as max_connections allows"),
                );
                continue;
            }
            let Some(own) = self.volume.tenant(tenant).filter(|own| !own.leaving) else { return Ok(()) };
            let facts = BlockFacts {
                bytes: own.size,
                block_bytes: own.settings.block_bytes(self.volume.disk.target().facts().logical_block),
                readonly: own.settings.readonly,
                queues: MAX_QUEUES,
            };
            let bound = (2 * self.volume.largest_depth()).max(MIN_IN_FLIGHT);
            let session = Session::new(stream.into(), peer, tenant, &name, facts, bound);
            self.admit(Box::new(session));
        }
        Ok(())
    }
}
