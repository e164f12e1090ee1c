//! What a disk's thread is told, and what all threads of a server share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::mpsc::Sender;
use std::time::Duration;

use dumbwaiter_protocols::nbd::Agreement;
use rustix::fd::OwnedFd;

use crate::Error;
use crate::log::Log;
use crate::nbd::directory::Directory;
use crate::question::{Answer, Question};
use crate::settings::{ServeSettings, TargetSettings};
use crate::tls::Tls;
use crate::ublk::Attachment;

/// A message to a disk's thread.
pub(crate) enum Message {
    /// A client has agreed on an export.
    Connection { socket: OwnedFd, peer: String, tenant: u32, agreement: Box<Agreement> },
    /// A question of the control socket or the metrics.
    Ask(Question, Sender<Result<Answer, Error>>),
    /// A block device of this machine to be served.
    Attach(Box<Attachment>),
    /// Finish what is under way and end.
    ShutDown { grace: Duration },
    /// End without waiting for clients.
    Abandon,
}

/// State that all threads of a server share.
pub(crate) struct Common {
    pub(crate) directory: Directory,
    /// Connections in transmission or negotiation.
    pub(crate) connections: AtomicU32,
    pub(crate) settings: ServeSettings,
    /// The targets of the configuration, without what commands have changed. Held while exports are changed.
    pub(crate) configured: Mutex<Vec<TargetSettings>>,
    /// The most I/Os in a second that each target had shown before this server.
    pub(crate) shown_iops: Vec<u64>,
    pub(crate) tls: Option<Tls>,
    /// Clients that were let go before they agreed on an export: they broke the protocol, were too slow, or had no valid certificate.
    pub(crate) failed_negotiations: AtomicU64,
    pub(crate) log: Log,
}
