//! The demo: an emulated SSD, four tenants of weights 1:2:4:5, and load inside the process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::Error;
use crate::bench::{ClosedLoop, LoadReport};
use crate::settings::{ExportSettings, ServeSettings, TargetSettings};

/// The drive that is emulated, behind a slow link: so it, and not this machine's CPU, is what the tenants share.
pub const DEMO_TARGET: &str = "emulate:ssd:850pro-256?link_mb_per_s=150";
/// Weights of the tenants.
const WEIGHTS: [(&str, u32); 4] = [("one", 100), ("two", 200), ("four", 400), ("five", 500)];
/// Size of each slice.
const SLICE_BYTES: u64 = 16 << 30;

/// The targets and exports of the demo, with its socket in `folder`, under `scheduler` or the default one.
pub fn demo_settings(folder: &Path, scheduler: Option<&str>) -> ServeSettings {
    let mut target = TargetSettings::new(DEMO_TARGET);
    target.scheduler = scheduler.map_or(target.scheduler, str::to_owned);
    for (place, (name, weight)) in WEIGHTS.iter().enumerate() {
        let (offset, size) = (place as u64 * SLICE_BYTES, Some(SLICE_BYTES));
        target.exports.push(ExportSettings { weight: *weight, offset, size, ..ExportSettings::whole(name) }.into());
    }
    ServeSettings { targets: vec![target], unix: Some(folder.to_owned()), ..ServeSettings::default() }
}

/// The demo's clients: each reads 64 KiB at random, 32 requests at a time, until it is dropped.
pub struct DemoLoad {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Result<LoadReport, Error>>>,
}

impl DemoLoad {
    /// Starts a client for each tenant of [`demo_settings`].
    pub fn start(folder: &Path) -> Result<DemoLoad, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for (seed, (name, _)) in WEIGHTS.iter().enumerate() {
            let load = ClosedLoop::reads(folder.join("nbd.sock"), name, 32, seed as u64);
            // Few requests a second: little work for the CPU.
            let load = ClosedLoop { block_bytes: 64 << 10, ..load };
            let ends = stop.clone();
            let client = std::thread::Builder::new()
                .name(format!("client-{name}"))
                .spawn(move || load.run(&ends, &AtomicU64::new(0)));
            clients.push(client.map_err(Error::io("cannot start a thread"))?);
        }
        Ok(DemoLoad { stop, clients })
    }
}

impl Drop for DemoLoad {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            let _ = client.join();
        }
    }
}
