use dumbwaiter_block::{Op, TenantId};
use dumbwaiter_workloads::Workload;

use super::*;
use crate::load::wake_queue::WakeQueue;

const READ: Want = Want {
    op: Op::Read,
    sector: 0,
    sectors: 8,
    flags: dumbwaiter_block::Flags::NONE,
    ioprio: None,
    stream: 0,
    task: 0,
};

/// Does what it is told to, in order, and then ends.
struct Script(std::vec::IntoIter<Next>);

impl Workload for Script {
    fn next(&mut self, now: Nanos) -> Next {
        match self.0.as_slice().first() {
            // A time that has come is no reason to wait.
            Some(Next::Wait(due)) if *due <= now => {
                self.0.next();
                self.next(now)
            }
            Some(Next::Wait(due)) => Next::Wait(*due),
            _ => self.0.next().unwrap_or(Next::Done),
        }
    }
}

fn thread(steps: &[Next]) -> Thread {
    Thread { workload: Box::new(Script(Vec::from(steps).into_iter())), ..Thread::idle() }
}

fn load(threads: Vec<Thread>) -> RunningLoad {
    RunningLoad::new(threads, Vec::new(), u64::MAX)
}

fn submits(due: u64) -> Step {
    Step::Submit { want: READ, due: Nanos(due) }
}

#[test]
fn a_closed_loop_submits_up_to_its_depth_and_goes_on_after_a_completion() {
    let reads = thread(&[Next::Issue(READ); 3]);
    let mut load = load(vec![Thread { depth: 2, ..reads }]);
    assert_eq!(load.start_stage(Nanos(5)), [(0, Nanos(5))]);
    assert!(load.wakes(0, Nanos(5)) && !load.wakes(0, Nanos(5)), "a wake-up happens once");
    let steps: Vec<Step> = (0..3).map(|_| load.next(0, Nanos(5))).collect();
    assert_eq!(steps, [submits(5), submits(5), Step::Wait]);
    load.completed(0, Nanos(9), 0, Nanos(4));
    assert_eq!((load.next(0, Nanos(9)), load.next(0, Nanos(9))), (submits(9), Step::Wait));
    load.completed(0, Nanos(12), 0, Nanos(7));
    assert!(!load.is_over() && load.exits(0).is_none(), "one is under way");
    assert_eq!(load.next(0, Nanos(12)), Step::Wait);
    load.completed(0, Nanos(13), 0, Nanos(4));
    assert!(load.is_over() && load.exits(0).is_some() && load.exits(0).is_none(), "tasks exit once");
    assert_eq!(load.issued_late(), 0, "a closed loop is never late");
}

#[test]
fn an_open_loop_counts_from_when_its_i_o_was_due() {
    let at = |ns| Next::Wait(Nanos(ns));
    let steps = [at(10), Next::Issue(READ), at(20), Next::Issue(READ), at(30), Next::Issue(READ), Next::Issue(READ)];
    let mut load = load(vec![Thread { closed: false, depth: 2, ..thread(&steps) }]);
    load.start_stage(Nanos::ZERO);
    load.wakes(0, Nanos::ZERO);
    assert_eq!(load.next(0, Nanos::ZERO), Step::Wake(Nanos(10)));
    assert!(load.wakes(0, Nanos(24)));
    assert_eq!((load.next(0, Nanos(24)), load.next(0, Nanos(24))), (submits(10), submits(20)), "polled late");
    load.completed(0, Nanos(26), 0, Nanos(16));
    assert_eq!(load.next(0, Nanos(26)), Step::Wake(Nanos(30)));
    assert!(load.wakes(0, Nanos(30)));
    assert_eq!((load.next(0, Nanos(30)), load.next(0, Nanos(30))), (submits(30), Step::Wait), "the depth is exhausted");
    load.completed(0, Nanos(40), 0, Nanos(20));
    assert_eq!(load.next(0, Nanos(40)), submits(40), "a late one counts from when it is submitted");
    assert_eq!(load.issued_late(), 1);
}

#[test]
fn a_stage_starts_when_all_threads_of_lower_ones_have_ended() {
    let of = |stage, start| Thread { stage, start: Nanos(start), ..thread(&[Next::Issue(READ)]) };
    let flusher = Thread { background: true, ..thread(&[Next::Blocked]) };
    let mut load = load(vec![of(1, 0), of(0, 0), of(0, 30), flusher]);
    assert_eq!(load.start_stage(Nanos(2)), [(1, Nanos(2)), (2, Nanos(30)), (3, Nanos(2))]);
    for thread in [1, 2] {
        assert_eq!(load.start_stage(Nanos(40)), [], "it runs already");
        assert_eq!((load.next(thread, Nanos(40)), load.next(thread, Nanos(40))), (submits(40), Step::Wait));
        load.completed(thread, Nanos(50), 0, Nanos(10));
        assert_eq!(load.next(thread, Nanos(50)), Step::Wait);
        assert_eq!(load.exits(thread).map(<[TaskId]>::len), Some(1));
    }
    assert_eq!(load.start_stage(Nanos(50)), [(0, Nanos(50))], "the background thread goes on");
}

#[test]
fn a_refused_closed_loop_submits_nothing_while_it_is_elsewhere() {
    let reads = || Thread { deadline: Some(Nanos(100)), depth: 2, ..thread(&[Next::Issue(READ); 3]) };
    let mut load = load(vec![reads(), Thread { closed: false, ..reads() }]);
    for thread in [0, 1] {
        assert_eq!(load.next(thread, Nanos(1)), submits(if thread == 0 { 1 } else { 0 }));
        load.refused(thread, Nanos(10));
        load.completed(thread, Nanos(10), 0, Nanos(9));
    }
    assert_eq!(load.next(0, Nanos(10)), Step::Wake(Nanos(110)));
    assert_eq!(load.next(0, Nanos(50)), Step::Wait, "its wake-up is set");
    assert!(load.wakes(0, Nanos(110)));
    assert_eq!(load.next(0, Nanos(110)), submits(110));
    assert!(matches!(load.next(1, Nanos(10)), Step::Submit { .. }), "an open loop does not wait");
}

#[test]
fn a_stopped_thread_a_number_of_i_os_and_the_end_leave_nothing_to_submit() {
    let reads = || Thread { depth: 8, ..thread(&[Next::Issue(READ); 8]) };
    let stop = (Nanos(7), Change::Stop { thread: 0 });
    let mut load = RunningLoad::new(vec![reads(), reads()], vec![stop.clone()], 3);
    assert_eq!((load.next(0, Nanos(1)), load.next(1, Nanos(1))), (submits(1), submits(1)));
    assert_eq!((load.next_change(), load.due_change(Nanos(6))), (Some(Nanos(7)), None));
    assert_eq!(load.due_change(Nanos(7)), Some(stop.1));
    assert!(load.stop(0) && !load.stop(0), "stopped once");
    assert_eq!(load.next(0, Nanos(8)), Step::Wait);
    assert!(load.exits(0).is_none(), "its I/O is under way");
    load.completed(0, Nanos(9), 0, Nanos(8));
    assert!(load.exits(0).is_some());
    assert!(matches!(load.next(1, Nanos(9)), Step::Submit { .. }));
    assert_eq!(load.next(1, Nanos(9)), Step::Wait, "three in all");
    load.completed(1, Nanos(9), 0, Nanos(8));
    load.completed(1, Nanos(9), 0, Nanos(8));
    assert!(load.is_over());
}

#[test]
fn threads_become_ready_in_the_order_of_their_wake_ups_and_once() {
    let of = |start| Thread { start: Nanos(start), tenant: TenantId(0), ..thread(&[Next::Blocked]) };
    let (mut load, mut wakes) = (load(vec![of(9), of(4), of(0)]), WakeQueue::default());
    wakes.start_stage(&mut load, Nanos(2));
    assert_eq!((wakes.next_ready(), wakes.next_ready()), (Some(2), None));
    assert_eq!(wakes.next_wake(&load), Some(Nanos(4)));
    wakes.make_due_ready(&mut load, Nanos(9));
    wakes.make_ready(1);
    assert_eq!((wakes.next_ready(), wakes.next_ready(), wakes.next_ready()), (Some(1), Some(0), None));
    assert_eq!((wakes.next_wake(&load), wakes.has_ready()), (None, false));
}
