//! `ctl`: orders to a running server.

use crate::terminal::answer_text;
use anyhow::{Context, Result};
use dumbwaiter_serve::{ExportSettings, Order, send_order};

use crate::args::{Ctl, CtlCommand, CtlOrder, OnSocket, Set};
use crate::{Ended, input, output, top};

/// Sends the order and prints the answer.
pub(crate) fn run(args: &Ctl) -> Result<Ended> {
    let socket = args.control.as_ref().context("which server? give --control SOCKET, or set DUMBWAITER_CONTROL")?;
    let order = match &args.what {
        CtlCommand::Top(view) => return top::run(socket, view, args.json),
        CtlCommand::Order(typed) => order(typed)?,
    };
    let answer = send_order(socket, &order)?;
    let ended = if answer["drained"] == false { Ended::Failed } else { Ended::Done };
    if args.json {
        output::print(&output::pretty(&answer)?)?;
        return Ok(ended);
    }
    output::print(
        &answer_text(&order, answer, output::style())
            .context("the server runs another version of dumbwaiter; use the same one here")?,
    )?;
    Ok(ended)
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
