//! Answers of a running disk server.

use dumbwaiter_report::{Align, Style, table};
use dumbwaiter_serve::{DiskStats, Explanation, HistogramStats, Order};
use serde_json::{Value, from_value};

/// A server's answer to an order.
///
/// # Errors
/// If the server is of another version, whose answer has another shape.
pub fn answer_text(order: &Order, answer: Value, style: Style) -> Result<String, serde_json::Error> {
    Ok(match order {
        Order::Stats {} => disks_text(&from_value::<Vec<DiskStats>>(answer["disks"].clone())?, style),
        Order::List {} => list(&answer, style),
        Order::Histogram { .. } => histogram(&from_value(answer)?),
        Order::Explain { .. } => explanation(&from_value(answer)?),
        Order::Drain { export, .. } => match answer["drained"].as_bool() {
            Some(true) => format!("{export} is drained and removed\n"),
            _ => format!(
                "{export} still has clients; it takes no new ones. `ctl remove {export} --hard` ends them, `ctl undrain {export}` lets new ones in\n"
            ),
        },
        Order::Save {} => format!("saved to {}\n", answer["saved"].as_str().unwrap_or_default()),
        _ => "done\n".to_owned(),
    })
}

fn list(answer: &Value, style: Style) -> String {
    let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let keys = ["name", "size", "weight", "connections", "readonly", "target"];
    let mut header = vec![("name", Align::Left), ("size", Align::Right), ("weight", Align::Right)];
    header.extend([("clients", Align::Right), ("readonly", Align::Left), ("target", Align::Left), ("", Align::Left)]);
    let exports = answer.as_array().into_iter().flatten();
    let row = |export: &Value| {
        let mut more = Vec::new();
        let limit = &export["limit"];
        more.extend(limit["iops"].as_u64().map(|iops| format!("limit {iops} IOPS")));
        more.extend(limit["bytes"].as_u64().map(|bytes| format!("limit {bytes} bytes/s")));
        more.extend(export["reservation"].as_u64().map(|iops| format!("reserved {iops} IOPS")));
        more.extend((export["draining"] == true).then(|| "draining".to_owned()));
        keys.iter().map(|key| cell(&export[*key])).chain([more.join(", ")]).collect()
    };
    let rows: Vec<Vec<String>> = exports.map(row).collect();
    table(&header, &rows, style)
}

/// The tenants of all disks, their shares first.
pub fn disks_text(disks: &[DiskStats], style: Style) -> String {
    let mut out = String::new();
    for disk in disks {
        let pv = disk.pv.map_or(String::new(), |pv| format!(", PV {pv:.3}"));
        out += &format!(
            "{}: {}, {} of {} in the device, {} waiting{pv}\n",
            disk.target, disk.scheduler, disk.in_device, disk.device_depth, disk.queued
        );
        if disk.flush_failed {
            out += "A FLUSH FAILED: check the drive, then restart the server\n";
        }
        let numbers = ["weight", "share %", "due %", "IOPS", "MB/s", "p50 ms", "p99 ms", "waits ms", "clients"];
        let header: Vec<(&str, Align)> =
            [("export", Align::Left)].into_iter().chain(numbers.map(|name| (name, Align::Right))).collect();
        let mut rows = Vec::new();
        for export in &disk.exports {
            let ms = |time: Option<f64>| time.map_or("-".to_owned(), |time| format!("{time:.2}"));
            rows.push(vec![
                export.name.clone(),
                export.weight.to_string(),
                format!("{:.1}", 100.0 * export.share),
                if export.due > 0.0 { format!("{:.1}", 100.0 * export.due) } else { "-".to_owned() },
                format!("{:.0}", export.iops),
                format!("{:.1}", export.bytes_per_s / 1e6),
                ms(export.p50_ms),
                ms(export.p99_ms),
                format!("{:.1}", export.oldest_ms),
                export.connections.to_string(),
            ]);
        }
        out += &table(&header, &rows, style);
        for export in &disk.exports {
            if let Some(why) = export.shortfall.explanation() {
                let [has, promised] = [export.received_share, export.promised_share].map(|share| 100.0 * share);
                out += &format!("short: {} has {has:.1} % of {promised:.1} %: {why}\n", export.name);
            }
        }
    }
    out
}

fn histogram(histogram: &HistogramStats) -> String {
    let mut out = format!("{}: {} requests\n", histogram.export, histogram.count);
    for (end, count) in &histogram.buckets {
        out += &format!("{:>12.1} us  {count}\n", end);
    }
    out
}

fn explanation(explanation: &Explanation) -> String {
    let Explanation { why, state, device_depth, depth_why, .. } = explanation;
    let mut out = format!("{why}\n");
    for line in state.lines() {
        out += &format!("  {line}\n");
    }
    out + &format!("device depth {device_depth}: {depth_why}\n")
}
