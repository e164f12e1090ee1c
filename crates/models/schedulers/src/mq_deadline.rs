//! `mq-deadline`: batches of one direction in ascending sector order, with soft deadlines.
//!
//! Requests wait in a sorted tree and a FIFO per class (realtime, best effort, idle) and direction. A batch goes on in
//! sector order up to `fifo_batch` requests; at its end the direction is chosen again (reads, unless writes were passed
//! over `writes_starved` times) and an expired FIFO head starts the next batch. Lower classes wait while a higher one
//! has anything queued or in the device, but not longer than `prio_aging_expire`.
//!
//! Source: Linux 4.11 to 6.18; [`Kernel`] lists where the order differs. Deliberate difference: the time of arrival is
//! stored, so that lowering an expiry does not hold back queued requests; `compat_expiry` = 1 restores the kernel's rule.

use dumbwaiter_block::{
    Context, Dir, Io, IoClass, Ioprio, Join, MergeIndex, Next, Op, Place, Replayable, RequestId, Scheduler, Setup,
    Side, TickClock, Traits, Tunable,
};

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::sorted::Sorted;
use crate::settings::{self, settings, tunables, with_defaults};

/// The kernel release whose order of dispatch to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kernel {
    /// The single-queue `deadline` of Linux up to 4.20.
    Legacy,
    /// 4.11 to 5.13: no classes; both directions' places are forgotten at each dispatch.
    V5_13,
    /// 5.14 and 5.15: classes, a lower one served as soon as nothing higher waits; no aging.
    V5_15,
    /// 5.16 to 6.4: in-flight requests hold lower classes back, and aging lets them overtake.
    V6_1,
    /// 6.5 to 6.12.60 and 6.18.1: batches go on by position, and a fresh scheduler serves writes first.
    V6_5,
    /// 6.12.117, 6.18.2 and later: one at-head list before all classes.
    V6_18,
}

impl Kernel {
    /// Reads a Linux release such as `5.15`, `6.12`, `6.18.2`, `6.1.0-18-amd64` or `6.12.117+deb12-cloud-amd64`.
    pub fn parse(release: &str) -> Option<Kernel> {
        let mut parts = release.split(['-', '+', '~', '_']).next()?.split('.');
        let mut number = || parts.next().map(|n| n.parse::<u32>().ok());
        let (major, minor, patch) = (number()??, number()??, number());
        let patch = match patch {
            Some(patch) => Some(patch?),
            None => None,
        };
        Some(match (major, minor) {
            (0..=3, _) => return None,
            (4, _) | (5, 0..=13) => Kernel::V5_13,
            (5, 14..=15) => Kernel::V5_15,
            (5, _) | (6, 0..=4) => Kernel::V6_1,
            (6, 12) if patch.is_none_or(|p| p > 60) => Kernel::V6_18,
            (6, 17) if patch.is_some_and(|p| p > 11) => Kernel::V6_18,
            (6, 18) if patch.is_none_or(|p| p >= 2) => Kernel::V6_18,
            (6, 5..=18) => Kernel::V6_5,
            _ => Kernel::V6_18,
        })
    }

    fn classes(self) -> bool {
        self >= Kernel::V5_15
    }

    /// Lower classes also wait for what a higher one has in the device, and age.
    fn aging(self) -> bool {
        self >= Kernel::V6_1
    }

    /// A batch goes on from the last start sector, not from a remembered successor.
    fn by_position(self) -> bool {
        self >= Kernel::V6_5
    }

    fn one_head_list(self) -> bool {
        !self.classes() || self == Kernel::V6_18
    }
}

const CLASSES: usize = 3;
/// Index of a class; without a class it is best effort.
fn class_of(ioprio: Ioprio) -> usize {
    match ioprio.class() {
        IoClass::Realtime => 0,
        IoClass::BestEffort | IoClass::None => 1,
        IoClass::Idle => 2,
    }
}

const MOST: i32 = i32::MAX;

settings! {
    const SETTINGS of MqDeadline;
    read_expire: "ms", 0, MOST, 500, "a read's deadline is this long after its arrival"
        => { |s| s.in_ms(s.expire_ticks[0]), |s, ms| s.expire_ticks[0] = s.in_ticks(ms) };
    write_expire: "ms", 0, MOST, 5000, "a write's deadline is this long after its arrival"
        => { |s| s.in_ms(s.expire_ticks[1]), |s, ms| s.expire_ticks[1] = s.in_ticks(ms) };
    fifo_batch: "requests", 0, MOST, 16, "requests of one direction served in sector order before deadlines are checked"
        => (fifo_batch);
    writes_starved: "batches", i32::MIN, MOST, 2,
        "read batches served while writes wait; -1 never lets writes interrupt reads"
        // As the kernel compares it: a signed setting read as unsigned.
        => { |s| (s.writes_starved as i32).into(), |s, batches| s.writes_starved = batches as i32 as u32 };
    front_merges: "bool", 0, 1, 1, "search for a request that starts where an arrival ends" => (front_merges);
    async_depth: "requests", 0, MOST, 0,
        "slots for all but reads, before 6.18 of each 64; 0: the kernel's default (nr_requests, in 5.14 to 6.4 three quarters of it)"
        => { |s| s.async_depth_of(s.nr_requests).into(), |s, slots| s.async_depth = slots as u32 };
    prio_aging_expire: "ms", 0, MOST, 10_000, "after this long a lower class is served before a higher one"
        => { |s| s.in_ms(s.aging_ticks), |s, ms| s.aging_ticks = s.in_ticks(ms) };
    compat_expiry: "bool", 0, 1, 0,
        "1: compute the time of arrival from the deadline and the current expiry, as the kernel does" => (compat_expiry);
}

/// Settings.
pub const TUNABLES: &[Tunable] = &tunables(&SETTINGS);

/// Settings of the legacy scheduler.
pub const LEGACY_TUNABLES: &[Tunable] = TUNABLES.split_at(5).0;

#[derive(Clone, Default)]
struct Class {
    sorted: [Sorted; 2],
    fifo: [List; 2],
    /// Start of the last request dispatched, per direction.
    position: [u64; 2],
    /// The remembered successor, per direction (kernels before 6.5).
    successor: [Option<RequestId>; 2],
    /// At-head requests of this class (kernels 5.14 to 6.18.1).
    head: List,
    /// Inserted and not completed.
    outstanding: u32,
}

impl Class {
    fn waits(&self, dir: usize) -> bool {
        !self.fifo[dir].is_empty()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct RequestState {
    /// In ticks.
    arrival: i64,
    /// In ticks.
    deadline: i64,
    class: u8,
    counted: bool,
    at_head: bool,
}

/// See the module documentation.
#[derive(Clone)]
pub struct MqDeadline {
    kernel: Kernel,
    clock: TickClock,
    classes: [Class; CLASSES],
    head: List,
    links: Links,
    entries: Vec<RequestState>,
    waiting: usize,
    last_dir: usize,
    batching: u32,
    starved: u32,
    expire_ticks: [i64; 2],
    aging_ticks: i64,
    fifo_batch: u32,
    writes_starved: u32,
    front_merges: bool,
    /// 0: the kernel's default.
    async_depth: u32,
    compat_expiry: bool,
    nr_requests: u32,
    /// The slots that the default `async_depth` is a part of; `None` for those that there are.
    nr_requests_at_attach: Option<u32>,
}

impl MqDeadline {
    /// An empty scheduler that follows `kernel`.
    pub fn new(setup: Setup, kernel: Kernel) -> MqDeadline {
        let made = MqDeadline {
            kernel,
            clock: setup.clock,
            classes: Default::default(),
            head: List::default(),
            links: Links::default(),
            entries: Vec::new(),
            waiting: 0,
            last_dir: if kernel.by_position() { Dir::Write as usize } else { Dir::Read as usize },
            batching: 0,
            starved: 0,
            expire_ticks: [0; 2],
            aging_ticks: 0,
            fifo_batch: 0,
            writes_starved: 0,
            front_merges: false,
            async_depth: 0,
            compat_expiry: false,
            nr_requests: setup.nr_requests,
            nr_requests_at_attach: setup.at_attach.nr_requests,
        };
        with_defaults(&SETTINGS, made)
    }

    fn index_of_class(&self, io: &Io) -> usize {
        if self.kernel.classes() { class_of(io.ioprio) } else { 1 }
    }

    fn arrival(&self, id: RequestId, dir: usize) -> i64 {
        let entry = &self.entries[id.index()];
        if self.compat_expiry { entry.deadline - self.expire_ticks[dir] } else { entry.arrival }
    }

    /// Where a batch of this direction would go on.
    fn ahead(&self, class: usize, dir: usize) -> Option<RequestId> {
        let class = &self.classes[class];
        if self.kernel.by_position() { class.sorted[dir].first_from(class.position[dir]) } else { class.successor[dir] }
    }

    /// One class's choice among requests that arrived by `cutoff`. Even without one it may have moved the batch state.
    fn choose(&mut self, class: usize, now: i64, cutoff: i64) -> Option<RequestId> {
        if !self.kernel.one_head_list()
            && let Some(id) = self.classes[class].head.front()
        {
            if self.arrival(id, Dir::Read as usize) > cutoff {
                return None;
            }
            return Some(id);
        }
        let going = if self.kernel >= Kernel::V5_15 {
            self.ahead(class, self.last_dir).map(|id| (id, self.last_dir))
        } else {
            // At most one direction has a successor.
            [Dir::Write, Dir::Read].into_iter().find_map(|d| Some((self.ahead(class, d as usize)?, d as usize)))
        };
        let (id, dir) = match going {
            Some((id, dir)) if self.batching < self.fifo_batch => (id, dir),
            _ => {
                let dir = self.direction(class)?;
                let oldest = self.classes[class].fifo[dir].front()?;
                let ahead = self.ahead(class, dir);
                let expired = self.entries[oldest.index()].deadline <= now;
                let id = ahead.filter(|_| !expired).unwrap_or(oldest);
                self.last_dir = dir;
                self.batching = 0;
                (id, dir)
            }
        };
        (self.arrival(id, dir) <= cutoff).then_some(id)
    }

    fn direction(&mut self, class: usize) -> Option<usize> {
        let [reads, writes] = [0, 1].map(|d| self.classes[class].waits(d));
        let dir = match (reads, writes) {
            (false, false) => return None,
            (true, false) => Dir::Read,
            (false, true) => Dir::Write,
            (true, true) => {
                let starved = self.starved;
                self.starved = starved.wrapping_add(1);
                if starved >= self.writes_starved { Dir::Write } else { Dir::Read }
            }
        };
        if dir == Dir::Write {
            self.starved = 0;
        }
        Some(dir as usize)
    }

    /// Takes a chosen request out of every structure.
    fn leave(&mut self, id: RequestId, class: usize, io: &Io, start: u64) {
        self.waiting -= 1;
        let dir = io.op.dir() as usize;
        if self.entries[id.index()].at_head {
            let head = if self.kernel.one_head_list() { &mut self.head } else { &mut self.classes[class].head };
            head.remove(&mut self.links, id);
            self.classes[class].position[dir] = start;
            return;
        }
        self.batching = self.batching.saturating_add(1);
        let own = &mut self.classes[class];
        if !self.kernel.by_position() {
            let successor = own.sorted[dir].next(id);
            if self.kernel < Kernel::V5_15 {
                own.successor = [None; 2];
            }
            own.successor[dir] = successor;
        }
        own.sorted[dir].remove(id);
        own.fifo[dir].remove(&mut self.links, id);
        own.position[dir] = start;
    }

    fn pick(&mut self, now: i64) -> Option<RequestId> {
        if self.kernel.one_head_list()
            && let Some(id) = self.head.front()
        {
            return Some(id);
        }
        if !self.kernel.classes() {
            return self.choose(1, now, i64::MAX);
        }
        if self.kernel.aging() {
            if self.classes.iter().filter(|c| c.outstanding > 0).count() >= 2 {
                for class in 1..CLASSES {
                    if let Some(id) = self.choose(class, now, now - self.aging_ticks) {
                        return Some(id);
                    }
                }
            }
            for class in 0..CLASSES {
                if let Some(id) = self.choose(class, now, now) {
                    return Some(id);
                }
                if self.classes[class].outstanding > 0 {
                    return None;
                }
            }
            return None;
        }
        (0..CLASSES).find_map(|class| self.choose(class, now, i64::MAX))
    }
}

impl Scheduler for MqDeadline {
    fn traits(&self) -> Traits {
        Traits { single_queue: self.kernel == Kernel::Legacy, ..Traits::default() }
    }

    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        if id.index() >= self.entries.len() {
            self.entries.resize(id.index() + 1, RequestState::default());
        }
        let request = &ctx.requests[id];
        let (class, dir) = (self.index_of_class(&request.io), request.io.op.dir() as usize);
        let now = self.clock.ticks(ctx.now);
        let entry = &mut self.entries[id.index()];
        entry.class = class as u8;
        entry.arrival = now;
        entry.at_head = place == Place::Head;
        if !entry.counted {
            entry.counted = true;
            self.classes[class].outstanding += 1;
        }
        self.waiting += 1;
        match place {
            Place::Head => {
                entry.deadline = now;
                let head = if self.kernel.one_head_list() { &mut self.head } else { &mut self.classes[class].head };
                head.push_front(&mut self.links, id);
            }
            Place::Tail => {
                entry.deadline = now + self.expire_ticks[dir];
                self.classes[class].sorted[dir].insert(id, request.sector);
                self.classes[class].fifo[dir].push_back(&mut self.links, id);
            }
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.waiting > 0
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        match self.pick(self.clock.ticks(ctx.now)) {
            Some(id) => {
                let request = &ctx.requests[id];
                self.leave(id, usize::from(self.entries[id.index()].class), &request.io, request.sector);
                Next::Dispatch(id)
            }
            None => Next::Empty,
        }
    }

    fn complete(&mut self, id: RequestId, _ctx: &Context<'_>) -> bool {
        if let Some(entry) = self.entries.get_mut(id.index()).filter(|e| e.counted) {
            entry.counted = false;
            self.classes[usize::from(entry.class)].outstanding -= 1;
        }
        false
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        if let Some(join) = index.lookup(io, ctx) {
            return Some(join);
        }
        if !self.front_merges {
            return None;
        }
        let sorted = &self.classes[self.index_of_class(io)].sorted[io.op.dir() as usize];
        let into = sorted.at(io.sector + u64::from(io.sectors))?;
        dumbwaiter_block::merge::compatible(&ctx.requests[into], io).then_some(Join { into, side: Side::Front })
    }

    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        let entry = self.entries[join.into.index()];
        if join.side == Side::Front && !entry.at_head {
            let request = &ctx.requests[join.into];
            let sorted = &mut self.classes[usize::from(entry.class)].sorted[request.io.op.dir() as usize];
            sorted.remove(join.into);
            sorted.insert(join.into, request.sector);
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let (mine, other) = (self.entries[survivor.index()], self.entries[absorbed.index()]);
        let dir = ctx.requests[absorbed].io.op.dir() as usize;
        self.waiting -= 1;
        let class = &mut self.classes[usize::from(other.class)];
        if other.deadline < mine.deadline {
            self.entries[survivor.index()].deadline = other.deadline;
            self.entries[survivor.index()].arrival = other.arrival;
            class.fifo[dir].remove(&mut self.links, survivor);
            class.fifo[dir].insert_before(&mut self.links, survivor, absorbed);
        }
        if class.successor[dir] == Some(absorbed) {
            class.successor[dir] = class.sorted[dir].next(absorbed);
        }
        class.sorted[dir].remove(absorbed);
        class.fifo[dir].remove(&mut self.links, absorbed);
        self.entries[absorbed.index()].counted = false;
        class.outstanding -= 1;
    }

    fn former(&self, id: RequestId) -> Option<RequestId> {
        self.home(id)?.previous(id)
    }

    fn latter(&self, id: RequestId) -> Option<RequestId> {
        self.home(id)?.next(id)
    }

    fn limit(&self, io: &Io, nr_requests: u32) -> u32 {
        if self.kernel == Kernel::Legacy || io.op == Op::Read {
            return nr_requests;
        }
        let depth = self.async_depth_of(nr_requests);
        if self.kernel >= Kernel::V6_18 {
            return depth.min(nr_requests);
        }
        // The limit applied to each 64 slots: 64 and more were no limit.
        nr_requests / 64 * depth.min(64) + depth.min(nr_requests % 64)
    }

    fn event(&mut self, event: dumbwaiter_block::Event, _ctx: &Context<'_>) {
        if let dumbwaiter_block::Event::DepthChanged { nr_requests, .. } = event {
            self.nr_requests = nr_requests;
            // A kernel that keeps the limits of the time of attachment keeps this one too.
            if self.nr_requests_at_attach.is_none() {
                self.async_depth = 0;
            }
        }
    }

    fn tunables(&self) -> &'static [Tunable] {
        if self.kernel == Kernel::Legacy { LEGACY_TUNABLES } else { TUNABLES }
    }

    fn get(&self, name: &str) -> Option<i128> {
        settings::get(&SETTINGS[..self.tunables().len()], self, name)
    }

    fn set(&mut self, name: &str, value: i128) {
        settings::set(&SETTINGS, self, name, value);
    }

    fn replayable(&mut self) -> Option<&mut dyn Replayable> {
        Some(self)
    }

    fn describe(&self, ctx: &Context<'_>) -> String {
        let now = self.clock.ticks(ctx.now);
        let mut text = format!(
            "tick {now}: last_dir {} batching {} starved {}\n",
            if self.last_dir == 0 { "R" } else { "W" },
            self.batching,
            self.starved
        );
        for (c, name) in ["RT", "BE", "IDLE"].iter().enumerate() {
            let class = &self.classes[c];
            for (d, dir) in ["R", "W"].iter().enumerate() {
                if class.waits(d) || class.outstanding > 0 {
                    let oldest = class.fifo[d].front().map(|id| (id.0, self.entries[id.index()].deadline));
                    let ahead = self.ahead(c, d).map(|id| (id.0, ctx.requests[id].sector));
                    text += &format!(
                        "{name} {dir}: {} waiting, {} outstanding in class, position {}, oldest (id, deadline) {oldest:?}, ahead (id, sector) {ahead:?}\n",
                        class.fifo[d].len(),
                        class.outstanding,
                        class.position[d]
                    );
                }
            }
        }
        text
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}

impl Replayable for MqDeadline {
    fn take(&mut self, id: RequestId, _hw_queue: usize, ctx: &Context<'_>) {
        let request = &ctx.requests[id];
        let dir = request.io.op.dir() as usize;
        if !self.entries[id.index()].at_head && dir != self.last_dir {
            self.last_dir = dir;
            self.batching = 0;
        }
        self.leave(id, usize::from(self.entries[id.index()].class), &request.io, request.sector);
    }
}

impl MqDeadline {
    /// `async_depth`, or the kernel's default where none was set.
    fn async_depth_of(&self, nr_requests: u32) -> u32 {
        if self.async_depth != 0 {
            return self.async_depth;
        }
        let slots = self.nr_requests_at_attach.unwrap_or(nr_requests);
        let quarters = matches!(self.kernel, Kernel::V5_15 | Kernel::V6_1);
        if quarters { (slots - slots.div_ceil(4)).max(1) } else { slots }
    }

    fn in_ticks(&self, ms: i128) -> i64 {
        self.clock.from_ms(ms.max(0) as u64)
    }

    /// Milliseconds are kept in ticks and read back so.
    fn in_ms(&self, ticks: i64) -> i128 {
        i128::from(ticks) * i128::from(self.clock.period.0) / 1_000_000
    }

    /// The tree a queued request is sorted in.
    fn home(&self, id: RequestId) -> Option<&Sorted> {
        let class = &self.classes[usize::from(self.entries.get(id.index())?.class)];
        class.sorted.iter().find(|s| s.contains(id))
    }
}
