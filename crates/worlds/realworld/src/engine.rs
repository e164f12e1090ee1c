//! Our block layer and schedulers on a real file or device.

use crate::drive::{Options, Target};
use dumbwaiter_experiment::{About, Cell, CellResult, Concurrency, Control, Failure, Refusal, Stack, Work, World};
use dumbwaiter_measure::{RunResult, grouped};
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_schedulers::Choice;

use crate::DeviceUnderTest;
use crate::completion::Method;
use crate::error::Error;
use crate::time::{stamp, unix_ns};

/// Our block layer and schedulers over io_uring. The kernel's scheduler below them is set to `none` for the runs, where
/// that is possible.
pub struct Engine<'a> {
    device: &'a DeviceUnderTest,
    notes: Vec<String>,
}

impl Engine<'_> {
    /// Guards the queue's settings. An error where another process measures the device.
    pub fn new(device: &DeviceUnderTest) -> Result<Engine<'_>, Failure> {
        Ok(Engine { device, notes: device.own_stack_notes()? })
    }

    fn run_load(&self, load: &Prepared, cell: &Cell, control: &Control) -> Result<CellResult, Error> {
        let choice = Choice::parse_stack(&cell.scheduler.to_string()).map_err(Error::refused)?;
        let method = self.device.method(cell.completion).map_err(Error::refused)?;
        if let Some(settings) = self.device.settings().as_mut() {
            settings.set("scheduler", "none")?;
        }
        self.device.metered(|| self.drive(load, &choice, &method, cell.replicate, control))
    }

    fn drive(
        &self,
        load: &Prepared,
        choice: &Choice,
        method: &Method,
        replicate: u32,
        control: &Control,
    ) -> Result<CellResult, Error> {
        let options = Options { sqpoll: method.sqpoll, ..self.device.disk_options().clone() };
        let target = Target::open(self.device.path(), &options)?;
        let before = unix_ns();
        let ended = crate::drive::run(load, &target, choice, method.mode, replicate, control)?;
        let mut result = ended.result;
        if method.sqpoll {
            result.completion = "sqpoll".into();
        }
        let measured = (result.duration_s * 1e9) as u64;
        // Rings and buffers are made before a run; what was written is checked after it.
        let verified = options.verify.is_some();
        let warmup = load.scenario().warmup.0;
        stamp(&mut result, if verified { before + warmup } else { unix_ns().saturating_sub(measured) });
        let mut notes = ended.notes;
        notes.extend(method.note.map(str::to_owned));
        notes.extend(ended.skipped.iter().map(|(reason, n)| format!("{} I/Os: {reason}", grouped(*n))));
        notes.extend(ended.failures.iter().map(|(error, n)| format!("{} I/Os failed: {error}", grouped(*n))));
        let mut unsound = None;
        if let Some(verified) = &ended.verified {
            notes.push(format!("verified: {verified}"));
            unsound = (!verified.clean()).then(|| format!("verifying failed: {verified}"));
        }
        // A cancelled run may end in the middle of an I/O; and to go on after failed I/Os is not to accept lost data.
        let failed = ended.failure.filter(|_| !options.keep_going && !ended.cancelled);
        let failure = failed.or(unsound).map(Failure::device);
        Ok(CellResult { notes, cancelled: ended.cancelled, failure, ..CellResult::of(result) })
    }
}

impl World for Engine<'_> {
    fn about(&self) -> About {
        About { stacks: vec![Stack::Engine], notes: self.notes.clone(), ..self.device.about() }
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Rotation
    }

    fn capacity_sectors(&self, _device: &str) -> Option<u64> {
        Some(self.device.facts().bytes / dumbwaiter_block::SECTOR_BYTES)
    }

    fn supports(&self, cell: &Cell) -> Result<(), Refusal> {
        let Some(scenario) = cell.scenario() else {
            return Err(Refusal("a database runs under the kernel's schedulers only".into()));
        };
        Choice::parse_stack(&cell.scheduler.to_string()).map_err(|e| Refusal(e.to_string()))?;
        self.device.supports(scenario, cell.completion)
    }

    fn run(&self, cell: &Cell, control: &Control) -> Result<CellResult, Failure> {
        let Work::Scenario(load) = &cell.work else {
            return Err(Failure::refused("a database runs under the kernel's schedulers only"));
        };
        self.device.begin(control);
        self.device.finished(self.run_load(load, cell, control))
    }

    fn conclude(&self, runs: &mut [RunResult], control: &Control) -> Result<Vec<String>, Failure> {
        self.device.conclude(runs, control)
    }
}
