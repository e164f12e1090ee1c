//! A server in this process, and clients of all kinds: ours, hostile ones, and real programs where they are installed.

#[cfg(feature = "tls")]
mod certificates;
mod control;
mod hostile;
mod limits;
mod monitoring;
mod patience;
mod real_clients;
mod running;
mod scale;
mod shares;
mod soak;
mod swarm;
#[cfg(feature = "tls")]
mod tls;
mod vhost_user;
