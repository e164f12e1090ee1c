//! I/Os that reach the block layer, also from tasks that slept for a request and from worker threads of rings.

use dumbwaiter_block::{Flags, Io, Submitted, TaskId};
use dumbwaiter_scenario::DRIVES_MAX;
use dumbwaiter_scenario::load::{Mode, ring_workers};

use super::cpus::CpuWork;
use super::device::serve;
use super::state::Run;
use super::threads::{pump, submit_prepared};
use super::turns::{release_if_exclusive, ring_waits, take_turn, wait_for};
use crate::events::EventKind;

/// The drives that a call submits to.
#[derive(Clone, Copy, Default)]
struct Touched(u64);

impl Touched {
    fn add(&mut self, drive: u8) {
        self.0 |= 1 << drive;
    }

    fn numbers(self) -> impl Iterator<Item = u8> {
        (0..DRIVES_MAX).take_while(move |drive| self.0 >> drive != 0).filter(move |drive| self.0 >> drive & 1 == 1)
    }
}

/// A batch of more than this many I/Os is plugged (Linux: io_submit, io_uring).
const PLUG_OVER: u32 = 2;

pub(super) fn issue(run: &mut Run<'_>, slot: u32) {
    run.slots[slot].arrives(run.now);
    let (io, drive) = (run.slots[slot].io, run.slots[slot].drive);
    let state = &mut run.threads[run.slots[slot].thread as usize];
    state.issuing -= u32::from(state.scheduled);
    if run.sleeps.is_asleep(io.task) {
        run.sleeps.of(io.task).behind.push_back(slot);
        release_if_exclusive(run, usize::from(io.cpu));
        return;
    }
    if run.disks.layers[usize::from(drive)].submit(run.now, io, None) == Submitted::Asleep {
        run.sleeps.of(io.task).asleep = true;
        run.cpus.host.sleep(usize::from(io.cpu), run.now);
        release_if_exclusive(run, usize::from(io.cpu));
    } else {
        wait_for(run, slot);
        submit_behind(run, io.task);
    }
    serve(run, drive);
}

pub(super) fn issue_batch(run: &mut Run<'_>, thread: u32) {
    let state = &mut run.threads[thread as usize];
    state.plugged = state.issuing > PLUG_OVER;
    submit_rest(run, thread, false);
}

/// Submits what is left of a batch; `slept`: since the thread slept for the I/O before.
fn submit_rest(run: &mut Run<'_>, thread: u32, slept: bool) {
    let state = &run.threads[thread as usize];
    let (may_sleep, plugged) = (state.may_sleep(), state.plugged);
    let mut drives = Touched::default();
    drives.add(state.drive);
    while run.threads[thread as usize].issuing > 0 {
        let state = &mut run.threads[thread as usize];
        state.issuing -= 1;
        let slot = state.prepared.pop_front().expect("a batch holds what was prepared");
        if slept && state.closed {
            run.slots[slot].submit = run.now;
        }
        run.slots[slot].arrives(run.now);
        let (io, drive) = (run.slots[slot].io, run.slots[slot].drive);
        drives.add(drive);
        let (layer, plug) = (&mut run.disks.layers[usize::from(drive)], &mut run.disks.drives[usize::from(drive)].plug);
        let flags = if may_sleep { io.flags } else { io.flags.with(Flags::NOWAIT) };
        match layer.submit(run.now, Io { flags, ..io }, plugged.then_some(plug)) {
            Submitted::Entered => {}
            Submitted::WouldBlock => state.for_workers.push_back(slot),
            Submitted::Asleep => {
                state.sleeps_for = Some(slot);
                break;
            }
        }
    }
    for drive in drives.numbers().filter(|_| plugged) {
        let drive = usize::from(drive);
        run.disks.layers[drive].unplug(run.now, &mut run.disks.drives[drive].plug);
    }
    if !run.threads[thread as usize].for_workers.is_empty() {
        start_workers(run, thread);
    }
    for drive in drives.numbers() {
        serve(run, drive);
    }
    let state = &mut run.threads[thread as usize];
    if state.sleeps_for.is_some() {
        run.cpus.host.sleep(state.cpu, run.now);
        return;
    }
    if matches!(state.mode, Mode::Ring { .. }) {
        // The call shows all that has completed.
        state.visible = state.ready.len();
    }
    if state.batch < usize::MAX {
        pump(run, thread);
    }
    go_on(run, thread, true);
}

/// A task that submits one by one may submit its next.
fn submit_behind(run: &mut Run<'_>, task: TaskId) {
    if let Some(next) = run.sleeps.next_behind(task) {
        let entry = &mut run.slots[next];
        let cpu = usize::from(entry.io.cpu);
        if run.threads[entry.thread as usize].closed {
            entry.submit = run.now;
        }
        take_turn(run, cpu, CpuWork::Submit(next));
    }
}

/// The thread submits its next batch, reaps completions, or waits for one; for that it `leaves` a CPU that it has.
pub(super) fn go_on(run: &mut Run<'_>, thread: u32, leaves: bool) {
    let state = &run.threads[thread as usize];
    if state.issuing > 0 {
        return;
    }
    if !state.ready.is_empty() {
        look(run, thread);
    } else if !state.prepared.is_empty() {
        submit_prepared(run, thread);
    } else {
        ring_waits(run, thread, leaves);
    }
}

pub(super) fn look(run: &mut Run<'_>, thread: u32) {
    let state = &mut run.threads[thread as usize];
    state.reaping = true;
    let at = run.cpus.host.look(state.cpu, run.now, state.visible > 0);
    run.events.push(at, EventKind::Reap(thread));
}

/// A task that was woken runs.
pub(super) fn retry(run: &mut Run<'_>, slot: u32) {
    let entry = &run.slots[slot];
    let Some(id) = entry.request else { return };
    let (cpu, thread, drive) = (usize::from(entry.io.cpu), entry.thread as usize, entry.drive);
    let plugged = run.threads[thread].plugged && run.threads[thread].sleeps_for == Some(slot);
    let index = usize::from(drive);
    run.disks.layers[index].run_queue_of(id);
    serve(run, drive);
    let plug = plugged.then_some(&mut run.disks.drives[index].plug);
    match run.disks.layers[index].retry(run.now, id, plug) {
        Submitted::Entered => entered(run, slot),
        _ => {
            run.cpus.host.sleep(cpu, run.now);
            if !run.threads[thread].mode.queues() {
                release_if_exclusive(run, cpu);
            }
            serve(run, drive);
        }
    }
}

/// A task that slept for a request has it, and goes on.
pub(super) fn entered(run: &mut Run<'_>, slot: u32) {
    let entry = &run.slots[slot];
    let (thread, task, drive) = (entry.thread, entry.io.task, entry.drive);
    if entry.worker {
        let state = &mut run.threads[thread as usize];
        (state.workers, state.worker_idle) = (state.workers - 1, run.now);
        start_workers(run, thread);
        serve(run, drive);
    } else if run.threads[thread as usize].mode.queues() {
        run.threads[thread as usize].sleeps_for = None;
        submit_rest(run, thread, true);
    } else {
        run.sleeps.of(task).asleep = false;
        wait_for(run, slot);
        submit_behind(run, task);
        serve(run, drive);
    }
}

/// Gives I/Os that would have to sleep to worker threads of the ring, as far as there are any.
fn start_workers(run: &mut Run<'_>, thread: u32) {
    let cpus = run.cpus.host.cpus();
    let state = &mut run.threads[thread as usize];
    let most = ring_workers(state.depth.next_power_of_two(), cpus);
    while state.workers < most
        && let Some(slot) = state.for_workers.pop_front()
    {
        state.workers += 1;
        run.slots[slot].worker = true;
        if state.moves {
            // Its workers are threads of their own, each on the CPU on which it ran last, or an idle one.
            let last = state.worker_cpu;
            state.worker_cpu = run.cpus.idle_behind(last, run.now).unwrap_or((last + 1) % cpus);
            run.slots[slot].io.cpu = state.worker_cpu as u16;
        }
        let at = run.cpus.host.worker(usize::from(run.slots[slot].io.cpu), run.now, state.worker_idle);
        run.events.push(at, EventKind::Work(slot));
    }
}

/// A worker thread submits an I/O, and sleeps if it has to.
pub(super) fn work(run: &mut Run<'_>, slot: u32) {
    let (io, drive) = (run.slots[slot].io, run.slots[slot].drive);
    match run.disks.layers[usize::from(drive)].submit(run.now, io, None) {
        Submitted::Asleep => {
            run.cpus.host.sleep(usize::from(io.cpu), run.now);
            serve(run, drive);
        }
        _ => entered(run, slot),
    }
}
