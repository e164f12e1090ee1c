//! The read buffer: equal segments, each a contiguous range of sectors, replaced in LRU order.

/// A range of buffered sectors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// End of the last request that used it.
    pub(crate) last_end: u64,
    /// Whether the last request continued the one before it.
    pub(crate) sequential: bool,
    used: u64,
}

/// The segments.
#[derive(Debug)]
pub(crate) struct Buffer {
    segments: Vec<Segment>,
    size: u64,
    clock: u64,
}

impl Buffer {
    /// `size` is in sectors per segment; 0 disables the buffer.
    pub(crate) fn new(segments: u32, size: u64) -> Buffer {
        Buffer { segments: vec![Segment::default(); segments as usize], size, clock: 0 }
    }

    pub(crate) fn get(&self, index: usize) -> &Segment {
        &self.segments[index]
    }

    /// The segment that contains `lba` or ends there.
    pub(crate) fn holding(&self, lba: u64) -> Option<usize> {
        self.segments.iter().position(|s| s.start <= lba && lba <= s.end && s.end > s.start)
    }

    /// Records a request served from segment `index`.
    pub(crate) fn touch(&mut self, index: usize, lba: u64, end: u64) {
        self.clock += 1;
        let segment = &mut self.segments[index];
        segment.used = self.clock;
        segment.sequential = segment.last_end == lba;
        segment.last_end = end;
    }

    /// Records a request `lba..end` of which `from..end` was read from the media; returns its segment.
    pub(crate) fn fill(&mut self, lba: u64, from: u64, end: u64) -> usize {
        let continued = self.segments.iter().position(|s| s.end > s.start && (s.end == from || s.last_end == lba));
        let index = match continued {
            Some(index) => index,
            None => {
                let lru = self.segments.iter().enumerate().min_by_key(|(_, s)| s.used);
                lru.map_or(0, |(index, _)| index)
            }
        };
        let segment = &mut self.segments[index];
        if continued.is_none() {
            // No request starts at this sector, so the first request of a segment continues none.
            *segment = Segment { start: from, end: from, last_end: u64::MAX, ..Segment::default() };
        } else if segment.end != from {
            (segment.start, segment.end) = (from, from);
        }
        self.touch(index, lba, end);
        self.extend(index, end);
        index
    }

    /// Extends segment `index` to `end`; sectors beyond its size drop out at its start.
    pub(crate) fn extend(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.size));
    }
}
