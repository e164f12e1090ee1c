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
            _ => format!("{export} still has clients; it takes no new ones. `ctl remove {export} --hard` ends them\n"),
        },
        _ => "done\n".to_owned(),
    })
}

fn list(answer: &Value, style: Style) -> String {
    let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let header = [
        ("name", Align::Left),
        ("size", Align::Right),
        ("weight", Align::Right),
        ("connections", Align::Right),
        ("readonly", Align::Left),
        ("target", Align::Left),
    ];
    let exports = answer.as_array().into_iter().flatten();
    let rows: Vec<Vec<String>> =
        exports.map(|export| header.iter().map(|(key, _)| cell(&export[*key])).collect()).collect();
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
