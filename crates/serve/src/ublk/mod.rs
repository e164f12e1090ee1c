//! Block devices of this machine, `/dev/ublkbN`: exports that programs here use without a network.

mod device;
mod session;

pub(crate) use device::{Attachment, Description, Device, device_path};
