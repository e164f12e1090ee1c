//! Counts as OpenMetrics text.

use dumbwaiter_linux::service::openmetrics::{Family, escape, head, sample};

use crate::question::{DiskStats, ExportStats};
use crate::shares::Shortfall;

type OfExport = fn(&ExportStats) -> f64;
type OfDisk = fn(&DiskStats) -> f64;

const EXPORT_COUNTERS: [(&str, &str, OfExport); 8] = [
    ("dumbwaiter_flushes", "Flushes completed.", |e| e.flushes as f64),
    ("dumbwaiter_errors", "Requests that the disk failed.", |e| e.errors as f64),
    ("dumbwaiter_refused_requests", "Requests refused before they reached the disk.", |e| e.refused as f64),
    ("dumbwaiter_protocol_violations", "Connections that broke the protocol.", |e| e.violations as f64),
    ("dumbwaiter_connects", "Connections made.", |e| e.connects as f64),
    ("dumbwaiter_tenant_short_seconds", "Seconds with less than promised, though the tenant asked for more.", |e| {
        e.short_s as f64
    }),
    ("dumbwaiter_tenant_promised_bytes", "Bytes it would have received, had each promise been kept.", |e| {
        e.promised_bytes as f64
    }),
    ("dumbwaiter_throttled_seconds", "Time that requests waited for a limit, summed over requests.", |e| e.throttled_s),
];

const EXPORT_GAUGES: [(&str, &str, OfExport); 13] = [
    ("dumbwaiter_tenant_weight", "Weight of the tenant.", |e| f64::from(e.weight)),
    ("dumbwaiter_tenant_share_ratio", "Part of all bytes over the last 10 s.", |e| e.received_share),
    ("dumbwaiter_tenant_promised_ratio", "Part that its weight promises over the last 10 s.", |e| e.promised_share),
    ("dumbwaiter_tenant_due_ratio", "Part that its weight promises, 0 unless it always asked for more.", |e| e.due),
    ("dumbwaiter_tenant_iops", "I/Os per second over the last 10 s.", |e| e.iops),
    ("dumbwaiter_tenant_bytes_per_second", "Bytes per second over the last 10 s.", |e| e.bytes_per_s),
    ("dumbwaiter_tenant_limit_iops", "Limit of I/Os per second; NaN without one.", |e| number(e.limit.iops)),
    ("dumbwaiter_tenant_limit_bytes_per_second", "Limit of bytes per second; NaN without one.", |e| {
        number(e.limit.bytes)
    }),
    ("dumbwaiter_tenant_reservation_iops", "Reserved I/Os per second; NaN without any.", |e| number(e.reservation)),
    ("dumbwaiter_tenant_draining", "1 while it takes no new clients.", |e| f64::from(u8::from(e.draining))),
    ("dumbwaiter_outstanding_requests", "Requests under way.", |e| f64::from(e.outstanding)),
    ("dumbwaiter_starvation_age_seconds", "Age of the oldest request under way.", |e| e.oldest_ms / 1e3),
    ("dumbwaiter_connections", "Connections open.", |e| f64::from(e.connections)),
];

const DISK_GAUGES: [(&str, &str, OfDisk); 10] = [
    ("dumbwaiter_device_depth", "Requests in the device.", |d| d.in_device as f64),
    ("dumbwaiter_device_depth_limit", "Requests that the device may hold.", |d| f64::from(d.device_depth)),
    ("dumbwaiter_shown_iops", "The most I/Os in a second so far, into which reservations must fit.", |d| {
        d.shown_iops as f64
    }),
    (
        "dumbwaiter_held_back_ratio",
        "Part of the last 10 s in which tenants ahead of their share were held back.",
        |d| d.held_back,
    ),
    ("dumbwaiter_queue_depth", "Requests that wait in the scheduler.", |d| d.queued as f64),
    ("dumbwaiter_proportionality_variation", "PV over the last 10 s; NaN with fewer than two tenants.", |d| {
        d.pv.unwrap_or(f64::NAN)
    }),
    ("dumbwaiter_disk_utilisation_ratio", "Requests in the device as a part of its limit.", |d| {
        d.in_device as f64 / f64::from(d.device_depth.max(1))
    }),
    ("dumbwaiter_buffer_bytes", "Bytes of buffers in use.", |d| d.buffer_bytes as f64),
    ("dumbwaiter_free_buffer_bytes", "Bytes of buffers kept for further requests.", |d| d.free_buffer_bytes as f64),
    ("dumbwaiter_flush_failed", "1 once a flush has failed: every later one fails until a restart.", |d| {
        f64::from(u8::from(d.flush_failed))
    }),
];

fn number(value: Option<u64>) -> f64 {
    value.map_or(f64::NAN, |value| value as f64)
}

/// The text of an OpenMetrics exposition, with the type `application/openmetrics-text; version=1.0.0; charset=utf-8`.
/// `failed_negotiations` is [`Inspector::failed_negotiations`](crate::Inspector::failed_negotiations).
pub fn openmetrics(disks: &[DiskStats], failed_negotiations: u64) -> String {
    let mut out = String::new();
    build_info(&mut out, disks);
    per_operation(&mut out, disks);
    for (name, help, value) in EXPORT_COUNTERS {
        head(&mut out, &Family { name, kind: "counter", help });
        for (disk, export) in exports(disks) {
            sample(&mut out, &format!("{name}_total"), &labels(disk, export), value(export));
        }
    }
    for (name, help, value) in EXPORT_GAUGES {
        head(&mut out, &Family { name, kind: "gauge", help });
        for (disk, export) in exports(disks) {
            sample(&mut out, name, &labels(disk, export), value(export));
        }
    }
    for (name, help, value) in DISK_GAUGES {
        head(&mut out, &Family { name, kind: "gauge", help });
        for disk in disks {
            sample(&mut out, name, &format!("target=\"{}\"", escape(&disk.target)), value(disk));
        }
    }
    let name = "dumbwaiter_scheduler_switches";
    head(&mut out, &Family { name, kind: "counter", help: "Exchanges of the scheduler." });
    for disk in disks {
        let target = format!("target=\"{}\"", escape(&disk.target));
        sample(&mut out, "dumbwaiter_scheduler_switches_total", &target, disk.switches as f64);
    }
    let name = "dumbwaiter_failed_negotiations";
    head(&mut out, &Family { name, kind: "counter", help: "Clients that failed to agree on an export." });
    sample(&mut out, "dumbwaiter_failed_negotiations_total", "", failed_negotiations as f64);
    shortfalls(&mut out, disks);
    latencies(&mut out, disks);
    out += "# EOF\n";
    out
}

fn build_info(out: &mut String, disks: &[DiskStats]) {
    // A gauge, since the older text format, which Prometheus's tools read too, has no type for facts.
    let name = "dumbwaiter_build_info";
    head(out, &Family { name, kind: "gauge", help: "Version, and the scheduler of each disk." });
    for disk in disks {
        let (version, scheduler) = (env!("CARGO_PKG_VERSION"), escape(&disk.scheduler));
        let labels = format!("target=\"{}\",version=\"{version}\",scheduler=\"{scheduler}\"", escape(&disk.target));
        sample(out, name, &labels, 1.0);
    }
}

fn per_operation(out: &mut String, disks: &[DiskStats]) {
    let name = "dumbwaiter_io_requests";
    head(out, &Family { name, kind: "counter", help: "Reads, writes and trims completed." });
    for (disk, export) in exports(disks) {
        for (op, count) in [("read", export.reads), ("write", export.writes), ("trim", export.trims)] {
            let labels = format!("{},op=\"{op}\"", labels(disk, export));
            sample(out, "dumbwaiter_io_requests_total", &labels, count as f64);
        }
    }
    let name = "dumbwaiter_io_bytes";
    head(out, &Family { name, kind: "counter", help: "Bytes read and written." });
    for (disk, export) in exports(disks) {
        for (op, bytes) in [("read", export.read_bytes), ("write", export.write_bytes)] {
            let labels = format!("{},op=\"{op}\"", labels(disk, export));
            sample(out, "dumbwaiter_io_bytes_total", &labels, bytes as f64);
        }
    }
}

/// Why tenants received less than promised: 1 for the reason that holds.
fn shortfalls(out: &mut String, disks: &[DiskStats]) {
    let name = "dumbwaiter_tenant_shortfall";
    head(out, &Family { name, kind: "gauge", help: "1 with the reason why a tenant received less than promised." });
    for (disk, export) in exports(disks).filter(|(_, export)| export.shortfall != Shortfall::None) {
        let labels = format!("{},reason=\"{}\"", labels(disk, export), export.shortfall.name());
        sample(out, name, &labels, 1.0);
    }
}

fn latencies(out: &mut String, disks: &[DiskStats]) {
    let name = "dumbwaiter_io_latency_seconds";
    head(out, &Family { name, kind: "histogram", help: "Time from a request's arrival to its completion." });
    for (disk, export) in exports(disks) {
        let labels = labels(disk, export);
        for (bound, count) in &export.latency_buckets {
            sample(out, &format!("{name}_bucket"), &format!("{labels},le=\"{bound:?}\""), *count as f64);
        }
        let count = export.latency_count as f64;
        sample(out, &format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), count);
        sample(out, &format!("{name}_sum"), &labels, export.latency_sum_s);
        sample(out, &format!("{name}_count"), &labels, count);
    }
}

fn exports(disks: &[DiskStats]) -> impl Iterator<Item = (&DiskStats, &ExportStats)> {
    disks.iter().flat_map(|disk| disk.exports.iter().map(move |export| (disk, export)))
}

fn labels(disk: &DiskStats, export: &ExportStats) -> String {
    format!("target=\"{}\",export=\"{}\"", escape(&disk.target), escape(&export.name))
}
