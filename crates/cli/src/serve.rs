//! `serve`: a drive for many clients.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::terminal::{disks_text, open_on_desktop};
use anyhow::{Context, Result, anyhow};
use dumbwaiter_serve::{
    DemoLoad, ExportSettings, KeptSocket, ServeSettings, Server, TargetSettings, TlsSettings, demo_settings,
    raise_open_files_limit, systemd,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::Signals;

mod upgrade;

use crate::args::Serve;
use crate::{Ended, input, output};

/// How often signals and failures are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How often the demo prints its shares.
const DEMO_EVERY: Duration = Duration::from_secs(6);

/// Serves until a signal, then lets clients finish.
pub(crate) fn run(args: &Serve) -> Result<Ended> {
    let demo_folder = || tempfile::Builder::new().prefix("dumbwaiter-demo-").tempdir();
    // Its path now: once the file is replaced, nothing says where it was.
    let program = std::env::current_exe();
    let folder = args.demo.then(demo_folder).transpose().context("cannot create a folder for the demo's socket")?;
    let settings = match &folder {
        Some(folder) => demo(args, folder.path()),
        None => settings(args)?,
    };
    if let Err(error) = raise_open_files_limit() {
        crate::tell!("cannot raise the limit of open files: {error}");
    }
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR2]).context("cannot handle signals")?;
    let signals = RefCell::new(signals);
    let (reload_asked, upgrade_asked) = (Cell::new(false), Cell::new(false));
    let stop_asked = || {
        let mut asked = signals.borrow_mut();
        let asked: Vec<i32> = asked.pending().collect();
        reload_asked.set(reload_asked.get() || asked.contains(&SIGHUP));
        upgrade_asked.set(upgrade_asked.get() || asked.contains(&SIGUSR2));
        asked.iter().any(|signal| *signal != SIGHUP && *signal != SIGUSR2)
    };
    let mut server = Server::start_with(settings, KeptSocket::received()?, |line| crate::tell!("{line}"))?;
    output::print(&format!("ready {}\n", server.uris().join(" ")))?;
    systemd::notify("READY=1\nSTATUS=serving");
    // A large configuration took more while it was read than what is kept of it.
    dumbwaiter_linux::service::release_free_memory();
    if let Some(address) = server.http_address() {
        crate::tell!("live page: http://{address}/");
        if args.demo {
            open_on_desktop(&format!("http://{address}/"));
        }
    }
    let load = folder.as_ref().map(|folder| DemoLoad::start(folder.path())).transpose()?;
    let (begun, mut fed, mut shown) = (Instant::now(), Instant::now(), Instant::now());
    let time_is_up = || args.seconds.is_some_and(|seconds| begun.elapsed() >= Duration::from_secs(seconds));
    while !stop_asked() && !server.has_failed() && !time_is_up() {
        if load.is_some() && shown.elapsed() >= DEMO_EVERY {
            output::print(&disks_text(&server.inspector().stats()?, output::style()))?;
            shown = Instant::now();
        }
        std::thread::sleep(LOOK);
        if reload_asked.take() {
            reload(args, &server);
        }
        if upgrade_asked.take() {
            match upgrade::check(args, &program) {
                Ok(()) => match upgrade::run(args, &program, server, &stop_asked)? {
                    ControlFlow::Continue(on) => server = on,
                    ControlFlow::Break(ended) => return Ok(ended),
                },
                Err(error) => crate::tell!("not upgraded: {}", crate::one_line(&*error)),
            }
        }
        if systemd::watchdog().is_some_and(|every| fed.elapsed() >= every) && server.inspector().is_alive() {
            systemd::notify("WATCHDOG=1");
            fed = Instant::now();
        }
    }
    systemd::notify("STOPPING=1");
    drop(load);
    let failed = server.has_failed();
    let safe = server.shut_down(stop_asked)?;
    Ok(if failed || !safe { Ended::DeviceFailed } else { Ended::Done })
}

/// Reads the configuration again; a change that cannot be is refused whole.
fn reload(args: &Serve, server: &Server) {
    systemd::notify("RELOADING=1");
    let done = match &args.config {
        Some(_) => settings(args).and_then(|settings| Ok(server.inspector().reload(&settings)?)),
        None => Err(anyhow!("the server was started without --config; change it with `dumbwaiter ctl`")),
    };
    match done {
        Ok(notes) => {
            crate::tell!("read the configuration again");
            for note in notes {
                crate::tell!("{note}");
            }
        }
        Err(error) => crate::tell!("nothing was changed: {}", crate::one_line(&*error)),
    }
    systemd::notify("READY=1");
}

fn demo(args: &Serve, folder: &Path) -> ServeSettings {
    let http = args.http.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
    let settings = demo_settings(folder, args.scheduler.as_deref());
    ServeSettings { control: args.control.clone(), http: Some(http), ..settings }
}

fn settings(args: &Serve) -> Result<ServeSettings> {
    let mut settings = match &args.config {
        Some(path) => ServeSettings::from_file(path)?,
        None => ServeSettings { targets: vec![target(args)?], ..ServeSettings::default() },
    };
    settings.activated = systemd::passed_sockets() > 0;
    settings.unix = args.unix.clone().or(settings.unix);
    settings.tcp = args.tcp.or(settings.tcp);
    settings.vhost_user = args.vhost_user.clone().or(settings.vhost_user);
    settings.keep_devices |= args.keep_devices;
    if args.tls.is_some() || args.tls_certificates.is_some() || args.tls_verify_peer {
        let mode = args.tls.as_deref().unwrap_or("off");
        settings.tls = TlsSettings::parse(mode, args.tls_certificates.clone(), args.tls_verify_peer)?;
    }
    settings.insecure |= args.insecure;
    settings.control = args.control.clone().or(settings.control);
    if let Some(state) = &args.state {
        settings.state = Some(state.clone()).filter(|state| state.as_os_str() != "none");
    }
    settings.accounts = args.accounts.clone().or(settings.accounts);
    settings.http = args.http.or(settings.http);
    settings.http_hosts.extend(args.http_hosts.iter().cloned());
    settings.max_connections = args.max_connections.unwrap_or(settings.max_connections);
    settings.grace_s = args.grace.unwrap_or(settings.grace_s);
    settings.user = args.user.clone().or(settings.user);
    if let Some(text) = &args.memory {
        settings.memory = input::bytes("--memory", text)?;
    }
    if args.read_only {
        settings
            .targets
            .iter_mut()
            .flat_map(|target| &mut target.exports)
            .for_each(|export| Arc::make_mut(export).readonly = true);
    }
    Ok(settings)
}

fn target(args: &Serve) -> Result<TargetSettings> {
    let emulated = args.emulate.as_ref().map(|model| format!("emulate:{model}"));
    let name = args
        .target
        .clone()
        .or(emulated)
        .context("nothing to serve: give --target FILE|DEVICE|null|emulate:MODEL, or --config FILE")?;
    let mut target = TargetSettings::new(&name);
    target.cache = args.cache.parse().map_err(|expected| anyhow!("--cache {}: {expected}", args.cache))?;
    target.scheduler = args.scheduler.clone().unwrap_or(target.scheduler);
    target.device_depth = args.device_depth.unwrap_or_default();
    target.exports =
        args.exports.iter().map(|text| ExportSettings::parse(text).map(Arc::new)).collect::<Result<_, _>>()?;
    Ok(target)
}
