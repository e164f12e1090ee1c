//! Reservations: a tenant gets its I/Os per second whatever others do, by as much weight as that needs at the moment.

use std::collections::BTreeMap;

use dumbwaiter_block::{Nanos, Tenant as Member};

use crate::tenant::Tenant;

/// Parts of a weight that the controller tells apart.
const PRECISION: f64 = 1e-6;
/// How much of the difference is corrected in one review.
const GAIN: f64 = 0.5;

/// What is known of a tenant with a reservation since the last review.
#[derive(Clone, Copy, Debug)]
struct Known {
    at: Nanos,
    ios: u64,
    weight: f64,
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
            let own = f64::from(tenant.settings.weight);
            let Some(reserved) = tenant.settings.reservation_iops else {
                weights.push((index, tenant.settings.weight));
                continue;
            };
            let ios = tenant.counts.ios();
            let mut known = self.known.remove(&index).unwrap_or(Known { at: now, ios, weight: own });
            let seconds = now.since(known.at).0 as f64 / 1e9;
            if seconds > PRECISION {
                let got = (ios - known.ios) as f64 / seconds;
                // A tenant without a backlog has what it asked for.
                if tenant.outstanding > 0 {
                    let factor = (reserved as f64 / got.max(1.0)).clamp(0.25, 4.0);
                    known.weight *= factor.powf(GAIN);
                } else {
                    known.weight = own;
                }
                (known.at, known.ios) = (now, ios);
            }
            known.weight = known.weight.clamp(own, f64::from(Member::MAX_WEIGHT));
            weights.push((index, known.weight.round() as u32));
            seen.insert(index, known);
        }
        self.known = seen;
        weights
    }
}
