//! What one direction of one group was allowed, and used, of its limits: Linux counts in slices of a tenth of a second.
//!
//! What is allowed is granted by the started slice, so that all of a tenth of a second may go at its first tick.

/// Linux, whose arithmetic differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// Bytes and I/Os are checked together, and late time is given away.
    #[default]
    V6_12,
    /// Bytes first, then I/Os; a slice of late time is kept.
    V6_18,
}

/// Limits of a direction; `None`: any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Bytes per second.
    pub bytes: Option<u64>,
    /// I/Os per second.
    pub ios: Option<u64>,
}

/// The slices of one direction. Times are ticks.
#[derive(Clone, Copy, Debug)]
pub struct Slices {
    release: Release,
    hz: i64,
    pub(super) rates: Rates,
    start: i64,
    end: i64,
    /// Charged since `start`; below 0 after a change of the limit while I/Os waited.
    bytes: i128,
    ios: i128,
}

/// Rounds up to a multiple.
fn up(ticks: i64, slice: i64) -> i64 {
    (ticks + slice - 1).div_euclid(slice) * slice
}

impl Slices {
    /// Nothing charged yet.
    pub fn new(release: Release, hz: i64, rates: Rates) -> Slices {
        Slices { release, hz, rates, start: i64::MIN / 4, end: i64::MIN / 4, bytes: 0, ios: 0 }
    }

    fn slice(&self) -> i64 {
        (self.hz / 10).max(1)
    }

    fn granted(&self, rate: u64, ticks: i64) -> i128 {
        i128::from(rate) * i128::from(ticks) / i128::from(self.hz.max(1))
    }

    /// An I/O is about to be checked. A slice that is over begins anew if nothing waits.
    pub fn refresh(&mut self, now: i64, waiting: bool) {
        let slice = self.slice();
        if !waiting && (now < self.start || now > self.end) {
            (self.start, self.end) = (now, now + slice);
            (self.bytes, self.ios) = (0, 0);
        } else {
            self.end = self.end.max(up(now + slice, slice));
        }
    }

    /// Ticks for which this many bytes must wait.
    pub fn wait_for_bytes(&self, now: i64, size: u64) -> i64 {
        let Some(rate) = self.rates.bytes else { return 0 };
        let elapsed = now - self.start;
        let rounded = if elapsed == 0 { self.slice() } else { up(elapsed, self.slice()) };
        let over = self.bytes + i128::from(size) - self.granted(rate, rounded);
        if over <= 0 {
            return 0;
        }
        let wait = (over * i128::from(self.hz) / i128::from(rate.max(1))).clamp(1, i128::from(u32::MAX)) as i64;
        wait + (rounded - elapsed)
    }

    /// Ticks for which one more I/O must wait.
    pub fn wait_for_io(&self, now: i64) -> i64 {
        let Some(rate) = self.rates.ios else { return 0 };
        let elapsed = now - self.start;
        let rounded = up(elapsed + 1, self.slice());
        let allowed = self.granted(rate, rounded);
        if allowed > 0 && self.ios < allowed {
            return 0;
        }
        let each = i64::try_from(self.hz as u64 / rate.max(1)).unwrap_or(i64::MAX);
        (rounded - elapsed).max(each + 1)
    }

    /// An I/O was refused for this long: the slice lasts until then.
    pub fn refused(&mut self, now: i64, wait: i64) {
        self.end = self.end.max(up(now + wait, self.slice()));
    }

    /// When what is charged began.
    pub(super) fn start(&self) -> i64 {
        self.start
    }

    /// An I/O arrives from a group inside, by its timer. A slice that is over begins anew, as early as that of the group inside: what
    /// was not used meanwhile may be.
    pub fn credit(&mut self, inside: i64, now: i64) {
        if now < self.start || now > self.end {
            (self.start, self.end) = (self.start.max(inside), now + self.slice());
            (self.bytes, self.ios) = (0, 0);
        }
    }

    /// Bytes passed.
    pub fn charge_bytes(&mut self, size: u64) {
        self.bytes += i128::from(size);
    }

    /// An I/O passed.
    pub fn charge_io(&mut self) {
        self.ios += 1;
    }

    /// An I/O that was charged did not come after all.
    pub fn give_back(&mut self, size: u64) {
        let less = |charged: i128, by: i128| if charged > 0 { (charged - by).max(0) } else { charged };
        (self.bytes, self.ios) = (less(self.bytes, size.into()), less(self.ios, 1));
    }

    /// After an I/O passed: whole slices that are over leave the account with what they allowed.
    pub fn trim(&mut self, now: i64) {
        if now < self.start || now > self.end {
            return;
        }
        let slice = self.slice();
        self.end = up(now + slice, slice);
        // 6.18 keeps one slice as credit for late timers, and forgets the account where a slice allows none (below ten a second).
        let (kept, forgets) = match self.release {
            Release::V6_12 => (0, false),
            Release::V6_18 => (slice, true),
        };
        let over = (now - self.start).div_euclid(slice) * slice - kept;
        if over <= 0 {
            return;
        }
        let less = |charged: i128, rate: Option<u64>| match rate.map(|rate| self.granted(rate, over)) {
            Some(0) if forgets => 0,
            Some(allowed) if charged > 0 => (charged - allowed).max(0),
            _ => charged,
        };
        (self.bytes, self.ios) = (less(self.bytes, self.rates.bytes), less(self.ios, self.rates.ios));
        self.start += over;
    }

    /// Other limits from now on. What was allowed and not used stays if I/Os wait.
    pub fn set(&mut self, rates: Rates, now: i64, waiting: bool) {
        let elapsed = now - self.start;
        // What was allowed counts by the tick here, not by the started slice: chosen by a recording of 6.12 in which limits change.
        let left = |charged: i128, rate: Option<u64>| match rate {
            Some(rate) if waiting => charged - self.granted(rate, elapsed),
            _ => 0,
        };
        (self.bytes, self.ios) = (left(self.bytes, self.rates.bytes), left(self.ios, self.rates.ios));
        (self.start, self.end) = (now, now + self.slice());
        self.rates = rates;
    }
}
