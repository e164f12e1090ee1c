//! `top`: a running server in the terminal.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use dumbwaiter_serve::{Top, TopView};
use dumbwaiter_terminal::LiveScreen;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{Ended, args, output};

/// How often signals are looked for where there is no screen.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Width of a view that is printed.
const COLUMNS: usize = 80;

/// Prints views until a key or a signal ends that, or one.
pub(crate) fn run(args: &args::Top) -> Result<Ended> {
    let socket = args.control.as_ref().context("no server: give --control SOCKET, or set DUMBWAITER_CONTROL")?;
    let mut top = Top::new(socket);
    let mut view = top.look()?;
    if args.once {
        output::print(&page(&view, args.json)?)?;
        return Ok(Ended::Done);
    }
    let interval = Duration::from_secs(args.interval);
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals cannot be handled")?;
    let screen = if args.json { None } else { LiveScreen::open().context("the terminal's keys cannot be read")? };
    loop {
        match &screen {
            Some(screen) => {
                let (columns, rows) = screen.size();
                screen.show(&view.text(columns, rows)).context("cannot print the view")?;
            }
            None => output::print(&page(&view, args.json)?)?,
        }
        let next = Instant::now() + interval;
        while Instant::now() < next {
            if screen.as_ref().is_some_and(LiveScreen::is_quit) || signals.pending().next().is_some() {
                return Ok(Ended::Done);
            }
            if screen.is_none() {
                std::thread::sleep(SIGNAL_POLL_INTERVAL);
            }
        }
        view = top.look()?;
    }
}

fn page(view: &TopView, json: bool) -> Result<String> {
    Ok(match json {
        true => serde_json::to_string(view)? + "\n",
        false => view.text(COLUMNS, None),
    })
}
