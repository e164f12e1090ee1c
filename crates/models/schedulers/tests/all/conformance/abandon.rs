//! Tasks whose submitter is gone: the device gets nothing more of theirs, and whatever remains is served as before.

use dumbwaiter_block::{
    BlockLayer, Config, Errno, Flags, Io, Ioprio, Nanos, Op, RequestId, Setup, TaskId, Tenant, Tenants,
};
use proptest::prelude::*;

use super::{make, subjects};

const TASKS: u32 = 4;
const GONE: Errno = Errno(108);

/// A layer with tasks of two tenants.
fn layer(subject: &str, draws: &[u64], rotational: bool) -> BlockLayer {
    let setup = Setup { rotational, device_depth: 3, ..Setup::default() };
    let mut tenants = Tenants::default();
    let parents = [100, 300].map(|weight| tenants.add_tenant(Tenant { weight, parent: None }));
    for task in 0..TASKS {
        tenants.add_task(parents[task as usize % 2], Ioprio::DEFAULT);
    }
    BlockLayer::new(Config { setup, ..Config::default() }, make(subject, draws, setup), tenants)
}

proptest! {
    #![proptest_config(super::cases(40))]
    #[test]
    fn what_is_left_behind_never_reaches_the_device(
        ios in prop::collection::vec((0..TASKS, 0u64..400, 1u32..4, any::<bool>()), 1..60),
        gone in prop::collection::vec(0..TASKS, 1..3),
        at in 0usize..60,
        served in 0usize..8,
        draws in prop::collection::vec(any::<u64>(), 4),
        rotational in any::<bool>(),
    ) {
        for subject in subjects() {
            let mut layer = layer(&subject, &draws, rotational);
            let (mut now, mut device, mut finished): (_, Vec<RequestId>, _) = (Nanos::ZERO, Vec::new(), Vec::new());
            let mut left = Vec::new();
            let serve = |layer: &mut BlockLayer, now: Nanos, device: &mut Vec<RequestId>, left: &[TaskId]| {
                while let Some(id) = layer.poll(now) {
                    // One that others joined is for them too.
                    let (io, alone) = (layer.request(id).io, layer.parts(id).count() <= 1);
                    assert!(!alone || !left.contains(&io.task), "{subject}: {io:?} of a task that is gone");
                    device.push(id);
                }
            };
            for (number, (task, place, eighths, write)) in ios.iter().enumerate() {
                if number == at.min(ios.len() - 1) {
                    for _ in 0..served {
                        serve(&mut layer, now, &mut device, &left);
                        if let Some(id) = device.pop() {
                            now += Nanos::from_us(50);
                            layer.complete(now, id, Ok(()), &mut finished);
                        }
                    }
                    for task in &gone {
                        left.push(TaskId(*task));
                        layer.abandon(now, TaskId(*task), GONE);
                    }
                }
                let op = if *write { Op::Write } else { Op::Read };
                let tenant = layer.tenants().task(TaskId(*task)).unwrap().tenant;
                let io = Io { op, flags: Flags::SYNC, sector: place * 8, sectors: eighths * 8, task: TaskId(*task), tenant, ..Io::default() };
                layer.submit(now, io, None);
                now += Nanos::from_us(3);
            }
            for turn in 0..100_000 {
                prop_assert!(turn < 99_999, "{subject}: it does not end");
                serve(&mut layer, now, &mut device, &left);
                layer.finish_idle(now, &mut finished);
                if let Some(id) = device.pop() {
                    now += Nanos::from_us(50);
                    layer.complete(now, id, Ok(()), &mut finished);
                } else if let Some(at) = layer.next_timer() {
                    now = now.max(at);
                    layer.timer(now);
                } else if finished.len() == ios.len() {
                    break;
                }
            }
            prop_assert_eq!(layer.ledger().imbalance(), None);
            prop_assert_eq!(layer.fault(), None);
            for done in &finished {
                prop_assert!(done.result == Ok(()) || left.contains(&done.io.task), "{}: {:?}", subject, done);
            }
        }
    }
}
