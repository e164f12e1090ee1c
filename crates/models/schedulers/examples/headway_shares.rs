//! How long `headway` takes to learn the shares of its tenants anew after one weight changed.
//!
//! `cargo run --release -p dumbwaiter-schedulers --example headway_shares`

use std::time::Instant;

use dumbwaiter_block::{Context, Event, Nanos, Requests, Setup, Tenant, TenantId, Tenants};
use dumbwaiter_schedulers::Choice;

const ROUNDS: u32 = 1000;

fn main() -> Result<(), dumbwaiter_schedulers::ChoiceError> {
    for count in [10, 100, 1000, 10_000] {
        // Every tenth tenant is nested in the one before.
        let nested = |i: u32| (i % 10 == 9).then(|| TenantId(i - 1));
        let mut tenants: Tenants = (0..count).map(|i| Tenant { weight: 100 + i % 7, parent: nested(i) }).collect();
        let mut scheduler = Choice::parse("headway")?.scheduler(Setup::default());
        let requests = Requests::default();
        let mut times_ns = Vec::new();
        for round in 0..ROUNDS {
            let id = TenantId(round % count);
            if let Some(tenant) = tenants.tenant_mut(id) {
                tenant.weight = 1 + round % 1000;
            }
            let ctx = Context { now: Nanos::ZERO, requests: &requests, tenants: &tenants, busy: false };
            let start = Instant::now();
            scheduler.event(Event::TenantChanged(id), &ctx);
            times_ns.push(start.elapsed().as_nanos());
        }
        times_ns.sort_unstable();
        let at = |percent: usize| times_ns[times_ns.len() * percent / 100] as f64 / 1000.0;
        println!("{count:>6} tenants: {:>8.1} us in the median, {:>8.1} us at the 99th percentile", at(50), at(99));
    }
    Ok(())
}
