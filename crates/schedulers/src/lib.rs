//! I/O schedulers, one file each, and their registry.
#![forbid(unsafe_code)]
