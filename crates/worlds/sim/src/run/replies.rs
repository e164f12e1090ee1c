//! Completions reach the application, which goes on.

use dumbwaiter_block::Nanos;

use super::cpus::SLICE;
use super::state::Run;
use super::submit::{go_on, look};
use super::threads::{pump, submit_prepared};
use super::turns::release;

/// The application was notified of a single I/O and continues while it has the CPU.
pub(super) fn replied(run: &mut Run<'_>, slot: u32) {
    let cpu = usize::from(run.slots[slot].io.cpu);
    let thread = notify(run, slot);
    if !run.cpus.turns.exclusive {
        pump(run, thread);
        return;
    }
    let queue = &run.cpus.turns.cpus[cpu];
    if !queue.waiting.is_empty() && run.now.since(queue.since) >= SLICE {
        release(run, cpu);
        pump(run, thread);
        return;
    }
    run.cpus.turns.continuing = Some(cpu);
    pump(run, thread);
    if run.cpus.turns.continuing.take().is_some() {
        release(run, cpu);
    }
}

pub(super) fn reap(run: &mut Run<'_>, thread: u32) {
    let mut taken = 0;
    let state = &mut run.threads[thread as usize];
    if state.visible == 0 {
        // The call from which it returns shows all that has completed.
        state.visible = state.ready.len();
    }
    let most = state.reaps as u64;
    while taken < most
        && let Some(slot) = run.threads[thread as usize].ready.pop_front()
    {
        notify(run, slot);
        taken += 1;
    }
    let warm = run.cpus.host.profile.cpl_warm;
    let state = &mut run.threads[thread as usize];
    state.reaping = false;
    state.visible = state.visible.saturating_sub(taken as usize);
    state.owed += warm * (taken - 1u64.min(taken));
    pump(run, thread);
    go_on(run, thread, false);
}

/// The thread of a ring that slept starts to poll.
pub(super) fn rested(run: &mut Run<'_>, thread: u32) {
    let state = &mut run.threads[thread as usize];
    let cpu = state.cpu;
    state.rests = false;
    run.cpus.host.timer(cpu, run.now);
    let at = run.cpus.host.switch_in(cpu, run.now);
    if let Some(slot) = state.ready.front() {
        let issue = run.slots[*slot].issue;
        state.ring.record(at.since(issue), state.slept);
        look(run, thread);
    } else if !state.prepared.is_empty() {
        submit_prepared(run, thread);
    } else {
        (state.asleep, state.polls) = (true, true);
        run.cpus.host.start_poll(cpu, at);
    }
}

/// Notifies the application of a completion, which is recorded unless that was done, and frees the slot.
fn notify(run: &mut Run<'_>, slot: u32) -> u32 {
    let entry = run.slots[slot];
    run.slots.remove(slot);
    if entry.posted == Nanos::ZERO && run.load.is_open() {
        run.measured.record(&entry, run.now, &run.disks);
    }
    if !entry.is_known {
        run.load.completed(entry.thread, run.now, entry.task, run.now.since(entry.submit));
    }
    entry.thread
}
