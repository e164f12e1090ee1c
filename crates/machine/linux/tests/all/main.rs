//! Settings, cgroups and recordings of the running kernel, in one program.

mod loop_device;
mod record;
