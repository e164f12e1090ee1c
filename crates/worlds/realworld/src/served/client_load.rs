//! The load of a scenario as NBD clients of a server: one loop over all connections, in real time.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::drive::Usage;
use dumbwaiter_block::{Errno, Flags, Nanos, Op, SECTOR_BYTES, TaskId, TenantId};
use dumbwaiter_experiment::{Cell, Control};
use dumbwaiter_measure::{
    ApplicationStats, Completed, Ledger, Recorder, RecorderConfig, RunFacts, RunResult, TaskSpec, TenantSpec,
    Unfinished,
};
use dumbwaiter_protocols::nbd::socket::{Address, Answered, NbdClient};
use dumbwaiter_protocols::nbd::wire::command_flag;
use dumbwaiter_protocols::nbd::{Command, Request};
use dumbwaiter_scenario::Scenario;
use dumbwaiter_scenario::load::{
    Change, Load, Prepared, Replays, RunLimit, RunningLoad, Slots, Step, WakeQueue, applications,
};
use dumbwaiter_schedulers::Choice;
use dumbwaiter_serve::{DiskStats, Inspector, Order};
use dumbwaiter_workloads::Want;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::export_name::export_name;
use crate::error::Error;

/// How often progress is reported and cancelling is looked at; also the longest wait.
const CONTROL_POLL_INTERVAL: Nanos = Nanos::from_ms(50);
/// Longest wait for the requests under way at the end.
const DRAIN_PATIENCE: Nanos = Nanos::from_secs(60);

/// A request under way.
#[derive(Clone, Copy)]
struct Slot {
    submit: Nanos,
    thread: u32,
    /// The task's number in its thread.
    number: u16,
    op: Op,
    sector: u64,
    sectors: u32,
}

/// The load while it runs.
pub(super) struct ClientLoad<'a> {
    scenario: &'a Scenario,
    limit: RunLimit,
    tenant_specs: Vec<TenantSpec>,
    task_specs: Vec<TaskSpec>,
    replays: Replays,
    load: RunningLoad,
    wakes: WakeQueue,
    /// By thread, and by the number of the task in its workload: what it is connected by until the task exits.
    connections: Vec<Vec<Option<NbdClient>>>,
    /// By cookie; `None` once it is answered.
    slots: Slots<Option<Slot>>,
    /// The same bytes for every write.
    payload: Vec<u8>,
    recorder: Recorder,
    inspector: Inspector,
    address: Address,
    control: &'a Control,
    origin: Instant,
    now: Nanos,
    ok: u64,
    failed: u64,
    failures: BTreeMap<String, u64>,
    failure: Option<String>,
    answered: Vec<Answered>,
}

/// The outcome of a load.
pub(super) struct Ended {
    recorder: Option<Recorder>,
    end: Nanos,
    usage: Usage,
    applications: Vec<ApplicationStats>,
    switches: u64,
    ok: u64,
    failed: u64,
    pub(super) skipped: BTreeMap<String, u64>,
    pub(super) cancelled: bool,
    pub(super) failure: Option<String>,
    pub(super) failures: BTreeMap<String, u64>,
}

impl<'a> ClientLoad<'a> {
    pub(super) fn new(
        prepared: &'a Prepared,
        load: Load,
        inspector: Inspector,
        socket: PathBuf,
        control: &'a Control,
    ) -> Result<ClientLoad<'a>, Error> {
        let scenario = prepared.scenario();
        let limit = RunLimit::of(scenario);
        let Load { tenant_specs, task_specs, threads, changes, replays, .. } = load;
        let recorder = Recorder::new(RecorderConfig {
            warmup: scenario.warmup,
            interval: scenario.series,
            tenants: tenant_specs.clone(),
            tasks: task_specs.clone(),
        });
        let mut load = ClientLoad {
            scenario,
            limit,
            tenant_specs,
            task_specs,
            replays,
            connections: threads.iter().map(|_| Vec::new()).collect(),
            load: RunningLoad::new(threads, changes, limit.ios),
            wakes: WakeQueue::default(),
            slots: Slots::default(),
            payload: Vec::new(),
            recorder,
            inspector,
            address: Address::Unix(socket),
            control,
            origin: Instant::now(),
            now: Nanos::ZERO,
            ok: 0,
            failed: 0,
            failures: BTreeMap::new(),
            failure: None,
            answered: Vec::new(),
        };
        // Before the clock starts.
        for thread in 0..load.connections.len() as u32 {
            load.connect(thread, 0)?;
        }
        Ok(load)
    }

    /// Runs to its end; what is answered after that is not measured.
    pub(super) fn run(mut self, keep_going: bool) -> Result<Ended, Error> {
        self.origin = Instant::now();
        let (mut before, mut warm) = (Usage::now(), false);
        let mut closed = None;
        let (mut cancelled, mut looked, mut reported) = (false, Nanos::ZERO, 0);
        self.wakes.start_stage(&mut self.load, self.now);
        loop {
            self.now = Nanos(self.origin.elapsed().as_nanos() as u64);
            if !warm && self.now >= self.limit.warmup {
                (before, warm) = (Usage::now(), true);
            }
            if self.now.since(looked) >= CONTROL_POLL_INTERVAL {
                self.control.elapsed_ns.fetch_add(self.now.since(looked).0, Ordering::Relaxed);
                self.control.finished.fetch_add(self.ok - reported, Ordering::Relaxed);
                (looked, reported) = (self.now, self.ok);
                cancelled |= self.load.is_open() && self.control.cancelled();
            }
            self.change_due()?;
            self.pump_ready()?;
            self.send()?;
            let failed = self.failure.is_some() && !keep_going;
            let ends = self.load.is_over() || self.now >= self.limit.time || failed || cancelled;
            if self.load.is_open() && ends {
                self.load.close();
                closed = Some((self.now, Usage::now().since(&before)));
                self.count_unfinished();
            }
            if let Some((end, usage)) = closed {
                if self.load.is_idle() {
                    return self.ended(end, usage, cancelled);
                }
                if self.now.since(end) > DRAIN_PATIENCE {
                    return Err(Error::failed("the server did not answer what was under way within 60 s"));
                }
            }
            self.wait()?;
        }
    }

    fn ended(self, end: Nanos, usage: Usage, cancelled: bool) -> Result<Ended, Error> {
        let outcomes = self.load.outcomes(end);
        Ok(Ended {
            applications: applications(outcomes, &self.task_specs, &self.tenant_specs),
            recorder: Some(self.recorder),
            end,
            usage,
            switches: self.scenario.changes.len() as u64,
            ok: self.ok,
            failed: self.failed,
            skipped: self.replays.finish(self.load.issued_late())?,
            cancelled,
            failure: self.failure,
            failures: self.failures,
        })
    }

    /// The connection of a thread's task, made when it is first needed.
    fn connect(&mut self, thread: u32, number: u16) -> Result<&mut NbdClient, Error> {
        let (connections, at) = (&mut self.connections[thread as usize], usize::from(number));
        if connections.len() <= at {
            connections.resize_with(at + 1, || None);
        }
        match &mut connections[at] {
            Some(connection) => Ok(connection),
            none => {
                let export = export_name(self.load.thread(thread).tenant.0 as usize);
                let failed = |e| Error::failed(format!("a client of export `{export}`: {e}"));
                let mut client = NbdClient::connect(&self.address, &export).map_err(failed)?;
                client.set_nonblocking().map_err(failed)?;
                Ok(none.insert(client))
            }
        }
    }

    fn change_due(&mut self) -> Result<(), Error> {
        while let Some(change) = self.load.due_change(self.now) {
            match change {
                Change::Stop { thread } => {
                    self.load.stop(thread);
                    self.may_exit(thread);
                }
                Change::Weight { tenant, weight } => {
                    self.recorder.weight(self.now, tenant, weight);
                    self.order(Order::SetWeight { export: export_name(tenant.0 as usize), weight })?;
                }
                Change::Scheduler { index, .. } => {
                    let scheduler = self.scenario.changes[index as usize].scheduler.to_string();
                    self.order(Order::SetScheduler { scheduler, disk: 0 })?;
                }
                Change::IoMax { .. } => return Err(Error::refused("a served disk has no io.max")),
                Change::IoCost { .. } => return Err(Error::refused("a served disk has no io.cost")),
                Change::Ioprio { .. } | Change::Move { .. } => {
                    return Err(Error::refused("tasks of a served disk keep their priority and tenant"));
                }
            }
        }
        Ok(())
    }

    fn order(&self, order: Order) -> Result<(), Error> {
        self.inspector.order(order).map(drop).map_err(Error::failed)
    }

    fn pump_ready(&mut self) -> Result<(), Error> {
        self.wakes.make_due_ready(&mut self.load, self.now);
        while let Some(thread) = self.wakes.next_ready() {
            loop {
                match self.load.next(thread, self.now) {
                    Step::Submit { want, due } => self.ask(thread, &want, due)?,
                    Step::Wake(at) | Step::Pause(at) => {
                        self.wakes.wake(thread, at);
                        break;
                    }
                    Step::Wait => break,
                }
            }
            self.may_exit(thread);
        }
        Ok(())
    }

    /// Tasks of a thread that will submit nothing more hang up when all their I/O is done, so that they exit in the server too; then
    /// the next stage may start.
    fn may_exit(&mut self, thread: u32) {
        if self.load.exits(thread).is_some() {
            self.connections[thread as usize].clear();
            self.wakes.start_stage(&mut self.load, self.now);
        }
    }

    fn ask(&mut self, thread: u32, want: &Want, submit: Nanos) -> Result<(), Error> {
        let command = match want.op {
            Op::Read => Command::Read,
            Op::Write => Command::Write,
            Op::Flush => Command::Flush,
            Op::Discard => Command::Trim,
            Op::WriteZeroes => Command::WriteZeroes,
            Op::SecureErase => return Err(Error::refused("NBD has no secure erase")),
        };
        let bytes = u64::from(want.sectors) * SECTOR_BYTES;
        let length =
            u32::try_from(bytes).map_err(|_| Error::refused(format!("NBD takes no {} of {bytes} bytes", want.op)))?;
        let flags = if want.flags.any(Flags::FUA) { command_flag::FUA } else { 0 };
        let slot = Slot { submit, thread, number: want.task, op: want.op, sector: want.sector, sectors: want.sectors };
        let cookie = self.slots.insert_with(|_| Some(slot));
        let offset = if want.op == Op::Flush { 0 } else { want.sector * SECTOR_BYTES };
        let request = Request { flags, command, cookie: u64::from(cookie), offset, length };
        let bytes_sent = if want.op == Op::Write { length as usize } else { 0 };
        if self.payload.len() < bytes_sent {
            // No device can shorten them.
            let mut state = 0x9e37_79b9_7f4a_7c15u64;
            self.payload.resize_with(bytes_sent, || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            });
        }
        let payload = std::mem::take(&mut self.payload);
        self.connect(thread, want.task)?.ask(&request, &payload[..bytes_sent]);
        self.payload = payload;
        Ok(())
    }

    fn send(&mut self) -> Result<(), Error> {
        for connection in self.connections.iter_mut().flatten().flatten() {
            if connection.has_unsent() {
                connection.send().map_err(|e| Error::failed(format!("a request cannot be sent to the server: {e}")))?;
            }
        }
        Ok(())
    }

    /// Waits for answers until something is due, and takes them.
    fn wait(&mut self) -> Result<(), Error> {
        let open = self.load.is_open();
        let ready = self.wakes.has_ready() && open;
        let due = [self.wakes.next_wake(&self.load), self.load.next_change(), Some(self.limit.time)];
        let due = due.into_iter().flatten().min().filter(|_| open).unwrap_or(Nanos::MAX);
        let until = due.min(self.now + CONTROL_POLL_INTERVAL);
        let wait = if ready { Nanos::ZERO } else { until.since(Nanos(self.origin.elapsed().as_nanos() as u64)) };
        let interest = |connection: &NbdClient| match connection.has_unsent() {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        };
        let mut all: Vec<PollFd<'_>> = self
            .connections
            .iter()
            .flatten()
            .flatten()
            .map(|connection| PollFd::from_borrowed_fd(connection.as_fd(), interest(connection)))
            .collect();
        let timeout = Timespec { tv_sec: (wait.0 / 1_000_000_000) as i64, tv_nsec: (wait.0 % 1_000_000_000) as i64 };
        match poll(&mut all, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Error::failed(format!("waiting for the server: {e}"))),
        }
        let has_answers: Vec<bool> =
            all.iter().map(|fd| fd.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)).collect();
        let mut answered = std::mem::take(&mut self.answered);
        for (connection, _) in self.connections.iter_mut().flatten().flatten().zip(has_answers).filter(|(_, has)| *has)
        {
            let received = connection.receive(|_| 0, &mut answered);
            received.map_err(|e| Error::failed(format!("the server gives no answers: {e}")))?;
        }
        self.now = Nanos(self.origin.elapsed().as_nanos() as u64);
        for one in answered.drain(..) {
            self.deliver(one)?;
        }
        self.answered = answered;
        Ok(())
    }

    fn deliver(&mut self, Answered { cookie, error }: Answered) -> Result<(), Error> {
        let number = u32::try_from(cookie).ok();
        let slot = number.and_then(|number| self.slots.get_mut(number)?.take());
        let Some(slot) = slot else {
            return Err(Error::failed(format!("the server answers request {cookie}, which is not under way")));
        };
        self.slots.remove(cookie as u32);
        let now = self.now;
        let Slot { submit, thread, op, sector, sectors, .. } = slot;
        let (task, tenant) = self.owner(thread);
        if error == 0 {
            self.ok += 1;
        } else {
            self.failed += 1;
            let text = std::io::Error::from_raw_os_error(error as i32).to_string();
            let at = sector * SECTOR_BYTES;
            self.failure.get_or_insert_with(|| {
                format!("{op} of {} bytes at byte {at}: {text}", u64::from(sectors) * SECTOR_BYTES)
            });
            *self.failures.entry(text).or_insert(0) += 1;
        }
        if self.load.is_open() && error == 0 {
            self.recorder.record(&Completed {
                op,
                task,
                tenant,
                sector,
                bytes: u64::from(sectors) * SECTOR_BYTES,
                submit,
                insert: submit,
                issue: submit,
                device_done: now,
                complete: now,
            });
        }
        if error == Errno::EBUSY.0 as u32 {
            self.load.refused(thread, now);
        }
        self.load.completed(thread, now, slot.number, now.since(submit));
        self.wakes.make_ready(thread);
        Ok(())
    }

    fn owner(&self, thread: u32) -> (TaskId, TenantId) {
        let thread = self.load.thread(thread);
        (thread.task, thread.tenant)
    }

    fn count_unfinished(&mut self) {
        for slot in self.slots.used().filter_map(|(_, slot)| slot.as_ref()) {
            let (task, tenant) = self.owner(slot.thread);
            self.recorder.unfinished(Unfinished { op: slot.op, task, tenant, submit: slot.submit, end: self.now });
        }
    }
}

impl Ended {
    /// The figures of the run. CPU time is that of the server and of its clients, which share this process.
    pub(super) fn result(
        &mut self,
        device: String,
        cell: &Cell,
        seed: u64,
        same_load: bool,
        disk: &DiskStats,
    ) -> Result<RunResult, Error> {
        let recorder = self.recorder.take().ok_or_else(|| Error::failed("a run has one result"))?;
        let usage = self.usage;
        let choice = Choice::parse(&cell.scheduler.to_string()).map_err(Error::refused)?;
        let facts = RunFacts {
            device,
            scheduler: choice.label().into(),
            completion: cell.completion.to_string(),
            world: "real".into(),
            via: cell.stack.name().into(),
            replicate: cell.replicate,
            seed,
            switches: (self.switches > 0).then_some((self.switches, Nanos::ZERO)),
            ledger: Ledger {
                submitted: self.ok + self.failed,
                completed: self.ok + self.failed,
                failed: self.failed,
                ..Ledger::default()
            },
            cpu: usage.cpu_facts(),
            device_counters: BTreeMap::from([("ring_waits".to_owned(), disk.waits as f64)]),
            applications: std::mem::take(&mut self.applications),
            ..RunFacts::default()
        };
        Ok(RunResult { same_load, ..recorder.finish(self.end, facts) })
    }
}

#[cfg(test)]
#[path = "client_load_tests.rs"]
mod tests;
