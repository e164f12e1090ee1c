//! Invariants of a harness during and after a run.

use std::collections::BTreeMap;

use crate::{Harness, Issue, IssuedPart};
use dumbwaiter_block::{Flags, Io, Op, RequestId, State, TenantId};

use super::plan::Plan;

/// No more in the device than there may be, and nothing above the device's limits.
pub fn depths(harness: &Harness) {
    let config = harness.config();
    let setup = &config.setup;
    let per_queue = setup.queue_depth() as usize;
    let held = harness.in_device().len();
    assert!(
        held <= setup.lun_depth.unwrap_or(u32::MAX) as usize,
        "{held} commands on a device that takes {:?}",
        setup.lun_depth
    );
    assert!(!setup.shared_tags || held <= per_queue, "{held} commands of {per_queue} shared tags");
    for hw in 0..setup.hw_queues {
        let held = harness.in_device().filter(|i| i.hw_queue == hw).count();
        assert!(held <= per_queue, "{held} requests in hardware queue {hw} of depth {per_queue}");
    }
    let flushes = harness.in_device().filter(|i| i.io.op == Op::Flush).count();
    assert!(flushes <= 1, "{flushes} flushes in the device");
    for issue in harness.in_device() {
        let limits = &config.limits;
        assert!(issue.sectors <= limits.sectors(issue.io.op), "{issue:?} is longer than the device takes");
        let chunk = u64::from(limits.chunk_sectors);
        if chunk > 0 && issue.io.op.carries_data() {
            assert!(issue.sector % chunk + u64::from(issue.sectors) <= chunk, "{issue:?} crosses a chunk");
        }
    }
}

/// No more in the scheduler and in the device together than there are tags.
pub fn tags(harness: &Harness) {
    let setup = &harness.config().setup;
    let traits = harness.layer().scheduler().traits();
    if !traits.direct {
        let requests = harness.layer().requests();
        // The single-queue layer has slots for each tenant, and for asynchronous requests.
        let mut pools = BTreeMap::<(Option<TenantId>, usize), u32>::new();
        let tagged = (0..requests.capacity() as u32)
            .map(|i| &requests[RequestId(i)])
            .filter(|r| r.io.op != Op::Flush)
            .filter(|r| matches!(r.state, State::Plugged | State::Queued | State::Dispatched | State::Issued));
        for request in tagged {
            let tenant = (traits.single_queue && request.sync()).then_some(request.io.tenant);
            let one = traits.single_queue || setup.shared_tags;
            let queue = if one { 0 } else { setup.queue_map().of(request.io.cpu) };
            *pools.entry((tenant, queue)).or_default() += 1;
        }
        // Requests that `none` had admitted, as many as the device takes, stay when a scheduler with fewer tags takes over.
        let admitted =
            if harness.layer().switches().count > 0 { setup.device_depth.max(setup.hw_queues.into()) } else { 0 };
        let most = setup.nr_requests.max(admitted);
        for (pool, tagged) in pools {
            assert!(tagged <= most, "{tagged} requests of {pool:?} hold {most} slots");
        }
    }
}

/// Which requests may hold which I/Os: all of a kind.
type Kind = (Op, u16, u32, u16);

fn kind(io: &Io) -> Kind {
    (io.op, io.ioprio.0, io.tenant.0, io.stream)
}

/// How often each sector is covered, as steps.
#[derive(Default)]
struct Cover(BTreeMap<(Kind, u64), i64>);

impl Cover {
    fn add(&mut self, kind: Kind, sector: u64, sectors: u32, times: i64) {
        *self.0.entry((kind, sector)).or_default() += times;
        *self.0.entry((kind, sector + u64::from(sectors))).or_default() -= times;
    }
}

/// After the end: every I/O finished once, and the device did exactly what was asked for.
pub fn conservation(harness: &Harness, plan: &Plan) -> Result<(), String> {
    if let Some(why) = harness.layer().ledger().imbalance() {
        return Err(why);
    }
    if !harness.layer().requests().is_empty() || harness.in_device().len() > 0 {
        return Err("requests are left".into());
    }
    let all: Vec<&Io> = plan.submitted().collect();
    let mut finished = vec![0u32; all.len()];
    let by_device = harness.all_done().iter().flat_map(|d| &d.ios);
    for f in by_device.chain(harness.done_without_device()) {
        let i = f.io.token as usize;
        finished[i] += 1;
        let asked = Io { token: f.io.token, ..*all[i] };
        // Flags change on the way (FUA becomes a flush), nothing else may.
        if (Io { flags: asked.flags, ..f.io }) != asked {
            return Err(format!("asked for {asked:?}, finished {:?}", f.io));
        }
    }
    if let Some(i) = finished.iter().position(|n| *n != 1) {
        return Err(format!("I/O {i} {:?} finished {} times", all[i], finished[i]));
    }
    balance(harness)?;
    stability(harness, &all)?;
    coverage(harness, &all)?;
    ranges(harness)
}

/// The ledger's counts of merges and splits explain the number of requests that the device finished.
fn balance(harness: &Harness) -> Result<(), String> {
    let l = harness.layer().ledger();
    let parents = all_split(harness);
    let made = l.submitted - parents - harness.done_without_device().len() as u64 + l.pieces;
    let gone = l.merged_back + l.merged_front + l.merged_ranges + l.joined;
    let data = harness.all_done().iter().filter(|d| d.issue.io.op != Op::Flush).count() as u64;
    let dataless = dataless(harness);
    if made == gone + data + dataless {
        Ok(())
    } else {
        Err(format!("{made} requests made, {gone} merged, {data} finished, {dataless} were only a flush"))
    }
}

/// I/Os that went to the device in pieces.
fn all_split(harness: &Harness) -> u64 {
    let limits = &harness.config().limits;
    let ios = harness.all_done().iter().flat_map(|d| &d.ios);
    ios.filter(|f| limits.fitting(&f.io) < f.io.sectors).count() as u64
}

/// I/Os that were done with a flush alone.
fn dataless(harness: &Harness) -> u64 {
    harness.all_done().iter().flat_map(|d| &d.ios).filter(|f| f.io.op == Op::Flush).count() as u64
}

/// Where the device cannot force a write to its media, forced writes finish with a flush; one flush follows another only
/// when the first is done, and data that wants a flush before it is issued after one.
fn stability(harness: &Harness, all: &[&Io]) -> Result<(), String> {
    let config = harness.config();
    for done in harness.all_done() {
        for f in done.ios.iter().filter(|f| f.result.is_ok()) {
            let flags = all[f.io.token as usize].flags;
            let forced = config.volatile_cache && !config.fua && f.io.op != Op::Flush && flags.has(Flags::FUA);
            if forced && done.issue.io.op != Op::Flush {
                return Err(format!("{:?} finished without a flush", f.io));
            }
            let first = config.volatile_cache && f.io.op != Op::Flush && flags.has(Flags::PREFLUSH);
            let flushed = harness
                .all_done()
                .iter()
                .any(|d| d.issue.io.op == Op::Flush && d.issue.at >= f.submit && d.at <= f.issue);
            if first && !flushed {
                return Err(format!("{:?} was issued without a flush before it", f.io));
            }
        }
    }
    Ok(())
}

/// Sector by sector and kind by kind, the device was given what was asked for: no more, no less, nothing mixed.
fn coverage(harness: &Harness, all: &[&Io]) -> Result<(), String> {
    let many = harness.config().limits.max_discard_segments > 1;
    let mut cover = Cover::default();
    for io in all {
        cover.add(kind(io), io.sector, io.sectors, 1);
    }
    for done in harness.all_done() {
        let issue = &done.issue;
        if issue.io.op == Op::Flush {
            continue;
        }
        let parts = &harness.all_parts()[issue.number];
        parts_are_the_request(issue, parts, many)?;
        for part in parts {
            cover.add(kind(&issue.io), part.sector, part.sectors, -1);
        }
    }
    match cover.0.iter().find(|(_, steps)| **steps != 0) {
        Some(((kind, sector), steps)) => Err(format!("{kind:?}: coverage is off by {steps} from sector {sector} on")),
        None => Ok(()),
    }
}

/// A request's parts are pieces of what was submitted, follow each other and are together the request.
fn parts_are_the_request(issue: &Issue, parts: &[IssuedPart], many: bool) -> Result<(), String> {
    let mut at = issue.sector;
    for part in parts {
        let place = part.io.sector + u64::from(part.offset);
        let within = part.sector == place && part.offset + part.sectors <= part.io.sectors;
        let apart = many && issue.io.op == Op::Discard;
        if !within || kind(&part.io) != kind(&issue.io) || (part.sector != at && !apart) {
            return Err(format!("{issue:?} has {part:?} where sector {at} should follow"));
        }
        at += u64::from(part.sectors);
    }
    if at == issue.sector + u64::from(issue.sectors) {
        Ok(())
    } else {
        Err(format!("{issue:?} ends at {at} by its parts"))
    }
}

/// Request by request, where neither splitting nor a flush sequence parts an I/O from its request: its I/Os, in ascending
/// order, are exactly its sectors.
fn ranges(harness: &Harness) -> Result<(), String> {
    let many = harness.config().limits.max_discard_segments > 1;
    for done in harness.all_done() {
        let issue = &done.issue;
        let whole = |io: &Io| harness.config().limits.fitting(io) == io.sectors;
        if issue.io.op == Op::Flush || (many && issue.io.op == Op::Discard) || !done.ios.iter().all(|f| whole(&f.io)) {
            continue;
        }
        let mut ios: Vec<&Io> = done.ios.iter().map(|f| &f.io).collect();
        ios.sort_by_key(|io| io.sector);
        if ios.is_empty() || ios.iter().map(|io| io.sectors).sum::<u32>() < issue.sectors {
            continue; // a piece of a longer I/O is in it, or its flush is still to come
        }
        let mut at = issue.sector;
        for io in &ios {
            if io.sector != at || kind(io) != kind(&issue.io) {
                return Err(format!("{issue:?} holds {io:?} where sector {at} should follow"));
            }
            at += u64::from(io.sectors);
        }
        if at != issue.sector + u64::from(issue.sectors) {
            return Err(format!("{issue:?} ends at {at} by its I/Os"));
        }
    }
    Ok(())
}
