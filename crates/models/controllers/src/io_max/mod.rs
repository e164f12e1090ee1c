//! `io.max`: Linux's limits of a group, in bytes and I/Os per second (cgroup v2, 6.12 and 6.18).
//!
//! [`Slices`] is the account of one direction of one group, [`Groups`] are groups in one another with what waits for them, and
//! [`IoMax`] is the controller: each tenant is a group, in that of the tenant it is nested in.
//!
//! An I/O beyond the limits is parked, and its task goes on. What is allowed comes by the tenth of a second: all of it may go at
//! once, and the rest waits for the next. Bytes count once for an I/O, I/Os once for each piece that it is split into, both before
//! anything merges. A trim counts as 512 bytes, a flush as none. Metadata and swap never wait: they count, and what comes later
//! waits for longer.

mod agenda;
mod groups;
mod level;
mod slices;
mod text;

use dumbwaiter_block::{
    BioAnswer, Config, Context, ControlSetting, Controller, Dir, Effects, Event, Flags, Io, Nanos, Op, RequestId,
    SECTOR_BYTES, Scope, TenantId, Tenants, Traits, Tunable,
};

pub use groups::{DEVICE, Groups};
pub use level::Bio;
pub use slices::{Rates, Release, Slices};
pub use text::{limits_text, with_limits};

use crate::kernel_timer::Jiffies;

/// The name by which a block layer finds the controller.
pub const NAME: &str = "io.max";

/// The value of a setting that stands for `max`: any number.
pub const MAX: u64 = u64::MAX;

/// Bytes that a trim counts as.
const TRIM_BYTES: u64 = 512;

const fn limit(name: &'static str, unit: &'static str, min: i128, help: &'static str) -> ControlSetting {
    let tunable = Tunable { name, unit, min, max: MAX as i128, default: MAX as i128, help };
    ControlSetting { of: Scope::Tenant(TenantId(0)), tunable }
}

const fn limits(min: i128) -> [ControlSetting; 4] {
    [
        limit("rbps", "bytes/s", min, "the most bytes that a tenant reads in a second; 2^64-1: any number"),
        limit("wbps", "bytes/s", min, "the most bytes that a tenant writes in a second; 2^64-1: any number"),
        limit("riops", "IO/s", min, "the most reads of a tenant in a second; 2^64-1: any number"),
        limit("wiops", "IO/s", min, "the most writes of a tenant in a second; 2^64-1: any number"),
    ]
}

/// Linux 6.12 refuses 1.
static SETTINGS_6_12: [ControlSetting; 4] = limits(2);
static SETTINGS_6_18: [ControlSetting; 4] = limits(1);

/// The limits of all tenants of a device.
#[derive(Clone, Debug)]
pub struct IoMax {
    release: Release,
    /// That of a tenant has its number, and 1.
    groups: Groups,
    /// Of each group: do we know in which other it is?
    placed: Vec<bool>,
    /// I/Os that waited, by group.
    waited: Vec<u64>,
}

impl IoMax {
    /// No limits yet; those that come are kept as this kernel does.
    pub fn new(release: Release) -> IoMax {
        let groups = Groups::new(release, Jiffies::default());
        IoMax { release, groups, placed: vec![true], waited: vec![0] }
    }

    /// The group of a tenant, which may be new.
    fn group(&mut self, tenant: TenantId) -> usize {
        let group = tenant.0 as usize + 1;
        while self.groups.count() <= group {
            self.groups.add(DEVICE, Default::default());
            self.placed.push(false);
            self.waited.push(0);
        }
        group
    }

    /// The group of a tenant, in that of the tenant around it.
    fn placed(&mut self, tenant: TenantId, tenants: &Tenants, now: Nanos) -> usize {
        let group = self.group(tenant);
        if !self.placed[group] {
            self.placed[group] = true;
            let around = tenants.tenant(tenant).and_then(|tenant| tenant.parent);
            let parent = around.map_or(DEVICE, |around| self.placed(around, tenants, now));
            self.groups.set_parent(group, parent, now);
        }
        group
    }

    fn asks(&mut self, io: &Io, rest: bool, ctx: &Context<'_>) -> bool {
        let group = self.placed(io.tenant, ctx.tenants, ctx.now);
        let urgent = io.flags.has(Flags::META) || io.flags.has(Flags::SWAP);
        let bio = Bio { token: 0, bytes: if rest { 0 } else { bytes(io) }, rest, urgent };
        let passes = self.groups.submit(group, direction(io.op), bio, ctx.now);
        self.waited[group] += u64::from(!passes);
        passes
    }

    fn set_rates(&mut self, group: usize, name: &str, value: u64, now: Nanos) {
        let mut rates = self.groups.rates(group);
        if let Some(rate) = rate(&mut rates, name) {
            *rate = (value < MAX).then_some(value);
            self.groups.set(group, rates, now);
        }
    }
}

/// The limit of this name.
fn rate<'a>(rates: &'a mut [Rates; 2], name: &str) -> Option<&'a mut Option<u64>> {
    let [reads, writes] = rates;
    match name {
        "rbps" => Some(&mut reads.bytes),
        "wbps" => Some(&mut writes.bytes),
        "riops" => Some(&mut reads.ios),
        "wiops" => Some(&mut writes.ios),
        _ => None,
    }
}

/// Reads are one direction, everything else the other.
fn direction(op: Op) -> Dir {
    if op == Op::Read { Dir::Read } else { Dir::Write }
}

fn bytes(io: &Io) -> u64 {
    if io.op == Op::Discard { TRIM_BYTES } else { u64::from(io.sectors) * SECTOR_BYTES }
}

impl Controller for IoMax {
    fn name(&self) -> &'static str {
        NAME
    }

    /// The limits that were set before stay; nothing is charged yet.
    fn attached(
        &mut self,
        config: &Config,
        _traits: &Traits,
        _under_way: &mut dyn Iterator<Item = u32>,
        _ctx: &Context<'_>,
    ) {
        let setup = &config.setup;
        let mut groups = Groups::new(self.release, Jiffies { clock: setup.clock, offset: 0 });
        (1..self.groups.count()).for_each(|group| _ = groups.add(DEVICE, self.groups.rates(group)));
        self.groups = groups;
        self.placed[1..].fill(false);
    }

    fn submit(&mut self, io: &Io, ctx: &Context<'_>) -> BioAnswer {
        if self.asks(io, false, ctx) { BioAnswer::Pass } else { BioAnswer::Park }
    }

    fn rest_passes(&mut self, rest: &Io, ctx: &Context<'_>) -> bool {
        self.asks(rest, true, ctx)
    }

    fn parked(&mut self, id: RequestId, _ctx: &Context<'_>) {
        self.groups.name(id.0.into());
    }

    fn withdrawn(&mut self, io: &Io, ctx: &Context<'_>) {
        let group = self.placed(io.tenant, ctx.tenants, ctx.now);
        self.groups.withdraw(group, direction(io.op), bytes(io));
    }

    fn abandoned(&mut self, id: RequestId, ctx: &Context<'_>) {
        self.groups.abandon(direction(ctx.requests[id].io.op), id.0.into(), ctx.now);
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>, _out: &mut Effects) {
        match event {
            // It has nothing under way. Its number may be used again, by a tenant that is somewhere else.
            Event::TenantRetired(tenant) => {
                let group = self.group(tenant);
                self.groups.set(group, Default::default(), ctx.now);
                self.placed[group] = false;
            }
            Event::TenantChanged(tenant) => {
                let group = self.group(tenant);
                self.placed[group] = false;
                self.placed(tenant, ctx.tenants, ctx.now);
            }
            _ => {}
        }
    }

    fn timer(&self) -> Option<Nanos> {
        self.groups.timer()
    }

    fn tick(&mut self, ctx: &Context<'_>, out: &mut Effects) {
        self.groups.tick(ctx.now, &mut |bio| out.release(RequestId(bio.token as u32)));
    }

    fn settings(&self) -> &'static [ControlSetting] {
        match self.release {
            Release::V6_12 => &SETTINGS_6_12,
            Release::V6_18 => &SETTINGS_6_18,
        }
    }

    fn get(&self, scope: Scope, name: &str) -> Option<i128> {
        let Scope::Tenant(tenant) = scope else { return None };
        let group = tenant.0 as usize + 1;
        let mut rates = if group < self.groups.count() { self.groups.rates(group) } else { Default::default() };
        rate(&mut rates, name).map(|rate| rate.unwrap_or(MAX).into())
    }

    /// What waits goes by the new limit from the next timer on.
    fn set(&mut self, scope: Scope, name: &str, value: i128, now: Nanos) {
        if let Scope::Tenant(tenant) = scope {
            let group = self.group(tenant);
            self.set_rates(group, name, u64::try_from(value).unwrap_or(MAX), now);
        }
    }

    /// `io_max_waited`: I/Os, and pieces of I/Os, that were parked. `io_max_parked`: those that are parked now, at a tenant or, of
    /// what comes from tenants nested in it, around it.
    fn counters(&self, scope: Scope, count: &mut dyn FnMut(&'static str, u64)) {
        let of = |group: usize| (self.waited[group], self.groups.waiting(group) as u64);
        let (waited, parked) = match scope {
            Scope::Tenant(tenant) if tenant.0 as usize + 1 < self.waited.len() => of(tenant.0 as usize + 1),
            Scope::Tenant(_) => (0, 0),
            Scope::Device => (1..self.waited.len()).map(of).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
            Scope::Task(_) => return,
        };
        count("io_max_waited", waited);
        count("io_max_parked", parked);
    }
}

#[cfg(test)]
mod tests;
