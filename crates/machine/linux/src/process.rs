//! Processes: starting, asking to end, killing, and telling one from a later one with the same number.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::Error;
use crate::file::read_some;

/// When a process started, in the kernel's ticks, which distinguishes it from a later one with the same number. `None` for
/// one that has ended, also before its parent has reaped it.
pub(crate) fn start_time(pid: u32) -> Option<String> {
    let stat = read_some(Path::new(&format!("/proc/{pid}/stat")))?;
    // The name, in parentheses, may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let alive = !matches!(fields.next()?, "Z" | "X");
    fields.nth(18).filter(|_| alive).map(str::to_owned)
}

/// Runs a program to its end and returns what it printed.
pub(crate) fn run(command: &mut Command, doing: &str, what: &Path) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| Error::Refused(format!("cannot run {program}: {e}")))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let said = said.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("no reason given").to_owned();
    Err(Error::Refused(format!("cannot {doing} {}: {said}", what.display())))
}

/// Sends SIGTERM to a child of ours.
pub fn terminate(pid: u32) {
    // SAFETY: two integers, no memory.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGTERM) };
}

/// Makes the kernel send SIGTERM to the program when the thread that starts it ends, for whatever reason.
pub fn end_with_us(command: &mut Command) -> &mut Command {
    let ask = || {
        // SAFETY: integers, no memory.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
        Ok(())
    };
    // SAFETY: what runs between fork and exec is one system call, which touches no memory.
    unsafe { command.pre_exec(ask) }
}

/// Kills a process (SIGKILL).
pub(crate) fn kill(pid: u32) {
    // SAFETY: two integers, no memory.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_process_has_ended_before_its_parent_waits_for_it() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        assert!(start_time(child.id()).is_some());
        child.kill().unwrap();
        // Until its parent reaps it, it stays in the process table.
        assert!((0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            start_time(child.id()).is_none()
        }));
        assert!(Path::new(&format!("/proc/{}", child.id())).exists());
        child.wait().unwrap();
    }

    /// Not a test: the process that the test below starts and kills.
    #[test]
    #[ignore = "started by another test"]
    fn a_parent() {
        let mut child = end_with_us(Command::new("sleep").arg("600")).spawn().unwrap();
        println!("\nchild {}", child.id());
        child.wait().unwrap();
    }

    #[test]
    fn a_program_ends_with_us_however_that_is() {
        use std::io::{BufRead, BufReader};
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "process::tests::a_parent"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
        let child: u32 = lines.find_map(|line| line.strip_prefix("child ")?.parse().ok()).unwrap();
        assert!(start_time(child).is_some());
        parent.kill().unwrap();
        parent.wait().unwrap();
        let gone = |_| {
            std::thread::sleep(Duration::from_millis(10));
            start_time(child).is_none()
        };
        assert!((0..1000).any(gone));
    }
}
