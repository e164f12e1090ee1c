//! What stands between tasks and the scheduler, without clock or I/O: [`switching`] decides which scheduler a device should have now.
#![forbid(unsafe_code)]

pub mod switching;
