//! TLS for NBD connections.
//!
//! A client that sent `STARTTLS` gets a thread of its own. The thread decrypts what the client sends into one end of a socket
//! pair, and encrypts what the server writes there. The server keeps the other end in the place of the client's socket, so
//! that negotiation and the path of requests know nothing of TLS and cost other clients nothing.

mod adapter;
mod certificates;
mod identity;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustls::{ServerConfig, ServerConnection};

use self::adapter::Adapter;
pub(crate) use self::identity::Identity;
use crate::Error;
use crate::tls_settings::TlsSettings;

/// The server's certificates, and the connections that use them.
pub(crate) struct Tls {
    config: Arc<ServerConfig>,
    connections: Arc<AtomicU32>,
}

impl Tls {
    /// Reads the certificates.
    pub(crate) fn load(settings: &TlsSettings) -> Result<Tls, Error> {
        let config = Arc::new(certificates::server_config(settings)?);
        Ok(Tls { config, connections: Arc::default() })
    }

    /// Begins TLS with the client of `socket`, which becomes the one of its decrypted bytes. `failed` is called once, if TLS fails.
    /// The answer knows the client's certificate by the time at which the first decrypted byte can be read.
    pub(crate) fn start(
        &self,
        socket: &mut OwnedFd,
        failed: impl FnOnce(&str) + Send + 'static,
    ) -> Result<Identity, Error> {
        let nonblocking =
            |socket: &UnixStream| socket.set_nonblocking(true).map_err(Error::io("cannot make a socket non-blocking"));
        let tls = ServerConnection::new(self.config.clone())
            .map_err(|e| Error::Settings(format!("cannot start TLS: {e}")))?;
        let (ours, theirs) = UnixStream::pair().map_err(Error::io("cannot create a socket pair"))?;
        nonblocking(&ours)?;
        nonblocking(&theirs)?;
        let client = std::mem::replace(socket, ours.into());
        let identity = Identity::default();
        let mut adapter = Adapter::new(tls, client, theirs, identity.clone());
        let connections = self.connections.clone();
        connections.fetch_add(1, Ordering::AcqRel);
        let spawned = std::thread::Builder::new().name("tls".into()).spawn(move || {
            if let Err(why) = adapter.run() {
                failed(&why);
            }
            drop(adapter);
            connections.fetch_sub(1, Ordering::AcqRel);
        });
        spawned.map(|_| identity).map_err(|source| {
            self.connections.fetch_sub(1, Ordering::AcqRel);
            Error::Io { what: "cannot start a thread".into(), source }
        })
    }

    /// Connections that still have something to send.
    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::Acquire)
    }
}
