//! io.cost, I/O by I/O and period by period: submissions, merges, completions and ends of periods go in; costs, rates, what groups
//! lend, and debts are compared.

use std::collections::BTreeMap;

use dumbwaiter_block::{Nanos, Op, RequestId, TickClock};
use dumbwaiter_controllers::io_cost::{Answer, Asking, Device, Joined, Lent, Settings, Trace};
use dumbwaiter_controllers::kernel_timer::Jiffies;
use serde_json::Value;

use super::score::Tally;
use super::{ControllerScore, Event, Events};
use crate::recording::{Error, as_number};

/// A timer whose row is missing runs by itself when this much later something else happens.
const ROW_MISSING: Nanos = Nanos::from_ms(2);
/// An I/O that is woken gets its request within this, if there is a tag.
const WAKE_SHOWN: Nanos = Nanos::from_ms(2);
/// Wait for tags in a period of which no row says it, %: neither busy nor free.
const WAIT_UNSAID: i64 = 4;
/// Rows this close come from a CPU that works without a pause.
const CPU_WORKS: Nanos = Nanos::from_us(100);

/// A clock reading is at most this much older than its row, or by rounding ahead of it.
const CLOCK_OLD: Nanos = Nanos::from_us(200);
const CLOCK_AHEAD: Nanos = Nanos::from_us(2);

/// An I/O that passed, or waits, until it has its request.
struct Pending {
    group: usize,
    sector: u64,
    cost: u64,
    asked: Nanos,
    /// It waits by this number.
    waits: Option<RequestId>,
}

/// An I/O that joined a request.
struct Merging {
    req: u32,
    front: bool,
    pid: i32,
    sector: u64,
}

/// A request under way.
struct Request {
    group: usize,
    op: Op,
    start: u64,
    end: u64,
    /// Cost of the first I/O, and of all.
    first: u64,
    cost: u64,
    asked: Nanos,
    got: Nanos,
}

/// A replay under way.
struct Replay<'a> {
    device: Device,
    /// Groups by path; the root's is empty.
    groups: BTreeMap<String, usize>,
    /// What each process submitted last: I/Os that have no request yet.
    pending: BTreeMap<i32, Pending>,
    /// When each process last queued an I/O.
    queued: BTreeMap<i32, Nanos>,
    /// The merge whose charge comes next.
    merging: Option<Merging>,
    requests: BTreeMap<u32, Request>,
    waits: u32,
    woken: BTreeMap<RequestId, (Nanos, u64)>,
    /// What ours did since a period ended or an I/O asked, and the kernel's rows have not said yet.
    said: Vec<Trace>,
    /// The rate's row of this period is still to come.
    rate_open: bool,
    /// Between a period's end and the next one's start.
    ending: bool,
    /// The debt of a group before its I/O was booked as debt.
    booked: Option<i64>,
    /// When the kernel activated the group of the next I/O.
    activated_us: Option<i64>,
    /// How far the kernel's clock of the device is ahead of ours, which began at another time.
    vtime_ahead: u64,
    /// Requests that there can be at a time.
    tags: usize,
    /// Since when the CPU worked until the I/O of this row got its request, and the first such time of each group that waits.
    shown: Nanos,
    wakes: BTreeMap<usize, Nanos>,
    tally: &'a mut Tally,
}

/// Replays a recording of io.cost.
///
/// # Errors
///
/// Settings that cannot be read, a group that is not named, details that are missing.
pub(super) fn score(recording: &Events, explain: Option<u64>) -> Result<ControllerScore, Error> {
    recording.check_span()?;
    let mut tally = Tally::of(&["cost", "vrate", "donation", "raise", "debt", "forgiveness"], explain);
    let device = device_of(recording)?;
    let mut replay = Replay {
        device,
        groups: BTreeMap::from([(String::new(), 0)]),
        pending: BTreeMap::new(),
        queued: BTreeMap::new(),
        merging: None,
        requests: BTreeMap::new(),
        waits: 0,
        woken: BTreeMap::new(),
        said: Vec::new(),
        rate_open: false,
        ending: false,
        booked: None,
        activated_us: None,
        vtime_ahead: 0,
        tags: tags_of(recording),
        shown: Nanos::MAX,
        wakes: BTreeMap::new(),
        tally: &mut tally,
    };
    replay.add_groups(recording)?;
    let origin = recording.about.get("mono0_ns").and_then(as_number).unwrap_or(0).min(u64::MAX >> 3);
    let shown = wakes_shown(&recording.rows, origin);
    for (place, row) in recording.rows.iter().enumerate() {
        replay.shown = shown[place];
        let at = Nanos(origin.saturating_add(row.at.0).min(u64::MAX >> 2));
        let at = replay.clock_reading(&recording.rows[place..], at);
        replay.row(row, at).map_err(|what| recording.fail(row.line, what))?;
    }
    Ok(tally.score("io.cost"))
}

/// Requests that there can be at a time: the device's without a scheduler, else the scheduler's.
fn tags_of(recording: &Events) -> usize {
    let number = |at: &str| recording.about.pointer(at).and_then(as_number);
    let direct = recording.about.get("scheduler").and_then(Value::as_str) == Some("none");
    let depth = if direct { number("/device/attributes/hw_queue_depth") } else { number("/queue/nr_requests") };
    depth.unwrap_or(64).min(u32::MAX.into()) as usize
}

/// For each row of an I/O that asks: since when the only CPU worked without a pause until it got its request. If it had waited, its
/// timer ran then, or later.
fn wakes_shown(rows: &[Event], origin: u64) -> Vec<Nanos> {
    let mut shown = vec![Nanos::MAX; rows.len()];
    let mut asked: BTreeMap<i32, usize> = BTreeMap::new();
    let mut works_since = Nanos::ZERO;
    let mut last = Nanos::ZERO;
    for (place, row) in rows.iter().enumerate() {
        if row.at.since(last) >= CPU_WORKS {
            works_since = row.at;
        }
        last = row.at;
        match row.name.as_str() {
            "ioc_cost" => {
                asked.insert(row.pid, place);
            }
            "getrq" => {
                if let Some(first) = asked.remove(&row.pid).filter(|first| rows[*first].sector == row.sector) {
                    shown[first] = Nanos(origin + works_since.0);
                }
            }
            _ => {}
        }
    }
    shown
}

fn device_of(recording: &Events) -> Result<Device, Error> {
    let about = &recording.about;
    let number = |at: &str| about.pointer(at).and_then(as_number);
    let depth = tags_of(recording) as u32;
    let fail = |key: &str, why: String| recording.fail_setting(format!("{key}: {why}"));
    let settings = Settings::default();
    let settings = settings.with_model(&text_of(about.get("model"))).map_err(|e| fail("model", e.to_string()))?;
    let settings = settings.with_qos(&text_of(about.get("qos"))).map_err(|e| fail("qos", e.to_string()))?;
    let tick = number("/tick_ns").filter(|ns| (100_000..=100_000_000).contains(ns)).unwrap_or(4_000_000);
    let origin = number("/mono0_ns").unwrap_or(0).min(u64::MAX >> 2);
    let first = recording.rows.iter().find(|row| row.name == "ioc_period");
    // A period's end runs right after a tick.
    let step = first.map_or(Nanos::ZERO, |row| Nanos(origin + row.at.0.saturating_sub(20_000)));
    let clock = TickClock { period: Nanos(tick), step_at: Nanos(step.0 % tick) };
    let rotational = number("/queue/rotational") == Some(1);
    let mut device = Device::new(Jiffies { clock, offset: 0 }, rotational, depth, settings);
    device.trace();
    Ok(device)
}

/// `{"rpct": 95, ..}` as the text that was written.
pub(crate) fn text_of(object: Option<&Value>) -> String {
    let pair = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{key}={text}"),
        value => format!("{key}={value}"),
    };
    let pairs = object.and_then(Value::as_object).into_iter().flatten().map(pair);
    pairs.collect::<Vec<String>>().join(" ")
}

impl Replay<'_> {
    fn add_groups(&mut self, recording: &Events) -> Result<(), Error> {
        let groups = recording.about.get("groups").and_then(Value::as_array);
        for group in groups.into_iter().flatten() {
            let path = group.get("path").and_then(Value::as_str).unwrap_or_default();
            let weight = group.get("weight").and_then(as_number).unwrap_or(100);
            let expected = || format!("group `{path}`: weight {weight}; expected 1 to 10000");
            if !(1..=10_000).contains(&weight) {
                return Err(recording.fail_setting(expected()));
            }
            let at = self.group(path);
            if at != 0 {
                self.device.set_weight(at, weight as u32, Nanos::ZERO);
            }
        }
        Ok(())
    }

    /// The group of this path, made with those above it if it is new.
    fn group(&mut self, path: &str) -> usize {
        if let Some(at) = self.groups.get(path) {
            return *at;
        }
        let mut at = 0;
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let part = &path[..end];
            at = match self.groups.get(part) {
                Some(known) => *known,
                None => self.device.add_group(at, 100, Nanos::ZERO),
            };
            self.groups.insert(part.to_owned(), at);
        }
        at
    }

    fn row(&mut self, row: &Event, at: Nanos) -> Result<(), String> {
        self.run_timers(at);
        let of_period = ["ioc_idle", "ioc_inuse_transfer", "ioc_inuse_shortage", "ioc_vrate", "ioc_period_start"];
        let due = self.device.period_ends().is_some_and(|ends| ends.0.abs_diff(at.0) < ROW_MISSING.0);
        if !self.ending && due && of_period.contains(&row.name.as_str()) {
            // The row that says that the period ends is missing.
            self.ending = true;
            self.ends(at);
        }
        match row.name.as_str() {
            "bio_queue" => {
                self.queued.insert(row.pid, at);
            }
            "bio_backmerge" | "bio_frontmerge" => {
                let front = row.name == "bio_frontmerge";
                self.merging = Some(Merging { req: row.req, front, pid: row.pid, sector: row.sector });
            }
            "ioc_cost" => self.asks(row, at)?,
            "getrq" => self.gets(row, at),
            "rq_complete" => self.completes(row, at),
            "rq_merge" => {
                let absorbed = self.requests.remove(&(row.number("absorbs")? as u32));
                if let (Some(absorbed), Some(into)) = (absorbed, self.requests.get_mut(&row.req)) {
                    into.cost = into.cost.wrapping_add(absorbed.cost);
                    (into.start, into.end) = (into.start.min(absorbed.start), into.end.max(absorbed.end));
                }
            }
            "ioc_period" => {
                self.ending = true;
                self.ends(at);
            }
            "ioc_period_start" => {
                self.ending = false;
                self.close(row.line);
            }
            // The timer of a group in debt ran.
            "ioc_kick" if !self.ending => {
                let group = self.group(&row.group);
                if self.device.debt(group) > 0 {
                    self.wake_group(group, at);
                }
            }
            "ioc_vrate" => self.compare_rate(row)?,
            "ioc_inuse_transfer" => self.compare_inuse(row, Lent::Transfer)?,
            "ioc_inuse_shortage" => self.compare_inuse(row, Lent::Shortage)?,
            "ioc_inuse_adjust" => self.compare_inuse(row, Lent::Adjust)?,
            "ioc_debt" => {
                let ours = self.booked.take().unwrap_or(-1);
                self.tally.count("debt", row.line, row.number("debt")?, ours, |debt| match debt {
                    -1 => "no debt".to_owned(),
                    debt => format!("booked on top of a debt of {debt}"),
                });
            }
            "ioc_forgive" => self.compare_forgiven(row)?,
            "group_weight" => {
                let group = row.text("group").ok_or("group_weight: expected group=PATH")?.to_owned();
                let weight = row.number("weight")?;
                if !(1..=10_000).contains(&weight) {
                    return Err(format!("group_weight: weight {weight}; expected 1 to 10000"));
                }
                let group = self.group(&group);
                self.device.set_weight(group, weight as u32, at);
            }
            "qos" => {
                let text = row.details.strip_prefix("qos ").unwrap_or(&row.details);
                self.device.set_qos(text, at).map_err(|e| format!("qos: {e}"))?;
            }
            "model" => {
                let text = row.details.strip_prefix("model ").unwrap_or(&row.details);
                self.device.set_model(text, at).map_err(|e| format!("model: {e}"))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The kernel reads its clock a little before a row is written, and uses one reading for a batch: the row's budget, or the clock
    /// of the device, tells when.
    fn clock_reading(&mut self, rows: &[Event], at: Nanos) -> Nanos {
        let row = &rows[0];
        let number = |row: &Event, key: &str| row.number(key).ok();
        let reading_us = match row.name.as_str() {
            "ioc_kick" => {
                let group = self.groups.get(&row.group).copied().unwrap_or(0);
                let budget = number(row, "budget").unwrap_or(0);
                Some(self.device.time_of_us(self.device.vtime(group).wrapping_add(budget as u64)))
            }
            "ioc_cost" => match self.activated_us.take() {
                Some(now) => Some(now),
                None => {
                    let group = self.groups.get(&row.group).copied().unwrap_or(0);
                    let budget = number(row, "budget").unwrap_or(0);
                    Some(self.device.time_of_us(self.device.vtime(group).wrapping_add(budget as u64)))
                }
            },
            "ioc_activate" => {
                self.activated_us = number(row, "now");
                let ours = self.device.vnow(Nanos(self.activated_us.unwrap_or(0).max(0) as u64 * 1000));
                self.vtime_ahead = number(row, "vnow").unwrap_or(0) as u64;
                self.vtime_ahead = self.vtime_ahead.wrapping_sub(ours);
                None
            }
            "ioc_period" | "ioc_idle" | "ioc_inuse_transfer" | "ioc_inuse_shortage" | "ioc_vrate" if !self.ending => {
                let later = if row.name == "ioc_period" { &rows[1..] } else { rows };
                let of_period = || later.iter().take_while(|row| row.name != "ioc_period");
                let rate = of_period().find(|row| row.name == "ioc_vrate");
                let percent = rate.map_or(Some(WAIT_UNSAID), |row| number(row, "rq_wait_pct"));
                if let Some(percent) = percent {
                    self.device.set_tag_wait(percent.clamp(0, i64::from(u32::MAX)) as u32);
                }
                let start = of_period().find(|row| row.name == "ioc_period_start");
                let vnow = start.and_then(|row| number(row, "vnow"));
                vnow.map(|vnow| self.device.time_of_us((vnow as u64).wrapping_sub(self.vtime_ahead)))
            }
            _ => None,
        };
        let reading = reading_us.map(|us| Nanos((us.max(0) as u64).saturating_mul(1000)));
        let near = |reading: &Nanos| *reading <= at + CLOCK_AHEAD && at.since(*reading) <= CLOCK_OLD;
        reading.filter(near).unwrap_or(at)
    }

    /// The end of a period whose row is missing runs by itself, and so do wake-ups that no row shows, as all tags are taken.
    fn run_timers(&mut self, now: Nanos) {
        let shown = self.requests.len() < self.tags;
        if shown {
            self.wake_as_shown(now);
        }
        loop {
            let period = self.device.period_ends().filter(|at| *at + ROW_MISSING < now);
            let wake = self.device.next_wake().filter(|at| if shown { *at + WAKE_SHOWN < now } else { *at <= now });
            match (period, wake) {
                (Some(period), wake) if wake.is_none_or(|wake| period < wake) => self.ends(period),
                (_, Some(wake)) => {
                    let woken = &mut self.woken;
                    self.device.wake_due(wake, &mut |id, cost| {
                        woken.insert(id, (wake, cost));
                    });
                }
                _ => return,
            }
        }
    }

    /// Groups are woken when rows show it.
    fn wake_as_shown(&mut self, now: Nanos) {
        for group in self.groups.values() {
            let Some(at) = self.wakes.get(group).copied() else { continue };
            let Some((from, until)) = self.device.wake_window(*group) else { continue };
            let at = at.max(from).min(until);
            if at > now {
                continue;
            }
            self.wakes.remove(group);
            let woken = &mut self.woken;
            self.device.wake_group(*group, at, &mut |id, cost| {
                woken.insert(id, (at, cost));
            });
        }
    }

    fn wake_group(&mut self, group: usize, at: Nanos) {
        let woken = &mut self.woken;
        self.device.wake_group(group, at, &mut |id, cost| {
            woken.insert(id, (at, cost));
        });
    }

    fn asks(&mut self, row: &Event, at: Nanos) -> Result<(), String> {
        let group = self.group(&row.group);
        let kernel = row.number("abs")?;
        // An I/O of the root group joins a request without being charged.
        let merging = self.merging.take().filter(|merge| (merge.pid, merge.sector) == (row.pid, row.sector));
        let io = Asking {
            id: RequestId(self.waits),
            group,
            op: row.op,
            sector: row.sector,
            sectors: (row.bytes / 512) as u32,
            may_sleep: true,
        };
        let ours = self.device.cost(&io, merging.is_some()) as i64;
        self.tally.count("cost", row.line, kernel, ours, i64::to_string);
        let debt = self.device.debt(group) as i64;
        let answer = match merging.and_then(|merge| Some((merge.front, self.requests.get_mut(&merge.req)?))) {
            Some((front, request)) => {
                let into = Joined { start: request.start, end: request.end, paid: request.first != 0 };
                let answer = self.device.merged(io, into, at);
                let cost = if let Answer::Pass(cost) = answer { cost } else { 0 };
                request.cost = request.cost.wrapping_add(cost);
                request.end = request.end.max(row.sector + u64::from(io.sectors));
                request.start = request.start.min(row.sector);
                if front {
                    request.first = cost;
                }
                answer
            }
            None => {
                let woken = &mut self.woken;
                let answer = self.device.submit(io, at, &mut |id, cost| {
                    woken.insert(id, (at, cost));
                });
                let (cost, waits) = match answer {
                    Answer::Pass(cost) => (cost, None),
                    Answer::InDebt(_) => (0, None),
                    Answer::Wait => (0, Some(io.id)),
                };
                self.waits += u32::from(waits.is_some());
                if waits.is_some() {
                    let first = self.wakes.entry(group).or_insert(Nanos::MAX);
                    *first = self.shown.min(*first);
                }
                self.pending.insert(row.pid, Pending { group, sector: row.sector, cost, asked: at, waits });
                answer
            }
        };
        self.booked = matches!(answer, Answer::InDebt(_)).then_some(debt);
        self.said.extend(self.device.take_trace());
        Ok(())
    }

    fn gets(&mut self, row: &Event, at: Nanos) {
        let sectors = row.bytes / 512;
        let found = self.pending.remove(&row.pid).filter(|pending| pending.sector == row.sector);
        let asked = self.queued.get(&row.pid).copied().unwrap_or(at);
        let mut request = Request {
            group: 0,
            op: row.op,
            start: row.sector,
            end: row.sector + sectors,
            first: 0,
            cost: 0,
            asked,
            got: at,
        };
        if let Some(pending) = found {
            (request.group, request.cost, request.asked) = (pending.group, pending.cost, pending.asked);
            if let Some(id) = pending.waits {
                if !self.woken.contains_key(&id) {
                    // Its timer ran, in its window.
                    self.wake_group(pending.group, at);
                }
                let (when, cost) = self.woken.remove(&id).unwrap_or((at, 0));
                (request.asked, request.cost) = (when, cost);
            }
        }
        request.first = request.cost;
        self.requests.insert(row.req, request);
    }

    fn completes(&mut self, row: &Event, at: Nanos) {
        if let Some(request) = self.requests.remove(&row.req) {
            self.device.ended(request.group, request.cost);
            let sectors = (request.end - request.start) as u32;
            self.device.completed(request.op, sectors, request.asked, request.got, at);
        }
    }

    /// A period ends. What it decided is held against the rows that follow.
    fn ends(&mut self, at: Nanos) {
        let woken = &mut self.woken;
        self.device.end_period(at, &mut |id, cost| {
            woken.insert(id, (at, cost));
        });
        self.said = self.device.take_trace();
        let period = self.device.last_period();
        self.rate_open = period.busy != 0 || period.lagging != 0;
    }

    /// The rows of a period's end are over: what ours did beyond them differs.
    fn close(&mut self, line: u64) {
        for said in std::mem::take(&mut self.said) {
            if let Trace::Inuse(lent @ (Lent::Transfer | Lent::Shortage), _, before, after) = said {
                self.tally.count("donation", line, None, Some((lent, before, after)), in_words);
            }
        }
        if std::mem::take(&mut self.rate_open) {
            let ours = Some(rate_of(&self.device));
            self.tally.count("vrate", line, None, ours, rate_in_words);
        }
    }

    fn compare_inuse(&mut self, row: &Event, lent: Lent) -> Result<(), String> {
        let group = self.group(&row.group);
        let kernel = (row.number("old_inuse")?, row.number("new_inuse")?);
        let kernel = Some((lent, kernel.0 as u32, kernel.1 as u32));
        let place =
            self.said.iter().position(|said| matches!(said, Trace::Inuse(l, at, ..) if *l == lent && *at == group));
        let ours = place.map(|place| self.said.remove(place)).and_then(|said| match said {
            Trace::Inuse(lent, _, before, after) => Some((lent, before, after)),
            _ => None,
        });
        let kind = if lent == Lent::Adjust { "raise" } else { "donation" };
        self.tally.count(kind, row.line, kernel, ours, in_words);
        Ok(())
    }

    fn compare_rate(&mut self, row: &Event) -> Result<(), String> {
        self.rate_open = false;
        let of = |key: &str| row.number(key);
        let rate = (of("old_vrate")?, of("new_vrate")?);
        let kernel = [rate.0, rate.1, of("busy_level")?, of("nr_lagging")?, of("nr_shortages")?];
        self.tally.count("vrate", row.line, Some(kernel), Some(rate_of(&self.device)), rate_in_words);
        Ok(())
    }

    fn compare_forgiven(&mut self, row: &Event) -> Result<(), String> {
        let group = self.group(&row.group);
        let of = |key: &str| row.number(key);
        let kernel = [of("old_debt")?, of("new_debt")?, of("old_delay")?, of("new_delay")?];
        let place = self.said.iter().position(|said| matches!(said, Trace::Forgiven(at, ..) if *at == group));
        let ours = match place.map(|place| self.said.remove(place)) {
            Some(Trace::Forgiven(_, debt, delay)) => [debt.0, debt.1, delay.0, delay.1].map(|value| value as i64),
            _ => [-1; 4],
        };
        self.tally.count("forgiveness", row.line, kernel, ours, |[debt, new_debt, delay, new_delay]| {
            format!("debt {debt} to {new_debt}, delay {delay} to {new_delay} us")
        });
        Ok(())
    }
}

fn rate_of(device: &Device) -> [i64; 5] {
    let period = device.last_period();
    [period.rate.0 as i64, period.rate.1 as i64, period.busy.into(), period.lagging.into(), period.short.into()]
}

fn rate_in_words(rate: &Option<[i64; 5]>) -> String {
    match rate {
        None => "nothing to say".to_owned(),
        Some([old, new, busy, lagging, short]) => {
            format!("vrate {old} to {new}, busy {busy}, {lagging} lagging, {short} short")
        }
    }
}

fn in_words(lent: &Option<(Lent, u32, u32)>) -> String {
    match lent {
        None => "nothing".to_owned(),
        Some((lent, before, after)) => format!("{lent:?}: inuse {before} to {after}"),
    }
}
