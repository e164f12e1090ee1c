//! Dispatch to the device and completions from it.

use dumbwaiter_block::{Errno, Nanos, Op, RequestId};

use super::sleep::wake_tasks;
use super::state::Run;
use super::turns::{done_by_device, ring_wakes};
use crate::events::EventKind;

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
        send_later(run, completion.at);
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
fn send_later(run: &mut Run<'_>, done: Nanos) {
    if !run.disk.sends && run.disk.layer.to_send() {
        run.disk.sends = true;
        let at = run.cpus.host.worker_after_interrupt(0, done);
        run.events.push(at.max(run.now), EventKind::Send);
    }
}

/// Hands completed I/Os to the host, which notifies the threads.
fn deliver(run: &mut Run<'_>, done: Nanos) {
    for i in 0..run.disk.finished.len() {
        let finished = run.disk.finished[i];
        let slot = finished.io.token as u32;
        let entry = &mut run.slots[slot];
        entry.insert = finished.insert;
        entry.issue = finished.issue;
        entry.device_done = done;
        entry.failed = finished.result.is_err();
        let (cpu, op) = (usize::from(entry.io.cpu), entry.io.op);
        let thread = entry.thread;
        let state = &mut run.threads[thread as usize];
        if finished.result == Err(Errno::EBUSY) {
            run.load.refused(thread, done);
        }
        match state.mode.queues() {
            false if run.cpus.turns.exclusive => done_by_device(run, slot),
            false => {
                let at = run.cpus.host.interrupt(cpu, done, op);
                run.events.push(at, EventKind::Reply(slot));
            }
            true => {
                let first = state.ready.is_empty();
                state.ready.push_back(slot);
                if state.asleep {
                    state.asleep = false;
                    state.reaping = true;
                    let at = ring_wakes(run, thread, done, op);
                    run.events.push(at, EventKind::Reap(thread));
                } else {
                    run.cpus.host.note_completion(cpu, done, op, first);
                    if state.may_sleep() {
                        // The thread is busy, or sleeps for a request, and reaps it later than it could. What a kernel's
                        // thread writes is complete without it.
                        run.slots[slot].posted = done;
                        if run.load.is_open() {
                            run.measured.record(&run.slots[slot], done, &run.disk.layer);
                        }
                    }
                }
            }
        }
    }
    run.disk.finished.clear();
}
