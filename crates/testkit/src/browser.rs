//! A headless browser, where one is installed.

use std::process::Command;

const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A Chromium of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Browser {
    program: &'static str,
}

/// A page after its scripts ran.
#[derive(Debug)]
pub struct Page {
    /// The document as text.
    pub dom: String,
    /// Errors reported by scripts and the browser.
    pub console: Vec<String>,
}

impl Browser {
    /// The installed one, if there is any.
    pub fn find() -> Option<Browser> {
        let works = |program: &&str| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
        PROGRAMS.into_iter().find(works).map(|program| Browser { program })
    }

    /// Opens an address, lets its scripts run for 20 s of its own clock, and reads the page. `more` are options of Chromium.
    ///
    /// # Panics
    /// If it does not start.
    pub fn open(&self, address: &str, more: &[&str]) -> Page {
        let profile = tempfile::tempdir().unwrap();
        let output = Command::new(self.program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--v=0", "--dump-dom"])
            .arg("--virtual-time-budget=20000")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(more)
            .arg(address)
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        let console = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
        Page { dom: String::from_utf8_lossy(&output.stdout).into_owned(), console }
    }
}
