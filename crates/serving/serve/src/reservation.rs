//! Reservations: a tenant gets its I/Os per second whatever others do, by as much weight as that needs at the moment.
//!
//! A review compares what a tenant got with its reservation and moves its weight. What it got too little or too much is made
//! up for over the next half second, so that the rate is exact in the long run although a review counts few I/Os.

use std::collections::BTreeMap;

use dumbwaiter_block::{Nanos, Tenant as Member};

use crate::tenant::Tenant;

/// A review needs at least so long to count something, in seconds.
const SHORTEST_S: f64 = 1e-6;
/// How much of the difference is corrected in one review.
const GAIN: f64 = 0.5;
/// A debt is kept while the rate differs from the reservation by no more than this part.
const NEAR: f64 = 0.25;
/// Time in which a debt is paid back, and over which rates are averaged, seconds.
const DEBT_S: f64 = 0.5;
const AVERAGE_S: f64 = 0.1;
/// A tenant that had nothing under way at so many reviews in a row needs no more than its own weight.
const IDLE_REVIEWS: u32 = 4;
/// The most that a reservation can raise a weight to, before all weights are scaled to what a scheduler takes.
const MAX_RAISED: f64 = 1e6;
/// The largest weight after scaling: schedulers share in finer pieces at small weights, but steps of one must be small beside it.
const LARGEST_SCALED: f64 = 2048.0;
/// Weights are scaled up by at most so much, for finer steps.
const MAX_SCALE: f64 = 64.0;

/// What is known of a tenant with a reservation since the last review.
#[derive(Clone, Copy, Debug)]
struct Known {
    at: Nanos,
    ios: u64,
    weight: f64,
    /// I/Os per second lately.
    rate: f64,
    /// I/Os that it got too little; negative if too many.
    debt: f64,
    idle_reviews: u32,
}

impl Known {
    fn new(now: Nanos, tenant: &Tenant, reserved: f64) -> Known {
        let weight = f64::from(tenant.settings.weight);
        Known { at: now, ios: tenant.counts.ios(), weight, rate: reserved, debt: 0.0, idle_reviews: 0 }
    }

    /// Moves the weight by what the tenant got since the last review.
    fn review(&mut self, now: Nanos, tenant: &Tenant, reserved: f64) {
        let own = f64::from(tenant.settings.weight);
        let seconds = now.since(self.at).0 as f64 / 1e9;
        if seconds <= SHORTEST_S {
            return;
        }
        let got = tenant.counts.ios().saturating_sub(self.ios) as f64;
        (self.at, self.ios) = (now, tenant.counts.ios());
        self.rate += (got / seconds - self.rate) * (seconds / AVERAGE_S).min(1.0);
        self.idle_reviews = if tenant.outstanding > 0 { 0 } else { self.idle_reviews + 1 };
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

/// The controller of all reservations of a disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    known: BTreeMap<u32, Known>,
}

impl Reservations {
    /// Is there none?
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Looks at what each got and answers with the weights that the scheduler should use from now on.
    pub(crate) fn review<'a>(
        &mut self,
        now: Nanos,
        tenants: impl Iterator<Item = (u32, &'a Tenant)>,
    ) -> Vec<(u32, u32)> {
        let mut weights = Vec::new();
        let mut seen = BTreeMap::new();
        for (index, tenant) in tenants {
            let Some(reserved) = tenant.settings.reservation_iops else {
                weights.push((index, f64::from(tenant.settings.weight)));
                continue;
            };
            let reserved = reserved as f64;
            let mut known = self.known.remove(&index).unwrap_or_else(|| Known::new(now, tenant, reserved));
            known.review(now, tenant, reserved);
            weights.push((index, known.weight));
            seen.insert(index, known);
        }
        self.known = seen;
        let scale = if self.is_empty() { 1.0 } else { scale(&weights) };
        weights.into_iter().map(|(index, weight)| (index, scaled(weight, scale))).collect()
    }
}

/// What all weights are multiplied by, so that the largest is one that a scheduler shares finely and small ones have fine steps. A
/// power of two, so that it seldom changes.
fn scale(weights: &[(u32, f64)]) -> f64 {
    let largest = weights.iter().map(|(_, weight)| *weight).fold(1.0, f64::max);
    let exponent = (LARGEST_SCALED / largest).log2().floor();
    2f64.powf(exponent).min(MAX_SCALE)
}

fn scaled(weight: f64, scale: f64) -> u32 {
    ((weight * scale).round() as u32).clamp(1, Member::MAX_WEIGHT)
}
