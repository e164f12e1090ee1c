//! How writers are paused, so that together they dirty pages as fast as the device cleans them (Linux 6.12 and 6.18:
//! `balance_dirty_pages`), for one device without memory cgroups.
//!
//! Each writer is checked after some pages. Above [`Thresholds::freerun`] it sleeps as long as its pages take at the rate of
//! a task: a base rate, which follows the device's bandwidth over the number of writers, times a factor of the position,
//! which is 1 at the setpoint and 0 at the limit. Sleeps are whole ticks, and what a writer does between them is credited.

use dumbwaiter_block::Nanos;

use super::limits::Thresholds;

/// Bandwidth and rate that any device begins with, pages per second: 100 MiB/s.
const FIRST_RATE: u64 = 25_600;
/// Pages that a writer dirties before its first check, and those that it may dirty between pauses where they are short enough.
const FIRST_CHECK: u64 = 32;
/// Pages after which a writer is checked at the latest while there are too many dirty ones.
const CHECK_AT_LIMIT: u64 = 8;
/// Time between estimates, and the age at which a measurement is no use any more.
const ESTIMATE_INTERVAL: Nanos = Nanos::from_ms(200);
const ESTIMATE_TOO_OLD: Nanos = Nanos::from_secs(1);
const SECOND: u64 = 1_000_000_000;

/// The dirty pages of a device, and the rate at which each writer may add to them.
#[derive(Clone, Debug)]
pub struct Dirty {
    thresholds: Thresholds,
    hz: u64,
    /// Pages dirty and not under write-back, and those under write-back.
    dirty: u64,
    writeback: u64,
    /// Pages written since the last estimate, and its time.
    written: u64,
    estimated: Nanos,
    /// Pages dirtied since writers ran freely last or the last estimate, and the time of that.
    dirtied: u64,
    throttled: Nanos,
    /// Pages per second: what the device writes, a mean of some seconds; the same smoothed further; the base rate of a writer.
    measured: u64,
    bandwidth: u64,
    rate: u64,
}

/// What is kept of a writing task.
#[derive(Clone, Debug)]
pub struct Writer {
    /// Pages dirtied since the last pause that counts.
    dirtied: u64,
    /// Pages after which it is checked.
    check_at: u64,
    /// Planned end of its last pause in ticks, with the pauses that it owes.
    rested: i64,
    /// It slept because nothing may be dirtied, and is checked again.
    stopped: bool,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer { dirtied: 0, check_at: FIRST_CHECK, rested: 0, stopped: false }
    }
}

/// Lengths in ticks of the pauses of a writer, and its pages between two of them.
struct Pauses {
    least: i64,
    most: i64,
    pages: u64,
}

impl Dirty {
    /// No page is dirty. `hz`: ticks of the kernel's clock per second.
    pub fn new(thresholds: Thresholds, hz: u32) -> Dirty {
        Dirty {
            thresholds,
            hz: u64::from(hz.max(1)),
            dirty: 0,
            writeback: 0,
            written: 0,
            estimated: Nanos::ZERO,
            dirtied: 0,
            throttled: Nanos::ZERO,
            measured: FIRST_RATE,
            bandwidth: FIRST_RATE,
            rate: FIRST_RATE,
        }
    }

    /// The thresholds.
    pub fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// Pages dirty and not under write-back.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Pages dirty or under write-back.
    pub fn total(&self) -> u64 {
        self.dirty + self.writeback
    }

    /// What the device writes, pages per second, as estimated.
    pub fn bandwidth(&self) -> u64 {
        self.bandwidth
    }

    /// The base rate of a writer, pages per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Should the flusher write in the background?
    pub fn over_background(&self) -> bool {
        self.dirty > self.thresholds.background
    }

    /// Clean pages became dirty. [`Dirty::pause`] must be asked next.
    pub fn dirtied(&mut self, writer: &mut Writer, pages: u64) {
        self.dirty += pages;
        self.dirtied += pages;
        writer.dirtied += pages;
    }

    /// Dirty pages go to the device.
    pub fn writeback_started(&mut self, pages: u64) {
        let pages = pages.min(self.dirty);
        self.dirty -= pages;
        self.writeback += pages;
    }

    /// The device has written pages.
    pub fn written(&mut self, pages: u64) {
        self.writeback = self.writeback.saturating_sub(pages);
        self.written += pages;
    }

    /// Must the writer sleep at `now`? Then until this time, at which the question is asked again before it goes on.
    pub fn pause(&mut self, writer: &mut Writer, now: Nanos) -> Option<Nanos> {
        let total = self.total();
        let at_latest = if total >= self.thresholds.limit { CHECK_AT_LIMIT } else { u64::MAX };
        if !writer.stopped && writer.dirtied < writer.check_at.min(at_latest) {
            return None;
        }
        let tick = self.tick(now);
        if total <= self.thresholds.freerun {
            (self.dirtied, self.throttled) = (0, now);
            if self.over_background() {
                self.estimate(now);
            } else {
                // The device need not be busy.
                (self.written, self.estimated) = (0, now);
            }
            let gap = (self.thresholds.limit - total).max(1);
            *writer = Writer { dirtied: 0, check_at: 1 << (gap.ilog2() / 2), rested: tick, stopped: false };
            return None;
        }
        self.estimate(now);
        let rate = self.task_rate();
        let Pauses { least, most, pages } = self.pauses();
        let period = (self.hz * writer.dirtied).checked_div(rate).map_or(most, |ticks| ticks as i64);
        let pause = if rate == 0 { most } else { period - (tick - writer.rested) };
        if pause < least {
            // It owes the pause, unless it has done nothing for long.
            if pause < -(self.hz as i64) {
                (writer.rested, writer.dirtied) = (tick, 0);
            } else if period > 0 {
                writer.rested += period;
                writer.dirtied = 0;
            }
            (writer.check_at, writer.stopped) = (writer.dirtied + pages, false);
            return None;
        }
        let pause = pause.min(most);
        writer.rested = tick + pause;
        (writer.check_at, writer.stopped) = (pages, rate == 0);
        if rate > 0 {
            writer.dirtied = 0;
        }
        Some(self.timer(tick as u64, pause as u64))
    }

    fn tick(&self, now: Nanos) -> i64 {
        (u128::from(now.0) * u128::from(self.hz) / u128::from(SECOND)) as i64
    }

    /// When a timer that is set at `tick` for `ticks` later runs: one tick late, and long ones on a coarser grid.
    fn timer(&self, tick: u64, ticks: u64) -> Nanos {
        let grid = if ticks < 63 { 1 } else { 8 };
        let at = ((tick + ticks) / grid + 1) * grid;
        Nanos((u128::from(at) * u128::from(SECOND)).div_ceil(u128::from(self.hz)) as u64)
    }

    /// Pages per second that each writer may dirty now.
    fn task_rate(&self) -> u64 {
        self.rate * self.thresholds.position(self.total(), self.bandwidth) / Thresholds::POSITION_ONE
    }

    fn pauses(&self) -> Pauses {
        let hz = self.hz;
        // An eighth of the time that the dirty pages last.
        let eighth = (1 + hz / 8).next_power_of_two();
        let most = (hz / 5).min(self.total() / (1 + self.bandwidth / eighth) + 1).max(1);
        // 10 ms, and as much again whenever the number of writers doubles.
        let doublings = u64::from(self.bandwidth.max(1).ilog2().saturating_sub(self.rate.max(1).ilog2()));
        let mut target = (hz * (1 + doublings) / 100).min(most / 2).max(1);
        let second = hz.next_power_of_two();
        let mut pages = self.rate * target / second;
        if pages < FIRST_CHECK {
            target = (FIRST_CHECK * second / self.rate.max(1)).clamp(1, most);
            pages = (self.rate * target / second).min(FIRST_CHECK);
        }
        // No pause is shorter than half the target.
        Pauses { least: (target / 2 + 1).min(most) as i64, most: most as i64, pages: pages.max(1) }
    }

    /// Takes what was dirtied and written since the last estimate into account.
    fn estimate(&mut self, now: Nanos) {
        let time = now.since(self.estimated);
        if time < ESTIMATE_INTERVAL {
            return;
        }
        if time <= ESTIMATE_TOO_OLD {
            self.estimate_bandwidth(time);
            let throttled = now.since(self.throttled);
            if throttled >= Nanos(ESTIMATE_INTERVAL.0 / 2) {
                self.estimate_rate(throttled);
            }
        }
        (self.written, self.estimated) = (0, now);
        (self.dirtied, self.throttled) = (0, now);
    }

    fn estimate_bandwidth(&mut self, time: Nanos) {
        let before = self.measured;
        // About four seconds at 250 ticks a second.
        let window = (3 * self.hz).next_power_of_two() * SECOND / self.hz;
        let old = u128::from(before) * u128::from(window - time.0);
        self.measured = ((u128::from(self.written) * u128::from(SECOND) + old) / u128::from(window)) as u64;
        // The smoothed one follows a movement that goes on.
        let gap = self.bandwidth.abs_diff(before) / 8;
        if before < self.bandwidth && self.measured <= before {
            self.bandwidth = (self.bandwidth - gap).max(1);
        } else if before > self.bandwidth && self.measured >= before {
            self.bandwidth += gap;
        }
    }

    fn estimate_rate(&mut self, time: Nanos) {
        let dirtied = (self.dirtied * SECOND / time.0).max(1);
        let task_rate = self.task_rate();
        // With N writers the bandwidth over N.
        let balanced = (task_rate * self.bandwidth / dirtied).min(self.bandwidth).max(1);
        let gap = balanced.abs_diff(self.rate);
        // At most an eighth of the gap, and less the smaller it is.
        let step = gap * gap.min(self.rate) / self.rate.max(1) / 8;
        if balanced < self.rate && task_rate < self.rate {
            self.rate -= step;
        } else if balanced > self.rate && task_rate > self.rate {
            self.rate += step;
        }
        self.rate = self.rate.max(1);
    }
}

#[cfg(test)]
#[path = "throttle_tests.rs"]
mod tests;
