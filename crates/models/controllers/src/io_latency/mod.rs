//! `io.latency`: Linux protects a group with a latency target by slowing the groups beside it (6.12 and 6.18).
//!
//! Latencies of a group with a target are judged by windows. If it misses, the groups beside it with a larger target, or none, may
//! have half as many I/Os under way, and half of that half a second later; if it meets it, they recover in small steps. Each group
//! sees a change with its next I/O. Nobody is slowed while everybody meets its target.
//!
//! A latency is from the moment at which an I/O that joined no other asks for its request until it completes, so that sleeping here
//! counts. Metadata and swap take their slots without sleeping. What Linux does to a group that should become less deep than one I/O
//! is counted and not done: it delays its tasks as they return from the kernel.

mod groups;
mod scaling;

use dumbwaiter_block::{
    Config, Context, ControlSetting, Controller, Effects, Event, Flags, Nanos, RequestAnswer, RequestId, Scope,
    TenantId, Tenants, Traits, Tunable,
};

pub use groups::{DEVICE, Groups};
pub use scaling::{Latencies, UNTHROTTLED};

use crate::kernel_timer::Jiffies;

/// The name by which a block layer finds the controller, and of its setting.
pub const NAME: &str = "io.latency";

const SETTINGS: &[ControlSetting] = &[ControlSetting {
    of: Scope::Tenant(TenantId(0)),
    tunable: Tunable {
        name: NAME,
        unit: "us",
        min: 0,
        max: 1 << 40,
        default: 0,
        help: "latency that the I/Os of a tenant should have, at the cost of the tenants beside it; 0: any",
    },
}];

/// A request as it is followed.
#[derive(Clone, Copy, Debug, Default)]
struct Tracked {
    /// Its group, while it has its slots.
    group: Option<usize>,
    asked: Nanos,
}

/// The targets of all tenants of a device.
#[derive(Clone, Debug)]
pub struct IoLatency {
    /// That of a tenant has its number, and 1.
    groups: Groups,
    /// Of each group: do we know in which other it is?
    placed: Vec<bool>,
    requests: Vec<Tracked>,
    /// I/Os that slept.
    slept: u64,
    /// What may go on since an I/O asked: the next tick releases it.
    freed: Vec<RequestId>,
}

impl Default for IoLatency {
    fn default() -> IoLatency {
        let groups = Groups::new(Jiffies::default(), 1, false);
        IoLatency { groups, placed: vec![true], requests: Vec::new(), slept: 0, freed: Vec::new() }
    }
}

impl IoLatency {
    /// The group of a tenant, which may be new.
    fn group(&mut self, tenant: TenantId) -> usize {
        let group = tenant.0 as usize + 1;
        while self.groups.count() <= group {
            self.groups.add(DEVICE);
            self.placed.push(false);
        }
        group
    }

    /// The group of a tenant, in that of the tenant around it.
    fn placed(&mut self, tenant: TenantId, tenants: &Tenants) -> usize {
        let group = self.group(tenant);
        if !self.placed[group] {
            self.placed[group] = true;
            let around = tenants.tenant(tenant).and_then(|tenant| tenant.parent);
            let parent = around.map_or(DEVICE, |around| self.placed(around, tenants));
            self.groups.set_parent(group, parent);
        }
        group
    }

    fn tracked(&mut self, id: RequestId) -> &mut Tracked {
        if id.index() >= self.requests.len() {
            self.requests.resize(id.index() + 1, Tracked::default());
        }
        &mut self.requests[id.index()]
    }

    /// A request gives its slots back.
    fn free(&mut self, id: RequestId, served: bool, now: Nanos, out: &mut Effects) {
        let tracked = self.tracked(id);
        let Some(group) = tracked.group.take() else { return };
        let latency = served.then(|| now.since(tracked.asked));
        self.groups.done(group, latency, now, &mut |id| out.release(id));
    }
}

impl Controller for IoLatency {
    fn name(&self) -> &'static str {
        NAME
    }

    /// The targets that were set before stay; nothing is judged yet.
    fn attached(
        &mut self,
        config: &Config,
        _traits: &Traits,
        _under_way: &mut dyn Iterator<Item = u32>,
        ctx: &Context<'_>,
    ) {
        let setup = &config.setup;
        let jiffies = Jiffies { clock: setup.clock, offset: 0 };
        let mut groups = Groups::new(jiffies, setup.nr_requests, setup.rotational);
        for group in 1..self.groups.count() {
            groups.add(DEVICE);
            groups.set_target(group, self.groups.target(group), ctx.now);
        }
        self.groups = groups;
        self.placed[1..].fill(false);
        self.requests.clear();
        self.freed.clear();
    }

    fn request(&mut self, id: RequestId, ctx: &Context<'_>) -> RequestAnswer {
        let io = &ctx.requests[id].io;
        let urgent = io.flags.has(Flags::META) || io.flags.has(Flags::SWAP);
        let group = self.placed(io.tenant, ctx.tenants);
        *self.tracked(id) = Tracked { group: Some(group), asked: ctx.now };
        let freed = &mut self.freed;
        if self.groups.admit(group, id, urgent, ctx.now, &mut |id| freed.push(id)) {
            return RequestAnswer::Pass;
        }
        self.slept += 1;
        RequestAnswer::Hold
    }

    fn completed(&mut self, id: RequestId, ctx: &Context<'_>, out: &mut Effects) {
        self.free(id, true, ctx.now, out);
    }

    /// One that became part of another is not measured: its slots are free at once.
    fn dropped(&mut self, id: RequestId, _into: Option<RequestId>, ctx: &Context<'_>, out: &mut Effects) {
        self.free(id, false, ctx.now, out);
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>, _out: &mut Effects) {
        match event {
            // It has nothing under way. Its number may be used again, by a tenant that is somewhere else.
            Event::TenantRetired(tenant) => {
                let group = self.group(tenant);
                self.groups.set_target(group, Nanos::ZERO, ctx.now);
                self.placed[group] = false;
            }
            Event::TenantChanged(tenant) => {
                let group = self.group(tenant);
                self.placed[group] = false;
                self.placed(tenant, ctx.tenants);
            }
            Event::DepthChanged { nr_requests, .. } => self.groups.set_queue_depth(nr_requests),
            _ => {}
        }
    }

    fn timer(&self) -> Option<Nanos> {
        if self.freed.is_empty() { self.groups.timer() } else { Some(Nanos::ZERO) }
    }

    fn tick(&mut self, ctx: &Context<'_>, out: &mut Effects) {
        self.freed.drain(..).for_each(|id| out.release(id));
        if self.groups.timer().is_some_and(|at| at <= ctx.now) {
            self.groups.tick(ctx.now);
        }
    }

    fn settings(&self) -> &'static [ControlSetting] {
        SETTINGS
    }

    fn get(&self, scope: Scope, name: &str) -> Option<i128> {
        let Scope::Tenant(tenant) = scope else { return None };
        let group = tenant.0 as usize + 1;
        let known = name == NAME && group < self.groups.count();
        (name == NAME).then(|| if known { i128::from(self.groups.target(group).0 / 1000) } else { 0 })
    }

    fn set(&mut self, scope: Scope, _name: &str, value: i128, now: Nanos) {
        if let Scope::Tenant(tenant) = scope {
            let group = self.group(tenant);
            self.groups.set_target(group, Nanos::from_us(u64::try_from(value).unwrap_or(0)), now);
        }
    }

    /// `io_latency_slept`: I/Os whose tasks slept. Of a tenant, `io_latency_depth`: how many I/Os it may have under way, 0 for any
    /// number, and `io_latency_delays`: how often it was to become less deep than one.
    fn counters(&self, scope: Scope, count: &mut dyn FnMut(&'static str, u64)) {
        match scope {
            Scope::Device => count("io_latency_slept", self.slept),
            Scope::Tenant(tenant) if (tenant.0 as usize + 1) < self.groups.count() => {
                let group = tenant.0 as usize + 1;
                count("io_latency_depth", self.groups.depth(group).unwrap_or(0).into());
                count("io_latency_delays", self.groups.delays(group).into());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
