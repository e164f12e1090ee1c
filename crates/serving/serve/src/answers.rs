//! A disk answers questions and carries out orders.

use std::collections::BTreeMap;

use dumbwaiter_block::{Context, Nanos};

use crate::Error;
use crate::histogram::LatencyHistogram;
use crate::order::Order;
use crate::question::{Answer, DiskStats, Explanation, ExportStats, HistogramStats, Limit, Question};
use crate::settings::DeviceDepth;
use crate::shard::Shard;
use crate::shares::Share;
use crate::tenant::Tenant;

/// Upper bounds of the latency buckets of metrics, µs.
const METRIC_BUCKETS_US: [u64; 16] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 5_000_000,
    10_000_000,
];

fn ms(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

impl Shard {
    /// Answers a question, or refuses it.
    pub(crate) fn answer(&mut self, question: Question) -> Result<Answer, Error> {
        match question {
            Question::Ping => {}
            Question::Order(order) => return self.carry_out(order),
            Question::CheckReload(target) => self.check_reload(&target)?,
            Question::Reload(target) => return Ok(Answer::Settings(Box::new(self.reload(&target)?))),
            Question::Accounts => return Ok(Answer::Accounts(self.sums())),
            Question::Settings => return Ok(Answer::Settings(Box::new(self.current_settings()))),
            Question::Devices => return Ok(Answer::Devices(self.device_descriptions())),
        }
        Ok(Answer::Done)
    }

    fn carry_out(&mut self, order: Order) -> Result<Answer, Error> {
        match order {
            Order::List {} | Order::Stats {} => return Ok(Answer::Stats(Box::new(self.stats()))),
            Order::Explain { .. } => return Ok(Answer::Explanation(self.explain())),
            Order::Histogram { export } => return Ok(Answer::Histogram(self.histogram(self.find(&export)?))),
            Order::Set { export: Some(export), settings, .. } => self.set(&export, &settings)?,
            Order::Set { export: None, settings, disk } => return self.carry_out(Order::of_disk(&settings, disk)?),
            Order::SetWeight { export, weight } => self.volume.set_weight(self.find(&export)?, weight)?,
            Order::SetLimit { export, iops: None, bytes: None } => self.change(&export, |settings| {
                (settings.limit_iops, settings.limit_bytes) = (None, None);
            })?,
            Order::SetLimit { export, iops, bytes } => self.change(&export, |settings| {
                settings.limit_iops = iops.or(settings.limit_iops);
                settings.limit_bytes = bytes.or(settings.limit_bytes);
            })?,
            Order::SetReservation { export, iops } => {
                self.change(&export, |settings| settings.reservation_iops = iops)?;
            }
            Order::SetScheduler { scheduler, .. } => self.set_scheduler(&scheduler)?,
            Order::SetSetting { name, value, .. } => {
                let now = self.volume.disk.now();
                let set = self.volume.disk.layer_mut().set_tunable(now, &name, i128::from(value));
                set.map_err(|e| Error::Scheduler(e.to_string()))?;
                self.remember_setting(&name, value);
            }
            Order::SetDepth { depth, .. } => self.set_depth(depth)?,
            Order::Add { export, .. } => self.add(export.into())?,
            Order::Remove { export, hard } => self.remove(&export, hard)?,
            // Who gave the order waits until the export is gone.
            Order::Drain { export, .. } => self.remove(&export, false)?,
            Order::Undrain { export } => self.undrain(&export)?,
            // These are about all disks.
            Order::Save {} | Order::Reset {} => {}
            Order::Resize { export, size } => self.resize(&export, size)?,
        }
        Ok(Answer::Done)
    }

    fn explain(&self) -> Explanation {
        let layer = self.volume.disk.layer();
        let (switches, ordered) = (layer.switches().count, self.ordered_switches);
        let mut counters = BTreeMap::new();
        layer.counters(&mut |name, count| {
            counters.insert(name.to_owned(), count);
        });
        // Others dump all of their queues.
        let decides = self.choice.entry().name == "adaptive";
        let ctx =
            Context { now: self.volume.disk.now(), requests: layer.requests(), tenants: layer.tenants(), busy: false };
        let state = layer.controllers().map(|controller| controller.describe(&ctx)).collect();
        let name = self.choice.label();
        let mut why = match ordered {
            0 => format!("{name} was configured, and no command has replaced it"),
            1 => format!("a command set {name}"),
            _ => format!("the last of {ordered} commands set {name}"),
        };
        if decides {
            let count = |name: &str| counters.get(name).copied().unwrap_or(0);
            why += &format!(
                "; it has switched the scheduler below it {} times: {} to try one, {} to a better one, {} back from a worse \
                 one",
                switches.saturating_sub(ordered),
                count("policy_trial_switches"),
                count("policy_better_switches"),
                count("policy_reverts")
            );
        }
        let device_depth = layer.config().setup.device_depth;
        let depth_why = self.depth_why();
        Explanation { scheduler: name.to_owned(), switches, ordered, why, state, counters, device_depth, depth_why }
    }

    fn depth_why(&self) -> String {
        let Some(search) = self.volume.depth_search() else {
            return match self.target_settings.device_depth {
                DeviceDepth::Fixed(depth) => {
                    format!("the configuration or a command asks for {depth}; the device may hold fewer")
                }
                _ => "the default, or the most that the device can hold; `auto` finds the smallest that is fast enough"
                    .to_owned(),
            };
        };
        let found = |name: &str| search.get(name).copied();
        match found("depth_search_depth") {
            Some(depth) => format!(
                "auto: depth {depth} reaches {:.1} % of the throughput of depth {}, measured {:.0} s ago",
                found("depth_search_ratio_ppm").unwrap_or(0) as f64 / 1e4,
                found("depth_search_reference").unwrap_or(0),
                self.volume.disk.now().since(Nanos(found("depth_search_at_ns").unwrap_or(0))).0 as f64 / 1e9
            ),
            None => "auto: no search has ended yet; a search needs more requests under way than the depth".to_owned(),
        }
    }

    fn histogram(&self, index: u32) -> HistogramStats {
        let Some(tenant) = self.volume.tenant(index) else {
            return HistogramStats { export: String::new(), count: 0, buckets: Vec::new() };
        };
        HistogramStats {
            export: tenant.settings.name.clone(),
            count: tenant.latency.count(),
            buckets: tenant.latency.buckets().map(|(end, count)| (end.0 as f64 / 1e3, count)).collect(),
        }
    }

    /// `oldest`: the age of its oldest request.
    fn export_stats(&self, tenant: &Tenant, share: Share, oldest: Nanos) -> ExportStats {
        let layer = self.volume.disk.layer();
        let (settings, counts) = (&tenant.settings, &tenant.counts);
        ExportStats {
            name: settings.name.clone(),
            offset: tenant.offset,
            size: tenant.size,
            readonly: settings.readonly,
            ublk: settings.ublk,
            weight: settings.weight,
            effective_weight: layer.tenants().tenant(tenant.id).map_or(settings.weight, |own| own.weight),
            limit: Limit {
                iops: settings.limit_iops,
                bytes: settings.limit_bytes,
                burst_iops: settings.burst_iops,
                burst_bytes: settings.burst_bytes,
            },
            limit_iops: settings.limit_iops,
            limit_bytes: settings.limit_bytes,
            reservation: settings.reservation_iops,
            reservation_iops: settings.reservation_iops,
            over_commit: settings.over_commit,
            connections: tenant.connections,
            draining: tenant.leaving,
            leaving: tenant.leaving,
            outstanding: tenant.outstanding,
            oldest_ms: ms(oldest),
            reads: counts.reads,
            writes: counts.writes,
            flushes: counts.flushes,
            trims: counts.trims,
            read_bytes: counts.read_bytes,
            write_bytes: counts.write_bytes,
            errors: counts.errors,
            refused: counts.refused,
            violations: counts.violations,
            connects: counts.connects,
            throttled_s: self.volume.parked_ns(tenant.id) as f64 / 1e9,
            iops: share.iops,
            bytes_per_s: share.bytes_per_s,
            promised_share: share.promised,
            received_share: share.share,
            shortfall: share.shortfall,
            share: share.share,
            due: share.due(),
            short_s: tenant.short_s,
            promised_bytes: tenant.promised_bytes,
            p50_ms: tenant.recent_quantile(0.5).map(ms),
            p99_ms: tenant.recent_quantile(0.99).map(ms),
            latency_buckets: metric_buckets(&tenant.latency),
            latency_sum_s: tenant.latency.sum_ns() as f64 / 1e9,
            latency_count: tenant.latency.count(),
        }
    }

    fn stats(&self) -> DiskStats {
        let (disk, layer) = (&self.volume.disk, self.volume.disk.layer());
        let (shares, pv) = self.current_shares();
        let oldest = self.volume.oldest();
        let exports = self.volume.tenants().map(|(index, tenant)| {
            self.export_stats(tenant, shares.get(&index).copied().unwrap_or_default(), oldest[index as usize])
        });
        DiskStats {
            target: self.target_settings.target.clone(),
            bytes: disk.target().facts().bytes,
            block_bytes: disk.target().facts().logical_block,
            scheduler: self.choice.label().to_owned(),
            switches: layer.switches().count,
            device_depth: layer.config().setup.device_depth,
            in_device: layer.in_device(),
            queued: layer.queued(),
            shown_iops: self.shown_iops(),
            held_back: self.shares.held_back(),
            pv: Some(pv).filter(|pv| pv.is_finite()),
            buffer_bytes: self.volume.buffers.used_bytes(),
            free_buffer_bytes: self.volume.buffers.free_bytes(),
            flush_failed: self.volume.flush_failed,
            submitted: layer.ledger().submitted,
            completed: layer.ledger().completed,
            up_s: self.started.elapsed().as_secs_f64(),
            waits: disk.waits(),
            exports: exports.collect(),
        }
    }
}

fn metric_buckets(latency: &LatencyHistogram) -> Vec<(f64, u64)> {
    METRIC_BUCKETS_US.iter().map(|us| (*us as f64 / 1e6, latency.below(Nanos::from_us(*us)))).collect()
}
