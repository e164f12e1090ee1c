//! The contract of a scheduler: the one trait a new policy implements.
//!
//! A scheduler holds [`RequestId`]s, never requests. It is told what happens (`insert`, `merged`, `complete`,
//! `event`) and asked for decisions (`next`, `merge`, `limit`). It never reads a clock: `ctx.now` is the time.
//! Only [`Scheduler::insert`], [`Scheduler::next`], [`Scheduler::has_work`] and [`Scheduler::clone_box`] lack a default.

use crate::merge::{Join, MergeIndex};
use crate::{Context, Io, Nanos, RequestId, TaskId, TenantId, TickClock};

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this one; the scheduler has let go of it.
    Dispatch(RequestId),
    /// Deliberately nothing before this time, though it holds requests (idling, throttling).
    WaitUntil(Nanos),
    /// Nothing to send now.
    Empty,
}

/// Where an inserted request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where the policy puts an arrival.
    Tail,
    /// Before others: a requeue, or the data step of a flush sequence.
    Head,
}

/// Something else that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The time that [`Scheduler::timer`] asked for has come.
    Timer,
    /// A task was added.
    TaskAdded(TaskId),
    /// A task's priority or tenant changed; `ctx.tenants` has the new one.
    TaskChanged(TaskId),
    /// A task ended and none of its I/O is under way. Forget it: its id may be given to another task next.
    TaskExited(TaskId),
    /// A tenant was added.
    TenantAdded(TenantId),
    /// A tenant's weight or parent changed; `ctx.tenants` has the new one.
    TenantChanged(TenantId),
    /// A tenant is gone, with its tasks and the tenants nested in it, and none of its I/O is under way. `ctx.tenants` still
    /// has it. Forget it: its id may be given to another tenant next.
    TenantRetired(TenantId),
    /// The number of requests that the scheduler may hold, or that the device may hold, changed.
    DepthChanged {
        /// What [`Setup::nr_requests`] would be now.
        nr_requests: u32,
        /// What [`Setup::device_depth`] would be now.
        device_depth: u32,
    },
    /// The device was declared rotational or not (Linux: queue/rotational was written).
    RotationalChanged(bool),
}

/// How arrivals may join queued requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// Never.
    None,
    /// The scheduler answers [`Scheduler::merge`] from its own queues.
    Own,
    /// The block layer keeps a [`MergeIndex`] of everything queued.
    Index,
}

/// How a scheduler wants to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// State per hardware queue (`true`), or one state for the device.
    pub per_queue: bool,
    /// Requests go straight to the device while it accepts them; the scheduler only holds what was refused,
    /// and there are no scheduler tags (Linux: `none`).
    pub direct: bool,
    /// How arrivals may join queued requests.
    pub merging: Merging,
    /// The single-queue block layer of Linux up to 4.20 is around it: requests of one plug arrive sorted by sector, an
    /// arrival may join any request of its plug, and each tenant's requests that somebody waits for have `nr_requests`
    /// slots, and all others together as many.
    pub single_queue: bool,
}

impl Default for Traits {
    fn default() -> Self {
        Traits { per_queue: false, direct: false, merging: Merging::Index, single_queue: false }
    }
}

/// What a scheduler is told when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The coarse clock.
    pub clock: TickClock,
    /// CPUs, that is software queues.
    pub cpus: u16,
    /// Hardware queues.
    pub hw_queues: u16,
    /// Requests the scheduler may hold, those in the device included; see [`Traits::single_queue`].
    pub nr_requests: u32,
    /// Requests the device may hold.
    pub device_depth: u32,
    /// Has the device a moving arm?
    pub rotational: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            clock: TickClock::HZ_250,
            cpus: 1,
            hw_queues: 1,
            nr_requests: 256,
            device_depth: 128,
            rotational: false,
        }
    }
}

impl Setup {
    /// This set-up with each number that may not be 0 at least 1.
    pub fn usable(self) -> Setup {
        let period = self.clock.period.max(Nanos(1));
        Setup {
            clock: TickClock { period, ..self.clock },
            cpus: self.cpus.max(1),
            hw_queues: self.hw_queues.max(1),
            nr_requests: self.nr_requests.max(1),
            device_depth: self.device_depth.max(1),
            rotational: self.rotational,
        }
    }

    /// The hardware queue that serves a CPU.
    pub fn hw_queue_of(&self, cpu: u16) -> usize {
        usize::from(cpu) % usize::from(self.hw_queues.max(1))
    }
}

/// A setting of a scheduler, as the kernel names it in `queue/iosched/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// The kernel's file name.
    pub name: &'static str,
    /// Unit of the number.
    pub unit: &'static str,
    /// Smallest value accepted.
    pub min: i128,
    /// Largest value accepted.
    pub max: i128,
    /// Value of a new scheduler.
    pub default: i128,
    /// One sentence.
    pub help: &'static str,
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TunableError {
    /// No such setting; the scheduler's settings are listed.
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// The value is outside the range.
    OutOfRange {
        /// The setting.
        tunable: Tunable,
        /// What was asked for.
        value: i128,
    },
}

impl std::fmt::Display for TunableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TunableError::Unknown { name, known } if known.is_empty() => {
                write!(f, "unknown tunable `{name}`: this scheduler has none")
            }
            TunableError::Unknown { name, known } => {
                write!(f, "unknown tunable `{name}`; known: {}", known.join(", "))
            }
            TunableError::OutOfRange { tunable: t, value } => {
                write!(f, "{} = {value} is out of range: expected {} to {} ({})", t.name, t.min, t.max, t.unit)
            }
        }
    }
}

impl std::error::Error for TunableError {}

/// A policy: which queued request goes to the device next, and when none should.
pub trait Scheduler: Send {
    /// How it wants to be treated. Constant over its life.
    fn traits(&self) -> Traits {
        Traits::default()
    }

    /// A request enters. Requests of one plug are all inserted before the first `next`.
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>);

    /// Does it hold anything for this hardware queue? It is never asked for a decision while it does not.
    fn has_work(&self, hw_queue: usize) -> bool;

    /// What goes next to this hardware queue?
    fn next(&mut self, hw_queue: usize, ctx: &Context<'_>) -> Next;

    /// The device finished a request that `next` had returned; called once for each, before its slot is freed.
    /// `true` if something that was held back may go now: every hardware queue is asked again.
    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        let _ = (id, ctx);
        false
    }

    /// The driver took a request that `next` had returned.
    fn issued(&mut self, id: RequestId, ctx: &Context<'_>) {
        let _ = (id, ctx);
    }

    /// The driver gave a request back; it will be inserted again at the head.
    fn requeued(&mut self, id: RequestId, ctx: &Context<'_>) {
        let _ = (id, ctx);
    }

    /// Which queued request may this arrival join? The block layer has still to check sizes and flags of the
    /// request named. The default asks the shared index for one that ends where the arrival starts.
    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        index.lookup(io, ctx).filter(|join| self.allow_merge(join.into, io, ctx))
    }

    /// May `io` become part of this queued request, which the block layer found by itself: when a plug's requests are
    /// inserted, or where it looks no further than the request that merged last? A policy that holds requests of one
    /// tenant in several queues says no across them. (What [`Scheduler::merge`] answers is not asked about again.)
    fn allow_merge(&self, queued: RequestId, io: &Io, ctx: &Context<'_>) -> bool {
        let _ = (queued, io, ctx);
        true
    }

    /// A queued request grew: `ctx.requests` shows its new extent.
    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        let _ = (join, ctx);
    }

    /// Two queued requests became one: `survivor` has grown at its end, `absorbed` leaves the scheduler.
    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let _ = (survivor, absorbed, ctx);
    }

    /// The queued request before `id` in this policy's order, with which it might be joined.
    fn former(&self, id: RequestId) -> Option<RequestId> {
        let _ = id;
        None
    }

    /// The queued request behind `id` in this policy's order, with which it might be joined.
    fn latter(&self, id: RequestId) -> Option<RequestId> {
        let _ = id;
        None
    }

    /// How many of the `nr_requests` slots this kind of I/O may use.
    fn limit(&self, io: &Io, nr_requests: u32) -> u32 {
        let _ = io;
        nr_requests
    }

    /// Something else happened.
    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        let _ = (event, ctx);
    }

    /// When it wants [`Event::Timer`], if ever.
    fn timer(&self) -> Option<Nanos> {
        None
    }

    /// Its settings.
    fn tunables(&self) -> &'static [Tunable] {
        &[]
    }

    /// The value of a setting; `None` for an unknown name.
    fn get(&self, name: &str) -> Option<i128> {
        let _ = name;
        None
    }

    /// Stores a value that is known to be in range. Callers use [`set_tunable`].
    fn set(&mut self, name: &str, value: i128) {
        let _ = (name, value);
    }

    /// For replays against the kernel only: dispatch this queued request, whatever the policy would choose.
    fn take(&mut self, id: RequestId, hw_queue: usize, ctx: &Context<'_>) {
        let _ = (id, hw_queue, ctx);
    }

    /// Names and numbers of what it counted since it was made: for results, never for decisions.
    fn counters(&self, _count: &mut dyn FnMut(&'static str, u64)) {}

    /// A line or more about the state, for people who mend a scheduler.
    fn describe(&self, ctx: &Context<'_>) -> String {
        let _ = ctx;
        String::new()
    }

    /// A copy with the whole state.
    fn clone_box(&self) -> Box<dyn Scheduler>;
}

impl Clone for Box<dyn Scheduler> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

/// Changes a setting after checking its name and range.
pub fn set_tunable(scheduler: &mut dyn Scheduler, name: &str, value: i128) -> Result<(), TunableError> {
    let tunables = scheduler.tunables();
    let Some(tunable) = tunables.iter().find(|t| t.name == name) else {
        return Err(TunableError::Unknown { name: name.into(), known: tunables.iter().map(|t| t.name).collect() });
    };
    if value < tunable.min || value > tunable.max {
        return Err(TunableError::OutOfRange { tunable: *tunable, value });
    }
    scheduler.set(name, value);
    Ok(())
}
