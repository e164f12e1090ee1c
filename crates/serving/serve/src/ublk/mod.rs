//! Block devices of this machine, `/dev/ublkbN`: exports that programs here use without a network.

mod attachment;
mod device;
mod session;

pub(crate) use attachment::{Attachment, Description, device_path};
pub(crate) use device::Device;
