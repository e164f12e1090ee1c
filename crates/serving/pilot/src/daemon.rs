//! The pilot as a service: the clock, the sockets, the log, systemd.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dumbwaiter_block::Nanos;
use dumbwaiter_controllers::switching::Memory;
use dumbwaiter_linux::machine::Machine;
use dumbwaiter_linux::service::openmetrics::CONTENT_TYPE;
use dumbwaiter_linux::service::{HttpServer, Response, systemd};
use rustix::time::{ClockId, clock_gettime};

use crate::config::{DeviceConfig, LogLevel, PilotConfig};
use crate::control::{ControlSocket, SharedBoard};
use crate::decision::{Action, Decision};
use crate::device::State;
use crate::fleet::Fleet;
use crate::kernel::KernelPort;
use crate::metrics::openmetrics;
use crate::port::{Fault, Port};
use crate::status::Status;
use crate::store::Store;
use crate::{Error, HostContext};

/// Longest sleep between checks for signals and requests.
const LOOK: Duration = Duration::from_millis(100);

/// How often new results are saved.
const KEEP_EVERY: Nanos = Nanos::from_secs(60);

/// Options of a pilot run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Change settings.
    pub act: bool,
    /// End after the first decisions.
    pub once: bool,
}

/// How a pilot ended.
#[derive(Debug)]
pub struct RunSummary {
    /// The state before the settings were restored.
    pub status: Status,
    /// Settings that could not be restored, one line each.
    pub problems: Vec<String>,
    /// Whether any disk was present at the end.
    pub has_disks: bool,
}

/// CLOCK_MONOTONIC, the clock of the kernel's trace events.
fn clock() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

fn host(began: Nanos) -> HostContext {
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    HostContext { kernel: Machine::now().kernel, unix_s, began }
}

/// Runs until `stop` is set, or once. `log` gets one line for each decision.
pub fn run(
    config: &PilotConfig,
    options: RunOptions,
    stop: &Arc<AtomicBool>,
    log: &mut dyn FnMut(&str),
) -> Result<RunSummary, Error> {
    let mut config = config.clone();
    if options.once {
        // A single decision has no time for trials.
        config.devices.iter_mut().for_each(|device| device.policy.by = dumbwaiter_controllers::switching::By::Model);
    }
    check_locks(&config, options)?;
    config.devices.iter().filter_map(DeviceConfig::remark).for_each(|remark| log(&remark));
    let board = SharedBoard::default();
    let _control = if options.once { None } else { Some(ControlSocket::start(&config.control, board.clone())?) };
    let _http = match config.http.filter(|_| !options.once) {
        Some(address) => {
            let board = board.clone();
            let server = HttpServer::start(address, &config.http_hosts, move |path| answer(path, &board))
                .map_err(|source| Error::Io { what: format!("http = \"{address}\""), source })?;
            log(&format!("metrics: http://{}/metrics", server.address()));
            Some(server)
        }
        None => None,
    };
    let begun = clock();
    let port = |device: &DeviceConfig| KernelPort::new(&device.path, options.act);
    let mut fleet = Fleet::new(&config, options.act, &host(begun), port)?;
    let mut keeper = Keeper::new(&config.state, begun);
    if !options.once {
        fleet.recall(&keeper.store, |why| log(&why));
    }
    let mut watchdog = Watchdog::default();
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut decided = false;
        fleet.turn(clock(), |decision, before| {
            decided = true;
            if worth_a_line(decision, before, config.log) {
                log(&decision.line());
            }
        });
        if !options.once {
            keeper.keep_learned(&fleet, false, log);
        }
        if decided {
            rounds += 1;
            board.lock().status = Some(fleet.status(clock() - begun));
            if rounds == 1 {
                systemd::notify("READY=1\nSTATUS=watching");
            }
        }
        if options.once && is_decided(&fleet, rounds) {
            break;
        }
        for name in std::mem::take(&mut board.lock().resume) {
            fleet.resume(&name);
        }
        watchdog.feed();
        let wait = Duration::from_nanos(fleet.wake_at().since(clock()).0);
        std::thread::sleep(wait.clamp(Duration::from_millis(1), LOOK));
    }
    systemd::notify("STOPPING=1");
    if !options.once {
        keeper.keep_learned(&fleet, true, log);
    }
    Ok(end(&mut fleet, begun, config.restore, log))
}

/// Restores the settings, and logs how long that took.
fn end(fleet: &mut Fleet<KernelPort>, begun: Nanos, restore: bool, log: &mut dyn FnMut(&str)) -> RunSummary {
    let (status, has_disks) = (fleet.status(clock() - begun), fleet.has_disks());
    let before: Vec<Option<Decision>> = fleet.devices().map(|pilot| pilot.last().cloned()).collect();
    let problems = fleet.finish(clock(), restore);
    for (pilot, before) in fleet.devices().zip(before) {
        if let Some(decision) = pilot.last().filter(|last| Some(*last) != before.as_ref()) {
            log(&decision.line());
        }
    }
    RunSummary { status, problems, has_disks }
}

/// Refuses disks whose settings another process changes.
fn check_locks(config: &PilotConfig, options: RunOptions) -> Result<(), Error> {
    for device in config.devices.iter().filter(|_| options.act) {
        let mut port = KernelPort::new(&device.path, true);
        if let Err(Fault::Failed(why)) = port.open() {
            return Err(Error::Refused(why));
        }
    }
    Ok(())
}

/// Whether a decision differs from the previous one.
fn worth_a_line(decision: &Decision, before: Option<&Decision>, level: LogLevel) -> bool {
    level == LogLevel::All || decision.took_ms.is_some() || before.is_none_or(|before| !decision.is_like(before))
}

/// Whether every disk has had the turns that a decision takes.
fn is_decided(fleet: &Fleet<KernelPort>, rounds: u32) -> bool {
    /// The first turn finds the disk, the second may cover only part of a period; a new load takes two more to confirm.
    const BEYOND_CONFIRM: u32 = 4;
    let settled = |action| matches!(action, Action::Advise | Action::Switch | Action::Missing | Action::HandsOff);
    fleet.devices().all(|pilot| {
        let looks = pilot.config().policy.confirm + BEYOND_CONFIRM;
        let missing = matches!(pilot.state(), State::Missing { .. });
        let last = pilot.last().is_some_and(|last| settled(last.action));
        missing || last || (pilot.tally().decisions >= u64::from(looks)) || rounds > 100 * looks
    })
}

/// Saves trial results from time to time.
struct Keeper {
    store: Store,
    looked: Nanos,
    /// By disk, the contents of its file.
    kept: BTreeMap<PathBuf, Memory>,
    /// A failure is logged once.
    failed: bool,
}

impl Keeper {
    fn new(folder: &Path, now: Nanos) -> Keeper {
        Keeper { store: Store::new(folder), looked: now, kept: BTreeMap::new(), failed: false }
    }

    /// Saves new trial results. `at_once`: do not wait for the interval, the pilot ends.
    fn keep_learned(&mut self, fleet: &Fleet<KernelPort>, at_once: bool, log: &mut dyn FnMut(&str)) {
        let now = clock();
        if !at_once && now.since(self.looked) < KEEP_EVERY {
            return;
        }
        self.looked = now;
        for (device, learned) in fleet.learned(now) {
            if self.kept.get(device) == Some(&learned.memory) {
                continue;
            }
            match self.store.keep(device, &learned) {
                Ok(()) => _ = self.kept.insert(device.to_owned(), learned.memory),
                Err(why) if !self.failed => {
                    self.failed = true;
                    log(&why);
                }
                Err(_) => {}
            }
        }
    }
}

#[derive(Default)]
struct Watchdog {
    fed: Option<Instant>,
}

impl Watchdog {
    fn feed(&mut self) {
        let Some(every) = systemd::watchdog() else { return };
        if self.fed.is_none_or(|fed| fed.elapsed() >= every) {
            systemd::notify("WATCHDOG=1");
            self.fed = Some(Instant::now());
        }
    }
}

fn answer(path: &str, board: &SharedBoard) -> Response {
    let board = board.lock();
    let Some(status) = &board.status else {
        return Response::text("503 Service Unavailable", "the pilot has not looked at its disks yet\n");
    };
    match path {
        "/metrics" => Response::ok(CONTENT_TYPE, openmetrics(status)),
        "/healthz" => Response::ok("text/plain", "ok\n"),
        "/status.json" => Response::ok("application/json", serde_json::to_string(status).unwrap_or_default()),
        _ => Response::text("404 Not Found", "there are /metrics, /healthz and /status.json\n"),
    }
}
