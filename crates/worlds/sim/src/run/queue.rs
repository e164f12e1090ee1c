//! Which thread runs on a CPU. One that was given its CPU keeps it until it sleeps, so that it may take several tags in a row, or until
//! its time slice is over. The next is the one that has used least CPU time, interrupts included that hit it: what a long turn cost
//! is paid back by a wait until the others have caught up (Linux: CFS). Threads of libaio run mostly in the order in which they were woken, and at random now and then. A thread that is woken takes the CPU from
//! another, when that enters the kernel again, by its kernel's rule (wake-up preemption: a reader that sleeps most
//! of the time beside programs that never do). Among threads that run for microseconds this never happens, but for
//! one of libaio that returns to its program: there the woken one runs first, and gets the tag for which it was woken.
//!
//! The kernel's order among threads that are woken at about the same moment depends on what each ran before, to the microsecond, and so
//! varies here by the length of their turns. Without that, loads of constant service time fall into a rhythm in which one thread
//! never gets a tag.

use dumbwaiter_block::Nanos;
use dumbwaiter_scenario::load::Mode;

use super::cpus::{Resumes, Runnable};
use super::state::Run;
use crate::events::EventKind;

/// The thread that an event lets run, if it is one that keeps its CPU until it sleeps.
pub(super) fn thread_that_runs(run: &Run<'_>, event: EventKind) -> Option<u32> {
    let thread = match event {
        EventKind::Wake(thread) | EventKind::Reap(thread) | EventKind::IssueBatch(thread) => thread,
        EventKind::Retry(slot) | EventKind::Entered(slot) if run.slots[slot].worker => return None,
        EventKind::Retry(slot) | EventKind::Entered(slot) | EventKind::Reply(slot) | EventKind::Issue(slot) => {
            run.slots[slot].thread
        }
        _ => return None,
    };
    run.threads[thread as usize].scheduled.then_some(thread)
}

/// Has the thread of an event its CPU? If not, it is runnable from now on.
pub(super) fn has_cpu(run: &mut Run<'_>, thread: u32, event: EventKind) -> bool {
    let state = &run.threads[thread as usize];
    let (cpu, aio) = (state.cpu, matches!(state.mode, Mode::Aio { .. }));
    let queue = &mut run.cpus.queues[cpu];
    if queue.owner == Some(thread) {
        // The next system call comes after the return from the last one, at which the kernel lets the woken thread run.
        let returned = aio && matches!(event, EventKind::IssueBatch(_));
        let preempted = returned && std::mem::take(&mut queue.preempted);
        let threads = queue.runnable.len() as u64 + 1;
        let over = threads > 1 && run.now >= run.cpus.host.slice_end(queue.since, threads);
        if !(preempted || over || is_behind(run, thread)) || run.cpus.calls[cpu].is_some() {
            return true;
        }
        leave(run, thread);
    } else if queue.owner.is_none() && queue.runnable.is_empty() && run.cpus.host.free_at(cpu) <= run.now {
        begin(run, cpu, thread, run.now);
        return true;
    } else {
        queue.preempted = queue.owner.is_some();
    }
    line_up(run, cpu, thread, event, None);
    false
}

/// Was a thread woken that takes the CPU from this one, which has it?
fn is_behind(run: &Run<'_>, owner: u32) -> bool {
    let state = &run.threads[owner as usize];
    let queue = &run.cpus.queues[state.cpu];
    queue.runnable.peek().is_some_and(|first| {
        let woken = first.resumes.is_some() && !matches!(run.threads[first.thread as usize].mode, Mode::Aio { .. });
        let runs = run.now.since(queue.since).0;
        let more = (state.used + runs).saturating_sub(first.used);
        woken && run.cpus.host.wake_up_preempts(runs, more)
    })
}

/// A thread is woken: it runs at `at` at the earliest, and then returns from its call with a completion if it `resumes`.
pub(super) fn wake(run: &mut Run<'_>, thread: u32, at: Nanos, event: EventKind, resumes: Resumes) {
    if run.threads[thread as usize].moves && resumes == Resumes::Application {
        move_to_idle_cpu(run, thread, at);
    }
    let cpu = run.threads[thread as usize].cpu;
    let queue = &mut run.cpus.queues[cpu];
    if queue.owner == Some(thread) {
        // It has not left it yet.
        run.events.push(at, event);
        return;
    }
    if queue.owner.is_none() && queue.runnable.is_empty() && !queue.dispatching {
        begin(run, cpu, thread, at);
        let at = come_back(run, cpu, thread, at, resumes);
        run.events.push(at, event);
        return;
    }
    queue.preempted = queue.owner.is_some();
    line_up(run, cpu, thread, event, Some(resumes));
}

/// A thread that is woken at `at` while another one runs on its CPU goes on on the next that is idle, if one is (Linux: the CPUs that share a
/// cache are searched from the one behind its own on).
fn move_to_idle_cpu(run: &mut Run<'_>, thread: u32, at: Nanos) {
    let own = run.threads[thread as usize].cpu;
    if run.cpus.queues[own].owner == Some(thread) || run.cpus.is_idle(own, at) {
        return;
    }
    let Some(idle) = run.cpus.idle_behind(own, at) else { return };
    let state = &mut run.threads[thread as usize];
    // What it has used counts from where the threads of a CPU stand.
    state.used = (state.used + run.cpus.queues[idle].floor).saturating_sub(run.cpus.queues[own].floor);
    state.away.busy = run.cpus.host.away_from(idle).busy;
    state.cpu = idle;
    run.load.moved(thread, idle as u16);
}

/// The thread is switched in.
fn come_back(run: &mut Run<'_>, cpu: usize, thread: u32, at: Nanos, resumes: Resumes) -> Nanos {
    match resumes {
        Resumes::Application => {
            let state = &mut run.threads[thread as usize];
            let (at, more) = run.cpus.host.resume(cpu, at, state.away);
            state.more = more;
            at
        }
        Resumes::Call => run.cpus.host.switch_in(cpu, at),
    }
}

/// A thread waits for its CPU.
fn line_up(run: &mut Run<'_>, cpu: usize, thread: u32, event: EventKind, resumes: Option<Resumes>) {
    let credit = run.cpus.host.sleeper_credit();
    let aio = matches!(run.threads[thread as usize].mode, Mode::Aio { .. });
    let state = &mut run.threads[thread as usize];
    let queue = &mut run.cpus.queues[cpu];
    let least = if state.ran { queue.floor.saturating_sub(credit) } else { queue.floor };
    (state.used, state.ran) = (state.used.max(least), true);
    state.in_line += 1;
    queue.arrivals += 1;
    let (mut used, mut arrival) = (state.used, queue.arrivals);
    if aio {
        // In recordings of a kernel these run mostly in the order in which they were woken.
        used = queue.floor;
        arrival = arrival.saturating_sub(run.cpus.host.overtakes(queue.runnable.len() as u64));
    }
    queue.runnable.push(Runnable { used, arrival, event, thread, resumes });
    if queue.owner.is_none() && !queue.dispatching {
        dispatch_later(run, cpu);
    }
}

/// Every thread that is woken at this moment is runnable when the CPU is free.
fn dispatch_later(run: &mut Run<'_>, cpu: usize) {
    run.cpus.queues[cpu].dispatching = true;
    let at = run.cpus.host.free_at(cpu).max(run.now);
    run.events.push(at, EventKind::Dispatch(cpu as u32));
}

/// The thread has its CPU from `at` on.
fn begin(run: &mut Run<'_>, cpu: usize, thread: u32, at: Nanos) {
    let since = at.max(run.cpus.host.free_at(cpu)).max(run.now);
    run.threads[thread as usize].ran = true;
    let queue = &mut run.cpus.queues[cpu];
    (queue.owner, queue.since, queue.preempted) = (Some(thread), since, false);
}

/// The event of the next runnable thread, which gets the CPU; none if it is switched in first.
pub(super) fn next_to_run(run: &mut Run<'_>, cpu: u32) -> Option<EventKind> {
    let queue = &mut run.cpus.queues[cpu as usize];
    queue.dispatching = false;
    if queue.owner.is_some() {
        return None;
    }
    let Runnable { used, event, thread, resumes, .. } = queue.runnable.pop()?;
    queue.floor = queue.floor.max(used);
    run.threads[thread as usize].in_line -= 1;
    begin(run, cpu as usize, thread, run.now);
    let Some(resumes) = resumes else { return Some(event) };
    let at = come_back(run, cpu as usize, thread, run.now, resumes);
    run.events.push(at, event);
    None
}

/// The thread gives its CPU away.
fn leave(run: &mut Run<'_>, thread: u32) {
    let state = &mut run.threads[thread as usize];
    let queue = &mut run.cpus.queues[state.cpu];
    state.away = run.cpus.host.away_from(state.cpu);
    state.used += state.away.since.saturating_sub(queue.since.0);
    queue.owner = None;
}

/// If the thread sleeps now, the next one gets the CPU.
pub(super) fn leave_cpu(run: &mut Run<'_>, thread: u32) {
    let state = &run.threads[thread as usize];
    let cpu = state.cpu;
    let runs = state.sleeps_for.is_none() && state.in_line == 0 && (state.issuing > 0 || state.reaping);
    if run.cpus.queues[cpu].owner != Some(thread) || runs || run.cpus.calls[cpu].is_some() {
        return;
    }
    leave(run, thread);
    if !run.cpus.queues[cpu].runnable.is_empty() && !run.cpus.queues[cpu].dispatching {
        dispatch_later(run, cpu);
    }
}
