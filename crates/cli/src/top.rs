//! `ctl top`: a running server in the terminal.

use std::path::Path;
use std::time::Duration;

use crate::terminal::{server_text, watch_server};
use anyhow::Result;
use dumbwaiter_serve::Top;

use crate::args::TopView;
use crate::{Ended, output};

/// Prints views of the server behind `socket` until a key or a signal ends that, or one.
pub(crate) fn run(socket: &Path, view: &TopView, json: bool) -> Result<Ended> {
    let mut top = Top::new(socket);
    match view.once {
        true => output::print(&server_text(&top.look()?, json)?)?,
        false => watch_server(&mut top, Duration::from_secs(view.interval), json)?,
    }
    Ok(Ended::Done)
}
