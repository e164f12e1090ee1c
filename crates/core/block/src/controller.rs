//! The contract of a controller: what stands between a task and the scheduler.
//!
//! Controllers form a chain. Each I/O meets it twice:
//!
//! ```text
//! submit ──► first … last controller ──► freeze ──► split ──► merge? ──► last … first controller ──► tag ──► scheduler
//!            [`Controller::submit`]                                      [`Controller::request`]
//!            pass · park · refuse                                        pass · hold
//! ```
//!
//! *Park*: the I/O waits and its task goes on (Linux: io.max, and the limits of a served disk). *Hold*: the submitting task
//! sleeps with the I/O (Linux: wbt, io.cost, io.latency; the policy that was enabled last is asked first). A controller keeps
//! the ids of what it parked or holds, and [releases](Effects::release) each exactly once. It never reads a clock: `ctx.now` is
//! the time. The block layer releases everything that a controller still keeps when it is removed, so no wake-up is lost.
//!
//! All methods but [`Controller::name`] have a default that lets everything pass.

use crate::finished::Finished;
use crate::scheduler::{Event, Handover, Scheduler, Traits, Tunable, TunableError, set_tunable};
use crate::{Config, Context, Errno, Io, Ioprio, Nanos, RequestId, TaskId, TenantId};

/// Outcome for an I/O as it was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BioAnswer {
    /// It goes on.
    Pass,
    /// It waits until it is released, and its task goes on. [`Controller::parked`] tells its id.
    Park,
    /// It completes at once with this error, and no later controller hears of it.
    Refuse(Errno),
}

/// Outcome for an I/O that merged with nothing and needs a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAnswer {
    /// It goes on.
    Pass,
    /// Its task sleeps until this time; the block layer wakes it.
    HoldUntil(Nanos),
    /// Its task sleeps until it is released.
    Hold,
}

/// A change that a controller asks of the block layer.
pub enum Adjustment {
    /// How many requests the device may hold.
    DeviceDepth(u32),
    /// The weight of a tenant that the scheduler sees. That of the scenario or the host stays with the controller.
    Weight(TenantId, u32),
    /// Another scheduler. The controllers stay. It waits while another exchange is under way.
    Scheduler(Box<dyn Scheduler>, Handover),
}

/// I/Os that a controller call released, and adjustments that it asked for.
#[derive(Default)]
pub struct Effects {
    pub(crate) released: std::collections::VecDeque<RequestId>,
    pub(crate) adjustments: std::collections::VecDeque<Adjustment>,
}

impl Effects {
    /// An I/O that this controller parked or holds may go on, behind those released before it.
    pub fn release(&mut self, id: RequestId) {
        self.released.push_back(id);
    }

    /// Asks for a change.
    pub fn adjust(&mut self, adjustment: Adjustment) {
        self.adjustments.push_back(adjustment);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.released.is_empty() && self.adjustments.is_empty()
    }
}

/// Whose a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole device's.
    Device,
    /// A tenant's.
    Tenant(TenantId),
    /// A task's.
    Task(TaskId),
}

/// A setting of a controller, which each device, tenant or task has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlSetting {
    /// Each of what has one; the number in it means nothing.
    pub of: Scope,
    /// Name, unit, bounds, default.
    pub tunable: Tunable,
}

impl ControlSetting {
    /// Is it the setting of this name that `scope` has?
    pub fn is(&self, scope: Scope, name: &str) -> bool {
        std::mem::discriminant(&self.of) == std::mem::discriminant(&scope) && self.tunable.name == name
    }
}

/// A stage between a task and the scheduler: a limit, a throttle, a deadline, an exchange of the scheduler.
pub trait Controller: Send {
    /// Its name, by which a block layer finds it: one controller of a name at most.
    fn name(&self) -> &'static str;

    /// It joins the chain of a block layer of this configuration and with a scheduler of these traits. `under_way`: I/Os in flight, by number of the
    /// tenant: it will hear of their ends without having heard of their beginnings.
    fn attached(
        &mut self,
        config: &Config,
        traits: &Traits,
        under_way: &mut dyn Iterator<Item = u32>,
        ctx: &Context<'_>,
    ) {
        let _ = (config, traits, under_way, ctx);
    }

    /// An I/O is about to be submitted: its priority may be changed, and nothing else (Linux: io.prio.class).
    fn prioritize(&self, io: &Io, ctx: &Context<'_>) -> Ioprio {
        let _ = ctx;
        io.ioprio
    }

    /// An I/O asks to pass, as it was submitted: neither split nor merged. One that cannot enter in the end, as its
    /// submitter may not sleep, was not submitted: [`Controller::withdrawn`] says so.
    fn submit(&mut self, io: &Io, ctx: &Context<'_>) -> BioAnswer {
        let _ = (io, ctx);
        BioAnswer::Pass
    }

    /// The front of an I/O that passed [`Controller::submit`] was cut off and went on. May the rest follow it now? `false`: it is
    /// parked, and [`Controller::parked`] tells its id.
    fn rest_passes(&mut self, rest: &Io, ctx: &Context<'_>) -> bool {
        let _ = (rest, ctx);
        true
    }

    /// The I/O, or the rest of one, that it has just parked has this id.
    fn parked(&mut self, id: RequestId, ctx: &Context<'_>) {
        let _ = (id, ctx);
    }

    /// An I/O that passed [`Controller::submit`] left no trace: it would have had to sleep.
    fn withdrawn(&mut self, io: &Io, ctx: &Context<'_>) {
        let _ = (io, ctx);
    }

    /// An I/O that it parked goes away unserved: it must not be released.
    fn abandoned(&mut self, id: RequestId, ctx: &Context<'_>) {
        let _ = (id, ctx);
    }

    /// An I/O was submitted and not refused: [`Controller::finished`] will report it.
    fn admitted(&mut self, io: &Io, ctx: &Context<'_>) {
        let _ = (io, ctx);
    }

    /// An I/O, or a piece of one, that joined no request of its task's plug goes to the scheduler.
    fn arrives(&mut self, io: &Io, ctx: &Context<'_>) {
        let _ = (io, ctx);
    }

    /// An I/O is about to join this request, which has not grown yet.
    fn merged(&mut self, io: &Io, into: RequestId, ctx: &Context<'_>, out: &mut Effects) {
        let _ = (io, into, ctx, out);
    }

    /// An I/O, or a piece of one, that joined nothing asks for its request.
    fn request(&mut self, id: RequestId, ctx: &Context<'_>) -> RequestAnswer {
        let _ = (id, ctx);
        RequestAnswer::Pass
    }

    /// The driver took a request, flushes of the layer's own apart.
    fn issued(&mut self, id: RequestId, ctx: &Context<'_>, out: &mut Effects) {
        let _ = (id, ctx, out);
    }

    /// The device finished a request, flushes of the layer's own apart. Its slot is freed after this.
    fn completed(&mut self, id: RequestId, ctx: &Context<'_>, out: &mut Effects) {
        let _ = (id, ctx, out);
    }

    /// A request that passed leaves without having been in the device: it became part of the request `into`, its submitter may
    /// not sleep for a tag, or it was a flush without data, or behind one that failed.
    fn dropped(&mut self, id: RequestId, into: Option<RequestId>, ctx: &Context<'_>, out: &mut Effects) {
        let _ = (id, into, ctx, out);
    }

    /// An I/O that was admitted is finished.
    fn finished(&mut self, io: &Finished, ctx: &Context<'_>, out: &mut Effects) {
        let _ = (io, ctx, out);
    }

    /// A task, a tenant or the device changed, weights that a controller set apart; never [`Event::Timer`].
    fn event(&mut self, event: Event, ctx: &Context<'_>, out: &mut Effects) {
        let _ = (event, ctx, out);
    }

    /// A scheduler of these traits has taken over.
    fn exchanged(&mut self, traits: &Traits, ctx: &Context<'_>, out: &mut Effects) {
        let _ = (traits, ctx, out);
    }

    /// The time at which it needs [`Controller::tick`], if any.
    fn timer(&self) -> Option<Nanos> {
        None
    }

    /// The time that [`Controller::timer`] named has come.
    fn tick(&mut self, ctx: &Context<'_>, out: &mut Effects) {
        let _ = (ctx, out);
    }

    /// Does it choose the scheduler, so that the settings of the one in force are not for others to set?
    fn chooses_scheduler(&self) -> bool {
        false
    }

    /// Its settings.
    fn settings(&self) -> &'static [ControlSetting] {
        &[]
    }

    /// The value of a setting; `None` for one that is unknown.
    fn get(&self, scope: Scope, name: &str) -> Option<i128> {
        let _ = (scope, name);
        None
    }

    /// Stores a value that is in the range of the setting. What it lets go is released by the next [`Controller::tick`], which
    /// the block layer calls at once if [`Controller::timer`] is due.
    fn set(&mut self, scope: Scope, name: &str, value: i128, now: Nanos) {
        let _ = (scope, name, value, now);
    }

    /// Takes a text as the kernel's file of this name does, such as `io.cost.qos`; `None` where that is no file of it. What it lets go
    /// is released as after [`Controller::set`].
    fn write(&mut self, file: &str, text: &str, now: Nanos) -> Option<Result<(), String>> {
        let _ = (file, text, now);
        None
    }

    /// Reports its counters by name, for results; of a tenant, those of this tenant.
    fn counters(&self, scope: Scope, count: &mut dyn FnMut(&'static str, u64)) {
        let _ = (scope, count);
    }

    /// A text dump of the state, for debugging.
    fn describe(&self, ctx: &Context<'_>) -> String {
        let _ = ctx;
        String::new()
    }
}

/// A scheduler with the controllers that come with it: what people choose and compare.
pub struct Stack {
    /// The scheduler, or the first one.
    pub scheduler: Box<dyn Scheduler>,
    /// In the order in which an I/O meets them at submission.
    pub controllers: Vec<Box<dyn Controller>>,
}

impl From<Box<dyn Scheduler>> for Stack {
    fn from(scheduler: Box<dyn Scheduler>) -> Stack {
        Stack { scheduler, controllers: Vec::new() }
    }
}

impl<S: Scheduler + 'static> From<Box<S>> for Stack {
    fn from(scheduler: Box<S>) -> Stack {
        Stack { scheduler, controllers: Vec::new() }
    }
}

impl Stack {
    /// The settings that can be changed while it runs: those of its controllers for the device, and of its scheduler unless a
    /// controller chooses that.
    pub fn tunables(&self) -> Vec<Tunable> {
        let mut found: Vec<Tunable> = device_settings(self.controllers.iter().map(|c| &**c)).collect();
        if !self.controllers.iter().any(|c| c.chooses_scheduler()) {
            found.extend_from_slice(self.scheduler.tunables());
        }
        found
    }

    /// Changes one of [`Stack::tunables`] before it runs.
    ///
    /// # Errors
    ///
    /// An unknown name, or a value out of range.
    pub fn set(&mut self, name: &str, value: i128) -> Result<(), TunableError> {
        let of = self.controllers.iter_mut().find(|c| has_setting(&***c, Scope::Device, name));
        match of {
            Some(controller) => set_control(&mut **controller, Scope::Device, name, value, Nanos::ZERO),
            None => set_tunable(&mut *self.scheduler, name, value),
        }
    }

    /// The value of one of [`Stack::tunables`].
    pub fn get(&self, name: &str) -> Option<i128> {
        let of_controller = self.controllers.iter().find_map(|c| c.get(Scope::Device, name));
        of_controller.or_else(|| self.scheduler.get(name))
    }
}

/// Has it a setting of this name for such a scope?
pub(crate) fn has_setting(controller: &dyn Controller, scope: Scope, name: &str) -> bool {
    controller.settings().iter().any(|setting| setting.is(scope, name))
}

/// The settings that controllers have for the device.
pub(crate) fn device_settings<'a>(
    controllers: impl Iterator<Item = &'a dyn Controller>,
) -> impl Iterator<Item = Tunable> {
    let of_device = |s: &&ControlSetting| s.of == Scope::Device;
    controllers.flat_map(move |c| c.settings().iter().filter(of_device).map(|s| s.tunable))
}

/// Changes a setting of a controller after it checked the name and the range.
///
/// # Errors
///
/// An unknown name, or a value out of range.
pub fn set_control(
    controller: &mut dyn Controller,
    scope: Scope,
    name: &str,
    value: i128,
    now: Nanos,
) -> Result<(), TunableError> {
    let settings = controller.settings();
    let Some(setting) = settings.iter().find(|s| s.is(scope, name)) else {
        return Err(TunableError::Unknown {
            name: name.into(),
            known: settings.iter().map(|s| s.tunable.name).collect(),
        });
    };
    let tunable = setting.tunable;
    if value < tunable.min || value > tunable.max {
        return Err(TunableError::OutOfRange { tunable, value });
    }
    controller.set(scope, name, value, now);
    Ok(())
}
