//! `top`: a running server in the terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use dumbwaiter_output::escape;
use dumbwaiter_serve::{Top, TopView};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{Ended, args, output};

/// How often keys and signals are looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
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
    let screen = if args.json { None } else { Screen::open()? };
    loop {
        match &screen {
            Some(screen) => screen.show(&view)?,
            None => output::print(&page(&view, args.json)?)?,
        }
        let next = Instant::now() + interval;
        while Instant::now() < next {
            if screen.as_ref().is_some_and(Screen::is_quit) || signals.pending().next().is_some() {
                return Ok(Ended::Done);
            }
            if screen.is_none() {
                std::thread::sleep(Duration::from_millis(50));
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

/// The terminal's other screen, with keys that arrive at once; it is as before when this is dropped.
struct Screen {
    before: Option<Termios>,
}

impl Screen {
    /// `None` if the output is no terminal.
    fn open() -> Result<Option<Screen>> {
        if !std::io::stdout().is_terminal() {
            return Ok(None);
        }
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok();
        if let Some(before) = &before {
            let mut keys = before.clone();
            keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            tcsetattr(&stdin, OptionalActions::Now, &keys).context("the terminal's keys cannot be read")?;
        }
        let screen = Screen { before };
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(Some(screen))
    }

    fn show(&self, view: &TopView) -> Result<()> {
        let (columns, rows) = match tcgetwinsize(std::io::stdout()) {
            Ok(size) if size.ws_col > 0 => (usize::from(size.ws_col), Some(usize::from(size.ws_row).max(2))),
            _ => (COLUMNS, None),
        };
        let mut text = "\x1b[H".to_owned();
        // The last line has no line end, which would scroll.
        let view = view.text(columns, rows);
        let lines = escape(&view);
        for (number, line) in lines.lines().enumerate() {
            text += if number > 0 { "\r\n" } else { "" };
            text += line;
            text += "\x1b[K";
        }
        write(&(text + "\x1b[J"))
    }

    /// Waits a moment; was `q` typed?
    fn is_quit(&self) -> bool {
        let stdin = std::io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        if !matches!(poll(&mut fds, Some(&LOOK)), Ok(1..)) {
            return false;
        }
        let mut keys = [0; 64];
        match rustix::io::read(&stdin, &mut keys) {
            Ok(0) | Err(_) => {
                std::thread::sleep(Duration::from_millis(50));
                false
            }
            Ok(count) => keys[..count].contains(&b'q'),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = write("\x1b[?25h\x1b[?1049l");
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

fn write(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot print the view")
}
