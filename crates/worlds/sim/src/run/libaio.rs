//! Which thread runs on a CPU: one of libaio keeps its CPU until it sleeps, so that it may take several tags in a row, or until
//! it returns to its program after another was woken: that one runs first, and gets the tag for which it was woken.
//!
//! The kernel's order among threads that are woken at about the same moment depends on what each ran before, to the microsecond.
//! Here it is mostly the order in which they were woken, and at random now and then. Without that, loads of constant service time
//! fall into a rhythm in which one thread never gets a tag.

use dumbwaiter_scenario::load::Mode;

use super::cpus::SLICE;
use super::state::Run;
use crate::events::EventKind;

/// The thread that an event lets run, if threads like it keep their CPU until they sleep.
pub(super) fn thread_that_runs(run: &Run<'_>, event: EventKind) -> Option<u32> {
    let thread = match event {
        EventKind::Wake(thread) | EventKind::Reap(thread) | EventKind::IssueBatch(thread) => thread,
        EventKind::Retry(slot) | EventKind::Entered(slot) => run.slots[slot].thread,
        _ => return None,
    };
    matches!(run.threads[thread as usize].mode, Mode::Aio { .. }).then_some(thread)
}

/// Has the thread of an event its CPU? If not, it is runnable from now on.
pub(super) fn has_cpu(run: &mut Run<'_>, thread: u32, event: EventKind) -> bool {
    let cpu = run.threads[thread as usize].cpu;
    let queue = &mut run.cpus.queues[cpu];
    if queue.owner == Some(thread) {
        // The next system call comes after the return from the last one, at which the kernel lets the woken thread run.
        let returned = matches!(event, EventKind::IssueBatch(_));
        if !(returned && std::mem::take(&mut queue.preempted)) {
            return true;
        }
        queue.owner = None;
    } else {
        queue.preempted = queue.owner.is_some();
    }
    queue.runnable.push_back(event);
    if queue.owner.is_none() && !queue.dispatching {
        dispatch_later(run, cpu);
    }
    false
}

/// Every thread that is woken at this moment is runnable when the CPU is free.
fn dispatch_later(run: &mut Run<'_>, cpu: usize) {
    run.cpus.queues[cpu].dispatching = true;
    let at = run.cpus.host.free_at(cpu).max(run.now);
    run.events.push(at, EventKind::Dispatch(cpu as u32));
}

/// The event of the next runnable thread, which gets the CPU.
pub(super) fn next_to_run(run: &mut Run<'_>, cpu: u32) -> Option<EventKind> {
    let event = run.cpus.take_runnable(cpu as usize)?;
    let thread = thread_that_runs(run, event);
    let queue = &mut run.cpus.queues[cpu as usize];
    (queue.owner, queue.since, queue.preempted) = (thread, run.now, false);
    Some(event)
}

/// If the thread sleeps now, or its time slice is over, the next one gets the CPU.
pub(super) fn leave_cpu(run: &mut Run<'_>, thread: u32) {
    let state = &run.threads[thread as usize];
    let runs = state.sleeps_for.is_none() && (state.issuing > 0 || state.reaping);
    let cpu = state.cpu;
    let queue = &mut run.cpus.queues[cpu];
    let over = !queue.runnable.is_empty() && run.now.since(queue.since) >= SLICE;
    if queue.owner == Some(thread) && (!runs || over) {
        queue.owner = None;
        if !queue.runnable.is_empty() {
            dispatch_later(run, cpu);
        }
    }
}
