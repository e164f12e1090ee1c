//! Depths that change at run time, and odd set-ups.

use proptest::prelude::*;

use super::*;
use crate::{Limits, TickClock};

const NOW: Nanos = Nanos::ZERO;

fn polled(layer: &mut BlockLayer) -> usize {
    std::iter::from_fn(|| layer.poll(NOW)).count()
}

#[test]
fn a_deeper_device_takes_more_at_once_and_a_shallower_one_waits_until_it_has_drained() {
    let setup = Setup { device_depth: 2, ..Setup::default() };
    let mut layer = layer(false, Config { setup, ..Config::default() });
    for n in 0..10 {
        layer.submit(NOW, read(n * 100), None);
    }
    assert_eq!(polled(&mut layer), 2);
    layer.set_device_depth(NOW, 5);
    assert_eq!((polled(&mut layer), layer.in_device()), (3, 5));
    layer.set_device_depth(NOW, 1);
    assert_eq!(polled(&mut layer), 0);
    for n in 0..5 {
        layer.complete(NOW, RequestId(n), Ok(()), &mut Vec::new());
        assert_eq!(polled(&mut layer), usize::from(n == 4), "{} are in the device", layer.in_device());
    }
}

#[test]
fn more_and_fewer_requests_are_let_into_the_scheduler() {
    let setup = Setup { nr_requests: 2, device_depth: 1, ..Setup::default() };
    let mut layer = layer(false, Config { setup, ..Config::default() });
    for n in 0..10 {
        layer.submit(NOW, read(n * 100), None);
    }
    assert_eq!(layer.ledger.inserted, 2);
    layer.set_nr_requests(NOW, 6);
    assert_eq!((layer.ledger.inserted, layer.config().setup.nr_requests), (6, 6));
    layer.set_nr_requests(NOW, 0);
    assert_eq!(layer.config().setup.nr_requests, 1);
    let mut out = Vec::new();
    while let Some(id) = layer.poll(NOW) {
        layer.complete(NOW, id, Ok(()), &mut out);
    }
    assert_eq!((out.len(), layer.tags.pools[0].used()), (10, 0));
}

#[test]
fn the_scheduler_hears_of_both_depths() {
    #[derive(Clone, Default)]
    struct Listening(Vec<Event>);
    impl Scheduler for Listening {
        fn insert(&mut self, _id: RequestId, _place: Place, _ctx: &Context<'_>) {}
        fn has_work(&self, _hw_queue: usize) -> bool {
            false
        }
        fn next(&mut self, _hw_queue: usize, _ctx: &Context<'_>) -> Next {
            Next::Empty
        }
        fn event(&mut self, event: Event, _ctx: &Context<'_>) {
            self.0.push(event);
        }
        fn describe(&self, _ctx: &Context<'_>) -> String {
            format!("{:?}", self.0)
        }
        fn clone_box(&self) -> Box<dyn Scheduler> {
            Box::new(self.clone())
        }
    }
    let mut layer = BlockLayer::new(Config::default(), Box::new(Listening::default()), Tenants::default());
    layer.set_nr_requests(NOW, 64);
    layer.set_device_depth(NOW, 9);
    let ctx = Context { now: NOW, requests: &layer.requests, tenants: &layer.tenants, busy: false };
    assert_eq!(
        layer.scheduler().describe(&ctx),
        "[DepthChanged { nr_requests: 64, device_depth: 128 }, DepthChanged { nr_requests: 64, device_depth: 9 }]"
    );
}

fn odd() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0u32), Just(1), Just(2), 3u32..100, Just(u32::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// No set-up, limit or I/O makes the layer panic, and whatever is sent drains.
    #[test]
    fn no_odd_setup_panics(
        numbers in proptest::collection::vec(odd(), 8), queues in 0u16..4, nomerges: u8, cache: (bool, bool), direct: bool,
        ios in proptest::collection::vec((0u8..6, any::<u64>(), odd(), any::<u16>(), odd(), odd()), 1..20),
    ) {
        let clock = TickClock { period: Nanos(u64::from(numbers[0])), step_at: Nanos(u64::from(numbers[1])) };
        let setup = Setup {
            clock, cpus: queues, hw_queues: queues, nr_requests: numbers[2], device_depth: numbers[3], rotational: direct,
            ..Setup::default()
        };
        let limits = Limits {
            max_sectors: numbers[4].max(1 << 20), max_discard_sectors: numbers[5].max(1 << 20), max_segments: queues,
            max_discard_segments: queues, chunk_sectors: if numbers[6] < 3 { 0 } else { numbers[6].max(1 << 24) },
            segment_bytes: if numbers[7] < 3 { numbers[7] } else { 1 << 30 },
        };
        let config = Config { setup, limits, nomerges, volatile_cache: cache.0, fua: cache.1, ..Config::default() };
        let mut layer = layer(direct, config);
        for (op, sector, sectors, flags, task, tenant) in ios {
            let op = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::SecureErase, Op::WriteZeroes][usize::from(op)];
            let (task, tenant) = (crate::TaskId(task), crate::TenantId(tenant));
            let sectors = sectors.min(1 << 16);
            let io = Io { op, sector, sectors, flags: Flags(flags), task, tenant, cpu: flags, ..Io::default() };
            layer.submit(NOW, io, None);
        }
        let mut out = Vec::new();
        while let Some(id) = layer.poll(NOW) {
            let sum: u64 = layer.parts(id).map(|part| u64::from(part.sectors)).sum();
            prop_assert!(layer.request(id).io.op == Op::Flush || sum == u64::from(layer.request(id).sectors));
            layer.complete(NOW, id, Ok(()), &mut out);
        }
        layer.finish_idle(NOW, &mut out);
        prop_assert_eq!((layer.fault(), layer.ledger.imbalance()), (None, None));
        prop_assert!(layer.requests.is_empty());
    }
}
