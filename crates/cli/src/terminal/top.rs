//! A running server in the terminal, drawn anew until a key or a signal ends that.

use std::io;
use std::time::{Duration, Instant};

use dumbwaiter_serve::{Top, TopView};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::terminal::live_screen::LiveScreen;
use crate::terminal::messages::print;

/// How often signals are looked for where there is no screen.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Width of a view that is printed.
const COLUMNS: usize = 80;

/// Shows views of a server until `q` is typed or SIGINT or SIGTERM arrives: on a terminal, one screen that changes; elsewhere, or
/// as JSON, one view after another.
///
/// # Errors
/// If the server does not answer, or the terminal cannot be read or written.
pub fn watch_server(top: &mut Top, interval: Duration, json: bool) -> io::Result<()> {
    let mut view = top.look().map_err(io::Error::other)?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|e| failed("signals cannot be handled", &e))?;
    let screen = match json {
        true => None,
        false => LiveScreen::open().map_err(|e| failed("the terminal's keys cannot be read", &e))?,
    };
    loop {
        match &screen {
            Some(screen) => {
                let (columns, rows) = screen.size();
                screen.show(&view.text(columns, rows)).map_err(|e| failed("cannot print the view", &e))?;
            }
            None => print(&server_text(&view, json)?)?,
        }
        let next = Instant::now() + interval;
        while Instant::now() < next {
            if screen.as_ref().is_some_and(LiveScreen::is_quit) || signals.pending().next().is_some() {
                return Ok(());
            }
            if screen.is_none() {
                std::thread::sleep(SIGNAL_POLL_INTERVAL);
            }
        }
        view = top.look().map_err(io::Error::other)?;
    }
}

/// A view as text of 80 columns, or as one line of JSON.
///
/// # Errors
/// If the view cannot be written as JSON.
pub fn server_text(view: &TopView, json: bool) -> io::Result<String> {
    Ok(match json {
        true => serde_json::to_string(view)? + "\n",
        false => view.text(COLUMNS, None),
    })
}

fn failed(what: &str, cause: &io::Error) -> io::Error {
    io::Error::new(cause.kind(), format!("{what}: {cause}"))
}
