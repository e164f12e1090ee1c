//! Threads of a run: what they submit, alone or in a batch, and their ends.

use dumbwaiter_block::Event;
use dumbwaiter_scenario::load::{Change, Mode, Step};
use dumbwaiter_workloads::Want;

use super::calls::arrive;
use super::cpus::CpuWork;
use super::device::serve_all;
use super::io::Slot;
use super::state::Run;
use super::turns::{stop_polling, take_turn};
use crate::events::EventKind;

/// Starts the lowest stage with unfinished threads, unless it runs already.
pub(super) fn start_stage(run: &mut Run<'_>) {
    for (thread, at) in run.load.start_stage(run.now) {
        run.events.push(at, EventKind::Wake(thread));
    }
}

/// Lets a thread submit up to its queue depth.
pub(super) fn pump(run: &mut Run<'_>, thread: u32) {
    let state = &run.threads[thread as usize];
    if state.sleeps_for.is_some() {
        return;
    }
    let batch = state.batch;
    while run.threads[thread as usize].prepared.len() < batch {
        match run.load.next(thread, run.now) {
            Step::Submit { want, .. } => ask(run, thread, want),
            Step::Wake(at) => {
                run.events.push(at, EventKind::Wake(thread));
                break;
            }
            Step::Pause(at) => {
                run.events.push(at, EventKind::Wake(thread));
                tell_all(run, Event::WriterPaused);
                break;
            }
            Step::Wait => break,
        }
    }
    submit_prepared(run, thread);
    may_exit(run, thread);
}

/// The thread submits an I/O: it takes a slot and, alone or in a batch, the CPU.
fn ask(run: &mut Run<'_>, thread: u32, want: Want) {
    let (load, disks, cpus) = (&mut run.load, &mut run.disks, run.cpus.host.cpus());
    let (now, number, last) = (run.now, want.task, run.threads[thread as usize].drive);
    let slot = run.slots.insert_with(|slot| {
        let io = load.io(thread, now, &want, u64::from(slot), &mut disks.layers);
        let (drive, mut io) = disks.route(io, last);
        if number != 0 {
            io.cpu = (usize::from(number) % cpus) as u16;
        }
        Slot { submit: now, io, thread, task: number, drive, ..Slot::default() }
    });
    let (io, drive) = (run.slots[slot].io, run.slots[slot].drive);
    run.threads[thread as usize].drive = drive;
    let queues = run.threads[thread as usize].mode.queues();
    if queues {
        run.threads[thread as usize].prepared.push_back(slot);
    } else if run.sleeps.is_asleep(io.task) {
        run.sleeps.of(io.task).behind.push_back(slot);
    } else {
        take_turn(run, usize::from(io.cpu), CpuWork::Submit(slot));
    }
}

/// Starts a batch of a ring, unless one is being submitted.
pub(super) fn submit_prepared(run: &mut Run<'_>, thread: u32) {
    let state = &mut run.threads[thread as usize];
    if state.prepared.is_empty() || state.issuing > 0 || state.sleeps_for.is_some() || state.reaping || state.rests {
        return;
    }
    stop_polling(run, thread);
    let state = &mut run.threads[thread as usize];
    state.issuing = state.prepared.len() as u32;
    let mut more = std::mem::take(&mut state.owed);
    let mut cold = std::mem::take(&mut state.cold);
    let (aio, waits) = (matches!(state.mode, Mode::Aio { .. }), state.scheduled);
    let away = if cold { std::mem::take(&mut state.more) } else { 0 };
    if aio {
        // libaio takes the whole path for each call, and no two loops of a program take equally long.
        cold = true;
        more += run.cpus.host.loop_variation();
    }
    state.asleep = false;
    if state.moves {
        for slot in &state.prepared {
            run.slots[*slot].io.cpu = state.cpu as u16;
        }
    }
    let slots = &run.slots;
    let drive = state.prepared.front().map_or(0, |slot| slots[*slot].drive);
    let ios = state.prepared.iter().map(|slot| &slots[*slot]).map(|slot| (slot.io.op, slot.io.sectors, slot.drive));
    let cpu = state.cpu;
    let (called, arrival) = run.cpus.host.submit_batch(cpu, run.now, more, cold, ios, away, (drive, waits));
    if state.closed {
        for slot in &state.prepared {
            run.slots[*slot].submit = called;
        }
    }
    arrive(run, cpu, arrival, EventKind::IssueBatch(thread));
}

/// A change of the scenario is due.
pub(super) fn change(run: &mut Run<'_>) {
    if !run.load.is_open() {
        return;
    }
    let Some(change) = run.load.due_change(run.now) else { return };
    if let Change::Scheduler { index, .. } = change {
        run.exchanges.next_cost = run.exchanges.costs.get(index as usize).copied();
    }
    match run.load.change(
        run.now,
        change,
        &mut run.disks.layers,
        &mut run.measured.recorder,
        &mut run.exchanges.schedulers,
    ) {
        Some(thread) => may_exit(run, thread),
        None => serve_all(run),
    }
}

/// Lets the tasks of a stopped thread exit when its I/O is complete; then the next stage may start.
fn may_exit(run: &mut Run<'_>, thread: u32) {
    let Some(tasks) = run.load.exits(thread) else { return };
    for task in tasks {
        for layer in &mut run.disks.layers {
            layer.event(run.now, Event::TaskExited(*task));
        }
    }
    serve_all(run);
    start_stage(run);
}

/// Every drive's scheduler hears of an event.
fn tell_all(run: &mut Run<'_>, event: Event) {
    for layer in &mut run.disks.layers {
        layer.event(run.now, event);
    }
    serve_all(run);
}
