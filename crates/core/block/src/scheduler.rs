//! The contract of a scheduler: the one trait a new policy implements.
//!
//! A scheduler holds [`RequestId`]s, never requests. The block layer reports what happens (`insert`, `merged`,
//! `complete`, `event`) and asks for decisions (`next`, `merge`, `limit`). A scheduler never reads a clock: `ctx.now`
//! is the time. Only [`Scheduler::insert`], [`Scheduler::next`], [`Scheduler::has_work`] and [`Scheduler::clone_box`]
//! lack a default.

use std::sync::Arc;

use crate::hint::did_you_mean_of;
use crate::merge::{Join, MergeIndex};
use crate::{Context, Io, Nanos, Request, RequestId, TaskId, TenantId, TickClock};

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this request, which the scheduler no longer holds.
    Dispatch(RequestId),
    /// Send nothing before this time, although requests are queued (idling, throttling).
    WaitUntil(Nanos),
    /// Nothing can be sent now.
    Empty,
}

/// Where an inserted request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An arrival: in the order of the policy.
    Tail,
    /// Before all others: a requeued request, or the data step of a flush sequence.
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
        /// The new [`Setup::nr_requests`].
        nr_requests: u32,
        /// The new [`Setup::device_depth`].
        device_depth: u32,
    },
    /// The device was declared rotational or not (Linux: queue/rotational was written).
    RotationalChanged(bool),
    /// The page cache lets a task sleep that has written much to this device (Linux: `balance_dirty_pages`).
    WriterPaused,
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

/// How requests under way pass from one scheduler to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handover {
    /// As Linux: I/O submitted from now on waits; the old scheduler goes on until everything that was submitted before is
    /// finished; then the new one takes over and gets what waited.
    #[default]
    Freeze,
    /// The new scheduler gets all queued requests at once, in order of their arrival, and the device stays busy. Requests
    /// already sent finish without the new scheduler hearing of them.
    Live,
}

/// Requirements of a scheduler on the block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// State per hardware queue (`true`), or one state for the device.
    pub per_queue: bool,
    /// Requests go straight to the device while it accepts them; the scheduler only holds what was refused,
    /// and there are no scheduler tags (Linux: `none`).
    pub direct: bool,
    /// How arrivals may join queued requests.
    pub merging: Merging,
    /// The block layer behaves as the single-queue one of Linux up to 4.20: requests of one plug arrive sorted by sector,
    /// an arrival may join any request of its plug, the synchronous requests of each tenant have `nr_requests` slots, and
    /// all asynchronous ones together have as many.
    pub single_queue: bool,
    /// It takes care itself that reads come through buffered writes: a kernel's default throttle of write-back is off while it is
    /// attached (Linux: bfq and wbt).
    pub throttles_writeback: bool,
    /// It goes by the priorities of tasks, so that a class which a controller gives an I/O means nothing to it (Linux: bfq, CFQ).
    pub priority_of_task: bool,
}

impl Default for Traits {
    fn default() -> Self {
        Traits {
            per_queue: false,
            direct: false,
            merging: Merging::Index,
            single_queue: false,
            throttles_writeback: false,
            priority_of_task: false,
        }
    }
}

/// The device and the limits that a scheduler is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The coarse clock.
    pub clock: TickClock,
    /// CPUs; each has a software queue.
    pub cpus: u16,
    /// Two CPUs share a core: `k` and `k + cpus / 2`.
    pub smt: bool,
    /// Hardware queues.
    pub hw_queues: u16,
    /// Requests that the scheduler may hold for each hardware queue, including those in the device; in all with
    /// [shared tags](Setup::shared_tags). See also [`Traits::single_queue`].
    pub nr_requests: u32,
    /// Requests that the driver may hold: the tags of all hardware queues, or the one set of [shared](Setup::shared_tags) ones.
    pub device_depth: u32,
    /// All hardware queues have one set of tags, as those of many SCSI hosts.
    pub shared_tags: bool,
    /// Commands that the device takes, where the driver may hold more: the queue depth of a SCSI device, of which there must be
    /// a place before a scheduler is asked for a request.
    pub lun_depth: Option<u32>,
    /// The device is a disk with a moving arm.
    pub rotational: bool,
    /// Values that differed when the scheduler was attached.
    pub at_attach: AtAttach,
}

/// Values of a [`Setup`] when the scheduler was attached, where they were written later (Linux: in `queue/`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtAttach {
    /// [`Setup::nr_requests`], if the scheduler's limits on asynchronous I/O and writes stay those of this number, as in
    /// Linux 6.12. `None`: the limits follow [`Setup::nr_requests`].
    pub nr_requests: Option<u32>,
    /// [`Setup::rotational`]; `None` if it was the same.
    pub rotational: Option<bool>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            clock: TickClock::HZ_250,
            cpus: 1,
            smt: false,
            hw_queues: 1,
            nr_requests: 256,
            device_depth: 128,
            shared_tags: false,
            lun_depth: None,
            rotational: false,
            at_attach: AtAttach::default(),
        }
    }
}

impl Setup {
    /// Linux's default `nr_requests` for a device of queue depth `depth`. Limiting the depth does not change it.
    pub fn default_nr_requests(depth: u32) -> u32 {
        2 * depth.clamp(1, 128)
    }

    /// This set-up with each number that may not be 0 at least 1.
    pub fn usable(self) -> Setup {
        let period = self.clock.period.max(Nanos(1));
        Setup {
            clock: TickClock { period, ..self.clock },
            cpus: self.cpus.max(1),
            hw_queues: self.hw_queues.max(1),
            nr_requests: self.nr_requests.max(1),
            device_depth: self.device_depth.max(1),
            lun_depth: self.lun_depth.map(|depth| depth.max(1)),
            smt: self.smt && self.cpus.is_multiple_of(2),
            rotational: self.rotational,
            shared_tags: self.shared_tags,
            at_attach: AtAttach { nr_requests: self.at_attach.nr_requests.map(|n| n.max(1)), ..self.at_attach },
        }
    }

    /// Was the device rotational when the scheduler was attached?
    pub fn rotational_at_attach(&self) -> bool {
        self.at_attach.rotational.unwrap_or(self.rotational)
    }

    /// Tags of the driver for each hardware queue, or for all if they are [shared](Setup::shared_tags).
    pub fn queue_depth(&self) -> u32 {
        let sets = if self.shared_tags { 1 } else { u32::from(self.hw_queues.max(1)) };
        (self.device_depth / sets).max(1)
    }

    /// Commands that the device may hold at once.
    pub fn commands(&self) -> u32 {
        self.lun_depth.map_or(self.device_depth, |depth| depth.min(self.device_depth))
    }

    /// The hardware queue that serves each CPU.
    pub fn queue_map(&self) -> QueueMap {
        let (cpus, queues) = (self.cpus.max(1), self.hw_queues.max(1));
        let cores = if self.smt && cpus.is_multiple_of(2) { cpus / 2 } else { cpus };
        let mut queue_of = vec![u16::MAX; usize::from(cpus)];
        for queue in 0..queues.min(cpus) {
            let size = cpus / queues.min(cpus) + u16::from(queue < cpus % queues.min(cpus));
            let mut left = size;
            for first in 0..cpus {
                // A free CPU, then the other one of its core.
                for cpu in [first, first + cores] {
                    if left == 0 || cpu >= cpus || queue_of[usize::from(cpu)] != u16::MAX {
                        break;
                    }
                    queue_of[usize::from(cpu)] = queue;
                    left -= 1;
                }
            }
        }
        QueueMap { queue_of }
    }
}

/// The hardware queue that serves each CPU. CPUs are dealt out in groups of equal size, or one less towards the end; a group
/// takes the lowest free CPU, then the other of its core, then the next lowest (Linux: group_cpus_evenly).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMap {
    queue_of: Vec<u16>,
}

impl QueueMap {
    /// The hardware queue of a CPU; CPUs beyond the last begin anew.
    #[inline]
    pub fn of(&self, cpu: u16) -> usize {
        let known =
            self.queue_of.get(usize::from(cpu)).or_else(|| self.queue_of.get(usize::from(cpu) % self.queue_of.len()));
        known.copied().map_or(0, usize::from)
    }
}

/// A numeric setting of a scheduler that can be changed while it runs, named as in the kernel's `queue/iosched/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// The kernel's file name.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// Smallest value accepted.
    pub min: i128,
    /// Largest value accepted.
    pub max: i128,
    /// Value in a new scheduler.
    pub default: i128,
    /// The behaviour that it controls, in one sentence.
    pub help: &'static str,
}

/// Why a new value of a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TunableError {
    /// The scheduler has no setting of this name.
    Unknown {
        /// The name given.
        name: String,
        /// Names of all its settings.
        known: Vec<&'static str>,
    },
    /// The value is outside the range.
    OutOfRange {
        /// The setting.
        tunable: Tunable,
        /// The value given.
        value: i128,
    },
}

impl std::fmt::Display for TunableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TunableError::Unknown { name, known } if known.is_empty() => {
                write!(f, "unknown setting `{name}`: this scheduler has none")
            }
            TunableError::Unknown { name, known } => {
                write!(f, "unknown setting `{name}`{}", did_you_mean_of(name, known))
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
    /// Its requirements on the block layer, which never change.
    fn traits(&self) -> Traits {
        Traits::default()
    }

    /// A request enters. All requests of a plug are inserted before the first `next`.
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>);

    /// Does it hold a request for this hardware queue? [`Scheduler::next`] is only called while it does.
    fn has_work(&self, hw_queue: usize) -> bool;

    /// Chooses the next request for this hardware queue.
    fn next(&mut self, hw_queue: usize, ctx: &Context<'_>) -> Next;

    /// The device finished a request that `next` had returned. Called once for each, before its slot is freed.
    /// Returns `true` if a request that was held back may go now: the block layer then asks every hardware queue again.
    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        let _ = (id, ctx);
        false
    }

    /// The driver accepted a request that `next` had returned.
    fn issued(&mut self, id: RequestId, ctx: &Context<'_>) {
        let _ = (id, ctx);
    }

    /// The driver returned a request unserved. It is inserted again at the head.
    fn requeued(&mut self, id: RequestId, ctx: &Context<'_>) {
        let _ = (id, ctx);
    }

    /// Finds the queued request that an arrival may join. The block layer then checks sizes and flags. The default asks
    /// the shared index for a request that ends where the arrival starts.
    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        index.lookup(io, ctx).filter(|join| self.allow_merge(join.into, io, ctx))
    }

    /// May `io` become part of this queued request, which the block layer found itself: when it inserted the requests of
    /// a plug, or because it was the last to merge? A policy with several queues refuses merges across them. The block
    /// layer does not ask this of the request that [`Scheduler::merge`] returned.
    fn allow_merge(&self, queued: RequestId, io: &Io, ctx: &Context<'_>) -> bool {
        let _ = (queued, io, ctx);
        true
    }

    /// A queued request grew: `ctx.requests` shows its new extent.
    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        let _ = (join, ctx);
    }

    /// A queued request may leave, for whoever submitted it is gone. `true`: it has left. `false`: it stays, and is dropped when it is
    /// chosen.
    fn withdraw(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        let _ = (id, ctx);
        false
    }

    /// Two queued requests became one: `survivor` has grown at its end, `absorbed` leaves the scheduler. `survivor` may be the one that was
    /// just chosen, see [`Scheduler::follower`].
    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let _ = (survivor, absorbed, ctx);
    }

    /// The queued request to be sent as one with `chosen`, which [`Scheduler::next`] has just chosen: one that starts where `chosen` ends.
    /// It is asked again with what both have become. The two may still be kept apart; if not, [`Scheduler::absorbed`] says so.
    fn follower(&self, chosen: RequestId, ctx: &Context<'_>) -> Option<RequestId> {
        let _ = (chosen, ctx);
        None
    }

    /// The queued request before `id` in this policy's order: a candidate for a merge with it.
    fn former(&self, id: RequestId) -> Option<RequestId> {
        let _ = id;
        None
    }

    /// The queued request after `id` in this policy's order: a candidate for a merge with it.
    fn latter(&self, id: RequestId) -> Option<RequestId> {
        let _ = id;
        None
    }

    /// The number of the `nr_requests` slots that I/O of this kind may use, from 1 to `nr_requests`.
    fn limit(&self, io: &Io, nr_requests: u32) -> u32 {
        let _ = io;
        nr_requests
    }

    /// The smallest [limit](Scheduler::limit) that holds as a rule: freed slots wake sleeping tasks in batches of an eighth of it.
    fn smallest_limit(&self, nr_requests: u32) -> u32 {
        let _ = nr_requests;
        1
    }

    /// Reports a timer, or a change of a task, a tenant or the device.
    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        let _ = (event, ctx);
    }

    /// The time at which it needs [`Event::Timer`], if any.
    fn timer(&self) -> Option<Nanos> {
        None
    }

    /// Gives it exact service times of the device, where the world knows them: a simulator does. Only a scheduler that was
    /// set to use them does so.
    fn attach_oracle(&mut self, oracle: &Arc<dyn ServiceOracle>) {
        let _ = oracle;
    }

    /// Its numeric settings.
    fn tunables(&self) -> &'static [Tunable] {
        &[]
    }

    /// The value of a setting; `None` for an unknown name.
    fn get(&self, name: &str) -> Option<i128> {
        let _ = name;
        None
    }

    /// Stores a value that is in the range of the setting. Callers use [`set_tunable`], which checks that.
    fn set(&mut self, name: &str, value: i128) {
        let _ = (name, value);
    }

    /// The scheduler as one that a replay of a kernel recording can correct, if it can.
    fn replayable(&mut self) -> Option<&mut dyn Replayable> {
        None
    }

    /// The class in which a request that [`Scheduler::next`] returned goes to a drive with classes: 0 high, 1 medium, 2 low.
    fn device_class(&self, id: RequestId) -> u8 {
        let _ = id;
        1
    }

    /// The weights of the drive's classes, high, medium and low, that the scheduler needs; `None` if it uses none.
    fn class_weights(&self) -> Option<[u32; 3]> {
        None
    }

    /// Reports its counters by name, for results. A counter starts at 0 when the scheduler is built.
    fn counters(&self, _count: &mut dyn FnMut(&'static str, u64)) {}

    /// A text dump of the state, for debugging.
    fn describe(&self, ctx: &Context<'_>) -> String {
        let _ = ctx;
        String::new()
    }

    /// A copy with the whole state.
    fn clone_box(&self) -> Box<dyn Scheduler>;
}

/// Service times of a device that are known exactly: those of a simulated one.
pub trait ServiceOracle: Send + Sync {
    /// Time that the device would take for a request that it gets at `now` while it is idle, with its arm (if it has one)
    /// behind the sector before `position`.
    fn service(&self, now: Nanos, position: u64, request: &Request) -> Nanos;
}

/// A scheduler that follows decisions of another: what a replay of a kernel recording needs.
pub trait Replayable {
    /// Dispatches this queued request, whatever the policy would choose, with all that follows from a dispatch. An
    /// at-head request counts too.
    fn take(&mut self, id: RequestId, hw_queue: usize, ctx: &Context<'_>);
}

impl Clone for Box<dyn Scheduler> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

/// Changes a setting after it checked the name and the range.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(cpus: u16, hw_queues: u16, smt: bool) -> Vec<Vec<u16>> {
        let map = Setup { cpus, hw_queues, smt, ..Setup::default() }.queue_map();
        let group = |queue| (0..cpus).filter(|cpu| map.of(*cpu) == usize::from(queue)).collect();
        (0..hw_queues).map(group).collect()
    }

    #[test]
    fn cpus_are_dealt_out_to_hardware_queues_core_by_core() {
        let ten: Vec<Vec<u16>> = (0..10).map(|cpu| vec![cpu]).collect();
        assert_eq!(groups(10, 10, false), ten);
        assert_eq!(groups(10, 4, false), [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7], vec![8, 9]]);
        assert_eq!(groups(8, 4, true), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(groups(8, 3, true), [vec![0, 1, 4], vec![2, 3, 6], vec![5, 7]]);
        assert_eq!(groups(8, 6, true), [vec![0, 4], vec![1, 5], vec![2], vec![3], vec![6], vec![7]]);
        assert_eq!(groups(4, 16, false)[..5], [vec![0], vec![1], vec![2], vec![3], vec![]]);
        for cpus in 1..40u16 {
            for queues in 1..=cpus {
                for smt in [false, true] {
                    let sizes: Vec<usize> = groups(cpus, queues, smt).iter().map(Vec::len).collect();
                    assert_eq!(sizes.iter().sum::<usize>(), usize::from(cpus));
                    assert!(
                        sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1,
                        "{cpus} {queues} {sizes:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn tags_are_of_a_queue_or_of_all() {
        let setup = Setup { hw_queues: 4, device_depth: 128, ..Setup::default() };
        assert_eq!(setup.queue_depth(), 32);
        assert_eq!(Setup { shared_tags: true, ..setup }.queue_depth(), 128);
    }
}
