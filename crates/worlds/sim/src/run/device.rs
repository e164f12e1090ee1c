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

/// Dispatches requests to the device while it accepts them.
pub(super) fn serve(run: &mut Run<'_>) {
    let now = run.now;
    if run.exchanges.next_cost.is_some() && !run.disk.layer.freezing() {
        run.cpus.host.set_scheduler_cost(run.exchanges.next_cost.take());
    }
    run.disk.dispatch(now);
    let has_room = run.disk.layer.in_device() < u64::from(run.disk.layer.config().setup.device_depth);
    run.measured.stages.room.set(now, has_room);
    run.measured.stages.writing.set(now, run.disk.writes > 0);
    deliver(run, now);
    wake_tasks(run, now);
    if run.load.is_open() {
        run.measured.recorder.depth(now, run.disk.layer.queued(), run.disk.layer.in_device());
    }
    if let Some(at) = run.disk.layer.next_timer()
        && at < run.disk.timer_at
    {
        run.disk.timer_at = at.max(Nanos(now.0 + 1));
        run.events.push(run.disk.timer_at, EventKind::Timer);
    }
}

pub(super) fn device_done(run: &mut Run<'_>, now: Nanos) {
    let mut completions = std::mem::take(&mut run.disk.completions);
    run.disk.device.advance(now, &mut completions);
    for completion in completions.drain(..) {
        if run.disk.layer.request(RequestId(completion.tag)).io.op == Op::Write {
            run.disk.writes -= 1;
            run.measured.stages.writing.set(completion.at, run.disk.writes > 0);
        }
        let result = if completion.failed { Err(Errno::EIO) } else { Ok(()) };
        run.disk.layer.complete(completion.at, RequestId(completion.tag), result, &mut run.disk.finished);
        let cpu = run.disk.finished.last().map_or(0, |done| usize::from(done.io.cpu));
        send_later(run, completion.at, cpu);
        // Those that sleep for a tag run before the task whose I/O this is submits the next.
        wake_tasks(run, completion.at);
        deliver(run, completion.at);
    }
    run.disk.completions = completions;
    if !run.disk.sends {
        serve(run);
    }
}

/// A completion that lets the scheduler send more wakes the kernel's worker, which does so.
fn send_later(run: &mut Run<'_>, done: Nanos, cpu: usize) {
    if !run.disk.sends && run.disk.layer.to_send() {
        run.disk.sends = true;
        let at = run.cpus.host.worker_after_interrupt(cpu, done);
        run.events.push(at.max(run.now), EventKind::Send);
    }
}

/// Hands completed I/Os to the host, which notifies the threads.
fn deliver(run: &mut Run<'_>, done: Nanos) {
    let mut last = None;
    for i in 0..run.disk.finished.len() {
        let finished = run.disk.finished[i];
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
    run.disk.finished.clear();
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
    let (op, thread) = (entry.io.op, entry.thread);
    let state = &mut run.threads[thread as usize];
    let by_kernel = matches!(state.mode, Mode::Kernel { .. });
    if by_kernel {
        // The interrupt ends the write-back of pages, whatever the thread does or sleeps for.
        entry.is_known = true;
        run.load.completed(thread, done, entry.task, done.since(entry.submit));
    }
    let (cpu, ring) = (state.cpu, matches!(state.mode, Mode::Ring { .. }));
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
            run.measured.record(&run.slots[slot], done, &run.disk.layer);
        }
    }
}
