//! Merging: the rules by which an I/O joins a queued request, and an index of queued requests by their end sector.
//!
//! Linux keeps the same: a hash of end sectors for back merges, and one remembered request that is tried first.

use crate::{Context, Flags, Io, Op, Request, RequestId};

/// Side at which an arrival joins a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Behind it: the arrival starts where the request ends.
    Back,
    /// Before it: the arrival ends where the request starts.
    Front,
    /// Anywhere: one more range of a multi-range discard.
    Range,
}

/// An arrival joins this request at this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// The request that grows.
    pub into: RequestId,
    /// Where it grows.
    pub side: Side,
}

/// Limits of a device on one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most sectors of a read or write.
    pub max_sectors: u32,
    /// Most sectors of a discard or secure erase.
    pub max_discard_sectors: u32,
    /// Most scatter-gather entries of a read or write.
    pub max_segments: u16,
    /// Most ranges of a discard; 1 where the device takes a single one.
    pub max_discard_segments: u16,
    /// Requests may not cross a multiple of this many sectors (RAID stripe, zone); 0 where there is none.
    pub chunk_sectors: u32,
    /// Bytes that one scatter-gather entry covers: 4096 for scattered pages, more for contiguous buffers.
    pub segment_bytes: u32,
}

impl Default for Limits {
    /// Linux's usual values: 1280 KiB, 168 segments, one discard range, 64 KiB contiguous buffers.
    fn default() -> Self {
        Limits {
            max_sectors: 2560,
            max_discard_sectors: 4_194_304,
            max_segments: 168,
            max_discard_segments: 1,
            chunk_sectors: 0,
            segment_bytes: 65_536,
        }
    }
}

impl Limits {
    /// Most sectors of one request of this operation.
    pub fn sectors(&self, op: Op) -> u32 {
        match op {
            Op::Discard | Op::SecureErase | Op::WriteZeroes => self.max_discard_sectors.max(1),
            _ => self.max_sectors.max(1),
        }
    }

    /// Scatter-gather entries of an I/O.
    pub fn segments(&self, io: &Io) -> u16 {
        if !io.op.carries_data() {
            return 1;
        }
        (u64::from(io.sectors) * 512).div_ceil(u64::from(self.segment_bytes.max(512))).min(u64::from(u16::MAX)) as u16
    }

    /// How many sectors from the front of `io` fit into one request.
    pub fn fitting(&self, io: &Io) -> u32 {
        let mut most = self.sectors(io.op);
        if io.op.carries_data() {
            let by_segments = u64::from(self.max_segments.max(1)) * u64::from(self.segment_bytes) / 512;
            most = most.min(by_segments.clamp(1, u64::from(u32::MAX)) as u32);
            if self.chunk_sectors > 0 {
                let chunk = u64::from(self.chunk_sectors);
                most = most.min((chunk - io.sector % chunk) as u32);
            }
        }
        io.sectors.min(most)
    }

    fn within_chunk(&self, first: u64, sectors: u64) -> bool {
        let chunk = u64::from(self.chunk_sectors);
        chunk == 0 || (first % chunk).saturating_add(sectors) <= chunk
    }
}

/// Marks with which a request never merges.
const UNMERGEABLE: Flags = Flags(Flags::NOMERGE.0 | Flags::PREFLUSH.0 | Flags::FUA.0);

/// Could requests of these two ever be one? Operation, marks, stream, priority and tenant must agree.
fn alike(a: &Io, b: &Io) -> bool {
    a.op == b.op
        && a.op.mergeable()
        && !a.flags.any(UNMERGEABLE)
        && !b.flags.any(UNMERGEABLE)
        && a.ioprio == b.ioprio
        && a.stream == b.stream
        && a.tenant == b.tenant
}

/// The side at which `io` touches `request`, whatever else forbids the merge.
pub fn touching(request: &Request, io: &Io, limits: &Limits) -> Option<Side> {
    if matches!(io.op, Op::Discard) && limits.max_discard_segments > 1 && request.io.op == Op::Discard {
        Some(Side::Range)
    } else if request.end() == io.sector {
        Some(Side::Back)
    } else if io.sector.checked_add(u64::from(io.sectors)) == Some(request.sector) {
        Some(Side::Front)
    } else {
        None
    }
}

/// Does `io` touch `request` at this side?
pub(crate) fn touches(request: &Request, io: &Io, side: Side, limits: &Limits) -> bool {
    match side {
        Side::Range => touching(request, io, limits) == Some(Side::Range),
        Side::Back => request.end() == io.sector,
        Side::Front => io.sector.checked_add(u64::from(io.sectors)) == Some(request.sector),
    }
}

/// May an arrival that touches this queued request be of one request with it, sizes aside?
pub fn compatible(request: &Request, io: &Io) -> bool {
    !request.sealed && alike(&request.io, io)
}

/// Would the request stay within the limits with this many sectors and segments more?
pub(crate) fn fits(request: &Request, first: u64, sectors: u32, segments: u16, limits: &Limits) -> bool {
    let total = u64::from(request.sectors) + u64::from(sectors);
    let entries = u32::from(request.segments) + u32::from(segments);
    if total > u64::from(limits.sectors(request.io.op)) {
        return false;
    }
    match request.io.op {
        Op::Discard | Op::SecureErase => {
            limits.max_discard_segments <= 1 || entries <= u32::from(limits.max_discard_segments)
        }
        _ => entries <= u32::from(limits.max_segments) && limits.within_chunk(first.min(request.sector), total),
    }
}

/// May queued `next` be appended to queued `request`, sizes aside?
pub(crate) fn joinable(request: &Request, next: &Request) -> bool {
    request.end() == next.sector && !request.sealed && !next.sealed && alike(&request.io, &next.io)
}

const EMPTY: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    key: u64,
    next: u32,
    prev: u32,
    bucket: u32,
}

const UNLINKED: Link = Link { key: 0, next: EMPTY, prev: EMPTY, bucket: EMPTY };

/// Queued requests by end sector, newest first, and the one that merged last.
#[derive(Clone)]
pub struct MergeIndex {
    heads: Vec<u32>,
    links: Vec<Link>,
    len: usize,
    cache: RequestId,
    limits: Limits,
}

impl Default for MergeIndex {
    fn default() -> Self {
        MergeIndex::new(Limits::default())
    }
}

impl MergeIndex {
    /// An empty index for a device with these limits.
    pub fn new(limits: Limits) -> MergeIndex {
        MergeIndex { heads: vec![EMPTY; 64], links: Vec::new(), len: 0, cache: RequestId::NIL, limits }
    }

    /// The device's limits on one request.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Requests in the index.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn bucket_of(&self, key: u64) -> usize {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 40) as usize & (self.heads.len() - 1)
    }

    /// Adds a request that ends at sector `end`; it becomes the remembered one if there is none.
    pub fn insert(&mut self, id: RequestId, end: u64) {
        if self.len >= self.heads.len() {
            self.grow();
        }
        self.link(id, end);
        self.len += 1;
        if self.cache == RequestId::NIL {
            self.cache = id;
        }
    }

    fn link(&mut self, id: RequestId, end: u64) {
        if id.index() >= self.links.len() {
            self.links.resize(id.index() + 1, UNLINKED);
        }
        let bucket = self.bucket_of(end);
        let next = self.heads[bucket];
        debug_assert_eq!(self.links[id.index()].bucket, EMPTY, "request {} indexed twice", id.0);
        self.links[id.index()] = Link { key: end, next, prev: EMPTY, bucket: bucket as u32 };
        if next != EMPTY {
            self.links[next as usize].prev = id.0;
        }
        self.heads[bucket] = id.0;
    }

    fn unlink(&mut self, id: RequestId) -> bool {
        let Some(link) = self.links.get(id.index()).copied().filter(|l| l.bucket != EMPTY) else {
            return false;
        };
        match link.prev {
            EMPTY => self.heads[link.bucket as usize] = link.next,
            prev => self.links[prev as usize].next = link.next,
        }
        if link.next != EMPTY {
            self.links[link.next as usize].prev = link.prev;
        }
        self.links[id.index()] = UNLINKED;
        true
    }

    /// Takes a request out, if it is in.
    pub fn remove(&mut self, id: RequestId) {
        if self.unlink(id) {
            self.len -= 1;
        }
        if self.cache == id {
            self.cache = RequestId::NIL;
        }
    }

    /// Notes that a request grew and now ends at `end`, and remembers it as the one that merged last.
    pub fn grown(&mut self, id: RequestId, end: u64) {
        if self.links.get(id.index()).is_some_and(|l| l.bucket != EMPTY && l.key != end) {
            self.unlink(id);
            self.link(id, end);
        }
        self.cache = id;
    }

    fn grow(&mut self) {
        let ids: Vec<u32> = {
            // Oldest first, so that linking again keeps the newest in front of each chain.
            let mut ids = Vec::with_capacity(self.len);
            for head in &self.heads {
                let mut at = *head;
                let start = ids.len();
                while at != EMPTY {
                    ids.push(at);
                    at = self.links[at as usize].next;
                }
                ids[start..].reverse();
            }
            ids
        };
        self.heads = vec![EMPTY; self.heads.len() * 2];
        for id in ids {
            let key = self.links[id as usize].key;
            self.links[id as usize] = UNLINKED;
            self.link(RequestId(id), key);
        }
    }

    /// The remembered request.
    pub fn cached(&self) -> Option<RequestId> {
        self.cache.some()
    }

    /// The newest compatible request that ends where `io` starts.
    pub fn ending_at(&self, io: &Io, ctx: &Context<'_>) -> Option<RequestId> {
        let mut at = self.heads[self.bucket_of(io.sector)];
        while at != EMPTY {
            let link = &self.links[at as usize];
            if link.key == io.sector && compatible(&ctx.requests[RequestId(at)], io) {
                return Some(RequestId(at));
            }
            at = link.next;
        }
        None
    }

    /// The remembered request if `io` touches it, else one that ends where `io` starts.
    pub fn lookup(&self, io: &Io, ctx: &Context<'_>) -> Option<Join> {
        self.lookup_cache(io, ctx).or_else(|| self.ending_at(io, ctx).map(|into| Join { into, side: Side::Back }))
    }

    /// The remembered request if `io` touches it at either side.
    pub fn lookup_cache(&self, io: &Io, ctx: &Context<'_>) -> Option<Join> {
        let into = self.cached()?;
        let request = &ctx.requests[into];
        let side = touching(request, io, &self.limits).filter(|_| compatible(request, io))?;
        Some(Join { into, side })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Nanos, Requests, Tenants};

    fn io(sector: u64, sectors: u32) -> Io {
        Io { sector, sectors, ..Io::default() }
    }

    #[test]
    fn newest_of_equal_ends_is_found_also_after_growth() {
        let mut requests = Requests::default();
        let tenants = Tenants::default();
        let mut index = MergeIndex::default();
        let mut last = RequestId::NIL;
        for i in 0..200u64 {
            last = requests.insert(Request::new(io(if i % 50 == 0 { 92 } else { 1000 + i * 100 }, 8), Nanos::ZERO));
            if i == 150 {
                index.insert(last, 100);
            } else {
                index.insert(last, requests[last].end());
            }
        }
        let ctx = Context { now: Nanos::ZERO, requests: &requests, tenants: &tenants, busy: false };
        assert_eq!(index.len(), 200);
        assert_eq!(index.ending_at(&io(100, 8), &ctx), Some(RequestId(150)));
        index.remove(RequestId(150));
        assert_eq!(index.ending_at(&io(100, 8), &ctx), Some(RequestId(100)));
        index.grown(last, 5_000_000);
        assert_eq!(index.ending_at(&io(5_000_000, 8), &ctx), Some(last));
        assert_eq!(index.cached(), Some(last));
    }

    #[test]
    fn priority_tenant_stream_and_flags_keep_requests_apart() {
        let r = Request::new(io(0, 8), Nanos::ZERO);
        assert!(compatible(&r, &io(8, 8)));
        for other in [
            Io { ioprio: crate::Ioprio(2 << 13), ..io(8, 8) },
            Io { tenant: crate::TenantId(1), ..io(8, 8) },
            Io { stream: 1, ..io(8, 8) },
            Io { op: Op::Write, ..io(8, 8) },
            Io { flags: Flags::FUA, ..io(8, 8) },
            Io { flags: Flags::NOMERGE, ..io(8, 8) },
        ] {
            assert!(!compatible(&r, &other), "{other:?}");
        }
    }

    #[test]
    fn size_segment_and_chunk_limits() {
        let limits =
            Limits { max_sectors: 64, max_segments: 4, segment_bytes: 4096, chunk_sectors: 128, ..Limits::default() };
        let r = Request { segments: 2, ..Request::new(io(112, 16), Nanos::ZERO) };
        assert!(!fits(&r, 128, 8, 1, &limits), "would cross the chunk at 128");
        let r = Request { segments: 2, ..Request::new(io(0, 16), Nanos::ZERO) };
        assert!(fits(&r, 16, 16, 2, &limits));
        assert!(!fits(&r, 16, 24, 3, &limits), "five segments");
        assert!(!fits(&r, 16, 56, 1, &limits), "72 sectors");
        assert_eq!(limits.fitting(&io(0, 1000)), 32);
        assert_eq!(limits.fitting(&io(120, 1000)), 8);
    }
}
