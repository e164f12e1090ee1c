//! Sequential prefetch: detection of streams, and their contents in the read cache.

use std::collections::VecDeque;

/// Streams tracked at once; the least recently used is replaced.
const STREAMS_MAX: usize = 16;

#[derive(Debug, Default)]
struct Stream {
    /// Whether a read has continued it.
    sequential: bool,
    /// Units `from..to` in the cache or being fetched.
    from: u64,
    to: u64,
    /// Fetched batches: end unit, and the task that still fetches it.
    batches: VecDeque<(u64, Option<u32>)>,
    used: u64,
}

/// Result of a read-cache lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lookup {
    /// Whether all of the read is in the cache, or on its way there: [`Streams::awaited`] has the tasks that fetch it.
    pub(crate) cached: bool,
    /// Units to fetch for this stream.
    pub(crate) fetch: Option<Fetch>,
}

/// Units `from..to` to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub(crate) stream: usize,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// The tracked streams.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Next unit of each stream; in an array of its own, so that a miss is found quickly.
    next: [u64; STREAMS_MAX],
    streams: Vec<Stream>,
    /// Number of streams that fit into the cache.
    limit: usize,
    ahead: u64,
    capacity: u64,
    clock: u64,
    awaited: Vec<u32>,
}

impl Streams {
    /// A cache of `cache` units that reads `ahead` units of a stream; `capacity` is the device's, in units.
    pub(crate) fn new(cache: u64, ahead: u64, capacity: u64) -> Streams {
        let limit = cache.checked_div(ahead).map_or(0, |n| n.min(STREAMS_MAX as u64) as usize);
        let streams = (0..limit).map(|_| Stream::default()).collect();
        Streams { next: [u64::MAX; STREAMS_MAX], streams, limit, ahead, capacity, clock: 0, awaited: Vec::new() }
    }

    /// Looks up a read of units `from..to` and updates the streams.
    pub(crate) fn read(&mut self, from: u64, to: u64) -> Lookup {
        let none = Lookup { cached: false, fetch: None };
        self.awaited.clear();
        if self.limit == 0 {
            return none;
        }
        self.clock += 1;
        let Some(index) = self.next[..self.limit].iter().position(|next| *next == from) else {
            let lru = self.streams.iter().enumerate().min_by_key(|(_, s)| s.used).map_or(0, |(i, _)| i);
            let stream = &mut self.streams[lru];
            stream.sequential = false;
            (stream.from, stream.to, stream.used) = (to, to, self.clock);
            stream.batches.clear();
            self.next[lru] = to;
            return none;
        };
        let stream = &mut self.streams[index];
        self.next[index] = to;
        stream.used = self.clock;
        stream.sequential = true;
        let mut cached = false;
        if from >= stream.from && to <= stream.to {
            while stream.batches.front().is_some_and(|(end, _)| *end <= from) {
                stream.batches.pop_front();
            }
            cached = true;
            for (end, fetcher) in &stream.batches {
                self.awaited.extend(*fetcher);
                if *end >= to {
                    break;
                }
            }
        } else {
            (stream.from, stream.to) = (to, to);
            stream.batches.clear();
        }
        let wanted = (to + self.ahead).min(self.capacity);
        let fetch = (stream.to.saturating_sub(to) * 2 <= self.ahead && stream.to < wanted).then(|| {
            let fetch = Fetch { stream: index, from: stream.to, to: wanted };
            stream.to = wanted;
            fetch
        });
        Lookup { cached, fetch }
    }

    /// The tasks that fetch parts of the last read that was looked up.
    pub(crate) fn awaited(&self) -> &[u32] {
        &self.awaited
    }

    /// Records that a task fetches a batch.
    pub(crate) fn fetching(&mut self, fetch: Fetch, task: u32) {
        self.streams[fetch.stream].batches.push_back((fetch.to, Some(task)));
    }

    /// Records that a batch of a stream is in the cache.
    pub(crate) fn fetched(&mut self, stream: usize, task: u32) {
        let batches = &mut self.streams[stream].batches;
        if let Some(batch) = batches.iter_mut().find(|batch| batch.1 == Some(task)) {
            batch.1 = None;
        }
    }
}
