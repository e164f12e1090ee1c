//! What tenants of a disk were promised and received, second by second.

use std::collections::BTreeMap;

use dumbwaiter_block::Nanos;

use crate::question::Sums;
use crate::shard::Shard;
use crate::shares::{DiskMark, Share};
use crate::tenant::{Counts, HALF_WINDOW_S, Tenant};

impl Shard {
    /// Shares of the last seconds, and their proportionality variation.
    pub(crate) fn current_shares(&self) -> (BTreeMap<u32, Share>, f64) {
        self.shares_of(|_| true)
    }

    /// Shares of some tenants, among which are all that asked for something.
    fn shares_of(&self, wanted: impl Fn(u32) -> bool) -> (BTreeMap<u32, Share>, f64) {
        let layer = self.volume.disk.layer();
        let is_raised = |(place, tenant): (u32, &Tenant)| {
            let own = layer.tenants().tenant(tenant.id)?;
            (own.weight > tenant.settings.weight).then_some(place)
        };
        let raised: Vec<u32> = self.volume.tenants().filter_map(is_raised).collect();
        self.shares.shares(self.volume.tenants().filter(|(place, _)| wanted(*place)), &raised)
    }

    /// The counts of each tenant that accounts are kept of.
    pub(crate) fn sums(&self) -> Vec<(String, String, Sums)> {
        let own = |(_, tenant): (u32, &Tenant)| {
            let Counts { reads, writes, read_bytes, write_bytes, .. } = tenant.counts;
            let sums = [reads, writes, read_bytes, write_bytes, tenant.promised_bytes, tenant.short_s];
            (self.target_settings.target.clone(), tenant.settings.name.clone(), sums)
        };
        self.volume.tenants().map(own).collect()
    }

    /// Once a second: counts, and what each tenant received of its promise.
    pub(crate) fn note_shares(&mut self) {
        let mut disk = DiskMark { cpu_ns: thread_cpu_ns(), held_ns: 0 };
        self.volume.disk.layer().counters(&mut |name, count| {
            disk.held_ns += if name == "headway_held_ns" { count } else { 0 };
        });
        let (volume, now, ages) = (&self.volume, self.volume.disk.now(), self.volume.oldest());
        let waited = |place: u32, tenant: &Tenant| {
            let oldest = (tenant.outstanding > 0).then(|| Nanos(now.0 - ages[place as usize].0));
            tenant.waited_ns(now, oldest)
        };
        self.shares.note(now, disk, volume.tenants(), waited, |tenant| volume.parked_ns(tenant.id));
        let latest = self.shares.latest();
        let (ios, bytes) = latest.iter().fold((0, 0), |(ios, bytes), (_, i, b)| (ios + i, bytes + b));
        self.most_iops = self.most_iops.max(ios);
        let (shares, _) = self.shares_of(|place| self.shares.has_used(place));
        for (place, _, received) in latest {
            let share = shares.get(&place).copied().unwrap_or_default();
            let Some(own) = self.volume.tenant_mut(place) else { continue };
            own.short_s += u64::from(share.shortfall.is_broken_promise());
            own.promised_bytes += if share.asks_for_more() { (share.promised * bytes as f64) as u64 } else { received };
        }
        self.ticks += 1;
        if self.ticks.is_multiple_of(HALF_WINDOW_S) {
            self.volume.tenants_mut().for_each(Tenant::forget_old_latencies);
        }
    }
}

/// CPU time of this thread.
fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
