//! Calls that submit, on their way through the scheduler's lock.

use super::state::Run;
use crate::events::EventKind;
use crate::host::{Arrival, Step};

/// What happens when the I/Os of a call on this CPU are in the block layer.
pub(super) fn arrive(run: &mut Run<'_>, cpu: usize, arrival: Arrival, event: EventKind) {
    match arrival {
        Arrival::At(at) => run.events.push(at, event),
        Arrival::Takes(at) => {
            run.cpus.calls[cpu] = Some(event);
            run.events.push(at, EventKind::Take(cpu as u32));
        }
    }
}

/// A CPU wants the lock.
pub(super) fn take_lock(run: &mut Run<'_>, cpu: usize) {
    let (step, hand_on) = run.cpus.host.take_lock(cpu, run.now);
    if let Some((at, drive)) = hand_on {
        run.events.push(at, EventKind::HandOn(drive));
    }
    go_on(run, cpu, step);
}

/// The lock is free, and others wait for it.
pub(super) fn hand_on(run: &mut Run<'_>, drive: u8) {
    let Some((cpu, step, next)) = run.cpus.host.hand_on_lock(drive, run.now) else { return };
    if let Some(at) = next {
        run.events.push(at, EventKind::HandOn(drive));
    }
    go_on(run, cpu, step);
}

fn go_on(run: &mut Run<'_>, cpu: usize, step: Step) {
    match step {
        Step::Takes(at) => run.events.push(at, EventKind::Take(cpu as u32)),
        Step::Sends(at) => {
            let waited = run.cpus.host.take_lock_wait(cpu);
            if let Some(event) = run.cpus.calls[cpu].take() {
                note_wait(run, &event, waited);
                run.events.push(at, event);
            }
        }
        Step::Waits => {}
    }
}

/// Each I/O of a call waited for the lock as long as the call did.
fn note_wait(run: &mut Run<'_>, event: &EventKind, waited: u64) {
    match event {
        EventKind::Issue(slot) => run.slots[*slot].lock = waited,
        EventKind::IssueBatch(thread) => {
            for slot in &run.threads[*thread as usize].prepared {
                run.slots[*slot].lock = waited;
            }
        }
        _ => {}
    }
}
