//! `ctl`: orders to a running server.

use std::ffi::OsString;

use anyhow::{Context, Result};
use dumbwaiter_serve::send_order;

use crate::args::{Ctl, CtlCommand};
use crate::terminal::answer_text;
use crate::{Ended, output, top};

/// Sends the order and prints the answer.
pub(crate) fn run(args: &Ctl) -> Result<Ended> {
    let socket = args.control.as_ref().context("which server? give --control SOCKET, or set DUMBWAITER_CONTROL")?;
    let order = match &args.what {
        CtlCommand::Top(view) => return top::run(socket, view, args.json),
        CtlCommand::Order(order) => order.clone().from_words(),
    };
    let answer = send_order(socket, &order)?;
    if let Some(why) = answer["not_saved"].as_str() {
        crate::tell!("done, but it will not last beyond the end of the server: {why}");
    }
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

/// The words that `set` took, by the order that each is now.
const SET: [&str; 6] = ["weight", "limit", "reservation", "scheduler", "setting", "depth"];

/// Joins `set weight db 800`, as it was typed before `set db weight=800`, to `set-weight db 800`.
pub(crate) fn join_set(mut args: Vec<OsString>) -> Vec<OsString> {
    let is = |at: usize, words: &[&str]| args.get(at).is_some_and(|arg| words.iter().any(|word| *arg == **word));
    let is_pair = |at: usize| args.get(at).and_then(|arg| arg.to_str()).is_some_and(|arg| arg.contains('='));
    let of_ctl = args.iter().position(|arg| arg == "ctl").unwrap_or(args.len());
    let set = (of_ctl..args.len()).find(|at| is(*at, &["set"]) && is(at + 1, &SET));
    if let Some(at) = set.filter(|at| is(at + 1, &["scheduler"]) || !is_pair(at + 2)) {
        let word = args.remove(at + 1);
        args[at].push("-");
        args[at].push(word);
    }
    args
}
