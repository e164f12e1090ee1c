//! Events of a volume, and of the clients that they concern.

use dumbwaiter_block::Errno;
use dumbwaiter_path::{Buffer, Data, WatchId};
use dumbwaiter_protocols::nbd::reply::Extent;

/// An event of a volume.
pub(crate) enum VolumeEvent {
    /// For the owner of a token or of a watch.
    Of { owner: u32, event: ClientEvent },
    /// Another thread has something for this one.
    Woken,
}

impl VolumeEvent {
    /// A command is done.
    pub(crate) fn completed(token: u64, result: Result<(), Errno>, data: Data) -> VolumeEvent {
        let event = ClientEvent::Completed { token: token as u32, result, data };
        VolumeEvent::Of { owner: (token >> 32) as u32, event }
    }
}

/// An event that concerns one client.
pub(crate) enum ClientEvent {
    /// A command is done: the lower half of its token, and the data that came with it.
    Completed { token: u32, result: Result<(), Errno>, data: Data },
    /// A receive is done.
    Received { buffer: Buffer, result: Result<usize, Errno> },
    /// A driver has answered a command on one of the client's tags.
    DriverAnswered { tag: u32, result: i32 },
    /// A watched descriptor is ready.
    Ready(WatchId),
    /// The file system has answered a question about extents.
    ExtentsFound { token: u32, extents: Vec<Extent> },
    /// The export has another size, bytes.
    Resized(u64),
    /// Takes nothing more; what is under way is finished and answered.
    Finish,
    /// Answers nothing any more. With a reason if the client broke the protocol.
    Drop(Option<&'static str>),
}
