//! Rows from events: each event is matched with its request by position and state, because the kernel's events name no
//! request.

use std::collections::BTreeMap;

use crate::recording::event::{Event, Kind, text};

/// One row of a dispatch recording.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Nanoseconds since the first event.
    pub(crate) at: u64,
    pub(crate) event: &'static str,
    /// The request, 0 for none.
    pub(crate) req: u32,
    pub(crate) sector: Option<u64>,
    pub(crate) bytes: Option<i64>,
    pub(crate) op: String,
    pub(crate) flags: String,
    pub(crate) pid: Option<i32>,
    pub(crate) ioprio: Option<u16>,
    pub(crate) cpu: u16,
    /// Path of the control group; empty for the root and where it is not known.
    pub(crate) group: String,
}

/// Rows, and what could not be matched.
#[derive(Default)]
pub(crate) struct Built {
    pub(crate) rows: Vec<Row>,
    /// Events whose request is unknown.
    pub(crate) unmatched: u64,
    /// Requests without an end.
    pub(crate) unfinished: u64,
    /// Control groups, as the JSON has them; none where all was in the root group.
    pub(crate) groups: Vec<serde_json::Value>,
    /// The kernel's tick counter at times at which events of controllers tell it.
    pub(crate) jiffies: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Inserted,
    Dispatched,
    Issued,
    Requeued,
}

struct Request {
    number: u32,
    sector: u64,
    bytes: u64,
    op: String,
    flags: String,
    pid: i32,
    ioprio: Option<u16>,
    state: State,
}

impl Request {
    fn end(&self) -> u64 {
        self.sector + self.bytes / dumbwaiter_block::SECTOR_BYTES
    }
}

/// Requests in flight, by their first sector and by their end; those with the same in order of arrival.
#[derive(Default)]
struct Live {
    requests: BTreeMap<u32, Request>,
    starts: BTreeMap<(u64, String), Vec<u32>>,
    ends: BTreeMap<(u64, String), Vec<u32>>,
}

impl Live {
    fn add(&mut self, request: Request) {
        self.starts.entry((request.sector, request.op.clone())).or_default().push(request.number);
        self.ends.entry((request.end(), request.op.clone())).or_default().push(request.number);
        self.requests.insert(request.number, request);
    }

    fn take(&mut self, number: u32) -> Option<Request> {
        let request = self.requests.remove(&number)?;
        let drop_from = |map: &mut BTreeMap<(u64, String), Vec<u32>>, key: (u64, String)| {
            if let Some(all) = map.get_mut(&key) {
                all.retain(|n| *n != number);
                if all.is_empty() {
                    map.remove(&key);
                }
            }
        };
        drop_from(&mut self.starts, (request.sector, request.op.clone()));
        drop_from(&mut self.ends, (request.end(), request.op.clone()));
        Some(request)
    }

    fn among(&self, numbers: Option<&Vec<u32>>, states: &[State], not: Option<u32>) -> Option<u32> {
        let numbers = numbers?;
        let is = |n: &u32, state: State| self.requests.get(n).is_some_and(|r| r.state == state);
        states.iter().find_map(|s| numbers.iter().copied().find(|n| is(n, *s) && Some(*n) != not))
    }

    fn starting(&self, sector: u64, op: &str, states: &[State]) -> Option<u32> {
        self.among(self.starts.get(&(sector, op.to_owned())), states, None)
    }

    fn ending(&self, sector: u64, op: &str, states: &[State], not: Option<u32>) -> Option<u32> {
        self.among(self.ends.get(&(sector, op.to_owned())), states, not)
    }

    fn state(&mut self, number: Option<u32>, state: State) {
        if let Some(request) = number.and_then(|n| self.requests.get_mut(&n)) {
            request.state = state;
        }
    }
}

/// Splits the kernel's letters into operation and flags. A leading F is a flush before the operation.
fn operation(rwbs: &str) -> (String, String) {
    let (first, rest) = rwbs.split_at(rwbs.len().min(1));
    match first {
        "F" if rwbs != "FF" => {
            let (op, marks) = rest.split_at(rest.len().min(1));
            (if op.is_empty() { "F" } else { op }.into(), format!("F{marks}"))
        }
        first => (first.into(), rest.into()),
    }
}

/// The operation in a request's flags, in the kernel's letters.
pub(crate) fn operation_of(opf: u64) -> &'static str {
    match opf & 0xff {
        0 => "R",
        1 | 9 => "W",
        2 => "F",
        3 | 5 => "D",
        _ => "?",
    }
}

/// Rows of a recording, in the order of the events.
pub(crate) fn rows(events: &[Event]) -> Built {
    let mut builder = Builder::default();
    let first = events.first().map_or(0, |e| e.at);
    for e in events {
        let silent = e.kind == Kind::Choice || (e.kind == Kind::Unplug && e.number == 0);
        if !silent {
            let row = builder.row(e, e.at - first);
            builder.built.rows.push(row);
        }
    }
    builder.built.unfinished = builder.live.requests.len() as u64;
    builder.built
}

/// Turns events into rows, and follows the requests that they concern.
#[derive(Default)]
struct Builder {
    live: Live,
    built: Built,
    /// Requests so far, which number them.
    count: u32,
}

impl Builder {
    fn row(&mut self, e: &Event, at: u64) -> Row {
        let mut row = Row {
            at,
            event: e.kind.row(),
            req: 0,
            sector: None,
            bytes: None,
            op: String::new(),
            flags: String::new(),
            pid: Some(e.pid),
            ioprio: None,
            cpu: e.cpu,
            group: String::new(),
        };
        let request = match e.kind {
            Kind::Dispatch => self.dispatch(e, &mut row),
            kind if kind.has_device() && !matches!(kind, Kind::KyberAdjust | Kind::KyberThrottled) => {
                self.block_event(e, &mut row)
            }
            _ => {
                without_request(e, &mut row);
                None
            }
        };
        if let Some(known) = request.and_then(|n| self.live.requests.get(&n)) {
            row.req = known.number;
            row.pid = Some(known.pid);
            row.ioprio = known.ioprio;
        }
        if e.kind == Kind::Complete
            && let Some(number) = request
        {
            self.live.take(number);
        }
        row
    }

    /// A probe: the dispatch function returned a request or nothing.
    fn dispatch(&mut self, e: &Event, row: &mut Row) -> Option<u32> {
        if e.rq == 0 {
            row.event = "dispatch_none";
            row.pid = None;
            return None;
        }
        row.op = operation_of(e.opf).into();
        (row.sector, row.bytes) = (Some(e.sector), Some(e.bytes as i64));
        let request = self.live.starting(e.sector, &row.op, &[State::Inserted, State::Requeued, State::New]);
        self.live.state(request, State::Dispatched);
        match request.and_then(|n| self.live.requests.get(&n)) {
            Some(known) => row.flags.clone_from(&known.flags),
            None => self.built.unmatched += 1,
        }
        request
    }

    /// An event of the block layer, with place and operation.
    fn block_event(&mut self, e: &Event, row: &mut Row) -> Option<u32> {
        let (op, flags) = operation(text(&e.rwbs));
        // A flush without data has no place: all bits are set.
        row.sector = Some(e.sector).filter(|sector| *sector != u64::MAX);
        row.bytes = Some(e.bytes as i64);
        let request = match e.kind {
            Kind::Allocated => Some(self.allocate(e, &op, &flags)),
            Kind::Merge => self.absorb(e, &op, row),
            _ => self.follow(e, &op),
        };
        if row.flags.is_empty() {
            row.flags = flags;
        }
        row.op = op;
        if e.kind == Kind::Complete && e.number != 0 {
            row.flags += &format!(" error={}", e.number);
        }
        if matches!(e.kind, Kind::Insert | Kind::Issue | Kind::Complete | Kind::Requeue) {
            row.ioprio = Some(e.ioprio);
            if let Some(known) = request.and_then(|n| self.live.requests.get_mut(&n)) {
                known.ioprio = Some(e.ioprio);
            }
        }
        if request.is_none() && !matches!(e.kind, Kind::Bio | Kind::Split) {
            self.built.unmatched += 1;
        }
        request
    }

    fn allocate(&mut self, e: &Event, op: &str, flags: &str) -> u32 {
        self.count += 1;
        self.live.add(Request {
            number: self.count,
            sector: e.sector,
            bytes: e.bytes,
            op: op.into(),
            flags: flags.into(),
            pid: e.pid,
            ioprio: None,
            state: State::New,
        });
        self.count
    }

    /// The event names the request that another one, which ends where it begins, absorbs.
    fn absorb(&mut self, e: &Event, op: &str, row: &mut Row) -> Option<u32> {
        let states = [State::Inserted, State::New];
        let gone = self.live.starting(e.sector, op, &states)?;
        let into = self.live.ending(e.sector, op, &states, Some(gone))?;
        let absorbed = self.live.take(gone)?;
        row.flags = format!("absorbs={}", absorbed.number);
        grow(&mut self.live, Some(into), |r| r.bytes += absorbed.bytes)
    }

    /// The request that an event concerns, in its new state or extent.
    fn follow(&mut self, e: &Event, op: &str) -> Option<u32> {
        use State::{Dispatched, Inserted, Issued, New, Requeued};
        let live = &mut self.live;
        let (from, to): (&[State], State) = match e.kind {
            Kind::BackMerge => {
                let found = live.ending(e.sector, op, &[Inserted, New], None);
                return grow(live, found, |r| r.bytes += e.bytes);
            }
            Kind::FrontMerge => {
                let end = e.sector + e.bytes / dumbwaiter_block::SECTOR_BYTES;
                let found = live.starting(end, op, &[Inserted, New]);
                return grow(live, found, |r| (r.sector, r.bytes) = (e.sector, r.bytes + e.bytes));
            }
            Kind::Insert => (&[New, Requeued, Dispatched, Issued], Inserted),
            Kind::Issue => (&[Dispatched, New, Inserted, Requeued], Issued),
            Kind::Requeue => (&[Issued], Requeued),
            Kind::Complete => (&[Issued], Issued),
            _ => return None,
        };
        let found = live.starting(e.sector, op, from);
        live.state(found, to);
        found
    }
}

/// Events of a process's plug, of kyber's depths and of BFQ's queues.
fn without_request(e: &Event, row: &mut Row) {
    match e.kind {
        Kind::Unplug => row.bytes = Some(e.number),
        Kind::BfqExpire => {
            let [reason, service, budget, weight, raised] = e.expiry;
            row.flags = format!("reason={reason} service={service} budget={budget} weight={weight} wr={raised}");
        }
        Kind::KyberAdjust => (row.op, row.bytes) = (text(&e.rwbs).into(), Some(e.number)),
        Kind::KyberThrottled => row.op = text(&e.rwbs).into(),
        _ => {}
    }
}

fn grow(live: &mut Live, number: Option<u32>, change: impl FnOnce(&mut Request)) -> Option<u32> {
    let mut request = live.take(number?)?;
    change(&mut request);
    live.add(request);
    number
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An event at a time, with letters, sector and KiB.
    pub(crate) fn event(at: u64, kind: Kind, rwbs: &str, sector: u64, kib: u64) -> Event {
        let mut letters = [0; 16];
        letters[..rwbs.len()].copy_from_slice(rwbs.as_bytes());
        Event {
            at,
            kind,
            cpu: 0,
            pid: 10,
            dev: 0,
            sector,
            bytes: kib << 10,
            ioprio: 2 << 13 | 4,
            rwbs: letters,
            comm: [0; 16],
            number: 0,
            rq: 0,
            opf: 0,
            jiffies: 0,
            expiry: [0; 5],
        }
    }

    fn told(built: &Built) -> Vec<(&'static str, u32, i64)> {
        built.rows.iter().map(|r| (r.event, r.req, r.bytes.unwrap_or(-1))).collect()
    }

    #[test]
    fn a_request_keeps_its_number_from_allocation_to_completion() {
        let mut dispatch = event(14, Kind::Dispatch, "", 8, 8);
        dispatch.rq = 0xffff;
        let built = rows(&[
            event(10, Kind::Bio, "R", 8, 4),
            event(11, Kind::Allocated, "R", 8, 4),
            event(12, Kind::Insert, "R", 8, 4),
            event(13, Kind::BackMerge, "R", 16, 4),
            dispatch,
            event(15, Kind::Dispatch, "", 0, 0),
            event(16, Kind::Issue, "R", 8, 8),
            event(17, Kind::Complete, "R", 8, 8),
        ]);
        let expected = [
            ("bio_queue", 0, 4096),
            ("getrq", 1, 4096),
            ("rq_insert", 1, 4096),
            ("bio_backmerge", 1, 4096),
            ("dispatch", 1, 8192),
            ("dispatch_none", 0, -1),
            ("rq_issue", 1, 8192),
            ("rq_complete", 1, 8192),
        ];
        assert_eq!(told(&built), expected);
        assert_eq!((built.unmatched, built.unfinished, built.rows[7].at), (0, 0, 7));
    }

    #[test]
    fn front_merges_and_absorptions_change_where_a_request_is() {
        let built = rows(&[
            event(0, Kind::Allocated, "WS", 100, 4),
            event(1, Kind::Insert, "WS", 100, 4),
            event(2, Kind::Allocated, "WS", 116, 4),
            event(3, Kind::Insert, "WS", 116, 4),
            // Fills the hole: behind the first, which then absorbs the second.
            event(4, Kind::BackMerge, "WS", 108, 4),
            event(5, Kind::Merge, "WS", 116, 4),
            event(6, Kind::FrontMerge, "WS", 92, 4),
            event(7, Kind::Issue, "WS", 92, 16),
            event(8, Kind::Complete, "WS", 92, 16),
        ]);
        assert_eq!((built.unmatched, built.unfinished), (0, 0));
        assert_eq!(built.rows[5].flags, "absorbs=2");
        assert!(built.rows[4..].iter().all(|r| r.req == 1));
    }

    #[test]
    fn events_of_unknown_requests_are_counted() {
        let built = rows(&[event(0, Kind::Complete, "R", 5, 4), event(1, Kind::Allocated, "FWFS", 0, 4)]);
        assert_eq!((built.unmatched, built.unfinished), (1, 1));
        assert_eq!((built.rows[1].op.as_str(), built.rows[1].flags.as_str()), ("W", "FFS"));
    }
}
