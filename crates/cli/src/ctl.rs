//! `ctl`: orders to a running server.

use anyhow::{Context, Result};
use dumbwaiter_serve::{ExportSettings, Order, send_order};
use dumbwaiter_terminal::answer_text;

use crate::args::{Ctl, CtlOrder};
use crate::{Ended, input, output};

/// Sends the order and prints the answer.
pub(crate) fn run(args: &Ctl) -> Result<Ended> {
    let socket = args.control.as_ref().context("no server: give --control SOCKET, or set DUMBWAITER_CONTROL")?;
    let order = order(&args.order)?;
    let answer = send_order(socket, &order)?;
    if args.json {
        output::print(&output::pretty(&answer)?)?;
        return Ok(Ended::Done);
    }
    output::print(&answer_text(&order, answer, output::style()).context("the server is of another version")?)?;
    Ok(Ended::Done)
}

fn order(typed: &CtlOrder) -> Result<Order> {
    Ok(match typed {
        CtlOrder::List => Order::List {},
        CtlOrder::Stats => Order::Stats {},
        CtlOrder::SetWeight { export, weight } => Order::SetWeight { export: export.clone(), weight: *weight },
        CtlOrder::SetLimit { export, iops, bytes } => {
            let bytes = bytes.as_ref().map(|text| input::bytes("--bytes", text)).transpose()?;
            Order::SetLimit { export: export.clone(), iops: *iops, bytes }
        }
        CtlOrder::SetReservation { export, iops } => Order::SetReservation { export: export.clone(), iops: *iops },
        CtlOrder::SetScheduler { scheduler, disk } => Order::SetScheduler { scheduler: scheduler.clone(), disk: *disk },
        CtlOrder::SetSetting { name, value, disk } => {
            Order::SetSetting { name: name.clone(), value: *value, disk: *disk }
        }
        CtlOrder::SetDepth { depth, disk } => Order::SetDepth { depth: *depth, disk: *disk },
        CtlOrder::Add { export, disk } => Order::Add { export: ExportSettings::parse(export)?, disk: *disk },
        CtlOrder::Remove { export, hard } => Order::Remove { export: export.clone(), hard: *hard },
        CtlOrder::Resize { export, size } => {
            Order::Resize { export: export.clone(), size: input::bytes("the size", size)? }
        }
        CtlOrder::Drain { export, timeout } => Order::Drain { export: export.clone(), timeout_s: *timeout },
        CtlOrder::Histogram { export } => Order::Histogram { export: export.clone() },
        CtlOrder::Explain { disk } => Order::Explain { disk: *disk },
    })
}
