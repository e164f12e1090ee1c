//! `serve`: a drive for many clients.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use dumbwaiter_serve::{Cache, ExportSettings, ServeSettings, Server, TargetSettings, systemd};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::Serve;
use crate::{Ended, input, output};

/// How often signals and failures are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Serves until a signal, then lets clients finish.
pub(crate) fn run(args: &Serve) -> Result<Ended> {
    let settings = settings(args)?;
    let signals = Signals::new([SIGTERM, SIGINT]).context("signals cannot be handled")?;
    let signals = RefCell::new(signals);
    let stop_asked = || signals.borrow_mut().pending().next().is_some();
    let server = Server::start(settings, |line| crate::tell!("{line}"))?;
    output::print(&format!("ready {}\n", server.uris().join(" ")))?;
    systemd::notify("READY=1\nSTATUS=serving");
    let mut fed = Instant::now();
    while !stop_asked() && !server.has_failed() {
        std::thread::sleep(LOOK);
        if systemd::watchdog().is_some_and(|every| fed.elapsed() >= every) {
            systemd::notify("WATCHDOG=1");
            fed = Instant::now();
        }
    }
    systemd::notify("STOPPING=1");
    let failed = server.has_failed();
    let safe = server.shut_down(stop_asked)?;
    Ok(if failed || !safe { Ended::DeviceFailed } else { Ended::Done })
}

fn settings(args: &Serve) -> Result<ServeSettings> {
    let mut settings = match &args.config {
        Some(_) => bail!("--config: not yet"),
        None => ServeSettings { targets: vec![target(args)?], ..ServeSettings::default() },
    };
    settings.activated = systemd::passed_sockets() > 0;
    settings.unix = args.unix.clone().or(settings.unix);
    settings.tcp = args.tcp.or(settings.tcp);
    settings.insecure |= args.insecure;
    settings.control = args.control.clone().or(settings.control);
    settings.http = args.http.or(settings.http);
    settings.max_connections = args.max_connections.unwrap_or(settings.max_connections);
    settings.grace_s = args.grace;
    if let Some(text) = &args.memory {
        settings.memory = input::bytes("--memory", text)?;
    }
    if args.read_only {
        settings.targets.iter_mut().flat_map(|target| &mut target.exports).for_each(|export| export.readonly = true);
    }
    Ok(settings)
}

fn target(args: &Serve) -> Result<TargetSettings> {
    let emulated = args.emulate.as_ref().map(|model| format!("emulate:{model}"));
    let name = args.target.clone().or(emulated).context(
        "nothing to serve: give --target FILE|DEVICE|null|emulate:MODEL, or --config FILE",
    )?;
    let mut target = TargetSettings::new(&name);
    target.cache = match args.cache.as_str() {
        "none" => Cache::None,
        "writeback" => Cache::Writeback,
        other => bail!("--cache {other}: expected none or writeback"),
    };
    if let Some(scheduler) = &args.scheduler {
        target.scheduler.clone_from(scheduler);
    }
    target.device_depth = args.device_depth;
    for text in &args.exports {
        target.exports.push(ExportSettings::parse(text)?);
    }
    Ok(target)
}
