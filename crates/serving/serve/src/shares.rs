//! The shares of tenants in the last seconds, beside those that they were promised, and why one received less.

use std::collections::{BTreeMap, VecDeque};

use dumbwaiter_block::Nanos;
use dumbwaiter_measure::pv;
use serde::{Deserialize, Serialize};

use crate::tenant::Tenant;

/// Seconds over which shares are counted.
const SECONDS: usize = 10;
/// A tenant that had requests waiting for the scheduler's choice for this part of the window always asked for more.
const FULL_DEMAND: f64 = 0.9;
/// One that had something under way for this part of the window asked for more whenever it could.
const BUSY_CLIENT: f64 = 0.95;
/// A limit that delayed requests for this part of the window, summed over them, held its tenant back.
const HELD_BACK: f64 = 0.05;
/// A share that is smaller than promised by more than this, or by a quarter, falls short.
const TOLERANCE: f64 = 0.03;
/// The disk's thread that used its CPU for this part of the window had no time for more.
const BUSY_CPU: f64 = 0.9;

/// Why a tenant received less than its weight promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shortfall {
    /// It received what is promised, or more.
    #[default]
    None,
    /// It asked for nothing.
    Idle,
    /// Its queue ran empty: it asked for less than its share.
    AsksForLess,
    /// Its own limit held it back.
    Limit,
    /// Others have a reservation that needs more than their weight.
    Reservation,
    /// The server's thread had no CPU time left: the drive was not the bottleneck.
    Cpu,
    /// The device held all of its requests at times, so that none was there when its turn came: a smaller device depth keeps shares, or
    /// clients with more requests under way.
    Depth,
    /// Requests of it waited, and the scheduler served others: it has other rules than weights, or is behind with making up.
    Scheduler,
}

impl Shortfall {
    /// A promise that was not kept, in words; `None` if it was, or if the tenant itself is why not.
    pub fn explanation(self) -> Option<&'static str> {
        match self {
            Shortfall::Reservation => Some("others' reservations"),
            Shortfall::Cpu => Some("no CPU time left"),
            Shortfall::Depth => Some("the device holds all its requests"),
            Shortfall::Scheduler => Some("the scheduler served others first"),
            Shortfall::None | Shortfall::Idle | Shortfall::AsksForLess | Shortfall::Limit => None,
        }
    }

    /// Is it the server's or the drive's, and not for what the tenant asks or is allowed?
    pub(crate) fn is_broken_promise(self) -> bool {
        self.explanation().is_some()
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Shortfall::None => "none",
            Shortfall::Idle => "idle",
            Shortfall::AsksForLess => "asks-for-less",
            Shortfall::Limit => "limit",
            Shortfall::Reservation => "reservation",
            Shortfall::Cpu => "cpu",
            Shortfall::Depth => "depth",
            Shortfall::Scheduler => "scheduler",
        }
    }
}

/// What a tenant asked for in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Nothing.
    #[default]
    Nothing,
    /// Something, but its queue ran empty.
    Some,
    /// Always something, but at times the device held all of it.
    InDevice,
    /// More than its limit lets through.
    Limited,
    /// Always more.
    Full,
}

/// The counts of a tenant up to some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mark {
    /// When the tenant came: places are used again.
    since: Nanos,
    bytes: u64,
    ios: u64,
    busy_ns: u64,
    waited_ns: u64,
    held_back_ns: u64,
}

impl Mark {
    /// Of a tenant that has not been used. It is not kept: most exports of a large server are such ones.
    fn unused(since: Nanos) -> Mark {
        Mark { since, ..Mark::default() }
    }
}

/// The disk's counts up to some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DiskMark {
    /// CPU time of the disk's thread.
    pub(crate) cpu_ns: u64,
    /// Time in which the scheduler held tenants that were ahead back for one that ran empty.
    pub(crate) held_ns: u64,
}

/// One tenant's share in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Share {
    pub(crate) bytes_per_s: f64,
    pub(crate) iops: f64,
    /// Part of all bytes, 0 to 1.
    pub(crate) share: f64,
    /// Part that its weight promises it beside those that asked for something, 0 to 1.
    pub(crate) promised: f64,
    pub(crate) demand: Demand,
    pub(crate) shortfall: Shortfall,
}

impl Share {
    /// Did it always ask for more?
    pub(crate) fn asks_for_more(&self) -> bool {
        matches!(self.demand, Demand::Full | Demand::InDevice)
    }

    /// Part that is due to it: what is promised, if it always asked for more.
    pub(crate) fn due(&self) -> f64 {
        if self.demand == Demand::Full { self.promised } else { 0.0 }
    }
}

/// Counts of the last seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShareWindow {
    marks: VecDeque<(Nanos, DiskMark, BTreeMap<u32, Mark>)>,
}

impl ShareWindow {
    /// Counts as of `now`; `waited_ns` of a tenant is the time in which requests of it waited for the scheduler's choice, `held_back_ns` the time for
    /// which its limit delayed requests, summed over them.
    pub(crate) fn note<'a>(
        &mut self,
        now: Nanos,
        disk: DiskMark,
        tenants: impl Iterator<Item = (u32, &'a Tenant)>,
        waited_ns: impl Fn(u32, &Tenant) -> u64,
        held_back_ns: impl Fn(&Tenant) -> u64,
    ) {
        if self.marks.len() > SECONDS {
            self.marks.pop_front();
        }
        let mark = |place, tenant: &Tenant| Mark {
            since: tenant.since,
            bytes: tenant.counts.bytes(),
            ios: tenant.counts.ios(),
            busy_ns: tenant.busy_ns(now),
            waited_ns: waited_ns(place, tenant),
            held_back_ns: held_back_ns(tenant),
        };
        let marks = tenants.map(|(place, tenant)| (place, mark(place, tenant)));
        self.marks.push_back((now, disk, marks.filter(|(_, mark)| *mark != Mark::unused(mark.since)).collect()));
    }

    /// Has the tenant at this place ever been used, as of the last count?
    pub(crate) fn has_used(&self, place: u32) -> bool {
        self.marks.back().is_some_and(|(_, _, marks)| marks.contains_key(&place))
    }

    /// Part of the window in which the scheduler held tenants back that were ahead, 0 to 1.
    pub(crate) fn held_back(&self) -> f64 {
        let (Some((from, before, _)), Some((to, after, _))) = (self.marks.front(), self.marks.back()) else {
            return 0.0;
        };
        after.held_ns.saturating_sub(before.held_ns) as f64 / to.since(*from).0.max(1) as f64
    }

    /// What each tenant moved between the last two counts: I/Os and bytes.
    pub(crate) fn latest(&self) -> Vec<(u32, u64, u64)> {
        let mut last = self.marks.iter().rev().map(|(_, _, marks)| marks);
        let (Some(after), Some(before)) = (last.next(), last.next()) else { return Vec::new() };
        let moved = |(place, mark): (&u32, &Mark)| {
            let before = before_of(before, *place, mark);
            (*place, mark.ios - before.ios, mark.bytes - before.bytes)
        };
        after.iter().map(moved).collect()
    }

    /// The share of each tenant, and the proportionality variation over those that always asked for more; NaN with fewer than two.
    /// `raised`: places of tenants to which a reservation gives more than their weight.
    pub(crate) fn shares<'a>(
        &self,
        tenants: impl Iterator<Item = (u32, &'a Tenant)>,
        raised: &[u32],
    ) -> (BTreeMap<u32, Share>, f64) {
        let nothing = (Nanos::ZERO, DiskMark::default(), BTreeMap::new());
        let (from, disk_before, first) = self.marks.front().unwrap_or(&nothing);
        let (to, disk, last) = self.marks.back().unwrap_or(&nothing);
        let window_ns = to.since(*from).0.max(1) as f64;
        let seconds = window_ns / 1e9;
        let mut claims = Vec::new();
        for (place, tenant) in tenants {
            // One that came since the last count, or has not been used, has none.
            let new = Mark::unused(tenant.since);
            let after = last.get(&place).filter(|after| after.since == tenant.since).unwrap_or(&new);
            let before = before_of(first, place, after);
            let there = to.since(tenant.since.max(*from)).0.max(1) as f64;
            let busy = (after.busy_ns - before.busy_ns) as f64;
            let waited = after.waited_ns.saturating_sub(before.waited_ns) as f64;
            let demand = match after.held_back_ns.saturating_sub(before.held_back_ns) as f64 {
                held_back if held_back >= HELD_BACK * there => Demand::Limited,
                _ if waited >= FULL_DEMAND * there => Demand::Full,
                _ if busy >= BUSY_CLIENT * there => Demand::InDevice,
                _ if busy > 0.0 => Demand::Some,
                _ => Demand::Nothing,
            };
            claims.push(Claim {
                place,
                weight: f64::from(tenant.settings.weight),
                bytes: (after.bytes - before.bytes) as f64,
                ios: (after.ios - before.ios) as f64,
                demand,
            });
        }
        let all: f64 = claims.iter().map(|claim| claim.bytes).sum();
        let received: Vec<f64> = claims.iter().map(|claim| if all > 0.0 { claim.bytes / all } else { 0.0 }).collect();
        let promised = promised(&claims, &received);
        let cause = if (disk.cpu_ns - disk_before.cpu_ns) as f64 >= BUSY_CPU * window_ns {
            Shortfall::Cpu
        } else {
            Shortfall::Scheduler
        };
        let mut shares = BTreeMap::new();
        for ((claim, share), promised) in claims.iter().zip(received).zip(promised) {
            let short = share < promised - TOLERANCE || share < 0.75 * promised;
            let shortfall = match claim.demand {
                _ if !short => Shortfall::None,
                Demand::Nothing => Shortfall::Idle,
                Demand::Some => Shortfall::AsksForLess,
                Demand::Limited => Shortfall::Limit,
                _ if raised.iter().any(|other| *other != claim.place) => Shortfall::Reservation,
                Demand::InDevice if cause == Shortfall::Scheduler => Shortfall::Depth,
                Demand::InDevice | Demand::Full => cause,
            };
            let (bytes_per_s, iops) = (claim.bytes / seconds, claim.ios / seconds);
            shares.insert(claim.place, Share { bytes_per_s, iops, share, promised, demand: claim.demand, shortfall });
        }
        let full = claims.iter().filter(|claim| claim.demand == Demand::Full);
        let (weights, moved): (Vec<f64>, Vec<f64>) = full.map(|claim| (claim.weight, claim.bytes)).unzip();
        (shares, pv(&weights, &moved))
    }
}

/// A tenant's counts at the begin of the window; none if it came later.
fn before_of(first: &BTreeMap<u32, Mark>, place: u32, after: &Mark) -> Mark {
    let before = first.get(&place).copied().filter(|before| before.since == after.since);
    before.unwrap_or(Mark::unused(after.since))
}

/// What a tenant may claim of the window.
struct Claim {
    place: u32,
    weight: f64,
    bytes: f64,
    ios: f64,
    demand: Demand,
}

/// What weights promise: a tenant that asked for less than its share leaves the rest to the others, by their weights.
fn promised(claims: &[Claim], received: &[f64]) -> Vec<f64> {
    let mut contends: Vec<bool> = claims.iter().map(|claim| claim.demand != Demand::Nothing).collect();
    let contending = claims.iter().zip(&contends).filter(|(_, contends)| **contends);
    let all_weights: f64 = contending.map(|(claim, _)| claim.weight).sum();
    let (mut left, mut weights) = (1.0, all_weights);
    // Those that received least for their weight are satisfied first.
    let per_weight = |at: usize| received[at] / claims[at].weight;
    let modest = (0..claims.len()).filter(|at| contends[*at] && claims[*at].demand != Demand::Full);
    let mut modest: Vec<usize> = modest.collect();
    modest.sort_by(|a, b| per_weight(*a).total_cmp(&per_weight(*b)));
    for at in modest {
        if received[at] >= left * claims[at].weight / weights {
            break;
        }
        contends[at] = false;
        left -= received[at];
        weights -= claims[at].weight;
    }
    let promise = |(at, claim): (usize, &Claim)| match claim.demand {
        _ if contends[at] => left * claim.weight / weights,
        Demand::Nothing => claim.weight / (all_weights + claim.weight),
        _ => claim.weight / all_weights,
    };
    claims.iter().enumerate().map(promise).collect()
}

#[cfg(test)]
mod tests {
    use dumbwaiter_block::TenantId;

    use super::*;
    use crate::settings::ExportSettings;

    /// What a tenant does in each second: bytes, time with something under way (ms), in which something waits for a choice (ms), and
    /// in which a limit holds it back (ms).
    type Second = (u64, u64, u64, u64);

    fn shares_of(tenants: &[(u32, Second)], disk: DiskMark, raised: &[u32]) -> Vec<Share> {
        let mut window = ShareWindow::default();
        let mut all: Vec<Tenant> = tenants
            .iter()
            .map(|(weight, _)| {
                let settings = ExportSettings { weight: *weight, ..ExportSettings::whole("a") };
                Tenant::new(settings, TenantId(0), 0, 1, Nanos::ZERO)
            })
            .collect();
        for second in 0..=12 {
            let weights: Vec<u32> = all.iter().map(|tenant| tenant.settings.weight).collect();
            let own = |tenant: &Tenant| {
                let at = weights.iter().position(|weight| *weight == tenant.settings.weight).unwrap();
                tenants[at].1
            };
            let (waited, held) =
                (|_, t: &Tenant| own(t).2 * 1_000_000 * second, |t: &Tenant| own(t).3 * 1_000_000 * second);
            let mark = DiskMark { cpu_ns: disk.cpu_ns * second, ..disk };
            window.note(Nanos::from_secs(second), mark, (0..).zip(&all), waited, held);
            for (tenant, (_, (bytes, busy_ms, ..))) in all.iter_mut().zip(tenants) {
                tenant.counts.read_bytes += bytes;
                if *busy_ms > 0 {
                    tenant.begin(Nanos::from_secs(second));
                    tenant.end(Nanos::from_secs(second) + Nanos::from_ms(*busy_ms));
                }
            }
        }
        window.shares((0..).zip(&all), raised).0.into_values().collect()
    }

    const CHOOSES: DiskMark = DiskMark { cpu_ns: 100_000_000, held_ns: 0 };

    #[test]
    fn what_one_leaves_is_promised_to_the_others() {
        let shares =
            shares_of(&[(100, (10, 500, 400, 0)), (200, (30, 1000, 950, 0)), (400, (60, 1000, 1000, 0))], CHOOSES, &[]);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(shares[0].promised, 1.0 / 7.0) && shares[0].shortfall == Shortfall::AsksForLess, "{shares:?}");
        assert!(near(shares[1].promised, 0.3) && near(shares[1].share, 0.3), "{shares:?}");
        assert!(near(shares[2].promised, 0.6) && shares[2].shortfall == Shortfall::None, "{shares:?}");
    }

    #[test]
    fn each_cause_has_its_word() {
        let pair = |own: Second, disk| shares_of(&[(300, own), (100, (90, 1000, 1000, 0))], disk, &[])[0];
        assert_eq!(pair((0, 0, 0, 0), CHOOSES).shortfall, Shortfall::Idle);
        assert_eq!(pair((10, 1000, 1000, 100), CHOOSES).shortfall, Shortfall::Limit);
        assert_eq!(pair((10, 1000, 1000, 0), CHOOSES).shortfall, Shortfall::Scheduler);
        assert_eq!(pair((10, 1000, 500, 0), CHOOSES).shortfall, Shortfall::Depth);
        assert_eq!(pair((10, 1000, 1000, 0), DiskMark { cpu_ns: 990_000_000, held_ns: 0 }).shortfall, Shortfall::Cpu);
        assert_eq!(pair((270, 1000, 1000, 0), CHOOSES).shortfall, Shortfall::None);
        let raised =
            |places: &[u32]| shares_of(&[(300, (10, 1000, 1000, 0)), (100, (90, 1000, 1000, 0))], CHOOSES, places)[0];
        assert_eq!(raised(&[1]).shortfall, Shortfall::Reservation);
        assert_eq!(raised(&[0]).shortfall, Shortfall::Scheduler, "its own reservation takes nothing from it");
        for cause in [Shortfall::None, Shortfall::AsksForLess, Shortfall::Depth, Shortfall::Reservation] {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.name(), "one word");
        }
        let idle = pair((0, 0, 0, 0), CHOOSES);
        assert!((idle.promised - 0.75).abs() < 1e-9 && idle.due() == 0.0, "{idle:?}");
    }

    #[test]
    fn a_place_that_is_used_again_begins_anew() {
        let settings = ExportSettings::whole("a");
        let mut old = Tenant::new(settings.clone(), TenantId(0), 0, 1, Nanos::ZERO);
        old.counts.read_bytes = 1 << 40;
        let mut window = ShareWindow::default();
        window.note(Nanos::from_secs(1), DiskMark::default(), [(0, &old)].into_iter(), |_, _| 0, |_| 0);
        let mut new = Tenant::new(settings, TenantId(0), 0, 1, Nanos::from_secs(2));
        new.counts.read_bytes = 1000;
        window.note(Nanos::from_secs(3), DiskMark::default(), [(0, &new)].into_iter(), |_, _| 0, |_| 0);
        let (shares, _) = window.shares([(0, &new)].into_iter(), &[]);
        assert_eq!(shares[&0].bytes_per_s, 500.0);
    }
}
