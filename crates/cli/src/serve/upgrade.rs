//! The upgrade of a server that runs: the program's new file takes its place in the same process, with the sockets that listen.

use std::cell::Cell;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use dumbwaiter_serve::{KeptSocket, Server, systemd};
use signal_hook::consts::SIGPIPE;

use super::settings;
use crate::args::Serve;
use crate::output;

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
    let tried = Command::new(&program).arg("--version").output();
    let tried = tried.with_context(|| format!("cannot run {}", program.display()))?;
    let said = String::from_utf8_lossy(&tried.stdout);
    if !tried.status.success() || !said.starts_with("dumbwaiter ") {
        bail!(
            "{} is not this program: it answers --version with {:?}",
            program.display(),
            said.lines().next().unwrap_or_default()
        );
    }
    crate::tell!("upgrading to {}", said.trim());
    Ok(())
}

/// Finishes what is under way and starts the program's file in this one's place. Where that cannot be, this program serves on; `None` if it
/// was asked to end meanwhile.
pub(super) fn run(
    args: &Serve,
    program: &std::io::Result<PathBuf>,
    server: Server,
    hurry: &impl Fn() -> bool,
) -> Result<Option<Server>> {
    systemd::notify("RELOADING=1");
    let is_ended = Cell::new(false);
    let (safe, sockets) = server.hand_over(|| {
        is_ended.set(is_ended.get() || hurry());
        is_ended.get()
    })?;
    if is_ended.get() {
        KeptSocket::close(sockets);
        return Ok(None);
    }
    if !safe {
        KeptSocket::close(sockets);
        bail!("a flush failed: what was acknowledged may be lost, so it does not go on");
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
    Ok(Some(server))
}

fn path(program: &std::io::Result<PathBuf>) -> Result<PathBuf> {
    match program {
        Ok(path) => Ok(path.clone()),
        Err(error) => bail!("where this program is is not known: {error}"),
    }
}
