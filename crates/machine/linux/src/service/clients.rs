//! Clients of a listening socket, each served in a thread of its own.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rustix::net::Shutdown;

/// The pause after a failed accept, such as one without a free descriptor, which fails again at once.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A socket that clients connect to.
pub trait Listen: AsFd + Send + Sync + 'static {
    /// The connection to a client.
    type Client: Send + 'static;

    /// Waits for the next client.
    ///
    /// # Errors
    /// Those of accept(2).
    fn next_client(&self) -> io::Result<Self::Client>;
}

impl Listen for TcpListener {
    type Client = TcpStream;

    fn next_client(&self) -> io::Result<TcpStream> {
        self.accept().map(|(client, _)| client)
    }
}

impl Listen for UnixListener {
    type Client = UnixStream;

    fn next_client(&self) -> io::Result<UnixStream> {
        self.accept().map(|(client, _)| client)
    }
}

/// Serves the clients of a socket, each in a thread, until it is dropped. Clients that are being served then finish by
/// themselves.
pub struct ClientThreads<L: Listen> {
    listener: Arc<L>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl<L: Listen> ClientThreads<L> {
    /// Calls `serve` for each client, of which `clients_max` are served at a time; more are disconnected at once. `name` is
    /// that of the accepting thread.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        name: &str,
        listener: L,
        clients_max: u32,
        serve: impl Fn(L::Client) + Send + Sync + 'static,
    ) -> io::Result<ClientThreads<L>> {
        let (listener, stopping) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let (listening, ends, client_name) = (Arc::clone(&listener), Arc::clone(&stopping), format!("{name}-client"));
        let serve = Arc::new(serve);
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            let clients = Arc::new(AtomicU32::new(0));
            loop {
                let client = listening.next_client();
                if ends.load(Ordering::Acquire) {
                    return;
                }
                let Ok(client) = client else {
                    std::thread::sleep(RETRY_INTERVAL);
                    continue;
                };
                let Some(place) = Place::take(&clients, clients_max) else { continue };
                let serve = Arc::clone(&serve);
                // Without a thread the client is disconnected: its closure is dropped.
                let _ = Builder::new().name(client_name.clone()).spawn(move || {
                    let _place = place;
                    serve(client);
                });
            }
        })?;
        Ok(ClientThreads { listener, stopping, thread: Some(thread) })
    }
}

impl<L: Listen> Drop for ClientThreads<L> {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Ends the wait for clients.
        let _ = rustix::net::shutdown(&*self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One of the clients served at a time; free again when dropped, also by a panic.
struct Place(Arc<AtomicU32>);

impl Place {
    fn take(clients: &Arc<AtomicU32>, max: u32) -> Option<Place> {
        let place = Place(Arc::clone(clients));
        // Dropping it gives back what was counted here.
        (clients.fetch_add(1, Ordering::Relaxed) < max).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn listening() -> (TcpListener, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn a_client_whose_service_panics_leaves_its_place() {
        let (listener, address) = listening();
        let _threads = ClientThreads::start("test", listener, 1, |mut client: TcpStream| {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            assert_eq!(byte, *b"k", "the service fails for other bytes");
            client.write_all(b"y").unwrap();
        })
        .unwrap();
        for _ in 0..3 {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"p").unwrap();
            assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
        }
        // The place is free a moment after the client is disconnected.
        let answered = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            let mut client = TcpStream::connect(address).unwrap();
            let mut byte = [0];
            client.write_all(b"k").is_ok() && client.read(&mut byte).unwrap_or(0) == 1
        });
        assert!(answered);
    }

    #[test]
    fn more_clients_than_allowed_are_disconnected() {
        let (listener, address) = listening();
        let _threads = ClientThreads::start("test", listener, 1, |mut client: TcpStream| {
            client.write_all(b"y").unwrap();
            let _ = client.read(&mut [0]);
        })
        .unwrap();
        let mut first = TcpStream::connect(address).unwrap();
        first.read_exact(&mut [0]).unwrap();
        assert_eq!(TcpStream::connect(address).unwrap().read(&mut [0]).unwrap_or(0), 0);
    }

    #[test]
    fn it_ends_while_it_waits_for_clients() {
        let dir = tempfile::tempdir().unwrap();
        let unix = crate::service::bind_unix(&dir.path().join("socket")).unwrap();
        drop(ClientThreads::start("test", unix, 1, |_| ()).unwrap());
        drop(ClientThreads::start("test", listening().0, 1, |_| ()).unwrap());
    }
}
