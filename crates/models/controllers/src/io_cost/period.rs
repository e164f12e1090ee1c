//! The end of a period: idle groups leave, groups lend what they do not need, the rate follows, debts are forgiven.

use dumbwaiter_block::{Nanos, RequestId};

use super::device::{Device, Moment};
use super::groups::WHOLE;
use super::trace::{Lent, Period, Trace};

/// Requests may wait for tags this share of a period: above, the device is busy; up to the second, it is not. %.
const WAIT_PCT: (u32, u32) = (5, 3);
/// Share of the misses that are allowed, up to which the device is not busy, %.
const UNBUSY_PCT: u64 = 75;
/// Step of a rate that is outside its bounds, %.
const CLAMP_PCT: u64 = 4;
/// Groups that lag by more periods do not count as lagging.
const LAG_PERIODS: u64 = 10;
/// Debts are looked at this often, µs.
const FORGIVE_EVERY_US: u64 = 100_000;
/// They are forgiven up to this use of the device, %.
const FORGIVE_USE_PCT: u64 = 50;
const BUSY_MAX: i32 = 1000;

/// How far the rate moves, %, from this level of saturation on.
const RATE_STEPS: [(u32, u64); 6] = [(52, 16), (44, 8), (36, 4), (20, 2), (4, 1), (0, 0)];

impl Device {
    /// Timers that are due run: waiters whose groups can pay are told to `wake`, with their costs.
    pub fn tick(&mut self, now: Nanos, wake: &mut dyn FnMut(RequestId, u64)) {
        self.wake_due(now, wake);
        if self.period_ends.is_some_and(|at| at <= now) {
            self.end_period(now, wake);
        }
    }

    /// The period ends, as its timer says.
    pub fn end_period(&mut self, now: Nanos, wake: &mut dyn FnMut(RequestId, u64)) {
        let (missed_ppm, wait_pct) = self.take_latencies();
        let moment = self.moment(now);
        let length = moment.vtime.wrapping_sub(self.period_vtime);
        let debtors = self.look_after_waiters(&moment, wake);
        self.groups.commit();
        let used_us = self.count_usage();
        let (lagging, short) = self.look_for_lenders(&moment, length);
        if short > 0 && self.has_lenders() {
            self.transfer(&moment);
        }
        self.groups.commit();
        self.scratch_clear();
        let old = self.base_rate;
        self.set_busy(missed_ppm, wait_pct, lagging, short);
        self.adjust_rate(lagging);
        self.last_period =
            Period { rate: (old, self.base_rate), busy: self.busy, missed_ppm, wait_pct, lagging, short };
        self.refresh(now, false);
        self.forgive(&moment, debtors, used_us, wake);
        self.period_no += 1;
        if self.active.is_empty() {
            self.running = false;
            (self.busy, self.error, self.period_ends) = (0, 0, None);
            self.period_at_us = moment.us;
            self.period_vtime = moment.vtime;
        } else {
            self.start_period(&moment);
        }
        self.compensate(&moment);
    }

    fn take_latencies(&mut self) -> ([u32; 2], u32) {
        let seen = std::mem::take(&mut self.latencies);
        let missed = |dir: usize| match seen.met[dir] + seen.missed[dir] {
            0 => 0,
            all => (seen.missed[dir] * 1_000_000).div_ceil(all) as u32,
        };
        let wait_pct = seen.waited_ns * 100 / (self.in_force.period_us * 1000);
        ([missed(0), missed(1)], wait_pct.min(u32::MAX.into()) as u32)
    }

    /// Waiters and debtors get their chance, idle groups leave. Answers with how many are in debt or delayed.
    fn look_after_waiters(&mut self, moment: &Moment, wake: &mut dyn FnMut(RequestId, u64)) -> u32 {
        let mut debtors = 0;
        for place in (0..self.active.len()).rev() {
            let at = self.active[place];
            let group = &self.groups[at];
            if !group.waiters.is_empty() || group.debt > 0 || group.delay_us > 0 {
                self.kick(at, true, moment, wake);
                let group = &self.groups[at];
                debtors += u32::from(group.debt > 0 || group.delay_us > 0);
            } else if group.last_period != self.period_no && group.is_done() {
                let excess = group.budget(moment.vtime).saturating_sub(self.margins.target);
                let (_, share) = self.groups.shares(at);
                self.cut(excess, share);
                self.groups.set_weights(at, 0, 0, None);
                self.groups[at].is_active = false;
                self.note(Trace::Active(at, false));
            }
        }
        let groups = &self.groups;
        self.active.retain(|at| groups[*at].is_active);
        debtors
    }

    /// Budget that a group of this share lost.
    fn cut(&mut self, excess: i64, share: u32) {
        if excess > 0 {
            let lost = (i128::from(excess) * i128::from(share) / i128::from(WHOLE)) as i64;
            self.error = self.error.saturating_sub(lost);
        }
    }

    fn count_usage(&mut self) -> u64 {
        let rate = self.base_rate;
        let mut sum = 0;
        for at in &self.active {
            let group = &mut self.groups[*at];
            group.usage_us = std::mem::take(&mut group.charged) / rate;
            group.total_usage_us += group.usage_us;
            sum = u64::saturating_add(sum, group.usage_us);
        }
        sum
    }

    /// Finds groups that can lend, and counts those that lag and those that are short.
    fn look_for_lenders(&mut self, moment: &Moment, length: u64) -> (u32, u32) {
        let (mut lagging, mut short) = (0, 0);
        let look_at_lag = self.in_force.qos.pct_ppm != [0, 0];
        for place in (0..self.active.len()).rev() {
            let at = self.active[place];
            let (share_active, share) = self.groups.shares(at);
            let group = &self.groups[at];
            let behind = |clock: u64| moment.vtime.wrapping_sub(clock) as i64;
            if look_at_lag
                && group.delay_us == 0
                && !group.is_done()
                && behind(group.vtime) < LAG_PERIODS.saturating_mul(length).min(i64::MAX as u64) as i64
                && behind(group.vtime_done) > length as i64
            {
                lagging += 1;
            }
            let spare = group.waiters.is_empty() && behind(group.vtime) > self.margins.low;
            if share >= share_active && !spare {
                short += 1;
                continue;
            }
            let usage = self.usage_share(at, share, moment);
            let most = self.groups.share_if_nothing_lent(at);
            let target = self.wanted(at, usage, most, share, moment, length);
            let group = &self.groups[at];
            if target < most && share_active >= 2 {
                self.add_lender(at, target, share_active);
            } else if group.debt == 0 {
                let (active, before) = (group.active, group.inuse);
                self.groups.set_weights(at, active, active, Some(moment.vtime));
                self.note(Trace::Inuse(Lent::Shortage, at, before, active));
                short += 1;
            }
        }
        (lagging, short)
    }

    /// Share of the device that a group used in the period, of 65536.
    fn usage_share(&self, at: usize, share: u32, moment: &Moment) -> u32 {
        let group = &self.groups[at];
        let mut used_us = group.usage_us;
        if !group.is_done() {
            let in_flight = group.vtime.wrapping_sub(group.vtime_done);
            let cost = super::device::multiplied(in_flight, share);
            used_us = used_us.max(cost.div_ceil(self.base_rate));
        }
        let since = group.activated_at_us.max(self.period_at_us);
        let lasted = moment.us.saturating_sub(since).max(1);
        used_us.saturating_mul(WHOLE.into()).div_ceil(lasted).clamp(1, u64::from(WHOLE)) as u32
    }

    /// The share with which a group would end the next period with half a period of budget, if it uses as much again.
    fn wanted(&mut self, at: usize, usage: u32, most: u32, share: u32, moment: &Moment, length: u64) -> u32 {
        let group = &self.groups[at];
        if group.debt > 0 {
            return 1;
        }
        if !group.waiters.is_empty() || group.budget(moment.vtime) < self.margins.min {
            return most;
        }
        let excess = group.budget(moment.vtime).saturating_sub(self.margins.target);
        if excess > 0 {
            self.groups[at].advance(excess as u64);
            self.cut(excess, share);
        }
        let left = i128::from(self.groups[at].budget(moment.vtime));
        let delta = (left * i128::from(WHOLE) / i128::from(length.max(1))) as i64;
        // The kernel's product has 32 bits: a use of the whole device becomes none.
        let product = WHOLE.wrapping_mul(usage);
        let wanted = i64::from(product) / (i64::from(WHOLE / 2) + delta).max(1);
        wanted.clamp(1, i64::from(most)) as u32
    }

    fn set_busy(&mut self, missed_ppm: [u32; 2], wait_pct: u32, lagging: u32, short: u32) {
        let allowed = self.in_force.qos.pct_ppm.map(|pct| if pct == 0 { 1_000_000 } else { 1_000_000 - pct });
        let over = |pct: u64| (0..2).any(|dir| u64::from(missed_ppm[dir]) > u64::from(allowed[dir]) * pct / 100);
        if wait_pct > WAIT_PCT.0 || over(100) {
            self.busy = self.busy.max(0) + 1;
        } else if wait_pct <= WAIT_PCT.1 && !over(UNBUSY_PCT) && short > 0 {
            self.busy = self.busy.min(0);
            if lagging == 0 {
                self.busy -= 1;
            }
        } else {
            self.busy = 0;
        }
        self.busy = self.busy.clamp(-BUSY_MAX, BUSY_MAX);
    }

    fn adjust_rate(&mut self, lagging: u32) {
        let (min, max) = (self.in_force.rate_min, self.in_force.rate_max);
        if self.busy != 0 && (self.busy > 0 || lagging == 0) {
            let rate = self.base_rate;
            self.base_rate = if rate < min {
                (rate * (100 + CLAMP_PCT) / 100).min(min)
            } else if rate > max {
                (rate * (100 - CLAMP_PCT) / 100).max(max)
            } else {
                let level = self.busy.unsigned_abs();
                let step = RATE_STEPS.iter().find(|(from, _)| level >= *from).map_or(0, |(_, step)| *step);
                let percent = if self.busy > 0 { 100 - step } else { 100 + step };
                (rate * percent).div_ceil(100).clamp(min, max)
            };
            self.refresh_margins();
        }
    }

    fn forgive(&mut self, moment: &Moment, debtors: u32, used_us: u64, wake: &mut dyn FnMut(RequestId, u64)) {
        let clock = &mut self.forgiveness;
        if debtors == 0 {
            *clock = super::device::Forgiveness { at_us: moment.us, remainder_us: 0, used_us: 0 };
            return;
        }
        clock.used_us += if self.busy > 0 { used_us.max(self.in_force.period_us) } else { used_us };
        if moment.us < clock.at_us + FORGIVE_EVERY_US {
            return;
        }
        let lasted = moment.us - clock.at_us;
        let used_pct = clock.used_us.saturating_mul(100) / lasted;
        (clock.at_us, clock.used_us) = (moment.us, 0);
        if used_pct > FORGIVE_USE_PCT {
            clock.remainder_us = 0;
            return;
        }
        let halvings = ((lasted + clock.remainder_us) / FORGIVE_EVERY_US).min(63);
        clock.remainder_us = (lasted + clock.remainder_us) % FORGIVE_EVERY_US;
        for place in (0..self.active.len()).rev() {
            let at = self.active[place];
            let group = &mut self.groups[at];
            let (debt, delay) = (group.debt, group.delay_us);
            if debt == 0 && delay == 0 {
                continue;
            }
            let halved = |value: u64| if value > 0 { (value >> halvings).max(1) } else { 0 };
            (group.debt, group.delay_us) = (halved(debt), halved(delay));
            self.kick(at, true, moment, wake);
            let group = &self.groups[at];
            let after = ((debt, group.debt), (delay, group.delay_us));
            self.note(Trace::Forgiven(at, after.0, after.1));
        }
    }

    /// Virtual time that was cut comes back as a higher rate.
    fn compensate(&mut self, moment: &Moment) {
        let (rate, period) = (self.base_rate as i64, self.in_force.period_us);
        let left = (self.period_at_us + period).saturating_sub(moment.us) as i64;
        if self.running && left > 0 {
            let by = (-self.error / left).clamp(-(rate / 2), rate);
            self.error += by * left;
            self.rate = (rate + by) as u64;
        }
        let most = period as i64 * rate;
        self.error = self.error.clamp(-most, most);
    }
}
