//! The discrete-event simulator: workloads, block layer, host and device in virtual time.
#![forbid(unsafe_code)]
