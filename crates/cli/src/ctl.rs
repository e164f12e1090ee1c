//! `ctl`: orders to a running server.

use anyhow::{Context, Result};
use dumbwaiter_report::{Align, table};
use dumbwaiter_serve::{DiskStats, Explanation, ExportSettings, HistogramStats, Order, send_order};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::{Ctl, CtlOrder, OnSocket, Set};
use crate::{Ended, input, output};

/// Sends the order and prints the answer.
pub(crate) fn run(args: &Ctl) -> Result<Ended> {
    let socket = args.control.as_ref().context("no server: give --control SOCKET, or set DUMBWAITER_CONTROL")?;
    let order = order(&args.order)?;
    let answer = send_order(socket, &order)?;
    if args.json {
        output::print(&format!("{}\n", serde_json::to_string_pretty(&answer)?))?;
        return Ok(Ended::Done);
    }
    output::print(&text(&order, answer)?)?;
    Ok(Ended::Done)
}

fn order(typed: &CtlOrder) -> Result<Order> {
    Ok(match typed {
        CtlOrder::List => Order::List {},
        CtlOrder::Stats => Order::Stats {},
        CtlOrder::Set(Set::Weight(new)) | CtlOrder::OnSocket(OnSocket::SetWeight(new)) => {
            Order::SetWeight { export: new.export.clone(), weight: new.weight }
        }
        CtlOrder::Set(Set::Limit(new)) | CtlOrder::OnSocket(OnSocket::SetLimit(new)) => {
            let bytes = new.bytes.as_ref().map(|text| input::bytes("--bytes", text)).transpose()?;
            Order::SetLimit { export: new.export.clone(), iops: new.iops, bytes }
        }
        CtlOrder::Set(Set::Reservation(new)) | CtlOrder::OnSocket(OnSocket::SetReservation(new)) => {
            Order::SetReservation { export: new.export.clone(), iops: new.iops }
        }
        CtlOrder::Set(Set::Scheduler(new)) | CtlOrder::OnSocket(OnSocket::SetScheduler(new)) => {
            Order::SetScheduler { scheduler: new.scheduler.clone(), disk: new.of.disk }
        }
        CtlOrder::Set(Set::Setting(new)) | CtlOrder::OnSocket(OnSocket::SetSetting(new)) => {
            Order::SetSetting { name: new.name.clone(), value: new.value, disk: new.of.disk }
        }
        CtlOrder::Set(Set::Depth(new)) | CtlOrder::OnSocket(OnSocket::SetDepth(new)) => {
            Order::SetDepth { depth: new.depth, disk: new.of.disk }
        }
        CtlOrder::Add { export, of } => Order::Add { export: ExportSettings::parse(export)?, disk: of.disk },
        CtlOrder::Remove { export, hard } => Order::Remove { export: export.clone(), hard: *hard },
        CtlOrder::Resize { export, size } => {
            Order::Resize { export: export.clone(), size: input::bytes("the size", size)? }
        }
        CtlOrder::Drain { export, timeout } => Order::Drain { export: export.clone(), timeout_s: *timeout },
        CtlOrder::Snapshot { export } => Order::Histogram { export: export.clone() },
        CtlOrder::Explain { of } => Order::Explain { disk: of.disk },
    })
}


fn read<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).context("the server is of another version")
}

fn text(order: &Order, answer: Value) -> Result<String> {
    Ok(match order {
        Order::Stats {} => stats(&read::<Vec<DiskStats>>(answer["disks"].clone())?),
        Order::List {} => list(&answer),
        Order::Histogram { .. } => histogram(&read(answer)?),
        Order::Explain { .. } => explanation(&read(answer)?),
        Order::Drain { export, .. } => match answer["drained"].as_bool() {
            Some(true) => format!("{export} is drained and removed\n"),
            _ => format!("{export} still has clients; it takes no new ones\n"),
        },
        _ => "done\n".to_owned(),
    })
}

fn list(answer: &Value) -> String {
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
    table(&header, &rows, output::style())
}

/// The tenants of all disks, their shares first.
pub(crate) fn stats(disks: &[DiskStats]) -> String {
    let mut out = String::new();
    for disk in disks {
        let pv = disk.pv.map_or(String::new(), |pv| format!(", PV {pv:.3}"));
        out += &format!(
            "{}: {}, {} of {} in the device, {} waiting{pv}\n",
            disk.target, disk.scheduler, disk.in_device, disk.device_depth, disk.queued
        );
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
        out += &table(&header, &rows, output::style());
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
