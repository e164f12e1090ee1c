//! The shares of tenants in the last seconds, beside those that they are due.

use std::collections::{BTreeMap, VecDeque};

use dumbwaiter_block::Nanos;
use dumbwaiter_measure::pv;

use crate::tenant::Tenant;

/// Seconds over which shares are counted.
const SECONDS: usize = 5;

/// The bytes and I/Os of a tenant up to some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mark {
    bytes: u64,
    ios: u64,
    /// It had something under way.
    active: bool,
}

/// One tenant's share in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Share {
    pub(crate) bytes_per_s: f64,
    pub(crate) iops: f64,
    /// Part of all bytes, 0 to 1.
    pub(crate) share: f64,
    /// Part that its weight asks for among those that were active, 0 to 1.
    pub(crate) due: f64,
}

/// Counts of the last seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShareWindow {
    marks: VecDeque<(Nanos, BTreeMap<u32, Mark>)>,
}

impl ShareWindow {
    /// Counts as of `now`.
    pub(crate) fn note<'a>(&mut self, now: Nanos, tenants: impl Iterator<Item = (u32, &'a Tenant)>) {
        if self.marks.len() > SECONDS {
            self.marks.pop_front();
        }
        let mark = |tenant: &Tenant| Mark {
            bytes: tenant.counts.bytes(),
            ios: tenant.counts.ios(),
            active: tenant.outstanding > 0,
        };
        self.marks.push_back((now, tenants.map(|(place, tenant)| (place, mark(tenant))).collect()));
    }

    /// The share of each tenant, and the proportionality variation over those that were active; NaN with fewer than two.
    pub(crate) fn shares<'a>(&self, tenants: impl Iterator<Item = (u32, &'a Tenant)>) -> (BTreeMap<u32, Share>, f64) {
        let (Some((from, first)), Some((to, last))) = (self.marks.front(), self.marks.back()) else {
            return (BTreeMap::new(), f64::NAN);
        };
        let seconds = to.since(*from).0 as f64 / 1e9;
        let mut shares = BTreeMap::new();
        let (mut weights, mut moved) = (Vec::new(), Vec::new());
        for (place, tenant) in tenants {
            let (Some(before), Some(after)) = (first.get(&place), last.get(&place)) else { continue };
            let bytes = after.bytes.saturating_sub(before.bytes) as f64;
            let ios = after.ios.saturating_sub(before.ios) as f64;
            // Backlogged at every count: others may have had nothing to ask for.
            let active = self.marks.iter().all(|(_, marks)| marks.get(&place).is_some_and(|mark| mark.active));
            if active {
                weights.push(f64::from(tenant.settings.weight));
                moved.push(bytes);
            }
            let due = if active { f64::from(tenant.settings.weight) } else { 0.0 };
            let per_s = |value: f64| if seconds > 0.0 { value / seconds } else { 0.0 };
            shares.insert(place, Share { bytes_per_s: per_s(bytes), iops: per_s(ios), share: bytes, due });
        }
        let (all, due): (f64, f64) = shares.values().fold((0.0, 0.0), |(a, d), s| (a + s.share, d + s.due));
        for share in shares.values_mut() {
            share.share = if all > 0.0 { share.share / all } else { 0.0 };
            share.due = if due > 0.0 { share.due / due } else { 0.0 };
        }
        (shares, pv(&weights, &moved))
    }
}
