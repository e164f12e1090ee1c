//! Reservations: a tenant gets its I/Os per second whatever others do, by as much weight as that needs at the moment.
//!
//! A review compares what a tenant got with its reservation and moves its weight. What it got too little or too much is made
//! up for over the next half second, so that the rate is exact in the long run although a review counts few I/Os.

use dumbwaiter_block::{
    Adjustment, Config, Context, ControlSetting, Controller, Effects, Event, Finished, Io, Nanos, Op, Scope, Tenant,
    TenantId, Traits, Tunable,
};

/// The name by which a block layer finds the controller.
pub const NAME: &str = "reservations";

const RESERVATION: Tunable = Tunable {
    name: "reservation_iops",
    unit: "IO/s",
    min: 0,
    max: u64::MAX as i128,
    default: 0,
    help: "reads and writes that a tenant gets in a second whatever others do, as far as the device can; 0: none",
};

const SETTINGS: &[ControlSetting] = &[ControlSetting { of: Scope::Tenant(TenantId(0)), tunable: RESERVATION }];

/// How often what tenants got is looked at.
const PERIOD: Nanos = Nanos::from_ms(50);

/// A review needs at least so long to count something, in seconds.
const SHORTEST_S: f64 = 1e-6;
/// How much of the difference is corrected in one review.
const GAIN: f64 = 0.5;
/// A debt is kept while the rate differs from the reservation by no more than this part.
const NEAR: f64 = 0.25;
/// Time in which a debt is paid back, and over which rates are averaged, seconds.
const DEBT_S: f64 = 0.5;
const AVERAGE_S: f64 = 0.1;
/// A tenant that had nothing in flight at this many reviews in a row needs no more than its own weight.
const IDLE_REVIEWS: u32 = 4;
/// The most that a reservation can raise a weight to, before all weights are scaled to what a scheduler takes.
const MAX_RAISED: f64 = 1e6;
/// The largest weight after scaling: schedulers share in finer pieces at small weights, but steps of one must be small beside it.
const LARGEST_SCALED: f64 = 2048.0;
/// Largest factor by which weights are scaled up, for finer steps.
const MAX_SCALE: f64 = 64.0;

/// State of a tenant.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Its own weight; 0: there is no such tenant.
    own_weight: u32,
    /// I/Os per second; 0: none are reserved.
    reserved: u64,
    /// I/Os submitted and not finished.
    outstanding: u32,
    /// Reads and writes finished since the last review.
    got: u64,
    /// The last review; `None` before the first.
    at: Option<Nanos>,
    /// The weight that it needs, before scaling.
    weight: f64,
    /// I/Os per second lately.
    rate: f64,
    /// I/Os that it got too little; negative if too many.
    debt: f64,
    idle_reviews: u32,
}

impl Known {
    /// Moves the weight by what the tenant got since the last review.
    fn review(&mut self, now: Nanos) {
        let (own, reserved) = (f64::from(self.own_weight), self.reserved as f64);
        let got = std::mem::take(&mut self.got) as f64;
        if self.reserved == 0 {
            (self.weight, self.at) = (own, None);
            return;
        }
        let Some(last) = self.at.replace(now) else {
            (self.weight, self.rate, self.debt, self.idle_reviews) = (own, reserved, 0.0, 0);
            return;
        };
        let seconds = now.since(last).0 as f64 / 1e9;
        if seconds <= SHORTEST_S {
            return;
        }
        self.rate += (got / seconds - self.rate) * (seconds / AVERAGE_S).min(1.0);
        self.idle_reviews = if self.outstanding > 0 { 0 } else { self.idle_reviews + 1 };
        if self.idle_reviews >= IDLE_REVIEWS {
            // It has what it asked for, and is owed nothing for the time in which it asked for nothing.
            (self.weight, self.debt, self.rate) = (own, 0.0, reserved);
            return;
        }
        // Far from the reservation the weight is still on its way, and a debt would only make it overshoot.
        let near = (self.rate - reserved).abs() <= NEAR * reserved;
        let most = reserved * DEBT_S;
        self.debt = if near { (self.debt + reserved * seconds - got).clamp(-most, most) } else { 0.0 };
        let wanted = reserved + self.debt / DEBT_S;
        let factor = (wanted.max(1.0) / self.rate.max(1.0)).clamp(0.25, 4.0);
        self.weight = (self.weight * factor.powf(GAIN)).clamp(own, MAX_RAISED.max(own));
    }
}

/// The reservations of all tenants of a device.
#[derive(Clone, Debug, Default)]
pub struct Reservations {
    tenants: Vec<Known>,
    next_review: Option<Nanos>,
}

impl Reservations {
    fn tenant(&mut self, tenant: TenantId) -> &mut Known {
        let index = tenant.0 as usize;
        if index >= self.tenants.len() {
            self.tenants.resize(index + 1, Known::default());
        }
        &mut self.tenants[index]
    }

    fn note_weight(&mut self, id: TenantId, ctx: &Context<'_>) {
        self.tenant(id).own_weight = ctx.tenants.tenant(id).map_or(0, |tenant| tenant.weight);
    }

    fn any(&self) -> bool {
        self.tenants.iter().any(|known| known.reserved > 0)
    }
}

impl Controller for Reservations {
    fn name(&self) -> &'static str {
        NAME
    }

    fn attached(
        &mut self,
        _config: &Config,
        _traits: &Traits,
        under_way: &mut dyn Iterator<Item = u32>,
        ctx: &Context<'_>,
    ) {
        for (index, outstanding) in under_way.enumerate() {
            self.tenant(TenantId(index as u32)).outstanding = outstanding;
        }
        for (id, _) in ctx.tenants.tenants() {
            self.note_weight(id, ctx);
        }
    }

    fn admitted(&mut self, io: &Io, _ctx: &Context<'_>) {
        self.tenant(io.tenant).outstanding += 1;
    }

    fn finished(&mut self, done: &Finished, _ctx: &Context<'_>, _out: &mut Effects) {
        let known = self.tenant(done.io.tenant);
        known.outstanding = known.outstanding.saturating_sub(1);
        known.got += u64::from(done.result.is_ok() && matches!(done.io.op, Op::Read | Op::Write));
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>, _out: &mut Effects) {
        match event {
            Event::TenantAdded(id) | Event::TenantChanged(id) => self.note_weight(id, ctx),
            Event::TenantRetired(id) => *self.tenant(id) = Known::default(),
            _ => {}
        }
    }

    fn timer(&self) -> Option<Nanos> {
        self.next_review
    }

    fn tick(&mut self, ctx: &Context<'_>, out: &mut Effects) {
        // Without a reservation this is the last review: weights are their own again.
        self.next_review = self.any().then_some(ctx.now + PERIOD);
        self.tenants.iter_mut().for_each(|known| known.review(ctx.now));
        let largest = self.tenants.iter().map(|known| known.weight).fold(1.0, f64::max);
        let scale = if self.any() { scale(largest) } else { 1.0 };
        for (index, known) in self.tenants.iter().enumerate().filter(|(_, known)| known.own_weight > 0) {
            out.adjust(Adjustment::Weight(TenantId(index as u32), scaled(known.weight, scale)));
        }
    }

    fn settings(&self) -> &'static [ControlSetting] {
        SETTINGS
    }

    fn get(&self, scope: Scope, name: &str) -> Option<i128> {
        let Scope::Tenant(tenant) = scope else { return None };
        let reserved = self.tenants.get(tenant.0 as usize).map_or(0, |known| known.reserved);
        (name == RESERVATION.name).then(|| reserved.into())
    }

    fn set(&mut self, scope: Scope, _name: &str, value: i128, now: Nanos) {
        if let Scope::Tenant(tenant) = scope {
            let known = self.tenant(tenant);
            if known.reserved != value as u64 {
                (known.reserved, known.at) = (value as u64, None);
                self.next_review = Some(self.next_review.map_or(now, |at| at.min(now)));
            }
        }
    }
}

/// The factor of all weights, so that the largest is one that a scheduler shares finely and small ones have fine steps. A
/// power of two, so that it seldom changes.
fn scale(largest: f64) -> f64 {
    let exponent = (LARGEST_SCALED / largest).log2().floor();
    2f64.powf(exponent).min(MAX_SCALE)
}

fn scaled(weight: f64, scale: f64) -> u32 {
    ((weight * scale).round() as u32).clamp(1, Tenant::MAX_WEIGHT)
}
