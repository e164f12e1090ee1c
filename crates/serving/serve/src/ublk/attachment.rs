//! Messages between a device's own thread and the disk's thread.

use std::sync::mpsc::Sender;

use dumbwaiter_protocols::ublk::{Parameters, Queue};

/// Largest request, bytes.
pub(crate) const MAX_IO_BYTES: u32 = 1 << 20;

/// An order to a device that is there.
pub(crate) enum Order {
    /// End it: its users get errors.
    Stop,
    /// End without it: it waits for the next server.
    Leave,
    /// Another size, bytes.
    Resize(u64),
}

/// A device that an export is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    pub(crate) number: u32,
    /// The tenant's number in the volume.
    pub(crate) tenant: u32,
    pub(crate) parameters: Parameters,
}

/// A device for the disk's thread to serve.
pub(crate) struct Attachment {
    /// Its tenant's number in the volume.
    pub(crate) tenant: u32,
    pub(crate) queue: Queue,
    /// Hears that the driver was asked for a request of every tag.
    pub(crate) fetched: Sender<()>,
    pub(crate) orders: Sender<Order>,
    /// Dropped behind the queue: then the device can be removed.
    pub(crate) closed: Sender<()>,
}

/// The node of a device.
pub(crate) fn device_path(number: u32) -> String {
    format!("/dev/ublkb{number}")
}
