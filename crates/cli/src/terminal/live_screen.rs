//! A view that fills the terminal and is drawn anew, as in `top`.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use dumbwaiter_text::escape;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// How long [`LiveScreen::is_quit`] waits for a key.
const KEY_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
const KEY_WAIT: Duration = Duration::from_millis(50);
/// Where the terminal does not say how wide it is.
const COLUMNS: usize = 80;
/// Fewer rows than this hold no view.
const ROWS_MIN: usize = 2;

/// The terminal's other screen, with keys that arrive at once; it is as before when this is dropped.
pub(crate) struct LiveScreen {
    before: Option<Termios>,
}

impl LiveScreen {
    /// Opens it; `None` if the output is no terminal.
    ///
    /// # Errors
    /// If the terminal cannot be read or written.
    pub(crate) fn open() -> io::Result<Option<LiveScreen>> {
        if !std::io::stdout().is_terminal() {
            return Ok(None);
        }
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok();
        if let Some(before) = &before {
            let mut keys = before.clone();
            keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            tcsetattr(&stdin, OptionalActions::Now, &keys)?;
        }
        let screen = LiveScreen { before };
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(Some(screen))
    }

    /// Columns and rows; no rows if the terminal does not say how many it has.
    pub(crate) fn size(&self) -> (usize, Option<usize>) {
        match tcgetwinsize(std::io::stdout()) {
            Ok(size) if size.ws_col > 0 => (usize::from(size.ws_col), Some(usize::from(size.ws_row).max(ROWS_MIN))),
            _ => (COLUMNS, None),
        }
    }

    /// Replaces what is on the screen; control characters of `page` are escaped.
    ///
    /// # Errors
    /// If the terminal cannot be written.
    pub(crate) fn show(&self, page: &str) -> io::Result<()> {
        let mut text = "\x1b[H".to_owned();
        // The last line has no line end, which would scroll.
        for (number, line) in escape(page).lines().enumerate() {
            text += if number > 0 { "\r\n" } else { "" };
            text += line;
            text += "\x1b[K";
        }
        write(&(text + "\x1b[J"))
    }

    /// Waits 50 ms for a key; was `q` typed?
    pub(crate) fn is_quit(&self) -> bool {
        let stdin = std::io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        if !matches!(poll(&mut fds, Some(&KEY_TIMEOUT)), Ok(1..)) {
            return false;
        }
        let mut keys = [0; 64];
        match rustix::io::read(&stdin, &mut keys) {
            Ok(0) | Err(_) => {
                std::thread::sleep(KEY_WAIT);
                false
            }
            Ok(count) => keys[..count].contains(&b'q'),
        }
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = write("\x1b[?25h\x1b[?1049l");
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}
