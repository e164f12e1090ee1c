//! Limits: a tenant, with the tenants nested in it, gets this many I/Os and bytes per second and no more.
//!
//! An I/O beyond them is parked, and its task goes on, as behind Linux's io.max. Each limit lets a short burst through at once and
//! the rest at an even rate. Those of one tenant keep their order.

use std::collections::VecDeque;

use dumbwaiter_block::{
    BioAnswer, Context, ControlSetting, Controller, Effects, Event, Io, Nanos, Op, RequestId, SECTOR_BYTES, Scope,
    TenantId, Tenants, Tunable,
};

use crate::token_bucket::TokenBucket;

const fn limit(name: &'static str, unit: &'static str, help: &'static str) -> ControlSetting {
    let tunable = Tunable { name, unit, min: 0, max: u64::MAX as i128, default: 0, help };
    ControlSetting { of: Scope::Tenant(TenantId(0)), tunable }
}

const SETTINGS: &[ControlSetting] = &[
    limit("limit_iops", "IO/s", "the most I/Os of a tenant in a second; 0: any number"),
    limit("limit_bytes", "bytes/s", "the most bytes that a tenant reads and writes in a second; 0: any number"),
    limit("burst_iops", "IO", "I/Os that its limit lets through at once after a pause; 0: those of 10 ms"),
    limit("burst_bytes", "bytes", "bytes that its limit lets through at once after a pause; 0: those of 10 ms"),
];

/// The name by which a block layer finds the controller.
pub const NAME: &str = "limits";

/// Limits of one tenant.
#[derive(Clone, Debug, Default)]
struct Limited {
    /// I/Os and bytes per second, as in [`SETTINGS`].
    buckets: [Option<TokenBucket>; 2],
    /// I/Os and bytes that pass at once after a pause, where that is set.
    bursts: [Option<u64>; 2],
    parked: VecDeque<RequestId>,
    /// When the first of them may be let go, as far as is known.
    due: Nanos,
    /// Time for which I/Os were parked, summed over I/Os.
    parked_ns: u64,
}

impl Limited {
    /// When its own limits let the next I/O pass; in the past if at once.
    fn opens_at(&self) -> Nanos {
        self.buckets.iter().flatten().map(TokenBucket::opens_at).max().unwrap_or(Nanos::ZERO)
    }
}

/// The limits of all tenants of a device.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    tenants: Vec<Limited>,
    /// Tenants with parked I/Os.
    throttled: Vec<TenantId>,
}

impl Limits {
    fn tenant(&mut self, tenant: TenantId) -> &mut Limited {
        let index = tenant.0 as usize;
        if index >= self.tenants.len() {
            self.tenants.resize_with(index + 1, Limited::default);
        }
        &mut self.tenants[index]
    }

    /// When the limits of a tenant, and of those around it, let its next I/O pass.
    fn opens_at(&self, tenant: TenantId, tenants: &Tenants) -> Nanos {
        let own = |id: TenantId| self.tenants.get(id.0 as usize).map_or(Nanos::ZERO, Limited::opens_at);
        around(tenant, tenants).map(own).max().unwrap_or(Nanos::ZERO)
    }

    /// Calls `change` for each limit that an I/O counts for, with the units that it counts. One that moves no data, as a trim,
    /// counts as an I/O alone.
    fn each_bucket(&mut self, io: &Io, tenants: &Tenants, mut change: impl FnMut(&mut TokenBucket, u64)) {
        let bytes = if io.op.carries_data() { u64::from(io.sectors) * SECTOR_BYTES } else { 0 };
        for id in around(io.tenant, tenants) {
            let Some(own) = self.tenants.get_mut(id.0 as usize) else { continue };
            for (bucket, units) in own.buckets.iter_mut().zip([1, bytes]) {
                if let Some(bucket) = bucket {
                    change(bucket, units);
                }
            }
        }
    }

    fn charge(&mut self, io: &Io, ctx: &Context<'_>) {
        self.each_bucket(io, ctx.tenants, |bucket, units| bucket.take(ctx.now, units));
    }

    /// Lets go what the limits of a tenant allow by now. Returns whether something stays.
    fn release(&mut self, tenant: TenantId, ctx: &Context<'_>, out: &mut Effects) -> bool {
        loop {
            let due = self.opens_at(tenant, ctx.tenants);
            let own = self.tenant(tenant);
            own.due = due;
            let Some(id) = own.parked.front().copied() else { return false };
            if due > ctx.now {
                return true;
            }
            own.parked.pop_front();
            let request = &ctx.requests[id];
            own.parked_ns += ctx.now.since(request.submit).0;
            self.charge(&request.io, ctx);
            out.release(id);
        }
    }
}

/// A tenant, and those in which it is nested.
fn around(tenant: TenantId, tenants: &Tenants) -> impl Iterator<Item = TenantId> {
    std::iter::successors(Some(tenant), |id| tenants.tenant(*id).and_then(|tenant| tenant.parent))
}

impl Controller for Limits {
    fn name(&self) -> &'static str {
        NAME
    }

    fn submit(&mut self, io: &Io, ctx: &Context<'_>) -> BioAnswer {
        if io.op == Op::Flush {
            return BioAnswer::Pass;
        }
        let behind = self.tenants.get(io.tenant.0 as usize).is_some_and(|own| !own.parked.is_empty());
        if behind || self.opens_at(io.tenant, ctx.tenants) > ctx.now {
            return BioAnswer::Park;
        }
        self.charge(io, ctx);
        BioAnswer::Pass
    }

    fn parked(&mut self, id: RequestId, ctx: &Context<'_>) {
        let tenant = ctx.requests[id].io.tenant;
        let due = self.opens_at(tenant, ctx.tenants);
        let own = self.tenant(tenant);
        own.parked.push_back(id);
        if own.parked.len() == 1 {
            own.due = due;
            self.throttled.push(tenant);
        }
    }

    fn withdrawn(&mut self, io: &Io, ctx: &Context<'_>) {
        if io.op != Op::Flush {
            self.each_bucket(io, ctx.tenants, TokenBucket::give_back);
        }
    }

    fn abandoned(&mut self, id: RequestId, ctx: &Context<'_>) {
        let tenant = ctx.requests[id].io.tenant;
        self.tenant(tenant).parked.retain(|parked| *parked != id);
        if self.tenant(tenant).parked.is_empty() {
            self.throttled.retain(|throttled| *throttled != tenant);
        }
    }

    fn event(&mut self, event: Event, _ctx: &Context<'_>, _out: &mut Effects) {
        match event {
            // Its number may be used again. It has nothing under way, so nothing of it is parked.
            Event::TenantRetired(tenant) => *self.tenant(tenant) = Limited::default(),
            // Other limits may be around it now.
            Event::TenantChanged(_) => self.tenants.iter_mut().for_each(|own| own.due = Nanos::ZERO),
            _ => {}
        }
    }

    fn timer(&self) -> Option<Nanos> {
        self.throttled.iter().map(|tenant| self.tenants[tenant.0 as usize].due).min()
    }

    fn tick(&mut self, ctx: &Context<'_>, out: &mut Effects) {
        let mut throttled = std::mem::take(&mut self.throttled);
        throttled.retain(|tenant| self.release(*tenant, ctx, out));
        // The next one begins, so that none is always first where a limit around several lets few through.
        if throttled.len() > 1 {
            throttled.rotate_left(1);
        }
        self.throttled = throttled;
    }

    fn settings(&self) -> &'static [ControlSetting] {
        SETTINGS
    }

    fn get(&self, scope: Scope, name: &str) -> Option<i128> {
        let Scope::Tenant(tenant) = scope else { return None };
        let which = SETTINGS.iter().position(|setting| setting.tunable.name == name)?;
        let own = self.tenants.get(tenant.0 as usize);
        let value = own.and_then(|own| match which {
            0 | 1 => own.buckets[which].as_ref().map(TokenBucket::per_second),
            _ => own.bursts[which - 2],
        });
        Some(value.unwrap_or(0).into())
    }

    fn set(&mut self, scope: Scope, name: &str, value: i128, _now: Nanos) {
        let which = SETTINGS.iter().position(|setting| setting.tunable.name == name);
        if let (Scope::Tenant(tenant), Some(which)) = (scope, which) {
            let own = self.tenant(tenant);
            let value = (value > 0).then_some(value as u64);
            if which < 2 {
                let same = own.buckets[which].as_ref().map(TokenBucket::per_second) == value;
                if !same {
                    own.buckets[which] = value.map(|rate| TokenBucket::new(rate, own.bursts[which]));
                }
            } else {
                own.bursts[which - 2] = value;
                if let Some(bucket) = &mut own.buckets[which - 2] {
                    bucket.set_burst(value);
                }
            }
            // The next tick applies the new limit, also to tenants nested in it.
            self.tenants.iter_mut().for_each(|own| own.due = Nanos::ZERO);
        }
    }

    /// `parked_ns`: time for which I/Os were parked, summed over I/Os. `parked`: I/Os that are parked now.
    fn counters(&self, scope: Scope, count: &mut dyn FnMut(&'static str, u64)) {
        let of = |own: &Limited| (own.parked_ns, own.parked.len() as u64);
        let (parked_ns, parked) = match scope {
            Scope::Tenant(tenant) => self.tenants.get(tenant.0 as usize).map(of).unwrap_or_default(),
            Scope::Device => self.tenants.iter().map(of).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
            Scope::Task(_) => return,
        };
        count("limits_parked_ns", parked_ns);
        count("limits_parked", parked);
    }
}
