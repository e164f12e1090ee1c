//! The clients of a disk as its thread drives them: NBD connections, virtual machines and block devices.

use dumbwaiter_block::Nanos;

use crate::Error;
use crate::event::ClientEvent;
use crate::nbd::status::StatusThread;
use crate::volume::Volume;

/// The disk and the server's settings, for a client that is served.
pub(crate) struct ServeContext<'a> {
    pub(crate) volume: &'a mut Volume,
    pub(crate) status: &'a Option<StatusThread>,
    /// Requests that a connection may have under way.
    pub(crate) most: u32,
    /// The server shuts down: new requests fail.
    pub(crate) draining: bool,
}

/// A client's identity, and what is said of it in the log.
pub(crate) struct ClientInfo {
    /// Its number on the disk's thread, from its admission on.
    pub(crate) index: u32,
    /// Its tenant's number in the volume.
    pub(crate) tenant: u32,
    /// Who it is, for people.
    pub(crate) peer: String,
    /// It can live with a smaller export.
    pub(crate) may_shrink: bool,
    /// Why it was dropped, if it broke the protocol.
    pub(crate) violation: Option<&'static str>,
    /// Lines for the log, since they were last taken.
    pub(crate) notes: Vec<String>,
}

impl ClientInfo {
    pub(crate) fn new(tenant: u32, peer: String, may_shrink: bool) -> ClientInfo {
        ClientInfo { index: 0, tenant, peer, may_shrink, violation: None, notes: Vec::new() }
    }

    /// The token of one of its commands: the upper half names the client.
    pub(crate) fn token(&self, number: u32) -> u64 {
        u64::from(self.index) << 32 | u64::from(number)
    }
}

/// How a client stands after it was served.
#[derive(Default)]
pub(crate) struct ClientState {
    /// There is more to do at once.
    pub(crate) again: bool,
    pub(crate) awaits_memory: bool,
    /// It was not asked to announce its next request. Before the disk sleeps, [`Client::turn_notifications_on`] must be called.
    pub(crate) notifications_off: bool,
    /// Nothing announces its requests: it must be looked at again and again.
    pub(crate) polled: bool,
    /// Nothing of it is under way any more.
    pub(crate) is_over: bool,
}

/// A client of an export. It submits commands to the volume with tokens of [`ClientInfo::token`].
pub(crate) trait Client {
    fn info(&self) -> &ClientInfo;

    fn info_mut(&mut self) -> &mut ClientInfo;

    /// Takes an event that concerns it.
    fn handle(&mut self, event: ClientEvent, volume: &mut Volume) -> Result<(), Error>;

    /// Moves everything on: results out, requests in.
    fn serve(&mut self, context: &mut ServeContext<'_>) -> Result<ClientState, Error>;

    /// Gives back what one that is over still has.
    fn close(self: Box<Self>, volume: &mut Volume) -> Result<(), Error>;

    /// A reason to drop it, asked for once a second.
    fn complaint(&self, _now: Nanos) -> Option<&'static str> {
        None
    }

    /// Has the machine at the other side gone, or been dropped, so that another may take its place?
    fn is_gone(&self) -> bool {
        false
    }

    /// Requests that it offers while its notifications are off.
    fn offered(&self) -> u32 {
        0
    }

    /// From now on it announces its next request. `true` if there is one already.
    fn turn_notifications_on(&mut self) -> bool {
        false
    }
}
