//! The upgrade of a server that runs: the program's new file takes its place in the same process, with the sockets that listen.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use dumbwaiter_serve::{KeptSocket, Server, systemd};
use signal_hook::consts::SIGPIPE;

use super::{LOOK, settings};
use crate::args::Serve;
use crate::{Ended, output};

/// A program that says nothing for longer is not tried.
const PATIENCE: Duration = Duration::from_secs(10);

/// What can be known before anything ends: that the new program runs, and that the configuration can be read.
pub(super) fn check(args: &Serve, program: &std::io::Result<PathBuf>) -> Result<()> {
    if args.demo {
        bail!("a demo ends with its program");
    }
    let settings = settings(args)?;
    settings.check()?;
    if let Some(user) = settings.user {
        bail!("as user {user} it may not open the targets and sockets again; restart it");
    }
    let program = path(program)?;
    let said = version_of(&program).with_context(|| format!("cannot run {}", program.display()))?;
    let said = said.lines().next().unwrap_or_default();
    if !said.starts_with("dumbwaiter ") {
        bail!("{} is not this program: it answers --version with {said:?}", program.display());
    }
    crate::tell!("upgrading to {said}");
    Ok(())
}

/// What a program answers to `--version`; nothing if it fails.
fn version_of(program: &Path) -> Result<String> {
    let mut tried = Command::new(program);
    let mut tried = tried.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let begun = Instant::now();
    while tried.try_wait()?.is_none() {
        if begun.elapsed() > PATIENCE {
            tried.kill()?;
            tried.wait()?;
            bail!("no answer to --version in {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(LOOK);
    }
    let done = tried.wait_with_output()?;
    Ok(if done.status.success() { String::from_utf8_lossy(&done.stdout).into_owned() } else { String::new() })
}

/// Finishes what is under way and starts the program's file in this one's place. Where that cannot be, this program serves on, or it ends:
/// it was asked to, or a flush failed.
pub(super) fn run(
    args: &Serve,
    program: &std::io::Result<PathBuf>,
    server: Server,
    hurry: &impl Fn() -> bool,
) -> Result<ControlFlow<Ended, Server>> {
    systemd::notify("RELOADING=1");
    let is_ended = Cell::new(false);
    let (safe, sockets) = server.hand_over(|| {
        is_ended.set(is_ended.get() || hurry());
        is_ended.get()
    })?;
    if is_ended.get() || !safe {
        systemd::notify("STOPPING=1");
        KeptSocket::close(sockets);
        return Ok(ControlFlow::Break(if safe { Ended::Done } else { Ended::DeviceFailed }));
    }
    let error = match (path(program), KeptSocket::pass(&sockets)) {
        (Ok(path), Ok(variable)) => {
            let mut next = Command::new(path);
            next.args(std::env::args_os().skip(1)).env(KeptSocket::VARIABLE, variable);
            anyhow::Error::from(next.exec())
        }
        (Err(error), _) => error,
        (_, Err(error)) => error.into(),
    };
    crate::tell!("not upgraded: {}", crate::one_line(&*error));
    KeptSocket::hold(&sockets)?;
    // The attempt has given SIGPIPE back its default: a client that is gone would end the server.
    signal_hook::flag::register(SIGPIPE, Arc::default()).context("cannot handle SIGPIPE")?;
    let server = Server::start_with(settings(args)?, sockets, |line| crate::tell!("{line}"))?;
    output::print(&format!("ready {}\n", server.uris().join(" ")))?;
    systemd::notify("READY=1");
    Ok(ControlFlow::Continue(server))
}

fn path(program: &std::io::Result<PathBuf>) -> Result<PathBuf> {
    match program {
        Ok(path) => Ok(path.clone()),
        Err(error) => bail!("where this program is is not known: {error}"),
    }
}
