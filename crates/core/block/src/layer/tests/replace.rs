//! Exchange of the scheduler.

use super::*;
use crate::Handover;

const NOW: Nanos = Nanos::ZERO;

/// Last in, first out: another order than the queue's.
#[derive(Clone, Default)]
struct Stack(Queue);

impl Scheduler for Stack {
    fn insert(&mut self, id: RequestId, _place: Place, _ctx: &Context<'_>) {
        self.0.list.push_front(id);
    }
    fn has_work(&self, hw_queue: usize) -> bool {
        self.0.has_work(hw_queue)
    }
    fn next(&mut self, hw_queue: usize, ctx: &Context<'_>) -> Next {
        self.0.next(hw_queue, ctx)
    }
    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        assert!(ctx.requests[id].sector >= 1000, "request {} was sent by the scheduler before", id.0);
        false
    }
    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

/// Two requests of sectors below 1000 in the device and one picked ahead; four more are queued.
fn loaded(direct: bool) -> BlockLayer {
    let setup = Setup { device_depth: 2, ..Setup::default() };
    let mut layer = layer(direct, Config { setup, ..Config::default() });
    for n in 0..2 {
        layer.submit(NOW, read(n * 100), None);
        assert!(layer.poll(NOW).is_some());
    }
    layer.submit(NOW, read(300), None);
    assert_eq!(layer.poll(NOW), None);
    for n in 0..4 {
        layer.submit(NOW, read(1000 + n * 100), None);
    }
    layer
}

/// Sectors in the order in which the device takes them, each time it finishes the oldest.
fn drained(layer: &mut BlockLayer, now: Nanos) -> Vec<u64> {
    let mut device: VecDeque<RequestId> =
        layer.requests.iter().filter(|(_, r)| r.state == crate::State::Issued).map(|(id, _)| id).collect();
    let (mut taken, mut out) = (Vec::new(), Vec::new());
    loop {
        while let Some(id) = layer.poll(now) {
            taken.push(layer.request(id).sector);
            device.push_back(id);
        }
        let Some(id) = device.pop_front() else { break };
        layer.complete(now, id, Ok(()), &mut out);
    }
    assert_eq!((layer.ledger.imbalance(), layer.fault(), layer.queued()), (None, None, 0));
    taken
}

#[test]
fn a_live_exchange_hands_the_queue_over_in_order_of_arrival_and_the_device_stays_busy() {
    let mut layer = loaded(false);
    layer.replace(NOW, Box::new(Stack::default()), Handover::Live);
    assert_eq!((layer.in_device(), layer.switches()), (2, Switches { count: 1, pause: NOW }));
    layer.submit(NOW, read(1900), None);
    // The old scheduler's pick goes first; then the newest of the requests handed over in order of arrival.
    assert_eq!(drained(&mut layer, NOW), [300, 1900, 1300, 1200, 1100, 1000]);
}

#[test]
fn a_freeze_drains_what_was_submitted_before_and_holds_back_the_rest() {
    let mut layer = loaded(false);
    layer.replace(NOW, Box::new(Stack::default()), Handover::Freeze);
    assert!(layer.freezing());
    for sector in [2000, 2100] {
        layer.submit(Nanos(5), read(sector), None);
    }
    assert_eq!(layer.queued(), 7, "five in the old scheduler or picked by it, two held back");
    assert_eq!(drained(&mut layer, Nanos(9)), [300, 1000, 1100, 1200, 1300, 2100, 2000]);
    assert!(!layer.freezing());
    assert_eq!(layer.switches(), Switches { count: 1, pause: NOW }, "the last was sent in the moment it ended");
}

#[test]
fn the_pause_of_a_freeze_is_the_time_in_which_io_waited_and_none_was_sent() {
    let mut layer = layer(false, Config::default());
    let mut out = Vec::new();
    layer.submit(Nanos(10), read(0), None);
    let id = layer.poll(Nanos(20)).unwrap();
    layer.replace(Nanos(30), Box::new(Stack::default()), Handover::Freeze);
    layer.submit(Nanos(50), read(1000), None);
    assert_eq!(layer.poll(Nanos(60)), None);
    layer.complete(Nanos(90), id, Ok(()), &mut out);
    assert_eq!(layer.switches(), Switches { count: 1, pause: Nanos(40) });
    let id = layer.poll(Nanos(90)).unwrap();
    layer.complete(Nanos(100), id, Ok(()), &mut out);
    assert_eq!((out[1].submit, out[1].insert), (Nanos(50), Nanos(90)), "the time held back is part of its latency");
    // Nothing waits: an exchange at once, and no pause.
    layer.replace(Nanos(200), Box::new(Stack::default()), Handover::Freeze);
    assert_eq!(layer.switches(), Switches { count: 2, pause: Nanos(40) });
}

#[test]
fn a_freeze_waits_for_plugs_and_lets_flushes_with_nothing_to_flush_pass() {
    let mut layer = layer(false, Config::default());
    let mut plug = Plug::default();
    let mut out = Vec::new();
    layer.submit(NOW, read(0), Some(&mut plug));
    layer.replace(NOW, Box::new(Stack::default()), Handover::Freeze);
    layer.submit(NOW, Io { op: Op::Flush, sectors: 0, ..read(0) }, None);
    layer.finish_idle(NOW, &mut out);
    assert_eq!((out.len(), layer.freezing()), (1, true));
    // A task that is held back sleeps, and its plug goes first.
    layer.submit(NOW, read(1000), Some(&mut plug));
    assert!(plug.is_empty() && layer.freezing());
    assert_eq!(drained(&mut layer, NOW), [0, 1000]);
}

#[test]
fn a_later_exchange_takes_the_place_of_one_that_waits() {
    let mut layer = loaded(false);
    layer.replace(NOW, Box::new(Queue::default()), Handover::Freeze);
    layer.submit(NOW, read(2000), None);
    layer.replace(NOW, Box::new(Stack::default()), Handover::Live);
    assert_eq!((layer.freezing(), layer.switches().count), (false, 1));
    assert_eq!(drained(&mut layer, NOW), [300, 2000, 1300, 1200, 1100, 1000]);
}

#[test]
fn schedulers_with_and_without_tags_of_their_own_exchange_and_no_tag_is_lost() {
    for (from, to) in [(false, true), (true, false), (true, true)] {
        let mut layer = loaded(from);
        let next = Queue { direct: to, ..Queue::default() };
        layer.replace(NOW, Box::new(next.clone()), Handover::Live);
        layer.submit(NOW, read(1900), None);
        assert_eq!(layer.in_device(), 2);
        assert_eq!(drained(&mut layer, NOW), [300, 1000, 1100, 1200, 1300, 1900], "from direct {from} to {to}");
        assert_eq!((layer.tags.pools[0].used(), layer.tags.drivers[0].used, layer.tags.drivers[0].awaiting), (0, 0, 0));
    }
}

/// A request that went before others goes before them under the new scheduler too.
#[test]
fn requests_given_back_stay_at_the_head() {
    let mut layer = loaded(false);
    layer.requeue(NOW, RequestId(1));
    layer.replace(NOW, Box::new(Queue::default()), Handover::Live);
    assert_eq!(drained(&mut layer, NOW), [300, 100, 1000, 1100, 1200, 1300]);
}
