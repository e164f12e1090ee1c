//! `top`: a running server in the terminal.

use std::time::Duration;

use crate::terminal::{server_text, watch_server};
use anyhow::{Context, Result};
use dumbwaiter_serve::Top;

use crate::{Ended, args, output};

/// Prints views until a key or a signal ends that, or one.
pub(crate) fn run(args: &args::Top) -> Result<Ended> {
    let socket = args.control.as_ref().context("which server? give --control SOCKET, or set DUMBWAITER_CONTROL")?;
    let mut top = Top::new(socket);
    match args.once {
        true => output::print(&server_text(&top.look()?, args.json)?)?,
        false => watch_server(&mut top, Duration::from_secs(args.interval), args.json)?,
    }
    Ok(Ended::Done)
}
