//! The controller of one device: who may pass, who waits, who runs into debt (Linux 6.12 and 6.18, `blk-iocost`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dumbwaiter_block::{Nanos, Op, RequestId};

use super::asking::{Answer, Asking, Joined};
use super::groups::{Groups, ROOT, WEIGHT_UNIT, WHOLE, Waiter};
use super::model::{Coefficients, charged_direction};
use super::settings::{InForce, Settings};
use super::trace::{Lent, Period, Trace};
use crate::kernel_timer::Jiffies;

/// An overdraft of this share of a period starts to delay the group's tasks, and of this delays them for as long as can be, %.
const DELAY_PCT: (i64, i64) = (500, 25_000);
/// Shortest and longest delay of a task, µs.
const DELAY_US: (u64, u64) = (250, 250_000);

/// A moment, as everything sees it that happens in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) ns: Nanos,
    pub(super) us: u64,
    pub(super) vtime: u64,
}

/// io.cost on one device.
#[derive(Clone, Debug)]
pub struct Device {
    pub(super) jiffies: Jiffies,
    pub(super) settings: Settings,
    pub(super) rotational: bool,
    pub(super) depth: u32,
    pub(super) in_force: InForce,
    /// The rate that is adjusted, and the one in effect with compensation, in virtual time per µs.
    pub(super) base_rate: u64,
    pub(super) rate: u64,
    /// Virtual time that was cut and has not been compensated.
    pub(super) error: i64,
    pub(super) margins: Margins,
    pub(super) running: bool,
    pub(super) period_at_us: u64,
    pub(super) period_vtime: u64,
    pub(super) period_no: u64,
    pub(super) period_ends: Option<Nanos>,
    pub(super) busy: i32,
    pub(super) groups: Groups,
    /// Active groups, the newest last.
    pub(super) active: Vec<usize>,
    pub(super) forgiveness: Forgiveness,
    pub(super) latencies: Latencies,
    pub(super) last_period: Period,
    /// Ends of windows in which groups are woken; one whose group has another window is void.
    pub(super) wakes: BinaryHeap<Reverse<(Nanos, usize)>>,
    pub(super) scratch: super::lenders::Scratch,
    pub(super) trace: Option<Vec<Trace>>,
}

/// Budgets that matter, in virtual time: 10, 20 and 50 % of a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Margins {
    pub(super) min: i64,
    pub(super) low: i64,
    pub(super) target: i64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forgiveness {
    pub(super) at_us: u64,
    pub(super) remainder_us: u64,
    pub(super) used_us: u64,
}

/// Requests since the last period ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latencies {
    pub(super) met: [u64; 2],
    pub(super) missed: [u64; 2],
    pub(super) waited_ns: u64,
}

impl Device {
    /// Keeps from now on what it does, for [`Device::take_trace`].
    pub fn trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    /// What it did since the last call, in order.
    pub fn take_trace(&mut self) -> Vec<Trace> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn note(&mut self, what: Trace) {
        if let Some(trace) = &mut self.trace {
            trace.push(what);
        }
    }

    /// Adds a group below another one; 0 is the root. The weight is from 1 to 10000.
    pub fn add_group(&mut self, parent: usize, weight: u32, now: Nanos) -> usize {
        let vnow = self.moment(now).vtime;
        self.groups.add(parent, weight, vnow)
    }

    /// A group goes, with what it owes: nothing of it waits or is under way.
    pub fn remove_group(&mut self, group: usize) {
        self.groups.remove(group);
        self.active.retain(|active| *active != group);
    }

    /// Changes the weight of a group. Those that wait are woken by the next timer.
    pub fn set_weight(&mut self, group: usize, weight: u32, now: Nanos) {
        let vnow = self.moment(now).vtime;
        self.groups[group].weight = weight * WEIGHT_UNIT;
        if self.groups[group].active > 0 {
            let inuse = self.groups[group].inuse;
            self.groups.set_weights(group, weight * WEIGHT_UNIT, inuse, Some(vnow));
            self.groups.commit();
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The rate that is adjusted, in virtual time per µs.
    pub fn base_rate(&self) -> u64 {
        self.base_rate
    }

    /// The rate in effect in this period.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Length of a period, µs, before it is rounded to ticks.
    pub fn period_us(&self) -> u64 {
        self.in_force.period_us
    }

    /// What ended with the last period.
    pub fn last_period(&self) -> &Period {
        &self.last_period
    }

    /// Device time that was charged to a group, µs, by the rate of each period.
    pub fn usage_us(&self, group: usize) -> u64 {
        self.groups[group].total_usage_us
    }

    /// I/Os of a group that waited.
    pub fn waited(&self, group: usize) -> u64 {
        self.groups[group].waited
    }

    /// The debt of a group, as cost.
    pub fn debt(&self, group: usize) -> u64 {
        self.groups[group].debt
    }

    /// Shares of a group, of 65536: by weight, and by what it uses of it.
    pub fn shares(&mut self, group: usize) -> (u32, u32) {
        self.groups.shares(group)
    }

    /// How far a group's clock is behind the device's.
    pub fn budget(&self, group: usize, now: Nanos) -> i64 {
        self.groups[group].budget(self.moment(now).vtime)
    }

    /// The time, µs, at which the device's clock shows `vtime` in this period.
    pub fn time_of_us(&self, vtime: u64) -> i64 {
        let past = vtime.wrapping_sub(self.period_vtime) as i64;
        self.period_at_us as i64 + past.div_euclid(self.rate as i64)
    }

    /// The device's clock.
    pub fn vnow(&self, now: Nanos) -> u64 {
        self.moment(now).vtime
    }

    /// The clock of a group.
    pub fn vtime(&self, group: usize) -> u64 {
        self.groups[group].vtime
    }

    pub(super) fn moment(&self, now: Nanos) -> Moment {
        let us = now.0 / 1000;
        let past = us.saturating_sub(self.period_at_us);
        Moment { ns: now, us, vtime: self.period_vtime.wrapping_add(past.wrapping_mul(self.rate)) }
    }

    fn coefficients(&self, op: Op) -> Option<&Coefficients> {
        charged_direction(op).map(|dir| &self.in_force.coefficients[dir as usize])
    }

    /// What an I/O costs, in virtual time of the device; 0: it is free.
    #[inline]
    pub fn cost(&self, io: &Asking, joins: bool) -> u64 {
        let Some(coefficients) = self.coefficients(io.op) else { return 0 };
        if !self.settings.enabled || io.group == ROOT || io.sectors == 0 {
            return 0;
        }
        match joins {
            true => coefficients.pages(io.sectors),
            false => coefficients.cost(io.sector, io.sectors, self.groups[io.group].cursor),
        }
    }

    /// An I/O that joined no request asks to pass. `may_sleep`: its task may wait (not with META, SWAP or a fatal signal).
    /// `id` is told when it may go on after [`Answer::Wait`].
    pub fn submit(&mut self, io: Asking, now: Nanos, wake: &mut dyn FnMut(RequestId, u64)) -> Answer {
        let free = Answer::Pass(0);
        let cost = self.cost(&io, false);
        let moment = self.moment(now);
        if cost == 0 || !self.activate(io.group, moment) {
            return free;
        }
        // The device's clock may have started.
        let moment = self.moment(now);
        self.groups[io.group].cursor = io.sector + u64::from(io.sectors);
        let scaled = self.scaled(io.group, cost, &moment);
        let group = &mut self.groups[io.group];
        if group.waiters.is_empty() && group.debt == 0 && group.budget(moment.vtime) >= scaled as i64 {
            group.vtime = group.vtime.wrapping_add(scaled);
            group.charged = group.charged.saturating_add(cost);
            return Answer::Pass(scaled);
        }
        if !io.may_sleep {
            self.incur(io.group, cost);
            return Answer::InDebt(self.delay(io.group, &moment));
        }
        let in_debt = group.debt > 0;
        group.waiters.push_back(Waiter { id: io.id, cost });
        group.waited += 1;
        if !in_debt && group.inuse != group.active {
            let active = group.active;
            self.groups.set_weights(io.group, active, active, Some(moment.vtime));
            self.groups.commit();
        }
        self.kick(io.group, in_debt, &moment, wake);
        Answer::Wait
    }

    /// An I/O joined the request `into`.
    pub fn merged(&mut self, io: Asking, into: Joined, now: Nanos) -> Answer {
        let free = Answer::Pass(0);
        let cost = self.cost(&io, true);
        if cost == 0 {
            return free;
        }
        let moment = self.moment(now);
        let scaled = self.scaled(io.group, cost, &moment);
        let group = &mut self.groups[io.group];
        let end = io.sector + u64::from(io.sectors);
        if into.start < end && into.end == group.cursor {
            group.cursor = end;
        }
        if !group.is_active || (into.paid && group.budget(moment.vtime) >= scaled as i64) {
            group.vtime = group.vtime.wrapping_add(scaled);
            group.charged = group.charged.saturating_add(cost);
            return Answer::Pass(scaled);
        }
        self.incur(io.group, cost);
        Answer::InDebt(self.delay(io.group, &moment))
    }

    /// An I/O that passed with this cost ended, or several of one request.
    #[inline]
    pub fn ended(&mut self, group: usize, cost: u64) {
        let done = &mut self.groups[group].vtime_done;
        *done = done.wrapping_add(cost);
    }

    /// A request of `sectors` completed, which asked for its tag at `asked`, got it at `started`, and is freed at `now`.
    #[inline]
    pub fn completed(&mut self, op: Op, sectors: u32, asked: Nanos, started: Nanos, now: Nanos) {
        let Some(dir) = charged_direction(op).filter(|_| self.settings.enabled) else { return };
        let dir = dir as usize;
        let beyond = now.since(asked).0.saturating_sub(self.in_force.coefficients[dir].transfer_ns(sectors));
        if beyond <= u64::from(self.in_force.qos.lat_us[dir]) * 1000 {
            self.latencies.met[dir] += 1;
        } else {
            self.latencies.missed[dir] += 1;
        }
        self.latencies.waited_ns += started.since(asked).0;
    }

    /// Requests waited for tags for this share of the period so far, %: for those who know it better.
    pub fn set_tag_wait(&mut self, percent: u32) {
        self.latencies.waited_ns = u64::from(percent) * self.in_force.period_us * 10;
    }

    /// An I/O that waits goes away.
    pub fn abandoned(&mut self, group: usize, id: RequestId) {
        self.groups[group].waiters.retain(|waiter| waiter.id != id);
    }

    /// When [`Device::tick`] must be called, if ever.
    #[inline]
    pub fn timer(&self) -> Option<Nanos> {
        match (self.period_ends, self.next_wake()) {
            (Some(period), Some(wake)) => Some(period.min(wake)),
            (period, wake) => period.or(wake),
        }
    }

    /// When the timer of the period runs.
    pub fn period_ends(&self) -> Option<Nanos> {
        self.period_ends
    }

    /// When the next waiters are woken at the latest.
    pub fn next_wake(&self) -> Option<Nanos> {
        self.wakes.peek().map(|Reverse((at, _))| *at)
    }

    /// The timers that wake run, if they are due.
    pub fn wake_due(&mut self, now: Nanos, wake: &mut dyn FnMut(RequestId, u64)) {
        self.wake_until(now, wake);
    }

    /// From when to when a group is woken, if it waits.
    pub fn wake_window(&self, at: usize) -> Option<(Nanos, Nanos)> {
        self.groups[at].wakes_at.map(|from| (from, from + Nanos(self.in_force.slack_ns())))
    }

    /// The timer that wakes a group runs now, for those who know when: it may run from the start of its window on.
    pub fn wake_group(&mut self, at: usize, now: Nanos, wake: &mut dyn FnMut(RequestId, u64)) {
        self.groups[at].wakes_at = None;
        let moment = self.moment(now);
        let pay = self.groups[at].debt > 0;
        self.kick(at, pay, &moment, wake);
    }

    fn wake_until(&mut self, now: Nanos, wake: &mut dyn FnMut(RequestId, u64)) {
        while let Some(Reverse((end, group))) = self.wakes.peek().copied().filter(|Reverse((end, _))| *end <= now) {
            self.wakes.pop();
            let slack = Nanos(self.in_force.slack_ns());
            let own = self.groups[group].wakes_at;
            if own.is_none_or(|at| at + slack != end) {
                continue;
            }
            self.wake_group(group, now, wake);
        }
    }

    /// A group's I/O wants to be charged. `false`: it is not controlled.
    fn activate(&mut self, at: usize, moment: Moment) -> bool {
        let period_no = self.period_no;
        if self.groups[at].is_active {
            self.groups[at].last_period = period_no;
            return true;
        }
        if self.groups.is_inner(at) {
            return false;
        }
        let group = &mut self.groups[at];
        let by = moment.vtime.wrapping_sub(self.margins.target as u64).wrapping_sub(group.vtime);
        group.advance(by);
        group.is_active = true;
        group.activated_at_us = moment.us;
        group.last_period = period_no;
        let inuse = if group.last_inuse == 0 { group.weight } else { group.last_inuse };
        let weight = group.weight;
        self.groups.set_weights(at, weight, inuse, Some(moment.vtime));
        self.groups.commit();
        self.active.push(at);
        self.note(Trace::Active(at, true));
        if !self.running {
            self.running = true;
            self.forgiveness.at_us = moment.us;
            self.forgiveness.remainder_us = 0;
            self.start_period(&moment);
        }
        true
    }

    pub(super) fn start_period(&mut self, moment: &Moment) {
        self.period_at_us = moment.us;
        self.period_vtime = moment.vtime;
        let ticks = (self.in_force.period_us * self.jiffies.hz() as u64).div_ceil(1_000_000) as i64;
        let now = moment.ns;
        self.period_ends = Some(self.jiffies.timer(now, self.jiffies.at(now) + ticks));
    }

    /// Cost in the time of a group, which takes back what it lent if it runs short of it.
    fn scaled(&mut self, at: usize, cost: u64, moment: &Moment) -> u64 {
        let (_, share) = self.groups.shares(at);
        let mut scaled = divided(cost, share);
        let group = &self.groups[at];
        let margin = group.budget(moment.vtime).wrapping_sub(scaled as i64);
        let unchanged = !group.is_active || group.debt > 0 || group.inuse == group.active;
        if unchanged || margin >= group.saved_margin || margin >= self.margins.low {
            return scaled;
        }
        let before = group.inuse;
        // The kernel's product has 32 bits.
        let step = group.active.wrapping_mul(25).div_ceil(100);
        loop {
            let group = &self.groups[at];
            let (active, inuse) = (group.active, group.inuse.saturating_add(step.max(1)));
            self.groups.set_weights(at, active, inuse, Some(moment.vtime));
            self.groups.commit();
            scaled = divided(cost, self.groups.shares(at).1);
            let group = &self.groups[at];
            if group.inuse == group.active || group.budget(moment.vtime) >= scaled as i64 {
                break;
            }
        }
        self.note(Trace::Inuse(Lent::Adjust, at, before, self.groups[at].inuse));
        scaled
    }

    pub(super) fn incur(&mut self, at: usize, cost: u64) {
        let group = &self.groups[at];
        if group.debt == 0 && cost > 0 {
            let active = group.active;
            self.groups.set_weights(at, active, 0, None);
            self.groups.commit();
        }
        let group = &mut self.groups[at];
        group.debt = group.debt.saturating_add(cost);
        group.charged = group.charged.saturating_add(cost);
    }

    /// How long a task of a group in debt sleeps before it returns to user space.
    pub(super) fn delay(&mut self, at: usize, moment: &Moment) -> Option<Nanos> {
        let (share, _) = self.groups.shares(at);
        let limit = self.in_force.period_us as i64 * self.base_rate as i64;
        let group = &mut self.groups[at];
        if moment.us < group.delay_at_us {
            return None;
        }
        let seconds = (moment.us - group.delay_at_us) / 1_000_000;
        let mut delay = if seconds >= 64 { 0 } else { group.delay_us >> seconds };
        let over = (divided(group.debt, share) as i64).wrapping_sub(group.budget(moment.vtime));
        let percent = (100 * i128::from(over) / i128::from(limit.max(1))) as i64;
        let wanted = if percent <= DELAY_PCT.0 {
            0
        } else if percent >= DELAY_PCT.1 {
            DELAY_US.1
        } else {
            let range = DELAY_US.1 - DELAY_US.0;
            DELAY_US.0 + range * (percent - DELAY_PCT.0) as u64 / (DELAY_PCT.1 - DELAY_PCT.0) as u64
        };
        if wanted > delay {
            group.delay_us = wanted;
            group.delay_at_us = moment.us;
            delay = wanted;
        }
        if delay >= DELAY_US.0 {
            return Some(Nanos::from_us(delay));
        }
        group.delay_us = 0;
        None
    }

    /// A group pays its debt if it is to, and those of its waiters go on that it can pay for.
    pub(super) fn kick(&mut self, at: usize, pay: bool, moment: &Moment, wake: &mut dyn FnMut(RequestId, u64)) {
        let mut budget = self.groups[at].budget(moment.vtime);
        let (share, _) = self.groups.shares(at);
        if pay && self.groups[at].debt > 0 && budget > 0 {
            let group = &mut self.groups[at];
            let paid = multiplied(budget as u64, share).min(group.debt);
            let scaled = divided(paid, share);
            group.advance(scaled);
            group.debt -= paid;
            budget = budget.saturating_sub(scaled as i64);
            if group.debt == 0 {
                let (active, inuse) = (group.active, group.last_inuse);
                self.groups.set_weights(at, active, inuse, None);
                self.groups.commit();
            }
        }
        if self.groups[at].debt > 0 || self.groups[at].delay_us > 0 {
            self.delay(at, moment);
        }
        if self.groups[at].debt > 0 {
            budget = 0.min(budget.saturating_sub(divided(self.groups[at].debt, share) as i64));
        }
        let (_, share) = self.groups.shares(at);
        let group = &mut self.groups[at];
        while let Some(waiter) = group.waiters.front().copied() {
            let scaled = divided(waiter.cost, share);
            budget = budget.saturating_sub(scaled as i64);
            if budget < 0 {
                break;
            }
            group.waiters.pop_front();
            group.vtime = group.vtime.wrapping_add(scaled);
            group.charged = group.charged.saturating_add(waiter.cost);
            wake(waiter.id, scaled);
        }
        if !group.waiters.is_empty() {
            self.arm_wake(at, budget, moment);
        }
    }

    fn arm_wake(&mut self, at: usize, budget: i64, moment: &Moment) {
        let slack = self.in_force.slack_ns();
        let ahead = budget.unsigned_abs().div_ceil(self.base_rate) * 1000 + slack;
        let expires = moment.ns + Nanos(ahead);
        let own = &mut self.groups[at].wakes_at;
        if own.is_some_and(|at| at.0.abs_diff(expires.0) <= slack) {
            return;
        }
        *own = Some(expires);
        self.wakes.push(Reverse((expires + Nanos(slack), at)));
    }
}

/// `cost · 65536 / share`, rounded up.
#[inline]
pub(super) fn divided(cost: u64, share: u32) -> u64 {
    if cost < 1 << 47 {
        return (cost << 16).div_ceil(u64::from(share));
    }
    (u128::from(cost) << 16).div_ceil(u128::from(share)).min(u128::from(u64::MAX >> 1)) as u64
}

/// `time · share / 65536`, rounded up.
pub(super) fn multiplied(time: u64, share: u32) -> u64 {
    (u128::from(time) * u128::from(share)).div_ceil(u128::from(WHOLE)) as u64
}
