//! `headway`: proportional shares by weight without exclusive service, and quick starts; ours.
//!
//! Tenants, nested ones and the tasks in them are served by start-time fair queueing: at each level the one with the smallest
//! virtual time goes next, and its time advances by what it used over its weight: sectors on flash, device time on a disk.
//! Nobody owns the device: requests of all are in it together, as deep as shares allow. Three things bend that rule:
//!
//! - **Depth.** A tenant that cannot keep a backlog (few requests at a time) falls behind its share because the others fill
//!   the device. Then, and only then, the depth that all share shrinks, and at the bottom the device waits for that tenant's
//!   next request. When nobody is behind, the depth grows back.
//! - **Holds.** On a disk, for a short while, one task may have it that reads on in one place or has much to sweep, since two such
//!   streams side by side are all seeks. The disk waits a little for the holder's next request.
//! - **Fresh tasks**, which start or had been quiet for seconds, weigh a hundred times as much within their tenant until they have
//!   moved a program's worth of data, and their place in the order is kept while they think for a moment.
//!
//! On flash, reads and writes go in batches, since a device that turns between them does less of both.
//!
//! Bound: between two siblings with a backlog, service over weight differs by at most one largest request of each, plus what is
//! in the device, plus one hold. Where it loses: a tenant with a high weight that thinks longer than our patience does not get
//! its share, and a crowd of tasks that are all fresh gains nothing by it.

use dumbwaiter_block::{
    Context, Dir, Event, Flags, IoClass, Ioprio, Nanos, Next, Place, RequestId, Scheduler, Setup, Tunable,
};

use crate::mechanisms::list::{Links, List};
use crate::mechanisms::ordered::{Forest, Tree, later};

/// Fractions of the whole are counted in this many parts.
const WHOLE: u64 = 1 << 24;
/// Weight of a task of the middle priority, and of a tenant where nothing is said.
const WEIGHT: u64 = 100;
/// Virtual time of a sector at [`WEIGHT`], on flash.
const SECTOR: u64 = 1 << 16;
/// Virtual time of a nanosecond at [`WEIGHT`], on disks.
const NANOSECOND: u64 = 1 << 4;
/// What may be caught up after a queue was empty for a moment: 2 MiB on flash, 50 ms on a disk.
const CREDIT: [u64; 2] = [4096 * SECTOR, 50_000_000 * NANOSECOND];
/// Completions between two looks at the shares, or one for each tenant if those are more.
const WINDOW: u32 = 32;
/// A tenant is behind that is owed more than this virtual time: 128 KiB at [`WEIGHT`], 4 ms on a disk.
const LAG: u64 = 256 * SECTOR;
/// A tenant is behind that got less than this of what the best served got, in percent.
const BEHIND_PERCENT: u64 = 97;
/// A tenant wants more if it had something outstanding for so much of the time, in percent.
const HUNGRY_PERCENT: u64 = 75;
/// How far, in virtual time, a batch may reach past whose turn it is: 256 KiB at [`WEIGHT`]...
const SLACK: u64 = 512 * SECTOR;
/// ...and past how many.
const CANDIDATES: u32 = 4;
/// How much more a fresh task weighs.
const FRESH_WEIGHT: u64 = 100;
/// A task is fresh until it has moved so many sectors (64 MiB)...
const FRESH_SECTORS: u64 = 131_072;
/// ...or for so long...
const FRESH_TIME: Nanos = Nanos::from_secs(15);
/// ...and again after being quiet for so long.
const QUIET: Nanos = Nanos::from_secs(2);
/// One with more outstanding is a machine's work, not a person's.
const FRESH_OUTSTANDING: u32 = 4;
/// So many that become fresh, each so soon after the one before, are a crowd (a service that starts its workers); none of them is.
const CROWD: usize = 8;
/// See [`CROWD`].
const TOGETHER: Nanos = Nanos::from_ms(180);
/// A disk's task with so many requests waiting may hold it.
const SWEEP: u32 = 8;
/// Until when a full device is left alone; its completions end that sooner.
const FULL: Nanos = Nanos::from_ms(100);
/// Sectors between two requests that still count as one place.
const NEAR: u64 = 2048;

/// Somebody who gets service: the whole, a tenant, a task, or a tenant's writeback.
#[derive(Clone)]
struct Entity {
    /// Whose part it is.
    parent: u32,
    /// Virtual time at which its next request starts, among its siblings.
    time: u64,
    weight: u64,
    /// Waits among its siblings.
    queued: bool,
    /// Those in it that wait, by time.
    ready: Tree,
    /// Time of the last of those that was served in its turn.
    clock: u64,
    known: bool,
}

impl Default for Entity {
    fn default() -> Self {
        Entity { parent: ROOT, time: 0, weight: WEIGHT, queued: false, ready: Tree::default(), clock: 0, known: false }
    }
}

/// What a task, or a tenant's writeback, has waiting.
#[derive(Clone, Default)]
struct Flow {
    /// At the head of everything, then reads and writes in order of arrival (flash).
    head: List,
    lists: [List; 2],
    /// By sector (disks).
    sorted: Tree,
    waiting: u32,
    outstanding: u32,
    in_device: u32,
    /// Of them, those that somebody waits for.
    waited_for: u32,
    /// Where its last request ended, and how often the last ones began near there, of 8.
    position: u64,
    near: u8,
    /// Device time of one request, on a disk.
    estimate: u64,
    last_seen: Nanos,
    fresh_since: Nanos,
    /// Sectors for which it stays fresh.
    fresh: u64,
}

impl Flow {
    fn streams(&self) -> bool {
        self.near.count_ones() >= 4
    }
}

/// Where a request waits.
#[derive(Clone, Copy, Default)]
enum At {
    #[default]
    Head,
    List(Dir),
    Sorted,
}

/// A tenant's part of the last window.
#[derive(Clone, Default)]
struct Account {
    /// Part of the whole that its weight entitles it to.
    share: u64,
    in_device: u32,
    waiting: u32,
    /// Used since the last look.
    served: u64,
    /// Requests it has here and in the device.
    outstanding: u32,
    /// Since when it has any.
    busy_since: Nanos,
    /// How long it had any since the last look.
    busy: Nanos,
    /// When it last had something again, it was owed more than [`LAG`].
    lags: bool,
    /// It got less than its share at the last look though it nearly always had something outstanding.
    behind: bool,
    last_seen: Nanos,
}

/// Whose the device is for a while.
#[derive(Clone, Copy)]
struct Hold {
    /// A flow's or, if it is to get its share, a tenant's entity.
    who: u32,
    /// From then on a fresh task may end it.
    firm_until: Nanos,
    /// It is over at the latest then.
    ends: Nanos,
    /// It is over then, unless the holder has something.
    idle_until: Nanos,
}

/// What a place that is kept means.
enum Kept {
    /// Nothing: others may go.
    Nothing,
    /// It is this flow's turn.
    Serve(u32),
    /// It would be, but it has nothing waiting yet.
    Wait(Nanos),
}

const ROOT: u32 = 0;

fn tenant_entity(tenant: u32) -> u32 {
    1 + 3 * tenant
}

fn task_entity(task: u32) -> u32 {
    2 + 3 * task
}

fn writeback_entity(tenant: u32) -> u32 {
    3 + 3 * tenant
}

/// Weight of a task among those of its tenant.
fn weight_of(ioprio: Ioprio) -> u64 {
    match ioprio.class() {
        IoClass::Realtime => 16 * WEIGHT,
        IoClass::Idle => WEIGHT / 16,
        _ => (8 - u64::from(ioprio.level())) * WEIGHT / 4,
    }
}

/// Its settings.
pub const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "slice_us",
        unit: "us",
        min: 0,
        max: 1_000_000,
        default: 100_000,
        help: "longest hold of one task; 0 is no holds",
    },
    Tunable {
        name: "patience_us",
        unit: "us",
        min: 0,
        max: 100_000,
        default: 8_000,
        help: "how long a disk waits for the next request of who holds it",
    },
    Tunable {
        name: "flash_patience_us",
        unit: "us",
        min: 0,
        max: 100_000,
        default: 500,
        help: "how long flash waits for the next request of who holds it or is behind",
    },
    Tunable {
        name: "batch",
        unit: "requests",
        min: 1,
        max: 1024,
        default: 64,
        help: "reads or writes in a row on flash, where both wait",
    },
    Tunable {
        name: "low_latency",
        unit: "0 or 1",
        min: 0,
        max: 1,
        default: 1,
        help: "prefer fresh tasks within their tenant",
    },
    Tunable {
        name: "follow_shares",
        unit: "0 or 1",
        min: 0,
        max: 1,
        default: 1,
        help: "let the depth shrink while a tenant is behind its share",
    },
];

/// See the module's text.
#[derive(Clone)]
pub struct Headway {
    settings: [u64; TUNABLES.len()],
    entities: Vec<Entity>,
    flows: Vec<Flow>,
    accounts: Vec<Account>,
    /// By [`RequestId`]: whose it is, and where it waits.
    slots: Vec<(u32, At)>,
    /// The `ready` trees.
    ready: Forest,
    /// The `sorted` trees.
    sorted: Forest,
    links: Links,
    rotational: bool,
    max_depth: u32,
    depth: u32,
    in_device: u32,
    waiting: u32,
    hold: Option<Hold>,
    /// A fresh task for whose next request a place in the order is kept, and until when at the latest.
    kept: Option<(u32, Nanos)>,
    /// Direction of the batch under way, and its length.
    turn: Dir,
    batch: u64,
    completions: u32,
    looked_at: Nanos,
    last_completion: Nanos,
    shares_known: bool,
    /// The last that became fresh one soon after the other, and when the last did.
    crowd: [u32; CROWD],
    gathered: usize,
    gathered_at: Nanos,
    /// Sum of the shares of tenants that had something outstanding in the last window.
    active: u64,
}

impl Headway {
    /// An empty one.
    pub fn new(setup: Setup) -> Headway {
        let max_depth = setup.device_depth.max(1);
        Headway {
            settings: std::array::from_fn(|i| TUNABLES[i].default as u64),
            entities: vec![Entity { known: true, ..Entity::default() }],
            flows: vec![Flow::default()],
            accounts: Vec::new(),
            slots: Vec::new(),
            ready: Forest::default(),
            sorted: Forest::default(),
            links: Links::default(),
            rotational: setup.rotational,
            max_depth,
            depth: max_depth,
            in_device: 0,
            waiting: 0,
            hold: None,
            kept: None,
            turn: Dir::Read,
            batch: 0,
            completions: 0,
            looked_at: Nanos::ZERO,
            last_completion: Nanos::ZERO,
            shares_known: false,
            crowd: [ROOT; CROWD],
            gathered: 0,
            gathered_at: Nanos::ZERO,
            active: 0,
        }
    }

    fn slice(&self) -> Nanos {
        Nanos::from_us(self.settings[0])
    }

    fn patience(&self) -> Nanos {
        Nanos::from_us(self.settings[if self.rotational { 1 } else { 2 }])
    }

    /// Each tenant's place and weight, and its part of the whole: its weight among its siblings, times the part of what it is
    /// nested in.
    fn learn_shares(&mut self, ctx: &Context<'_>) {
        let tenants = ctx.tenants;
        self.accounts.resize_with(tenants.tenant_slots().max(self.accounts.len()), Account::default);
        // One level under the next: a tenant is made after the one it is nested in, or is reached by a later round.
        for _ in 0..tenants.tenant_slots() {
            let mut changed = false;
            for (id, tenant) in tenants.tenants() {
                let siblings: u64 = tenants
                    .tenants()
                    .filter(|(_, t)| t.parent == tenant.parent)
                    .map(|(_, t)| u64::from(t.weight))
                    .sum();
                let above = tenant.parent.map_or(WHOLE, |p| self.accounts[p.0 as usize].share);
                let share = (above * u64::from(tenant.weight) / siblings.max(1)).max(1);
                changed |= std::mem::replace(&mut self.accounts[id.0 as usize].share, share) != share;
            }
            if !changed {
                break;
            }
        }
        for (id, tenant) in tenants.tenants() {
            let id = tenant_entity(id.0);
            self.make(id);
            let entity = &mut self.entities[id as usize];
            entity.weight = u64::from(tenant.weight.max(1));
            entity.parent = tenant.parent.map_or(ROOT, |p| tenant_entity(p.0));
        }
        self.shares_known = true;
    }

    fn make(&mut self, id: u32) {
        let len = self.entities.len().max(id as usize + 1);
        self.entities.resize_with(len, Entity::default);
        self.flows.resize_with(len, Flow::default);
        self.entities[id as usize].known = true;
    }

    /// The flow of a request, made if it is new.
    fn flow_of(&mut self, id: RequestId, ctx: &Context<'_>) -> u32 {
        let request = &ctx.requests[id];
        let tenant = request.io.tenant.0;
        if !self.shares_known || tenant as usize >= self.accounts.len() {
            self.learn_shares(ctx);
            self.accounts.resize_with(self.accounts.len().max(tenant as usize + 1), Account::default);
            self.make(tenant_entity(tenant));
        }
        let flow = flow_entity(request);
        if self.entities.get(flow as usize).is_none_or(|e| !e.known) {
            self.make(flow);
            if request.sync() {
                self.freshen(flow, ctx.now);
            }
        }
        let entity = &mut self.entities[flow as usize];
        // Whoever has something waiting stays where that is.
        if !entity.queued {
            entity.parent = tenant_entity(tenant);
        }
        flow
    }

    /// A task starts, or comes back: it is fresh, unless it comes with a crowd.
    fn freshen(&mut self, flow: u32, now: Nanos) {
        if now.since(self.gathered_at) > TOGETHER {
            self.gathered = 0;
        }
        self.gathered_at = now;
        let f = &mut self.flows[flow as usize];
        (f.fresh, f.fresh_since) = (FRESH_SECTORS, now);
        if self.gathered < CROWD {
            self.crowd[self.gathered] = flow;
            self.gathered += 1;
        }
        if self.gathered == CROWD {
            self.flows[flow as usize].fresh = 0;
            for member in self.crowd {
                self.flows[member as usize].fresh = 0;
            }
        }
    }

    fn is_fresh(&self, flow: u32, now: Nanos) -> bool {
        let f = &self.flows[flow as usize];
        self.settings[4] != 0
            && f.fresh > 0
            && f.waited_for <= FRESH_OUTSTANDING
            && now.since(f.fresh_since) <= FRESH_TIME
    }

    /// Puts an entity that got something, and all above it, among those that wait.
    fn enter(&mut self, flow: u32, away: bool) {
        let mut id = flow;
        while id != ROOT && !self.entities[id as usize].queued {
            let parent = self.entities[id as usize].parent;
            // Whoever was away starts now; whoever only ran dry may catch up a little.
            let credit = if away { 0 } else { CREDIT[usize::from(self.rotational)] };
            let entity = &self.entities[id as usize];
            let clock = self.entities[parent as usize].clock;
            let floor = clock.wrapping_sub(credit * WEIGHT / entity.weight);
            if id % 3 == 1 {
                let lags = !away && later(clock.wrapping_sub(LAG), entity.time);
                self.accounts[(id / 3) as usize].lags = lags;
            }
            let time = if later(floor, entity.time) { floor } else { entity.time };
            self.place(id, parent, time);
            id = parent;
        }
    }

    fn place(&mut self, id: u32, parent: u32, time: u64) {
        let entity = &mut self.entities[id as usize];
        (entity.time, entity.queued) = (time, true);
        self.ready.insert(&mut self.entities[parent as usize].ready, id, time, 0);
    }

    fn unplace(&mut self, id: u32) {
        let parent = self.entities[id as usize].parent;
        self.entities[id as usize].queued = false;
        self.ready.remove(&mut self.entities[parent as usize].ready, id);
    }

    /// A flow, and all above it, used so much (or, corrected, less). `in_turn` if it was the first of all.
    fn charge(&mut self, flow: u32, used: i64, weight: u64, in_turn: bool) {
        let mut id = flow;
        let mut waits = self.flows[flow as usize].waiting > 0;
        let mut weight = weight;
        while id != ROOT {
            let entity = &self.entities[id as usize];
            let (parent, time, queued) = (entity.parent, entity.time, entity.queued);
            if in_turn {
                let above = &mut self.entities[parent as usize];
                if later(time, above.clock) {
                    above.clock = time;
                }
            }
            let time = time.wrapping_add((used * WEIGHT as i64 / weight as i64) as u64);
            self.entities[id as usize].time = time;
            let next = if queued { self.ready.next(id) } else { None };
            let stays = queued && waits && used >= 0;
            if stays && next.is_none_or(|n| later(self.entities[n as usize].time, time)) {
                self.ready.rekey(id, time);
            } else {
                if queued {
                    self.unplace(id);
                }
                if waits {
                    self.place(id, parent, time);
                }
            }
            id = parent;
            waits = !self.entities[id as usize].ready.is_empty();
            weight = self.entities[id as usize].weight;
        }
    }

    /// A depth that follows a tenant's share leaves less room for batches too.
    fn scaled(&self, whole: u64) -> u64 {
        whole * u64::from(self.depth) / u64::from(self.max_depth)
    }

    /// The flow whose turn it is; or one that is nearly as early and has what the batch under way is made of.
    fn first(&self) -> Option<u32> {
        let mut at = self.ready.first(&self.entities[ROOT as usize].ready);
        let first = self.first_in(at?)?;
        if self.rotational {
            return Some(first);
        }
        let bound = self.entities[at? as usize].time.wrapping_add(self.scaled(SLACK));
        for _ in 0..CANDIDATES {
            let Some(sibling) = at.filter(|s| !later(self.entities[*s as usize].time, bound)) else { break };
            if let Some(flow) = self.first_in(sibling)
                && !self.flows[flow as usize].lists[self.turn as usize].is_empty()
            {
                return Some(flow);
            }
            at = self.ready.next(sibling);
        }
        Some(first)
    }

    /// The flow in `who` whose turn it is.
    fn first_in(&self, who: u32) -> Option<u32> {
        let mut id = who;
        while let Some(below) = self.ready.first(&self.entities[id as usize].ready) {
            id = below;
        }
        (self.flows[id as usize].waiting > 0).then_some(id)
    }

    /// A flow's next request.
    fn pick(&mut self, flow: u32) -> Option<RequestId> {
        let f = &mut self.flows[flow as usize];
        if let Some(id) = f.head.pop_front(&mut self.links) {
            return Some(id);
        }
        if !f.sorted.is_empty() {
            let id = self.sorted.first_from(&f.sorted, f.position).or_else(|| self.sorted.first(&f.sorted))?;
            self.sorted.remove(&mut f.sorted, id);
            return Some(RequestId::from(id));
        }
        self.batch += 1;
        // Who has nothing of the kind whose turn it is goes on with the other.
        let turn = if f.lists[self.turn as usize].is_empty() { other(self.turn) } else { self.turn };
        f.lists[turn as usize].pop_front(&mut self.links)
    }

    /// Takes a request out of where it waits; answers whose it was.
    fn remove(&mut self, id: RequestId) -> u32 {
        let (flow, at) = self.slots[id.index()];
        let f = &mut self.flows[flow as usize];
        match at {
            At::Head => f.head.remove(&mut self.links, id),
            At::List(dir) => f.lists[dir as usize].remove(&mut self.links, id),
            At::Sorted => self.sorted.remove(&mut f.sorted, id.into()),
        }
        flow
    }

    /// One request less waits in a flow.
    fn leave(&mut self, flow: u32) {
        self.flows[flow as usize].waiting -= 1;
        self.waiting -= 1;
        if self.flows[flow as usize].waiting == 0 {
            self.charge(flow, 0, WEIGHT, false);
        }
    }

    /// A flow's request, which waits no more, goes to the device.
    fn sent(&mut self, flow: u32, id: RequestId, in_turn: bool, ctx: &Context<'_>) {
        let fresh = self.is_fresh(flow, ctx.now);
        let request = &ctx.requests[id];
        let f = &mut self.flows[flow as usize];
        f.near = f.near << 1 | u8::from(request.sector.abs_diff(f.position) <= NEAR);
        f.position = request.end();
        f.waiting -= 1;
        f.in_device += 1;
        f.fresh = f.fresh.saturating_sub(u64::from(request.sectors));
        let used = if self.rotational { f.estimate * NANOSECOND } else { u64::from(request.sectors.max(1)) * SECTOR };
        let wants_hold = self.rotational && (f.streams() || f.waiting >= SWEEP);
        if self.hold.is_some_and(|h| h.who % 3 == 1) {
            self.hold = None;
        } else if in_turn && wants_hold && self.settings[0] > 0 {
            let slice = self.slice();
            let firm_until = ctx.now + Nanos(slice.0 / 4);
            self.hold = Some(Hold { who: flow, firm_until, ends: ctx.now + slice, idle_until: ctx.now });
        }
        if fresh && self.kept.is_none() {
            self.kept = Some((flow, ctx.now));
        }
        let weight = self.entities[flow as usize].weight * if fresh { FRESH_WEIGHT } else { 1 };
        self.in_device += 1;
        self.waiting -= 1;
        let account = &mut self.accounts[request.io.tenant.0 as usize];
        account.in_device += 1;
        account.waiting -= 1;
        self.charge(flow, used as i64, weight, in_turn);
    }

    /// Compares what the tenants got, and moves the depth.
    fn look(&mut self, now: Nanos) {
        let span = now.since(self.looked_at).0;
        self.looked_at = now;
        let got = |a: &Account| u128::from(a.served) * u128::from(WHOLE) / u128::from(a.share.max(1));
        let most = self.accounts.iter().map(got).max().unwrap_or(0);
        let (mut anyone, mut falls) = (false, false);
        self.active = 0;
        for account in &mut self.accounts {
            if account.outstanding > 0 {
                account.busy += now.since(account.busy_since);
                account.busy_since = now;
            }
            if account.busy > Nanos::ZERO {
                self.active += account.share;
            }
            // A backlog of its own says that the order of service will see to it.
            let hungry = account.busy.0 * 100 >= span * HUNGRY_PERCENT && account.waiting == 0;
            let short = got(account) * 100 < most * u128::from(BEHIND_PERCENT);
            account.behind = hungry && (account.lags || short);
            anyone |= account.behind;
            falls |= hungry && short;
            account.served = 0;
            account.busy = Nanos::ZERO;
        }
        // Who is owed something but gets its share now needs no less depth, only time.
        if falls && self.settings[5] != 0 {
            self.depth = (self.depth * 3 / 4).max(1);
        } else if !anyone || self.settings[5] == 0 {
            self.depth = (self.depth + 1).min(self.max_depth);
        }
    }

    /// Must the device be kept for its holder? Answers until when; ends a hold that is over.
    fn held_until(&mut self, now: Nanos) -> Option<Nanos> {
        let hold = self.hold?;
        let (waiting, in_device) = self.state_of(hold.who);
        if waiting > 0 {
            return None;
        }
        let until = if in_device > 0 { hold.ends } else { hold.idle_until.min(hold.ends) };
        if now < until {
            return Some(until);
        }
        self.hold = None;
        None
    }

    /// Would this flow be served next if it had something waiting?
    fn is_earliest(&self, flow: u32) -> bool {
        let mut id = flow;
        while id != ROOT {
            let Entity { parent, time, .. } = self.entities[id as usize];
            let first = self.ready.first(&self.entities[parent as usize].ready);
            if first.is_some_and(|f| f != id && later(time, self.entities[f as usize].time)) {
                return false;
            }
            id = parent;
        }
        true
    }

    /// What the place kept for a fresh task means now.
    fn kept(&mut self, now: Nanos) -> Kept {
        let Some((flow, until)) = self.kept else { return Kept::Nothing };
        let Flow { waiting, in_device, .. } = self.flows[flow as usize];
        if !self.is_fresh(flow, now) || waiting == 0 && in_device == 0 && now >= until {
            self.kept = None;
            return Kept::Nothing;
        }
        match self.hold {
            // It has it, or nobody ends the hold yet.
            Some(hold) if hold.who == flow || waiting == 0 || now < hold.firm_until => Kept::Nothing,
            _ if !self.is_earliest(flow) => Kept::Nothing,
            _ if waiting > 0 => Kept::Serve(flow),
            _ if in_device > 0 => Kept::Wait(now + FULL),
            _ => Kept::Wait(until),
        }
    }

    fn state_of(&self, who: u32) -> (u32, u32) {
        if who % 3 == 1 {
            let account = &self.accounts[(who / 3) as usize];
            (account.waiting, account.in_device)
        } else {
            let flow = &self.flows[who as usize];
            (flow.waiting, flow.in_device)
        }
    }
}

fn other(dir: Dir) -> Dir {
    if dir == Dir::Read { Dir::Write } else { Dir::Read }
}

/// Is it more than read-ahead?
fn waited_for(request: &dumbwaiter_block::Request) -> bool {
    !request.io.flags.any(Flags::RAHEAD)
}

/// Reads and awaited writes are their task's, all other writes their tenant's.
fn flow_entity(request: &dumbwaiter_block::Request) -> u32 {
    if request.sync() { task_entity(request.io.task.0) } else { writeback_entity(request.io.tenant.0) }
}

/// The flow that an arrival belongs to.
fn flow_of_io(io: &dumbwaiter_block::Io) -> u32 {
    flow_entity(&dumbwaiter_block::Request::new(*io, Nanos::ZERO))
}

impl Scheduler for Headway {
    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        let flow = self.flow_of(id, ctx);
        let request = &ctx.requests[id];
        let patience = self.patience();
        let account = &mut self.accounts[request.io.tenant.0 as usize];
        let away = account.outstanding == 0 && ctx.now.since(account.last_seen) > patience;
        if account.outstanding == 0 {
            account.busy_since = ctx.now;
        }
        account.outstanding += 1;
        account.waiting += 1;
        let f = &self.flows[flow as usize];
        if f.outstanding == 0 && request.sync() && f.last_seen > Nanos::ZERO && ctx.now.since(f.last_seen) >= QUIET {
            self.freshen(flow, ctx.now);
        }
        let f = &mut self.flows[flow as usize];
        f.outstanding += 1;
        f.waiting += 1;
        f.waited_for += u32::from(waited_for(request));
        let at = match place {
            Place::Head => At::Head,
            Place::Tail if self.rotational => At::Sorted,
            Place::Tail => At::List(request.io.op.dir()),
        };
        match at {
            At::Head => f.head.push_front(&mut self.links, id),
            At::List(dir) => f.lists[dir as usize].push_back(&mut self.links, id),
            At::Sorted => self.sorted.insert(&mut f.sorted, id.into(), request.sector, 0),
        }
        let len = self.slots.len().max(id.index() + 1);
        self.slots.resize(len, Default::default());
        self.slots[id.index()] = (flow, at);
        self.waiting += 1;
        if f.waiting == 1 {
            self.entities[flow as usize].weight = weight_of(request.io.ioprio);
            self.enter(flow, away);
        }
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.waiting > 0
    }

    fn next(&mut self, _hw_queue: usize, ctx: &Context<'_>) -> Next {
        if self.hold.is_some_and(|hold| ctx.now >= hold.ends) {
            self.hold = None;
        }
        let fresh = match self.kept(ctx.now) {
            Kept::Nothing => None,
            Kept::Wait(until) => return Next::WaitUntil(until),
            Kept::Serve(flow) => {
                self.hold = None;
                Some(flow)
            }
        };
        if let Some(until) = self.held_until(ctx.now) {
            return Next::WaitUntil(until);
        }
        let full = if self.hold.is_some() || fresh.is_some() { self.max_depth } else { self.depth };
        if self.in_device >= full {
            // Only a completion makes room.
            return Next::WaitUntil(ctx.now + FULL);
        }
        if self.batch >= self.scaled(self.settings[3]) {
            (self.turn, self.batch) = (other(self.turn), 0);
        }
        let held = self.hold.and_then(|h| self.first_in(h.who));
        let in_turn = held.is_none();
        let Some(flow) = held.or(fresh).or_else(|| self.first()) else { return Next::Empty };
        let Some(id) = self.pick(flow) else { return Next::Empty };
        self.sent(flow, id, in_turn, ctx);
        Next::Dispatch(id)
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        let request = &ctx.requests[id];
        let (flow, _) = self.slots[id.index()];
        let patience = self.patience();
        let since = if self.hold.is_some_and(|h| h.who == flow) {
            self.last_completion
        } else {
            self.last_completion.max(request.issue)
        };
        let took = ctx.now.since(since).0;
        self.last_completion = ctx.now;
        let f = &mut self.flows[flow as usize];
        f.in_device -= 1;
        f.outstanding -= 1;
        f.waited_for -= u32::from(waited_for(request));
        f.last_seen = ctx.now;
        let used = if self.rotational { took * NANOSECOND } else { u64::from(request.sectors) * SECTOR };
        if self.rotational {
            let guessed = f.estimate;
            f.estimate = (7 * guessed + took) / 8;
            let correction = (took as i64 - guessed as i64) * NANOSECOND as i64;
            let weight = self.entities[flow as usize].weight;
            let weight = weight * if self.is_fresh(flow, ctx.now) { FRESH_WEIGHT } else { 1 };
            self.charge(flow, correction, weight, false);
        }
        let tenant = request.io.tenant.0;
        let account = &mut self.accounts[tenant as usize];
        account.in_device -= 1;
        account.served += used >> 8;
        account.last_seen = ctx.now;
        account.outstanding -= 1;
        if account.outstanding == 0 {
            account.busy += ctx.now.since(account.busy_since);
        }
        self.in_device -= 1;
        if let Some((kept, until)) = &mut self.kept
            && *kept == flow
        {
            *until = ctx.now + patience;
        }
        if let Some(hold) = &mut self.hold {
            if hold.who == flow || hold.who == tenant_entity(tenant) {
                hold.idle_until = ctx.now + patience;
            }
        } else if account.behind && self.depth <= 2 && account.waiting == 0 && account.in_device == 0 {
            let idle_until = ctx.now + patience;
            self.hold = Some(Hold { who: tenant_entity(tenant), firm_until: ctx.now, ends: idle_until, idle_until });
        }
        self.completions += 1;
        if self.completions >= WINDOW.max(self.accounts.len() as u32) {
            self.completions = 0;
            self.look(ctx.now);
        }
        self.waiting > 0
    }

    fn requeued(&mut self, id: RequestId, ctx: &Context<'_>) {
        let request = &ctx.requests[id];
        let flow = &mut self.flows[self.slots[id.index()].0 as usize];
        flow.in_device -= 1;
        flow.outstanding -= 1;
        flow.waited_for -= u32::from(waited_for(request));
        let account = &mut self.accounts[request.io.tenant.0 as usize];
        account.in_device -= 1;
        account.outstanding -= 1;
        self.in_device -= 1;
    }

    fn allow_merge(&self, queued: RequestId, io: &dumbwaiter_block::Io, ctx: &Context<'_>) -> bool {
        // What a tenant moves is charged to it: nobody rides in another's request.
        let (flow, _) = self.slots[queued.index()];
        flow == flow_of_io(io) && ctx.requests[queued].io.tenant == io.tenant
    }

    fn merged(&mut self, join: dumbwaiter_block::Join, ctx: &Context<'_>) {
        let (flow, at) = self.slots[join.into.index()];
        if let (dumbwaiter_block::Side::Front, At::Sorted) = (join.side, at) {
            let tree = &mut self.flows[flow as usize].sorted;
            self.sorted.remove(tree, join.into.into());
            self.sorted.insert(tree, join.into.into(), ctx.requests[join.into].sector, 0);
        }
    }

    fn limit(&self, io: &dumbwaiter_block::Io, nr_requests: u32) -> u32 {
        // Half of the places stay free of what nobody waits for.
        if io.op != dumbwaiter_block::Op::Read && !io.flags.any(Flags::SYNC.with(Flags::FUA)) {
            return (nr_requests / 2).max(1);
        }
        // When places are scarce, each tenant has as many as its share: without any it could not use its turn.
        let scarce = (self.waiting + self.in_device) * 4 > nr_requests * 3;
        let account = self.accounts.get(io.tenant.0 as usize);
        match account.filter(|_| scarce && self.settings[5] != 0) {
            Some(a) if u64::from(a.outstanding) * self.active.max(a.share) > u64::from(nr_requests) * a.share => 1,
            _ => nr_requests,
        }
    }

    fn absorbed(&mut self, _survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        let flow = self.remove(absorbed);
        let account = &mut self.accounts[ctx.requests[absorbed].io.tenant.0 as usize];
        account.waiting -= 1;
        account.outstanding -= 1;
        let f = &mut self.flows[flow as usize];
        f.outstanding -= 1;
        f.waited_for -= u32::from(waited_for(&ctx.requests[absorbed]));
        self.leave(flow);
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        match event {
            Event::TenantChanged(_) => self.learn_shares(ctx),
            // Queued requests stay where they are: both orders are served.
            Event::RotationalChanged(rotational) => self.rotational = rotational,
            Event::TaskExited(task) => {
                // Nobody is to be waited for, and its number may come back as another task.
                let flow = task_entity(task.0);
                if self.hold.is_some_and(|h| h.who == flow) {
                    self.hold = None;
                }
                if self.kept.is_some_and(|(kept, _)| kept == flow) {
                    self.kept = None;
                }
                if let Some(entity) = self.entities.get_mut(flow as usize) {
                    entity.known = false;
                }
            }
            Event::TaskAdded(_)
            | Event::TaskChanged(_)
            | Event::TenantAdded(_)
            | Event::TenantRetired(_)
            | Event::DepthChanged { .. }
            | Event::Timer => {}
        }
    }

    fn tunables(&self) -> &'static [Tunable] {
        TUNABLES
    }

    fn get(&self, name: &str) -> Option<i128> {
        TUNABLES.iter().position(|t| t.name == name).map(|i| i128::from(self.settings[i]))
    }

    fn set(&mut self, name: &str, value: i128) {
        if let Some(i) = TUNABLES.iter().position(|t| t.name == name) {
            self.settings[i] = value as u64;
        }
    }

    fn take(&mut self, id: RequestId, _hw_queue: usize, ctx: &Context<'_>) {
        let flow = self.remove(id);
        self.sent(flow, id, false, ctx);
    }

    fn describe(&self, _ctx: &Context<'_>) -> String {
        let accounts: Vec<String> = self
            .accounts
            .iter()
            .enumerate()
            .map(|(i, a)| {
                let time = self.entities[tenant_entity(i as u32) as usize].time;
                format!(
                    "time {time} share {} in device {} waiting {} behind {}",
                    a.share, a.in_device, a.waiting, a.behind
                )
            })
            .collect();
        let hold = self.hold.map_or("nobody".to_owned(), |h| format!("{} until {}", h.who, h.ends));
        format!(
            "depth {} of {}, {} in device, held by {hold}\n{}\n",
            self.depth,
            self.max_depth,
            self.in_device,
            accounts.join("\n")
        )
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }
}
