//! A server in this process, and clients of all kinds: ours, hostile ones, and real programs where they are installed.

#[cfg(feature = "tls")]
mod access;
mod certificates;
mod control;
mod from_memory;
mod hostile;
mod limits;
mod live_page;
mod monitoring;
mod patience;
mod real_clients;
mod running;
mod scale;
mod shares;
mod soak;
mod swarm;
mod targets;
#[cfg(feature = "tls")]
mod tls;
mod vhost_user;
mod virtio_driver;
