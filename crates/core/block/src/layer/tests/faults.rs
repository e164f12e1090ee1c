//! Schedulers, drivers and devices that break their contract.

use super::*;
use crate::{Fault, Join, MergeIndex, Side, State};

/// A scheduler with scripted answers, whatever it holds.
#[derive(Clone, Default)]
struct Misbehaving {
    held: VecDeque<RequestId>,
    /// Given out again after they have been dispatched.
    again: Vec<RequestId>,
    wrong: Option<RequestId>,
    merges_into: Option<Join>,
    never: bool,
}

impl Scheduler for Misbehaving {
    fn traits(&self) -> Traits {
        Traits { merging: Merging::Own, ..Traits::default() }
    }

    fn insert(&mut self, id: RequestId, _place: Place, _ctx: &Context<'_>) {
        self.held.push_back(id);
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        !self.held.is_empty() || !self.again.is_empty() || self.wrong.is_some()
    }

    fn next(&mut self, _hw_queue: usize, _ctx: &Context<'_>) -> Next {
        if self.never {
            return Next::Empty;
        }
        let id = self.wrong.or_else(|| self.held.pop_front()).or_else(|| self.again.pop());
        id.map_or(Next::Empty, Next::Dispatch)
    }

    fn merge(&mut self, _io: &Io, _index: &MergeIndex, _ctx: &Context<'_>) -> Option<Join> {
        self.merges_into
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

fn over(scheduler: Misbehaving) -> BlockLayer {
    BlockLayer::new(Config::default(), Box::new(scheduler), Tenants::default())
}

const NOW: Nanos = Nanos::ZERO;

/// It is set once, and nothing is sent any more.
fn fault(layer: &mut BlockLayer) -> Fault {
    let fault = *layer.fault().expect("a fault");
    layer.submit(NOW, read(1 << 40), None);
    assert_eq!((layer.poll(NOW), layer.fault()), (None, Some(&fault)));
    fault
}

#[test]
fn a_request_that_does_not_exist_is_not_dispatched() {
    for wrong in [RequestId(7), RequestId::NIL] {
        let mut layer = over(Misbehaving { wrong: Some(wrong), ..Misbehaving::default() });
        layer.submit(NOW, read(0), None);
        assert_eq!(layer.poll(NOW), None);
        let fault = fault(&mut layer);
        assert!(matches!(fault, Fault::WrongDispatch(c) if c.id == wrong && c.state == State::Free), "{fault}");
    }
}

#[test]
fn a_request_is_not_dispatched_twice() {
    let mut layer = over(Misbehaving { again: vec![RequestId(0)], ..Misbehaving::default() });
    layer.submit(NOW, read(100), None);
    assert_eq!(layer.poll(NOW), Some(RequestId(0)));
    assert_eq!(layer.poll(NOW), None);
    let told = fault(&mut layer).to_string();
    assert_eq!(told, "the scheduler dispatched request 0 (read of 8 sectors at sector 100), which is in the device");
}

#[test]
fn an_id_that_was_given_to_another_request_is_not_dispatched_unless_it_is_queued() {
    // Request 0 completes, and its slot goes to an I/O that is in a plug: not the scheduler's to dispatch.
    let mut layer = over(Misbehaving { again: vec![RequestId(0)], ..Misbehaving::default() });
    let mut out = Vec::new();
    layer.submit(NOW, read(100), None);
    let id = layer.poll(NOW).unwrap();
    layer.complete(NOW, id, Ok(()), &mut out);
    let mut plug = Plug::default();
    layer.submit(NOW, read(200), Some(&mut plug));
    assert_eq!(plug.list, [RequestId(0)]);
    layer.event(NOW, Event::Timer);
    assert_eq!(layer.poll(NOW), None);
    let fault = fault(&mut layer);
    assert!(matches!(fault, Fault::WrongDispatch(c) if c.state == State::Plugged), "{fault}");
}

#[test]
fn a_merge_goes_only_into_a_queued_request_that_the_io_touches() {
    for (into, side) in [(1, Side::Back), (9, Side::Back), (0, Side::Front), (0, Side::Range)] {
        let join = Join { into: RequestId(into), side };
        let mut layer = over(Misbehaving { merges_into: Some(join), ..Misbehaving::default() });
        let mut plug = Plug::default();
        layer.submit(NOW, read(100), Some(&mut plug));
        layer.unplug(NOW, &mut plug);
        layer.submit(NOW, Io { flags: Flags::NOMERGE, ..read(300) }, Some(&mut plug));
        // Request 0 is queued and ends at 108, request 1 is in a plug and ends at 308.
        layer.submit(NOW, read(if into == 1 { 308 } else { 108 }), None);
        let fault = fault(&mut layer);
        assert!(matches!(fault, Fault::WrongMerge(c) if c.id == join.into), "{join:?}: {fault}");
        assert_eq!(layer.ledger.merged_back + layer.ledger.merged_front + layer.ledger.merged_ranges, 0);
    }
}

#[test]
fn a_merge_that_flags_forbid_is_only_declined() {
    let join = Join { into: RequestId(0), side: Side::Back };
    let mut layer = over(Misbehaving { merges_into: Some(join), ..Misbehaving::default() });
    layer.submit(NOW, Io { op: Op::Write, flags: Flags::NOMERGE, ..read(100) }, None);
    layer.submit(NOW, read(108), None);
    assert_eq!((layer.fault(), layer.queued()), (None, 2));
}

#[test]
fn a_driver_that_answers_a_request_that_is_not_in_the_device_is_found() {
    type Answer = fn(&mut BlockLayer, RequestId);
    let answers: [Answer; 3] = [
        |layer, id| layer.complete(NOW, id, Ok(()), &mut Vec::new()),
        |layer, id| layer.refused(NOW, id),
        |layer, id| layer.requeue(NOW, id),
    ];
    for answer in answers {
        for wrong in [RequestId(0), RequestId(1), RequestId(55), RequestId::NIL] {
            let mut layer = over(Misbehaving::default());
            layer.submit(NOW, read(0), None);
            layer.submit(NOW, read(100), None);
            let first = layer.poll(NOW).unwrap();
            layer.complete(NOW, first, Ok(()), &mut Vec::new());
            // Request 0 is done and request 1 is queued.
            answer(&mut layer, wrong);
            let fault = fault(&mut layer);
            assert!(matches!(fault, Fault::WrongCompletion(c) if c.id == wrong), "{fault}");
            assert_eq!((layer.ledger.finished, layer.ledger.completed, layer.ledger.returned), (1, 1, 0));
        }
    }
}

#[test]
fn a_device_that_refuses_for_ever_is_a_fault_after_the_limit() {
    let mut layer = layer(false, Config::default());
    layer.submit(NOW, read(0), None);
    let mut now = NOW;
    while let Some(id) = layer.poll(now) {
        layer.refused(now, id);
        now = layer.next_timer().unwrap();
        layer.timer(now);
        assert!(now < NO_PROGRESS_LIMIT + Nanos::from_secs(1), "no end");
    }
    assert!(now >= NO_PROGRESS_LIMIT, "{now} is too early");
    assert!(matches!(layer.fault(), Some(Fault::DeviceRefuses(_))), "{:?}", layer.fault());
}

#[test]
fn a_device_that_requeues_for_ever_is_a_fault_and_one_that_completes_requests_is_not() {
    for finishes in [false, true] {
        let mut layer = layer(false, Config::default());
        layer.submit(NOW, read(0), None);
        for step in 0..5000u64 {
            let now = Nanos::from_ms(step * 10);
            if finishes && step % 1000 == 0 {
                layer.submit(now, read(1000), None);
            }
            let sent: Vec<RequestId> = std::iter::from_fn(|| layer.poll(now)).collect();
            for id in sent {
                if layer.request(id).sector > 0 {
                    layer.complete(now, id, Ok(()), &mut Vec::new());
                } else {
                    layer.requeue(now, id);
                }
            }
        }
        assert_eq!(matches!(layer.fault(), Some(Fault::DeviceRefuses(_))), !finishes, "{:?}", layer.fault());
    }
}

#[test]
fn a_scheduler_that_never_sends_to_an_idle_device_is_a_fault() {
    let mut layer = over(Misbehaving { never: true, ..Misbehaving::default() });
    layer.submit(NOW, read(0), None);
    let mut now = NOW;
    while layer.fault().is_none() {
        assert_eq!(layer.poll(now), None);
        now = layer.next_timer().unwrap();
        layer.timer(now);
    }
    assert!(now >= NO_PROGRESS_LIMIT, "{now} is too early");
    assert_eq!(layer.fault(), Some(&Fault::SchedulerStalls { waiting: 1 }));
}

#[test]
fn a_driver_that_retries_a_request_that_does_not_wait_for_a_tag_is_found() {
    let setup = crate::Setup { nr_requests: 1, device_depth: 1, ..crate::Setup::default() };
    let mut layer = super::layer(false, crate::Config { setup, tasks_sleep: true, ..crate::Config::default() });
    layer.submit(crate::Nanos::ZERO, super::read(0), None);
    let id = layer.poll(crate::Nanos::ZERO).unwrap();
    layer.retry(crate::Nanos::ZERO, id, None);
    assert!(matches!(layer.fault(), Some(crate::Fault::WrongCompletion(_))), "{:?}", layer.fault());
}
