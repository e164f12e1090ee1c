//! A closed loop over vhost-user-blk: a driver in this process that answers all that is done with one kick.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dumbwaiter_protocols::vhost_user::front_end::{FrontEnd, Options};
use dumbwaiter_protocols::vhost_user::wire::{SECTOR_BYTES, request_type};

use super::{ClosedLoop, LoadReport, Requests, Signals};

/// A device that does nothing for longer is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks at a ring that is polled, between two looks at the connection, each of which is a system call.
const SPINS: u32 = 1 << 14;

pub(super) fn run(load: &ClosedLoop, socket: &Path, poll: bool, signals: Signals<'_>) -> io::Result<LoadReport> {
    // Three descriptors for each request.
    let queue_size = (3 * load.depth.max(1)).next_power_of_two().min(1024) as u16;
    let options = Options { queue_size, slot_bytes: load.block_bytes, ..Options::default() };
    let mut machine = FrontEnd::connect(socket, &options)?;
    let mut requests = Requests::new(load, machine.disk_bytes()?, u32::from(options.slots()))?;
    let kind = if load.writes { request_type::WRITE } else { request_type::READ };
    let (memory, queues) = machine.split();
    let queue = &mut queues[0];
    let mut under_way = 0;
    for _ in 0..load.depth {
        let Some(slot) = queue.take_slot() else { break };
        queue.submit(memory, slot, kind, requests.next(usize::from(slot)) / SECTOR_BYTES, load.block_bytes);
        under_way += 1;
    }
    queue.kick(memory);
    let (mut finished, mut spins) = (Vec::new(), 0u32);
    while under_way > 0 {
        queue.reap(memory, &mut finished);
        if finished.is_empty() {
            if !poll {
                queue.wait(memory, PATIENCE)?;
                continue;
            }
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(SPINS) && queue.is_cut_off() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            std::hint::spin_loop();
            continue;
        }
        let (now, stopping, before) = (Instant::now(), signals.stopping(), requests.report.ios);
        for (slot, status) in finished.drain(..) {
            requests.answered(usize::from(slot), status == 0, now);
            if stopping {
                under_way -= 1;
            } else {
                let sector = requests.next(usize::from(slot)) / SECTOR_BYTES;
                queue.submit(memory, slot, kind, sector, load.block_bytes);
            }
        }
        signals.done.fetch_add(requests.report.ios - before, Ordering::Relaxed);
        queue.kick(memory);
    }
    // A front end stops its rings before it leaves, so that nothing is in flight.
    machine.stop_ring(0)?;
    Ok(requests.report)
}
