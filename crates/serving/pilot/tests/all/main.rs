//! A pilot on fake disks with faults, and on a real loop device.

mod changes;
mod day;
mod fake;
mod faults;
mod loop_device;
mod replay;
