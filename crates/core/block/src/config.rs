//! How a block layer is set up.

use crate::merge::Limits;
use crate::scheduler::Setup;

/// How a block layer is set up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// The device and host, as the scheduler sees them.
    pub setup: Setup,
    /// The device's limits on one request.
    pub limits: Limits,
    /// 0: merge; 1: only with the request that merged last; 2: never (`queue/nomerges`).
    pub nomerges: u8,
    /// Has the device a volatile cache?
    pub volatile_cache: bool,
    /// Does the device understand FUA?
    pub fua: bool,
    /// The driver's tasks sleep in [`crate::BlockLayer::submit`] until they have a request, and the driver decides when those that are
    /// [woken](crate::BlockLayer::next_woken) run. Otherwise [`crate::BlockLayer::poll`] lets them run when it has sent what may go.
    pub tasks_sleep: bool,
}
