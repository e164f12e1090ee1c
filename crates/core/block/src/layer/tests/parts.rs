//! The I/Os of a request in sector order.

use super::*;
use crate::Limits;

/// Token, first sector, sectors and offset within the I/O.
type Shown = (u64, u64, u32, u32);

fn parts(layer: &BlockLayer, id: RequestId) -> Vec<Shown> {
    layer.parts(id).map(|p| (p.io.token, p.sector, p.sectors, p.offset)).collect()
}

fn numbered(token: u64, sector: u64) -> Io {
    Io { token, ..read(sector) }
}

/// A layer whose device, of depth 1, is busy: what comes next is queued.
fn busy(config: Config) -> BlockLayer {
    let setup = Setup { device_depth: 1, ..config.setup };
    let mut layer = layer(false, Config { setup, ..config });
    for sector in [1 << 30, 1 << 31] {
        layer.submit(Nanos::ZERO, read(sector), None);
        layer.poll(Nanos::ZERO);
    }
    layer
}

/// The parts of everything that was queued behind the first two, in order of dispatch.
fn drained(layer: &mut BlockLayer) -> Vec<Vec<Shown>> {
    let (now, mut all, mut out) = (Nanos::ZERO, Vec::new(), Vec::new());
    let first = layer.requests.iter().find(|(_, r)| r.state == crate::State::Issued).map(|(id, _)| id);
    layer.complete(now, first.unwrap(), Ok(()), &mut out);
    while let Some(id) = layer.poll(now) {
        all.push(parts(layer, id));
        layer.complete(now, id, Ok(()), &mut out);
    }
    assert_eq!(layer.ledger.imbalance(), None);
    all.split_off(1)
}

#[test]
fn back_merges_follow_in_order() {
    let mut layer = busy(Config::default());
    for (token, sector) in [(1, 100), (2, 108), (3, 116)] {
        layer.submit(Nanos::ZERO, numbered(token, sector), None);
    }
    assert_eq!(drained(&mut layer), [[(1, 100, 8, 0), (2, 108, 8, 0), (3, 116, 8, 0)]]);
}

#[test]
fn front_merges_go_before_and_a_request_that_joins_brings_its_own() {
    let mut layer = busy(Config::default());
    let mut plug = Plug::default();
    // In a plug an arrival may join at the front.
    for (token, sector) in [(1, 208), (2, 200)] {
        layer.submit(Nanos::ZERO, numbered(token, sector), Some(&mut plug));
    }
    // A request that ends where the plugged one begins is in the scheduler; unplugging joins the two.
    let mut other = Plug::default();
    for (token, sector) in [(3, 192), (4, 184)] {
        layer.submit(Nanos::ZERO, numbered(token, sector), Some(&mut other));
    }
    layer.unplug(Nanos::ZERO, &mut other);
    layer.unplug(Nanos::ZERO, &mut plug);
    assert_eq!((layer.ledger.merged_front, layer.ledger.joined), (2, 1));
    assert_eq!(drained(&mut layer), [[(4, 184, 8, 0), (3, 192, 8, 0), (2, 200, 8, 0), (1, 208, 8, 0)]]);
}

#[test]
fn pieces_know_their_offset_within_the_whole_also_when_others_join_them() {
    let limits = Limits { max_sectors: 24, ..Limits::default() };
    let mut layer = busy(Config { limits, ..Config::default() });
    layer.submit(Nanos::ZERO, Io { sectors: 60, ..numbered(7, 1000) }, None);
    layer.submit(Nanos::ZERO, numbered(8, 1060), None);
    let expected = vec![vec![(7, 1000, 24, 0)], vec![(7, 1024, 24, 24)], vec![(7, 1048, 12, 48), (8, 1060, 8, 0)]];
    assert_eq!(drained(&mut layer), expected);
}

#[test]
fn ranges_of_a_discard_are_given_one_by_one() {
    let limits = Limits { max_discard_segments: 3, ..Limits::default() };
    let mut layer = busy(Config { limits, ..Config::default() });
    for (token, sector) in [(1, 5000), (2, 80), (3, 90_000), (4, 16)] {
        layer.submit(Nanos::ZERO, Io { op: Op::Discard, ..numbered(token, sector) }, None);
    }
    let mut all = drained(&mut layer);
    assert_eq!(all.remove(0), [(1, 5000, 8, 0), (2, 80, 8, 0), (3, 90_000, 8, 0)]);
    assert_eq!(all, [[(4, 16, 8, 0)]], "a fourth range does not fit");
}

#[test]
fn a_flush_has_no_parts_and_unknown_requests_have_none_either() {
    let mut layer = layer(false, Config { volatile_cache: true, ..Config::default() });
    layer.submit(Nanos::ZERO, Io { op: Op::Flush, sectors: 0, ..read(0) }, None);
    let id = layer.poll(Nanos::ZERO).unwrap();
    assert_eq!(layer.request(id).io.op, Op::Flush);
    assert_eq!(
        (parts(&layer, id), parts(&layer, RequestId(99)), parts(&layer, RequestId::NIL)),
        (vec![], vec![], vec![])
    );
}
