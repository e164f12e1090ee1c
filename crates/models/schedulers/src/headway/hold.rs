//! Holding back: a tenant that is ahead of its share waits a moment for one that is behind and ran empty, although its clients keep a
//! backlog otherwise. Their next requests are a few milliseconds away, for want of CPU time; large requests of others would fill the
//! device meanwhile.

use dumbwaiter_block::Nanos;

/// Requests in a row that make a backlog.
pub(super) const BACKLOG: u32 = 8;
/// Tenants that may have run empty at a time; of more the latest count, so that a look at them takes no longer.
const EMPTY_MAX: usize = 16;
/// One part in this of the time may be given up.
const BUDGET_PART: u64 = 4;
/// The most that may be given up at once.
const BUDGET_MAX: Nanos = Nanos::from_ms(50);
/// Less than this is not worth a beginning.
const BUDGET_MIN: Nanos = Nanos::from_ms(1);

/// Tenants that ran empty, and the time that was given up for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Hold {
    /// Tenants that ran empty after a backlog, and when.
    empty: Vec<(u32, Nanos)>,
    /// Since when others are held back.
    since: Option<Nanos>,
    budget: Nanos,
    seen: Nanos,
    /// Time in which others were held back.
    pub(super) held: Nanos,
}

impl Hold {
    /// The last waiting request of a tenant with a backlog was sent.
    pub(super) fn ran_empty(&mut self, tenant: u32, now: Nanos) {
        if self.empty.len() == EMPTY_MAX {
            self.empty.remove(0);
        }
        self.empty.push((tenant, now));
    }

    /// A request of a tenant came, or the tenant is gone.
    pub(super) fn is_back(&mut self, tenant: u32) {
        self.empty.retain(|(empty, _)| *empty != tenant);
    }

    /// Until when others wait, if they do: for a tenant that ran empty no longer than `longest` ago and is `owed` service.
    pub(super) fn until(&mut self, now: Nanos, longest: Nanos, owed: impl Fn(u32) -> bool) -> Option<Nanos> {
        self.empty.retain(|(_, at)| now < *at + longest);
        let candidate = self.empty.iter().filter(|(tenant, _)| owed(*tenant)).map(|(_, at)| *at + longest).max();
        self.count(now);
        let least = if self.since.is_some() { Nanos::ZERO } else { BUDGET_MIN };
        let until = candidate.filter(|_| self.budget > least).map(|until| until.min(now + self.budget));
        self.since = until.map(|_| now);
        until
    }

    /// What was given up since the last look, and what may be.
    fn count(&mut self, now: Nanos) {
        let earned = Nanos(now.since(self.seen).0 / BUDGET_PART);
        self.budget = (self.budget + earned).min(BUDGET_MAX);
        self.seen = now;
        if let Some(since) = self.since {
            let spent = now.since(since);
            self.held += spent;
            self.budget = Nanos(self.budget.0.saturating_sub(spent.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_that_run_empty_the_latest_count() {
        let mut hold = Hold::default();
        (0..100).for_each(|tenant| hold.ran_empty(tenant, Nanos::from_secs(1)));
        assert_eq!(hold.empty.len(), EMPTY_MAX);
        let longest = Nanos::from_ms(10);
        assert!(hold.until(Nanos::from_secs(1), longest, |tenant| tenant == 99).is_some());
        assert_eq!(hold.until(Nanos::from_secs(1), longest, |tenant| tenant == 0), None);
    }

    #[test]
    fn no_more_than_a_quarter_of_the_time_is_given_up() {
        let (mut hold, mut now) = (Hold::default(), Nanos::from_secs(1));
        let longest = Nanos::from_ms(10);
        while now < Nanos::from_secs(3) {
            hold.is_back(1);
            hold.ran_empty(1, now);
            match hold.until(now, longest, |_| true) {
                Some(until) => {
                    assert!(until > now && until <= now + longest);
                    now = until;
                }
                None => now += Nanos::from_us(100),
            }
        }
        assert!(hold.held > Nanos::from_ms(400) && hold.held <= Nanos::from_ms(750 + 50), "{:?}", hold.held);
        // One that is owed nothing, or was away for longer, holds nobody back.
        assert_eq!(hold.until(now, longest, |_| false), None);
        assert_eq!(hold.until(now + longest, longest, |_| true), None);
    }
}
