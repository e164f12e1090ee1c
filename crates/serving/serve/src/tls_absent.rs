//! In the place of TLS in a program that was built without it.

use std::os::fd::OwnedFd;

use crate::Error;
use crate::tls_settings::TlsSettings;

/// Never made: [`Tls::load`] refuses.
pub(crate) enum Tls {}

/// Never made.
#[derive(Clone, Debug)]
pub(crate) enum Identity {}

impl Identity {
    pub(crate) fn has(&self, _name: &str) -> bool {
        match *self {}
    }
}

impl Tls {
    pub(crate) fn load(_settings: &TlsSettings) -> Result<Tls, Error> {
        let what = "this program was built without TLS: build it with `cargo build --release --features tls`";
        Err(Error::Settings(what.into()))
    }

    pub(crate) fn start(&self, _: &mut OwnedFd, _: impl FnOnce(&str) + Send + 'static) -> Result<Identity, Error> {
        match *self {}
    }

    pub(crate) fn connections(&self) -> u32 {
        match *self {}
    }
}
