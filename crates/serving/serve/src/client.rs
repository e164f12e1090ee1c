//! What a disk's thread knows of its clients: an NBD connection and a vhost-user device are two kinds of owner of tasks.

use dumbwaiter_block::{Errno, Nanos};
use dumbwaiter_path::{Buffer, Data, WatchId};
use dumbwaiter_protocols::nbd::reply::Extent;

use crate::Error;
use crate::nbd::status::StatusThread;
use crate::volume::Volume;

/// What a client works with.
pub(crate) struct Surroundings<'a> {
    pub(crate) volume: &'a mut Volume,
    pub(crate) status: &'a Option<StatusThread>,
    /// Requests that a connection may have under way.
    pub(crate) most: u32,
    /// The server shuts down: new requests fail.
    pub(crate) draining: bool,
}

/// A client of an export. It submits commands to the volume, each with a token of its own number (upper half) and any lower half.
pub(crate) trait Client {
    /// Its tenant's place in the volume.
    fn tenant(&self) -> u32;

    /// Who it is, for people.
    fn peer(&self) -> &str;

    /// A command of it is done.
    fn completed(&mut self, token: u64, result: Result<(), Errno>, data: Data, volume: &mut Volume);

    /// A descriptor that it watches is ready.
    fn ready(&mut self, watch: WatchId, volume: &mut Volume) -> Result<(), Error>;

    /// A receive is done.
    fn received(&mut self, buffer: Buffer, result: Result<usize, Errno>, volume: &mut Volume);

    /// A driver has answered a command on one of its tags.
    fn commanded(&mut self, _index: u32, _tag: u32, _result: i32, _volume: &mut Volume) -> Result<(), Error> {
        Ok(())
    }

    /// The file system has answered a question about extents.
    fn extents_found(&mut self, token: u64, extents: &[Extent], volume: &mut Volume);

    /// Moves everything on: results out, requests in. `true` if there is more to do at once. `index` is its number.
    fn serve(&mut self, index: u32, with: &mut Surroundings<'_>) -> Result<bool, Error>;

    /// Takes nothing more; what is under way is finished and answered.
    fn finish(&mut self, volume: &mut Volume);

    /// Drops it: nothing is answered any more. With a reason if it broke the protocol.
    fn drop_client(&mut self, violation: Option<&'static str>, volume: &mut Volume);

    /// Nothing of it is under way any more.
    fn is_over(&self) -> bool;

    /// Does it wait for memory?
    fn is_starved(&self) -> bool;

    /// Requests that it offers without having announced them. Asked only of one that [`Client::is_quiet`].
    fn offered(&self) -> u32 {
        0
    }

    /// Was it not asked to announce its next request? Before the disk sleeps, [`Client::arm`] must be called.
    fn is_quiet(&self) -> bool {
        false
    }

    /// From now on it announces its next request. `true` if there is one already.
    fn arm(&mut self) -> bool {
        false
    }

    /// Must it be looked at again and again, as nothing announces its requests?
    fn is_polled(&self) -> bool {
        false
    }

    /// Looks, once a second, for a reason to drop it.
    fn complaint(&self, now: Nanos, stall: Nanos) -> Option<&'static str>;

    /// Why it was dropped, if it broke the protocol.
    fn violation(&self) -> Option<&'static str>;

    /// Can it live with a smaller export?
    fn may_shrink(&self) -> bool {
        true
    }

    /// Its export has another size.
    fn resized(&mut self, bytes: u64);

    /// Notes for people since the last call.
    fn take_notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Is the other side gone, or has it been dropped?
    fn is_gone(&self) -> bool;

    /// Gives back what one that is over still has.
    fn close(self: Box<Self>, volume: &mut Volume) -> Result<(), Error>;
}
