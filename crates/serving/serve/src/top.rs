//! A running server at a glance: who gets what against what is due, how fast, and who waits for what.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::control::send_order;
use crate::order::Order;
use crate::question::{DiskStats, ExportStats, Limit};
use crate::shares::Shortfall;

/// Version of the JSON.
const SCHEMA: u32 = 1;
/// Columns of the table beside the name, which has what is left.
const FIXED_COLUMNS: usize = 67;
const BAR_COLUMNS: usize = 12;
/// Columns of a name in a line below the table.
const NOTE_NAME: usize = 20;

/// A tenant's activity at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// It asks for nothing.
    Idle,
    /// It asks for less than it may have.
    Active,
    /// It always has requests waiting: for the drive, or for its turn.
    Backlogged,
    /// Its own limit holds requests back.
    Limited,
    /// It takes no new clients and goes with its last one.
    Draining,
}

/// A tenant in a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TenantView {
    /// The export.
    pub name: String,
    /// Its weight.
    pub weight: u32,
    /// Part of all bytes of the disk over the last 10 s, 0 to 1.
    pub share: f64,
    /// Part that its weight promises it beside those that asked for something, 0 to 1.
    #[serde(default)]
    pub promised_share: f64,
    /// Why it received less.
    #[serde(default)]
    pub shortfall: Shortfall,
    /// What is promised, if it always asked for more; else 0.
    pub due: f64,
    /// I/Os per second over the last 10 s.
    pub iops: f64,
    /// Megabytes per second over the last 10 s.
    pub mb_per_s: f64,
    /// Its limits.
    #[serde(default)]
    pub limit: Limit,
    /// Reserved I/Os per second.
    #[serde(default)]
    pub reservation: Option<u64>,
    /// Median latency over the last 5 to 10 s, ms.
    pub p50_ms: Option<f64>,
    /// 99th percentile likewise.
    pub p99_ms: Option<f64>,
    /// How long the oldest request has waited, ms.
    pub oldest_ms: f64,
    /// Requests under way.
    pub outstanding: u32,
    /// Connections.
    pub clients: u32,
    /// Its activity.
    pub activity: Activity,
}

/// A disk in a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskView {
    /// The served file, device or model.
    pub target: String,
    /// Its scheduler.
    pub scheduler: String,
    /// Requests that the device may hold.
    pub device_depth: u32,
    /// Requests in the device.
    pub in_device: u64,
    /// Requests that wait in the scheduler.
    pub queued: u64,
    /// Proportionality variation over the last 10 s, with two tenants or more that had a backlog.
    pub pv: Option<f64>,
    /// Part of the last 10 s in which tenants ahead of their share were held back.
    #[serde(default)]
    pub held_back: f64,
    /// A flush failed.
    pub flush_failed: bool,
    /// The tenant whose oldest request has waited longest.
    pub longest_waiting: Option<String>,
    /// Its tenants, the largest share first.
    pub tenants: Vec<TenantView>,
}

/// A server in a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopView {
    /// Version of this shape.
    pub schema: u32,
    /// Seconds since the server's start.
    pub up_s: f64,
    /// Connections.
    pub connections: u64,
    /// Clients that failed to agree on an export.
    pub failed_negotiations: u64,
    /// The disks.
    pub disks: Vec<DiskView>,
}

/// Looks at a running server through its control socket.
#[derive(Clone, Debug)]
pub struct Top {
    socket: PathBuf,
    /// Time that requests of each export had waited for its limit at the last view.
    throttled_s: BTreeMap<String, f64>,
}

impl Top {
    /// Of the server with this control socket.
    pub fn new(socket: &Path) -> Top {
        Top { socket: socket.to_owned(), throttled_s: BTreeMap::new() }
    }

    /// How it is now.
    pub fn look(&mut self) -> Result<TopView, Error> {
        let answer = send_order(&self.socket, &Order::Stats {})?;
        let disks: Vec<DiskStats> = serde_json::from_value(answer["disks"].clone())
            .map_err(|e| Error::Settings(format!("the server runs another version of dumbwaiter: {e}")))?;
        let number = |key: &str| answer.get(key).and_then(Value::as_u64).unwrap_or(0);
        let names: Vec<&str> = disks.iter().flat_map(|disk| &disk.exports).map(|e| e.name.as_str()).collect();
        self.throttled_s.retain(|name, _| names.contains(&name.as_str()));
        let views = disks.iter().map(|disk| self.disk(disk)).collect();
        Ok(TopView {
            schema: SCHEMA,
            up_s: disks.iter().map(|disk| disk.up_s).fold(0.0, f64::max),
            connections: number("connections"),
            failed_negotiations: number("failed_negotiations"),
            disks: views,
        })
    }

    fn disk(&mut self, disk: &DiskStats) -> DiskView {
        let mut tenants: Vec<TenantView> = disk.exports.iter().map(|export| self.tenant(export)).collect();
        tenants.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.name.cmp(&b.name)));
        let waiting = tenants.iter().filter(|tenant| tenant.outstanding > 0);
        let longest = waiting.max_by(|a, b| a.oldest_ms.total_cmp(&b.oldest_ms)).map(|tenant| tenant.name.clone());
        DiskView {
            target: disk.target.clone(),
            scheduler: disk.scheduler.clone(),
            device_depth: disk.device_depth,
            in_device: disk.in_device,
            queued: disk.queued,
            pv: disk.pv,
            held_back: disk.held_back,
            flush_failed: disk.flush_failed,
            longest_waiting: longest,
            tenants,
        }
    }

    fn tenant(&mut self, export: &ExportStats) -> TenantView {
        let known = self.throttled_s.insert(export.name.clone(), export.throttled_s);
        let limited = known.is_some_and(|known| export.throttled_s > known);
        let activity = match export.outstanding {
            _ if export.draining => Activity::Draining,
            0 => Activity::Idle,
            _ if limited => Activity::Limited,
            _ if export.due > 0.0 => Activity::Backlogged,
            _ => Activity::Active,
        };
        TenantView {
            name: export.name.clone(),
            weight: export.weight,
            share: export.share,
            due: export.due,
            iops: export.iops,
            mb_per_s: export.bytes_per_s / 1e6,
            promised_share: export.promised_share,
            shortfall: export.shortfall,
            limit: export.limit,
            reservation: export.reservation,
            p50_ms: export.p50_ms,
            p99_ms: export.p99_ms,
            oldest_ms: export.oldest_ms,
            outstanding: export.outstanding,
            clients: export.connections,
            activity,
        }
    }
}

impl TopView {
    /// The view as text, in lines of at most `columns` (80 at least) and `rows` lines at most.
    pub fn text(&self, columns: usize, rows: Option<usize>) -> String {
        let name = columns.max(80) - FIXED_COLUMNS;
        let mut lines = vec![self.head()];
        for disk in &self.disks {
            lines.push(String::new());
            lines.extend(disk.lines(name));
        }
        if let Some(rows) = rows.filter(|rows| lines.len() > *rows) {
            let hidden = lines.len() - rows.max(1) + 1;
            lines.truncate(rows.max(1) - 1);
            lines.push(format!("… {hidden} more lines; --once prints all"));
        }
        lines.join("\n") + "\n"
    }

    fn head(&self) -> String {
        let mut text = format!("up {}, {} clients", duration(self.up_s), self.connections);
        if self.failed_negotiations > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, ", {} failed negotiations", self.failed_negotiations);
        }
        text
    }
}

impl DiskView {
    fn lines(&self, name_columns: usize) -> Vec<String> {
        let mut pv = self.pv.map_or(String::new(), |pv| format!(", PV {pv:.3}"));
        if self.held_back >= 0.005 {
            pv += &format!(", {:.0}% held back", 100.0 * self.held_back);
        }
        let mut lines = vec![
            self.target.clone(),
            format!(
                "{}, {} of {} in the device, {} waiting{pv}",
                self.scheduler, self.in_device, self.device_depth, self.queued
            ),
        ];
        if self.flush_failed {
            lines.push("A FLUSH FAILED: check the drive, then restart the server".to_owned());
        }
        lines.push(format!(
            "{:name_columns$} {:>6} {:>6} {:BAR_COLUMNS$} {:>7} {:>7} {:>6} {:>6} {:>8}",
            "export", "weight", "share", "", "IOPS", "MB/s", "p50 ms", "p99 ms", "waits ms"
        ));
        lines.extend(self.tenants.iter().map(|tenant| tenant.line(name_columns)));
        lines.extend(self.tenants.iter().filter_map(TenantView::shortfall_line));
        lines.extend(self.tenants.iter().filter_map(TenantView::limits_line));
        if let Some(tenant) = self.tenants.iter().find(|tenant| Some(&tenant.name) == self.longest_waiting.as_ref()) {
            lines.push(format!("longest wait: {}, {:.1} ms", tenant.name, tenant.oldest_ms));
        }
        lines
    }
}

impl TenantView {
    /// What it received of what was promised, and why not all.
    fn shortfall_line(&self) -> Option<String> {
        let why = self.shortfall.explanation()?;
        let name = fitted(&self.name, self.name.chars().count().min(NOTE_NAME));
        Some(format!("short: {name} has {:.1}% of {:.1}%: {why}", 100.0 * self.share, 100.0 * self.promised_share))
    }

    /// Its limits and its reservation.
    fn limits_line(&self) -> Option<String> {
        let Limit { iops, bytes, .. } = self.limit;
        let mut parts = Vec::new();
        parts.extend(iops.map(|iops| format!("limit {} IOPS", short(iops as f64))));
        parts.extend(bytes.map(|bytes| format!("limit {} MB/s", short(bytes as f64 / 1e6))));
        parts.extend(self.reservation.map(|iops| format!("reserved {} IOPS", short(iops as f64))));
        let name = fitted(&self.name, self.name.chars().count().min(NOTE_NAME));
        let line = format!("{name}: {}", parts.join(", "));
        (!parts.is_empty()).then(|| fitted(&line, line.chars().count().min(80)))
    }

    fn line(&self, name_columns: usize) -> String {
        let ms = |time: Option<f64>| time.map_or("-".to_owned(), short);
        let waits = match self.activity {
            Activity::Idle => "idle".to_owned(),
            Activity::Limited => "limited".to_owned(),
            Activity::Draining => "draining".to_owned(),
            Activity::Active | Activity::Backlogged => short(self.oldest_ms),
        };
        format!(
            "{} {:>6} {:>5.1}% {} {:>7} {:>7} {:>6} {:>6} {waits:>8}",
            fitted(&self.name, name_columns),
            self.weight,
            100.0 * self.share,
            bar(self.share, self.due),
            short(self.iops),
            short(self.mb_per_s),
            ms(self.p50_ms),
            ms(self.p99_ms),
        )
    }
}

/// A share as a bar, with a mark where it is due.
fn bar(share: f64, due: f64) -> String {
    let place = |part: f64| (part.clamp(0.0, 1.0) * BAR_COLUMNS as f64).round() as usize;
    let mark = (due > 0.0).then(|| place(due).clamp(1, BAR_COLUMNS) - 1);
    let cell = |at| match (Some(at) == mark, at < place(share)) {
        (true, _) => '|',
        (false, true) => '=',
        (false, false) => '.',
    };
    (0..BAR_COLUMNS).map(cell).collect()
}

/// A number in at most six columns.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.1}M", value / 1e6),
        value if value >= 1e5 => format!("{:.0}k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// A name in exactly `columns` columns; a longer one loses its end.
fn fitted(name: &str, columns: usize) -> String {
    match name.chars().count() > columns {
        true => name.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
        false => format!("{name:columns$}"),
    }
}

fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str, share: f64, due: f64, activity: Activity) -> TenantView {
        TenantView {
            name: name.to_owned(),
            weight: 10_000,
            share,
            due,
            iops: 123_456.0,
            mb_per_s: 98_765.4,
            p50_ms: Some(0.123),
            p99_ms: Some(12_345.6),
            promised_share: due,
            shortfall: Shortfall::Cpu,
            limit: Limit { iops: Some(123_456_789), bytes: Some(u64::MAX), ..Limit::default() },
            reservation: Some(u64::MAX),
            oldest_ms: 123_456.7,
            outstanding: u32::from(activity != Activity::Idle),
            clients: 1,
            activity,
        }
    }

    fn view(tenants: Vec<TenantView>) -> TopView {
        let disk = DiskView {
            target: "/dev/nvme0n1".into(),
            scheduler: "headway".into(),
            device_depth: 32,
            in_device: 32,
            queued: 96,
            pv: Some(0.0123),
            held_back: 0.25,
            flush_failed: false,
            longest_waiting: Some("batch".into()),
            tenants,
        };
        TopView { schema: SCHEMA, up_s: 7300.0, connections: 4, failed_negotiations: 0, disks: vec![disk] }
    }

    #[test]
    fn every_line_fits_80_columns_whatever_the_numbers() {
        let long = "n".repeat(200);
        let all = [Activity::Idle, Activity::Active, Activity::Backlogged, Activity::Limited, Activity::Draining];
        let view = view(all.iter().map(|activity| tenant(&long, 1.0, 1.0, *activity)).collect());
        for line in view.text(80, None).lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
        assert_eq!(view.text(80, Some(5)).lines().count(), 5);
    }

    #[test]
    fn a_view_says_who_gets_what_and_who_waits() {
        let view = view(vec![
            tenant("db", 0.75, 0.5, Activity::Backlogged),
            tenant("batch", 0.25, 0.5, Activity::Backlogged),
            tenant("idle", 0.0, 0.0, Activity::Idle),
        ]);
        let text = view.text(80, None);
        assert!(text.starts_with("up 2 h 1 min, 4 clients\n"), "{text}");
        assert!(text.contains(" 75.0% =====|===... "), "{text}");
        assert!(text.contains(" 25.0% ===..|...... "), "{text}");
        assert!(text.contains("longest wait: batch"), "{text}");
        assert!(text.contains("short: batch has 25.0% of 50.0%: no CPU time left\n"), "{text}");
        let idle = text.lines().find(|line| line.starts_with("idle ")).unwrap();
        assert!(idle.ends_with(" idle"), "{idle}");
    }
}
