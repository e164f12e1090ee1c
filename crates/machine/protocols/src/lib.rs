//! How clients reach a served disk, each without a loop of its own: [`nbd`] over sockets, [`vhost_user`] for virtual machines, [`ublk`]
//! for block devices of this machine.
#![deny(unsafe_code)]

pub mod nbd;
pub mod ublk;
pub mod vhost_user;
