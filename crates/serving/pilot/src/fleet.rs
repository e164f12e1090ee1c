//! All disks of a pilot.

use std::path::Path;

use dumbwaiter_block::Nanos;

use crate::config::PilotConfig;
use crate::decision::Decision;
use crate::device::{DevicePilot, State};
use crate::port::Port;
use crate::status::{DeviceStatus, Status};
use crate::store::{Learned, Store};
use crate::{Error, HostContext};

/// The disks of a configuration, each with its port.
pub struct Fleet<P> {
    devices: Vec<(DevicePilot, P)>,
    may_act: bool,
}

impl<P: Port> Fleet<P> {
    /// A pilot for each disk of the configuration; `port` opens one.
    pub fn new(
        config: &PilotConfig,
        may_act: bool,
        host: &HostContext,
        mut port: impl FnMut(&crate::DeviceConfig) -> P,
    ) -> Result<Fleet<P>, Error> {
        let mut devices = Vec::new();
        for device in &config.devices {
            let pilot = DevicePilot::new(device.clone(), may_act, host.clone())?;
            devices.push((pilot, port(device)));
        }
        Ok(Fleet { devices, may_act })
    }

    /// The disks.
    pub fn devices(&self) -> impl Iterator<Item = &DevicePilot> {
        self.devices.iter().map(|(pilot, _)| pilot)
    }

    /// Gives each disk that is due its turn; calls `decided` with every decision and the previous one.
    pub fn turn(&mut self, now: Nanos, mut decided: impl FnMut(&Decision, Option<&Decision>)) {
        for (pilot, port) in &mut self.devices {
            let before = pilot.last().cloned();
            if let Some(decision) = pilot.turn(now, port) {
                decided(decision, before.as_ref());
            }
        }
    }

    /// Loads trial results from a folder; calls `problem` for files that cannot be used.
    pub fn recall(&mut self, store: &Store, mut problem: impl FnMut(String)) {
        for (pilot, _) in &mut self.devices {
            let path = pilot.config().path.clone();
            if self.may_act {
                match store.learned(&path) {
                    Ok(learned) => learned.into_iter().for_each(|learned| pilot.recall(learned)),
                    Err(why) => problem(why),
                }
            }
        }
    }

    /// Trial results of each disk, by its path.
    pub fn learned(&self, now: Nanos) -> impl Iterator<Item = (&Path, Learned)> {
        self.devices().filter_map(move |pilot| Some((pilot.config().path.as_path(), pilot.learned(now)?)))
    }

    /// When the next turn is due.
    pub fn wake_at(&self) -> Nanos {
        self.devices.iter().map(|(pilot, _)| pilot.wake_at()).min().unwrap_or(Nanos::MAX)
    }

    /// Resumes managing a disk that was left to another user; `false` if none has this name.
    pub fn resume(&mut self, name: &str) -> bool {
        let mut found = false;
        for (pilot, port) in self.devices.iter_mut().filter(|(pilot, _)| is_named(pilot, name)) {
            pilot.resume(port);
            found = true;
        }
        found
    }

    /// Ends: if `restore`, restores all settings that the pilot changed. Returns what could not be restored, one line each.
    pub fn finish(&mut self, now: Nanos, restore: bool) -> Vec<String> {
        let mut problems = Vec::new();
        for (pilot, port) in &mut self.devices {
            let name = pilot.config().path.display().to_string();
            problems.extend(pilot.finish(now, port, restore).into_iter().map(|problem| format!("{name}: {problem}")));
        }
        problems
    }

    /// The state of all disks.
    pub fn status(&self, now: Nanos) -> Status {
        Status {
            schema: 1,
            pid: std::process::id(),
            mode: if self.may_act { "act" } else { "advise" },
            uptime_s: now.as_secs_f64(),
            devices: self.devices().map(DeviceStatus::of).collect(),
        }
    }

    /// Whether any disk is present.
    pub fn has_disks(&self) -> bool {
        self.devices().any(|pilot| !matches!(pilot.state(), State::Missing { .. }))
    }
}

/// Whether `name` is this disk's path or the name at its end.
fn is_named(pilot: &DevicePilot, name: &str) -> bool {
    let path = &pilot.config().path;
    path.as_os_str() == name || path.file_name().is_some_and(|last| last == name.trim_start_matches("/dev/"))
}
