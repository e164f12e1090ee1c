//! CPU sharing: a polling thread keeps its CPU, so other threads bound to it wait for their turn.
//!
//! A thread that polls is preempted only at the end of its time slice. In hybrid polling a thread sleeps first and
//! gives the CPU away until its timer fires.

use dumbwaiter_block::{Nanos, Op};

use super::calls::arrive;
use super::cpus::CpuWork;
use super::state::Run;
use crate::events::EventKind;
use crate::host::Completion;

/// Runs a turn on a CPU: now if it is free, else in FIFO order.
pub(super) fn take_turn(run: &mut Run<'_>, cpu: usize, turn: CpuWork) {
    if run.cpus.turns.exclusive {
        let queue = &mut run.cpus.turns.cpus[cpu];
        if run.cpus.turns.continuing == Some(cpu) {
            run.cpus.turns.continuing = None;
        } else if queue.used {
            queue.waiting.push_back(turn);
            return;
        } else {
            (queue.used, queue.since) = (true, run.now);
        }
    }
    begin(run, cpu, turn);
}

fn begin(run: &mut Run<'_>, cpu: usize, turn: CpuWork) {
    match turn {
        CpuWork::Submit(slot) => {
            let entry = &mut run.slots[slot];
            let state = &mut run.threads[entry.thread as usize];
            let (closed, waits, more) = (state.closed, state.scheduled, std::mem::take(&mut state.more));
            // It keeps its CPU until the I/O is in the block layer.
            state.issuing += u32::from(waits);
            let (io, drive) = (entry.io, entry.drive);
            let (called, arrival) = run.cpus.host.submit(cpu, run.now, io.op, io.sectors, closed, more, (drive, waits));
            // An I/O that waited for the CPU keeps the submission time of its thread.
            if closed && entry.submit == run.now {
                entry.submit = called;
            }
            arrive(run, cpu, arrival, EventKind::Issue(slot));
        }
        CpuWork::Poll(slot) => {
            let at = run.cpus.host.switch_in(cpu, run.now);
            poll_for(run, slot, at);
        }
        CpuWork::Resume(slot) => {
            let at = run.cpus.host.switch_in(cpu, run.now);
            run.events.push(at, EventKind::Retry(slot));
        }
    }
}

/// The thread that has the CPU sleeps in the call that submits.
pub(super) fn release_if_exclusive(run: &mut Run<'_>, cpu: usize) {
    if run.cpus.turns.exclusive {
        release(run, cpu);
    }
}

/// Gives the CPU to the turn that has waited longest.
pub(super) fn release(run: &mut Run<'_>, cpu: usize) {
    let queue = &mut run.cpus.turns.cpus[cpu];
    queue.since = run.now;
    match queue.waiting.pop_front() {
        Some(turn) => {
            if matches!(turn, CpuWork::Submit(_)) {
                run.cpus.host.sleep(cpu, run.now);
                run.cpus.host.switch_in(cpu, run.now);
            }
            begin(run, cpu, turn);
        }
        None => queue.used = false,
    }
}

/// A single I/O was submitted to the block layer; its thread waits for it.
pub(super) fn wait_for(run: &mut Run<'_>, slot: u32) {
    let io = run.slots[slot].io;
    let cpu = usize::from(io.cpu);
    if !run.cpus.turns.exclusive {
        run.cpus.host.sleep(cpu, run.now);
        return;
    }
    let sleep = run.cpus.host.hybrid_sleep(run.now, io.op, io.sectors);
    if sleep == Nanos::ZERO {
        poll_for(run, slot, run.now);
        return;
    }
    run.slots[slot].slept = true;
    let fires = run.cpus.host.sleep_for(cpu, run.now, sleep);
    run.events.push(fires, EventKind::Slept(slot));
    release(run, cpu);
}

pub(super) fn slept(run: &mut Run<'_>, slot: u32) {
    let cpu = usize::from(run.slots[slot].io.cpu);
    run.cpus.host.timer(cpu, run.now);
    take_turn(run, cpu, CpuWork::Poll(slot));
}

fn poll_for(run: &mut Run<'_>, slot: u32, at: Nanos) {
    let cpu = usize::from(run.slots[slot].io.cpu);
    let from = run.cpus.host.start_poll(cpu, at);
    let entry = &mut run.slots[slot];
    entry.polls_from = Some(from);
    if entry.done {
        found(run, slot);
    }
}

/// The device has completed an I/O of a thread that takes turns.
pub(super) fn done_by_device(run: &mut Run<'_>, slot: u32) {
    let entry = &mut run.slots[slot];
    entry.done = true;
    if entry.polls_from.is_some() {
        found(run, slot);
    }
}

fn found(run: &mut Run<'_>, slot: u32) {
    let entry = &run.slots[slot];
    let at = entry.device_done.max(entry.polls_from.unwrap_or(Nanos::ZERO));
    let (io, issue, slept) = (entry.io, entry.issue, entry.slept);
    let notify = run.cpus.host.found(usize::from(io.cpu), at, io.op, slept);
    run.cpus.host.learn(run.now, io.op, io.sectors, at.since(issue));
    run.events.push(notify, EventKind::Reply(slot));
}

/// The thread of a ring waits for a completion. Polling rings share a CPU without turns: their work is
/// booked in order. `leaves`: the thread has the CPU until now.
pub(super) fn ring_waits(run: &mut Run<'_>, thread: u32, leaves: bool) {
    let state = &mut run.threads[thread as usize];
    let cpu = state.cpu;
    state.asleep = true;
    let completion = run.cpus.host.completion();
    state.cold = completion.sleeps();
    match completion {
        Completion::Interrupt => {
            if leaves {
                run.cpus.host.sleep(cpu, run.now);
            }
        }
        _ if run.load.outstanding(thread) == 0 => {}
        Completion::Poll | Completion::Sqpoll => {
            state.polls = true;
            run.cpus.host.start_poll(cpu, run.now);
        }
        Completion::Hybrid | Completion::HybridFixed(_) => {
            let sleep = match completion {
                Completion::HybridFixed(time) => time,
                _ => state.ring.sleep(),
            };
            state.slept = sleep;
            if sleep == Nanos::ZERO {
                state.polls = true;
                run.cpus.host.start_poll(cpu, run.now);
            } else {
                state.asleep = false;
                state.rests = true;
                let fires = run.cpus.host.sleep_for(cpu, run.now, sleep);
                run.events.push(fires, EventKind::Rested(thread));
            }
        }
    }
}

/// The device has completed an I/O of a ring whose thread waits; returns the time at which the thread is notified.
pub(super) fn ring_wakes(run: &mut Run<'_>, thread: u32, done: Nanos, op: Op) -> Nanos {
    let state = &mut run.threads[thread as usize];
    let cpu = state.cpu;
    if !std::mem::take(&mut state.polls) {
        return run.cpus.host.interrupt(cpu, done, op);
    }
    if let Some(slot) = state.ready.front() {
        let issue = run.slots[*slot].issue;
        state.ring.record(done.since(issue), state.slept);
    }
    let slept = state.slept > Nanos::ZERO;
    run.cpus.host.found(cpu, done, op, slept)
}

/// The thread of a ring stops polling.
pub(super) fn stop_polling(run: &mut Run<'_>, thread: u32) {
    let state = &mut run.threads[thread as usize];
    if std::mem::take(&mut state.polls) {
        run.cpus.host.stop_poll(state.cpu, run.now);
    }
}
