//! The desktop on which the command runs, if there is one.

use std::process::{Command, Stdio};

/// Opens a page in the browser of the desktop; without a desktop or a browser nothing happens.
pub fn open_on_desktop(address: &str) {
    if std::env::var_os("DISPLAY").or_else(|| std::env::var_os("WAYLAND_DISPLAY")).is_none() {
        return;
    }
    let mut open = Command::new("xdg-open");
    let _ = open.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}
