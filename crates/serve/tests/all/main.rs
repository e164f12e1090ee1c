//! A server in this process, and clients of all kinds: ours, hostile ones, and real programs where they are installed.

mod control;
mod hostile;
mod limits;
mod real_clients;
mod running;
mod scale;
mod shares;
mod soak;
mod swarm;
mod vhost_user;
