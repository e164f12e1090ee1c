mod depth;
mod faults;
mod parts;
mod population;
mod queues;
mod replace;

use std::collections::VecDeque;

use super::*;
use crate::{Errno, Event, Finished, Flags, Next, Op, Place, Plug, Setup};

/// First in, first out, straight to the device if `direct`.
#[derive(Clone, Default)]
struct Queue {
    list: VecDeque<RequestId>,
    direct: bool,
}

impl Scheduler for Queue {
    fn traits(&self) -> Traits {
        Traits { direct: self.direct, ..Traits::default() }
    }

    fn insert(&mut self, id: RequestId, place: Place, _ctx: &Context<'_>) {
        match place {
            Place::Tail => self.list.push_back(id),
            Place::Head => self.list.push_front(id),
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        !self.list.is_empty()
    }

    fn next(&mut self, _hw_queue: usize, _ctx: &Context<'_>) -> Next {
        self.list.pop_front().map_or(Next::Empty, Next::Dispatch)
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

fn layer(direct: bool, config: Config) -> BlockLayer {
    BlockLayer::new(config, Box::new(Queue { direct, ..Queue::default() }), Tenants::default())
}

fn read(sector: u64) -> Io {
    Io { sector, sectors: 8, ..Io::default() }
}

#[test]
fn the_busy_average_rises_to_four_in_three_refusals_and_falls_to_nothing() {
    let mut layer = layer(false, Config::default());
    let mut now = Nanos::ZERO;
    layer.submit(now, read(0), None);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let id = layer.poll(now).unwrap();
        layer.refused(now, id);
        assert_eq!(layer.poll(now), None, "it is not offered again at once");
        seen.push(layer.hw[0].busy);
        now = layer.next_timer().unwrap();
        layer.timer(now);
    }
    assert_eq!(seen, [2, 3, 4]);
    for sector in 1..6 {
        layer.submit(now, read(sector * 100), None);
    }
    let falling: Vec<u32> = std::iter::from_fn(|| layer.poll(now).map(|_| layer.hw[0].busy)).collect();
    assert_eq!(falling, [3, 2, 1, 0, 0, 0]);
}

#[test]
fn what_merged_or_was_split_is_not_counted_as_waiting_beside_its_request() {
    let setup = crate::Setup { device_depth: 1, ..crate::Setup::default() };
    let mut layer = layer(false, Config { setup, ..Config::default() });
    let (now, mut out) = (Nanos::ZERO, Vec::new());
    let first = {
        layer.submit(now, read(0), None);
        layer.poll(now).unwrap()
    };
    layer.submit(now, read(800), None);
    layer.submit(now, read(808), None);
    assert_eq!((layer.queued(), layer.in_device()), (1, 1), "two I/Os in one request");
    layer.submit(now, Io { sectors: 6000, ..read(100_000) }, None);
    assert_eq!((layer.queued(), layer.in_device()), (4, 1), "and one in three pieces");
    layer.complete(now, first, Ok(()), &mut out);
    while let Some(id) = layer.poll(now) {
        layer.complete(now, id, Ok(()), &mut out);
    }
    assert_eq!((out.len(), layer.queued(), layer.in_device()), (4, 0, 0));
}

#[test]
fn tags_are_given_back_wherever_a_request_ends() {
    for direct in [false, true] {
        let mut layer = layer(direct, Config { volatile_cache: true, ..Config::default() });
        let mut plug = Plug::default();
        for (sector, flags) in [
            (0, Flags::NONE),
            (8, Flags::NONE),
            (100, Flags::FUA),
            (200, Flags::PREFLUSH),
            (300, Flags::FUA.with(Flags::PREFLUSH)),
        ] {
            layer.submit(Nanos::ZERO, Io { op: Op::Write, flags, ..read(sector) }, Some(&mut plug));
        }
        layer.submit(Nanos::ZERO, Io { op: Op::Flush, sectors: 0, ..read(0) }, Some(&mut plug));
        layer.unplug(Nanos::ZERO, &mut plug);
        let mut done = Vec::new();
        let mut failed = false;
        while let Some(id) = layer.poll(Nanos::ZERO) {
            failed = !failed;
            layer.complete(Nanos::ZERO, id, if failed { Err(Errno::EIO) } else { Ok(()) }, &mut done);
        }
        assert_eq!(done.len(), 6);
        assert_eq!(
            (layer.tags.pools[0].used(), layer.tags.drivers[0].used, layer.requests.len()),
            (0, 0, 0),
            "direct {direct}"
        );
        assert_eq!(layer.ledger.imbalance(), None);
    }
}

#[test]
fn each_hardware_queue_has_its_share_of_the_depth() {
    let setup = Setup { cpus: 2, hw_queues: 2, device_depth: 4, ..Setup::default() };
    let mut layer = layer(false, Config { setup, ..Config::default() });
    for n in 0..6u16 {
        layer.submit(Nanos::ZERO, Io { cpu: u16::from(n == 5), ..read(u64::from(n) * 100) }, None);
    }
    let queues: Vec<u16> = std::iter::from_fn(|| layer.poll(Nanos::ZERO).map(|id| layer.hw_queue(id))).collect();
    assert_eq!(queues.iter().filter(|q| **q == 0).count(), 2);
}

#[test]
fn a_failure_reaches_every_io_of_the_request_and_the_whole_of_a_split_one() {
    let limits = crate::Limits { max_sectors: 16, ..crate::Limits::default() };
    let mut layer = layer(false, Config { limits, ..Config::default() });
    let mut plug = Plug::default();
    layer.submit(Nanos(1), read(0), Some(&mut plug));
    layer.submit(Nanos(2), read(8), Some(&mut plug));
    layer.submit(Nanos(3), Io { sectors: 40, ..read(1000) }, Some(&mut plug));
    layer.unplug(Nanos(5), &mut plug);
    let mut done: Vec<Finished> = Vec::new();
    let ids: Vec<RequestId> = std::iter::from_fn(|| layer.poll(Nanos(7))).collect();
    let lengths: Vec<u32> = ids.iter().map(|id| layer.request(*id).sectors).collect();
    assert_eq!(lengths, [16, 16, 16, 8]);
    for (i, id) in ids.into_iter().enumerate() {
        layer.complete(Nanos(9), id, if i % 2 == 0 { Err(Errno(100 + i as i32)) } else { Ok(()) }, &mut done);
    }
    let reported: Vec<(u64, u32, u64, bool, Option<i32>)> = done
        .iter()
        .map(|f| (f.io.sector, f.io.sectors, f.submit.0, f.merged, f.result.err().map(|errno| errno.0)))
        .collect();
    // Of the long one's pieces the second fails, with 102.
    let expected = [(0, 8, 1, false, Some(100)), (8, 8, 2, true, Some(100)), (1000, 40, 3, false, Some(102))];
    assert_eq!(reported, expected);
    assert!(done.iter().all(|f| (f.insert, f.issue) == (Nanos(5), Nanos(7))));
    assert_eq!((layer.ledger.failed, layer.ledger.pieces, layer.ledger.merged_back), (3, 3, 1));
}

/// The single-queue layer has slots for each tenant.
#[test]
fn a_tenants_slots_are_its_own_and_none_is_lost_when_requests_join() {
    #[derive(Clone, Default)]
    struct Single(Queue);
    impl Scheduler for Single {
        fn traits(&self) -> Traits {
            Traits { single_queue: true, ..Traits::default() }
        }
        fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
            self.0.insert(id, place, ctx);
        }
        fn has_work(&self, hw_queue: usize) -> bool {
            self.0.has_work(hw_queue)
        }
        fn next(&mut self, hw_queue: usize, ctx: &Context<'_>) -> Next {
            self.0.next(hw_queue, ctx)
        }
        fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, _ctx: &Context<'_>) {
            self.0.list.retain(|id| *id != absorbed);
        }
        fn clone_box(&self) -> Box<dyn Scheduler> {
            Box::new(self.clone())
        }
    }
    let setup = crate::Setup { nr_requests: 2, ..Default::default() };
    let config = Config { setup, ..Config::default() };
    let tenants = (0..8).map(|_| crate::Tenant::default()).collect();
    let mut layer = BlockLayer::new(config, Box::new(Single::default()), tenants);
    let now = Nanos::ZERO;
    let write =
        |sector, sync: bool| Io { op: Op::Write, flags: if sync { Flags::SYNC } else { Flags::NONE }, ..read(sector) };
    let other = |sector| Io { tenant: crate::TenantId(7), ..read(sector) };
    // A synchronous write joins an asynchronous one: its slot is of another pool than the survivor's.
    let (mut first, mut second) = (Plug::default(), Plug::default());
    layer.submit(now, write(0, false), Some(&mut first));
    layer.submit(now, write(8, true), Some(&mut second));
    layer.submit(now, write(100, true), None);
    layer.submit(now, read(1000), None);
    layer.submit(now, other(2000), None);
    assert_eq!(layer.ledger().inserted, 2, "the first tenant's read has no slot, the other's has");
    layer.unplug(now, &mut first);
    layer.unplug(now, &mut second);
    assert_eq!(layer.ledger().joined, 1);
    let mut done = Vec::new();
    while let Some(id) = layer.poll(now) {
        layer.complete(now, id, Ok(()), &mut done);
    }
    let mut sectors: Vec<u64> = done.iter().map(|f| f.io.sector).collect();
    sectors.sort_unstable();
    assert_eq!(sectors, [0, 8, 100, 1000, 2000]);
    assert!(layer.requests().is_empty());
}
