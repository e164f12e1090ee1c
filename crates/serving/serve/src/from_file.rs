//! Replies of large reads straight from the page cache: pages go to the socket, and nothing is copied here.
//!
//! Only for a tenant that has the target for itself: nothing of such a read takes time in the device, so that clients, and not weights, would decide
//! how much each gets.
//!
//! A write to the same bytes that comes before the client has read its reply may change it, as a read and a write that are under way
//! together may pass each other anyway.

use std::os::fd::OwnedFd;

use dumbwaiter_block::Nanos;
use rustix::fs::{OFlags, fcntl_setfl, sendfile};
use rustix::io::{Errno, Result};

use crate::tenant::Tenant;
use crate::volume::Volume;

/// Below this a call for the header and one for the data cost more than copies.
const FROM_FILE_BYTES: u32 = 64 << 10;

/// How long no other tenant has made a request.
const ALONE: Nanos = Nanos::from_ms(100);

impl Volume {
    /// Can these bytes of an export go from the page cache to a socket, without a buffer?
    pub(crate) fn can_send_from_file(&self, tenant: u32, offset: u64, length: u32) -> bool {
        let (last, since) = self.alone;
        let alone = last == tenant && self.disk.now().since(since) >= ALONE;
        let within = |own: &Tenant| self.disk.target().is_in_memory(own.offset + offset, u64::from(length));
        length >= FROM_FILE_BYTES && self.sends_from_file && alone && self.tenant(tenant).is_some_and(within)
    }

    /// Sends bytes of an export from the page cache, as many as the socket takes at once. 0: the file has become shorter.
    pub(crate) fn send_from_file(
        &mut self,
        socket: &OwnedFd,
        tenant: u32,
        offset: u64,
        length: usize,
    ) -> Result<usize> {
        let Some(own) = self.tenant(tenant) else { return Err(Errno::IO) };
        let mut at = own.offset + offset;
        // `sendfile` knows no flag for it, and receives in the ring must wait.
        fcntl_setfl(socket, OFlags::NONBLOCK)?;
        let sent = sendfile(socket, self.disk.target().file(), Some(&mut at), length);
        fcntl_setfl(socket, OFlags::empty())?;
        let failed = matches!(sent, Ok(0) | Err(Errno::IO));
        if failed {
            self.last_failure = Some(format!("a read of {length} bytes at byte {at} failed after its reply had begun"));
        }
        sent
    }
}
