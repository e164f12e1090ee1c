//! Dispatch to the device and completions from it.

use dumbwaiter_block::{Errno, Nanos, Op, RequestId};
use dumbwaiter_scenario::load::Mode;

use super::cpus::Resumes;
use super::queue::wake;
use super::sleep::wake_tasks;
use super::state::Run;
use super::turns::{done_by_device, ring_wakes};
use crate::events::EventKind;
use crate::host::Completion;

/// Dispatches requests to the devices of all drives while they accept them.
pub(super) fn serve_all(run: &mut Run<'_>) {
    for drive in run.disks.numbers() {
        serve(run, drive);
    }
}

/// Dispatches requests to the device of a drive while it accepts them.
pub(super) fn serve(run: &mut Run<'_>, number: u8) {
    let (now, index) = (run.now, usize::from(number));
    if run.exchanges.next_cost.is_some() && !run.disks.freezing() {
        run.cpus.host.set_scheduler_cost(run.exchanges.next_cost.take());
    }
    run.disks.dispatch(number, now);
    let (layer, drive) = (&run.disks.layers[index], &mut run.disks.drives[index]);
    let has_room = layer.in_device() < u64::from(layer.config().setup.device_depth);
    drive.stages.room.set(now, has_room);
    drive.stages.writing.set(now, drive.writes > 0);
    deliver(run, number, now);
    wake_tasks(run, number, now);
    if run.load.is_open() {
        let (queued, in_device) = run.disks.depth();
        run.measured.recorder.depth(now, queued, in_device);
    }
    let drive = &mut run.disks.drives[index];
    if let Some(at) = run.disks.layers[index].next_timer()
        && at < drive.timer_at
    {
        drive.timer_at = at.max(Nanos(now.0 + 1));
        run.events.push(drive.timer_at, EventKind::Timer(number));
    }
}

/// The device of a drive has completed commands.
pub(super) fn device_done(run: &mut Run<'_>, number: u8, now: Nanos) {
    let index = usize::from(number);
    let mut completions = std::mem::take(&mut run.disks.drives[index].completions);
    run.disks.drives[index].advance(now, &mut completions);
    for completion in completions.drain(..) {
        let (layer, drive) = (&mut run.disks.layers[index], &mut run.disks.drives[index]);
        if layer.request(RequestId(completion.tag)).io.op == Op::Write {
            drive.writes -= 1;
            drive.stages.writing.set(completion.at, drive.writes > 0);
        }
        let result = if completion.failed { Err(Errno::EIO) } else { Ok(()) };
        layer.complete(completion.at, RequestId(completion.tag), result, &mut drive.finished);
        let cpu = drive.finished.last().map_or(0, |done| usize::from(done.io.cpu));
        send_later(run, number, completion.at, cpu);
        // Those that sleep for a tag run before the task whose I/O this is submits the next.
        wake_tasks(run, number, completion.at);
        deliver(run, number, completion.at);
    }
    run.disks.drives[index].completions = completions;
    if !run.disks.drives[index].sends {
        serve(run, number);
    }
}

/// A completion that lets the scheduler send more wakes the kernel's worker, which does so.
fn send_later(run: &mut Run<'_>, number: u8, done: Nanos, cpu: usize) {
    let (layer, drive) = (&run.disks.layers[usize::from(number)], &mut run.disks.drives[usize::from(number)]);
    if !drive.sends && layer.to_send() {
        drive.sends = true;
        let at = run.cpus.host.worker_after_interrupt(cpu, done);
        run.events.push(at.max(run.now), EventKind::Send(number));
    }
}

/// Hands completed I/Os of a drive to the host, which notifies the threads.
fn deliver(run: &mut Run<'_>, number: u8, done: Nanos) {
    let (mut last, drive) = (None, usize::from(number));
    for i in 0..run.disks.drives[drive].finished.len() {
        let finished = run.disks.drives[drive].finished[i];
        let slot = finished.io.token as u32;
        let entry = &mut run.slots[slot];
        entry.insert = finished.insert;
        entry.issue = finished.issue;
        entry.device_done = done;
        entry.failed = finished.result.is_err();
        let thread = entry.thread;
        if finished.result == Err(Errno::EBUSY) {
            run.load.refused(thread, done);
        }
        if run.threads[thread as usize].mode.queues() {
            deliver_to_queue(run, slot, done, last == Some(thread));
            last = Some(thread);
        } else {
            deliver_to_task(run, slot, done);
        }
    }
    run.disks.drives[drive].finished.clear();
}

/// The thread waits for this one I/O.
fn deliver_to_task(run: &mut Run<'_>, slot: u32, done: Nanos) {
    let entry = &run.slots[slot];
    let (cpu, op, thread) = (usize::from(entry.io.cpu), entry.io.op, entry.thread);
    if run.cpus.turns.exclusive {
        done_by_device(run, slot);
        return;
    }
    record_for_kernel(run, slot, done);
    let state = &mut run.threads[thread as usize];
    if state.scheduled {
        let at = run.cpus.host.interrupt_sleeper(cpu, done, op, state.away);
        wake(run, thread, at, EventKind::Reply(slot), Resumes::Application);
    } else {
        let at = run.cpus.host.interrupt(cpu, done, op);
        run.events.push(at, EventKind::Reply(slot));
    }
}

/// The thread has a queue of I/Os. `another`: it has just heard of another one.
fn deliver_to_queue(run: &mut Run<'_>, slot: u32, done: Nanos, another: bool) {
    let entry = &mut run.slots[slot];
    let (op, thread, submitted_on) = (entry.io.op, entry.thread, usize::from(entry.io.cpu));
    let state = &mut run.threads[thread as usize];
    let by_kernel = matches!(state.mode, Mode::Kernel { .. });
    if by_kernel {
        // The interrupt ends the write-back of pages, whatever the thread does or sleeps for.
        entry.is_known = true;
        run.load.completed(thread, done, entry.task, done.since(entry.submit));
    }
    // The interrupt comes where the I/O was submitted.
    let cpu = if state.moves { submitted_on } else { state.cpu };
    let ring = matches!(state.mode, Mode::Ring { .. });
    let first = state.ready.is_empty();
    state.ready.push_back(slot);
    if state.asleep {
        state.asleep = false;
        state.reaping = true;
        if state.scheduled && run.cpus.host.completion() == Completion::Interrupt {
            let at = run.cpus.host.interrupt_sleeper(cpu, done, op, state.away);
            wake(run, thread, at, EventKind::Reap(thread), Resumes::Application);
        } else {
            let at = ring_wakes(run, thread, done, op);
            run.events.push(at, EventKind::Reap(thread));
        }
    } else {
        // One that runs, or is about to, is interrupted for each; what a kernel's thread or libaio finds together costs one.
        let found = if ring && state.scheduled { another } else { !first };
        run.cpus.host.note_completion(cpu, done, op, found, !ring);
        if by_kernel {
            // What a kernel's thread writes is complete without it.
            record(run, slot, done);
            return;
        }
    }
    record_for_kernel(run, slot, done);
}

fn record_for_kernel(run: &mut Run<'_>, slot: u32, done: Nanos) {
    if run.measured.kernel_latency {
        record(run, slot, done);
    }
}

/// The I/O counts as complete now.
fn record(run: &mut Run<'_>, slot: u32, done: Nanos) {
    if run.slots[slot].posted == Nanos::ZERO {
        run.slots[slot].posted = done;
        if run.load.is_open() {
            run.measured.record(&run.slots[slot], done, &run.disks);
        }
    }
}
