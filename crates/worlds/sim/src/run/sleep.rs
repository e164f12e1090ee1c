//! Tasks that slept until there is a request for their I/O.

use dumbwaiter_block::Nanos;

use super::cpus::{CpuWork, Resumes};
use super::queue::wake;
use super::state::Run;
use super::turns::take_turn;
use crate::events::EventKind;

/// Lets tasks run that were woken at `at` because a tag of the drive was freed or an exchange of its scheduler has ended.
pub(super) fn wake_tasks(run: &mut Run<'_>, drive: u8, at: Nanos) {
    let drive = usize::from(drive);
    while let Some(id) = run.disks.layers[drive].next_woken() {
        let slot = run.disks.layers[drive].request(id).io.token as u32;
        run.slots[slot].request = Some(id);
        resume(run, slot, at, EventKind::Retry(slot));
    }
    while let Some(token) = run.disks.layers[drive].next_entered() {
        resume(run, token as u32, at, EventKind::Entered(token as u32));
    }
}

/// The task that sleeps for the request of this slot gets a CPU.
fn resume(run: &mut Run<'_>, slot: u32, at: Nanos, event: EventKind) {
    let entry = &run.slots[slot];
    let cpu = usize::from(entry.io.cpu);
    let each = !run.threads[entry.thread as usize].mode.queues();
    if each && run.cpus.turns.exclusive && matches!(event, EventKind::Retry(_)) {
        take_turn(run, cpu, CpuWork::Resume(slot));
        return;
    }
    let later = run.cpus.host.wake_variation();
    let thread = entry.thread;
    if run.threads[thread as usize].scheduled && !entry.worker {
        let at = run.cpus.host.wakes_after_interrupt(cpu, at) + later;
        wake(run, thread, at, event, Resumes::Call);
        return;
    }
    let since = entry.worker.then_some(entry.arrived);
    let at = run.cpus.host.wakes_after_interrupt(cpu, at);
    let runs = match since {
        Some(since) => run.cpus.host.switch_in_worker(cpu, at, since),
        None => run.cpus.host.switch_in(cpu, at),
    };
    run.events.push(runs + later, event);
}
