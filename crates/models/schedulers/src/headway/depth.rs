//! Queue depth: it shrinks while a tenant that always has something outstanding gets less than its share.

use dumbwaiter_block::Nanos;

use super::shares::{Hierarchy, WHOLE};

/// Completions between two reviews of the shares, or one per tenant if those are more.
const REVIEW_COMPLETIONS: u32 = 32;
/// A tenant falls short that got less than this part of what the best served got for its share, in percent.
const SHORT_PERCENT: u64 = 97;
/// All requests of a tenant were in the device for this part of the time: its turn came when it had none waiting, in percent.
const EMPTY_PERCENT: u64 = 5;
/// A tenant can use its share if it had something outstanding for this part of the time, in percent.
const BUSY_PERCENT: u64 = 75;

/// A tenant's requests outstanding, and its service since the last review.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    pub(super) in_device: u32,
    pub(super) waiting: u32,
    pub(super) outstanding: u32,
    /// Requests sent since it last had none waiting.
    pub(super) spell: u32,
    /// Virtual time of its service, at the default weight, in units of 256.
    served: u64,
    /// Since when something is outstanding.
    busy_since: Nanos,
    /// How long something was outstanding.
    busy: Nanos,
    /// Since when all that is outstanding is in the device, if none waits.
    empty_since: Nanos,
    /// How long that was so.
    empty: Nanos,
    /// It is owed service though it nearly always had something outstanding.
    pub(super) behind: bool,
    /// Its own limit keeps it from asking for more.
    pub(super) paced: bool,
    /// Last completion.
    pub(super) last_seen: Nanos,
}

impl Account {
    /// A request arrived. `paced`: a limit of the tenant held it back.
    pub(super) fn arrived(&mut self, now: Nanos, paced: bool) {
        self.paced = paced;
        if self.outstanding == 0 {
            self.busy_since = now;
        } else if self.waiting == 0 {
            self.empty += now.since(self.empty_since);
        }
        if self.waiting == 0 {
            self.spell = 0;
        }
        self.outstanding += 1;
        self.waiting += 1;
    }

    /// A request is sent to the device.
    pub(super) fn sent(&mut self, now: Nanos) {
        self.waiting -= 1;
        self.spell += 1;
        self.empty_since = now;
        self.in_device += 1;
    }

    /// A waiting request became part of another.
    pub(super) fn absorbed(&mut self, now: Nanos) {
        self.waiting -= 1;
        self.empty_since = now;
        self.outstanding -= 1;
    }

    /// The driver returned a request unserved.
    pub(super) fn returned(&mut self) {
        self.in_device -= 1;
        self.outstanding -= 1;
    }

    /// A request is done, which used this much virtual time at the default weight.
    pub(super) fn completed(&mut self, used: u64, now: Nanos) {
        self.in_device -= 1;
        self.outstanding -= 1;
        self.served += used >> 8;
        self.last_seen = now;
        if self.outstanding == 0 {
            self.busy += now.since(self.busy_since);
            self.empty += now.since(self.empty_since);
        }
    }
}

/// The depth that all tenants share, and their accounts.
#[derive(Clone, Debug)]
pub(super) struct Depth {
    pub(super) max: u32,
    pub(super) current: u32,
    pub(super) accounts: Vec<Account>,
    completions: u32,
    reviewed: Nanos,
    /// Shares of the tenants that had something outstanding before the last review, together.
    pub(super) active_share: u64,
    rates: Rates,
}

/// How the depth follows the shares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Following {
    /// Does it?
    pub(super) shares: bool,
    /// Part of the throughput that may be given up for them, in percent.
    pub(super) give_up_percent: u64,
}

/// At the whole depth the best rate falls by a part of two to this power in a review: the load may have changed.
const FORGETS: u32 = 6;

/// What the device does, to tell what a smaller depth gives up: service a second, in the units of accounts.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    /// Over about four reviews.
    now: u64,
    /// The best of late.
    best: u64,
}

impl Rates {
    /// Counts a review. `whole`: the depth was not reduced.
    fn count(&mut self, served: u64, span_ns: u64, whole: bool) {
        let rate = (u128::from(served) * 1_000_000_000 / u128::from(span_ns.max(1))) as u64;
        self.now = if self.best == 0 { rate } else { self.now - self.now / 4 + rate / 4 };
        let kept = self.best - if whole { self.best >> FORGETS } else { 0 };
        self.best = kept.max(self.now);
    }

    /// Is so much of the best rate given up already?
    fn gives_up(&self, percent: u64) -> bool {
        u128::from(self.now) * 100 <= u128::from(self.best) * u128::from(100 - percent.min(100))
    }
}

impl Depth {
    pub(super) fn new(max: u32) -> Depth {
        let max = max.max(1);
        Depth {
            max,
            current: max,
            accounts: Vec::new(),
            completions: 0,
            reviewed: Nanos::ZERO,
            active_share: 0,
            rates: Rates::default(),
        }
    }

    /// The device may hold another number of requests.
    pub(super) fn set_max(&mut self, max: u32) {
        let max = max.max(1);
        self.current = if self.current == self.max { max } else { self.current.min(max) };
        self.max = max;
    }

    /// Makes accounts for tenants below `tenants`.
    pub(super) fn reserve(&mut self, tenants: usize) {
        if tenants > self.accounts.len() {
            self.accounts.resize(tenants, Account::default());
        }
    }

    /// Part of a limit that is in proportion to the depth: a depth that follows a share leaves less room for batches.
    #[inline]
    pub(super) fn scaled(&self, limit: u64) -> u64 {
        if self.current == self.max {
            return limit;
        }
        limit * u64::from(self.current) / u64::from(self.max)
    }

    /// Counts a completion; reviews the shares after enough of them.
    #[inline]
    pub(super) fn completed(&mut self, shares: &Hierarchy, follow: Following, now: Nanos) {
        self.completions += 1;
        if self.completions >= REVIEW_COMPLETIONS.max(self.accounts.len() as u32) {
            self.completions = 0;
            self.review(shares, follow, now);
        }
    }

    /// Compares what the tenants got with their shares, and moves the depth.
    #[cold]
    fn review(&mut self, shares: &Hierarchy, follow: Following, now: Nanos) {
        let span = now.since(self.reviewed).0;
        self.reviewed = now;
        let served = self.accounts.iter().map(|account| account.served).sum();
        self.rates.count(served, span, self.current == self.max);
        let got = |(tenant, account): (usize, &Account)| {
            u128::from(account.served) * u128::from(WHOLE) / u128::from(shares.share(tenant).max(1))
        };
        let most = self.accounts.iter().enumerate().map(got).max().unwrap_or(0);
        let (mut any_behind, mut any_short) = (false, false);
        self.active_share = 0;
        for (tenant, account) in self.accounts.iter_mut().enumerate() {
            if account.outstanding > 0 {
                account.busy += now.since(account.busy_since);
                account.busy_since = now;
                if account.waiting == 0 {
                    account.empty += now.since(account.empty_since);
                    account.empty_since = now;
                }
            }
            if account.busy > Nanos::ZERO {
                self.active_share += shares.share(tenant);
            }
            // One with a backlog needs no help: its turn comes by the order of service. One that is limited asks for no more.
            let empty = account.empty.0 * 100 >= span * EMPTY_PERCENT;
            let needs_help = account.busy.0 * 100 >= span * BUSY_PERCENT && empty && !account.paced;
            let short = got((tenant, account)) * 100 < most * u128::from(SHORT_PERCENT);
            account.behind = needs_help && (shares.lags(tenant) || short);
            any_behind |= account.behind;
            any_short |= needs_help && short;
            account.served = 0;
            account.busy = Nanos::ZERO;
            account.empty = Nanos::ZERO;
        }
        // A tenant that lags, but gets its share now, needs no smaller depth, only time.
        let enough = follow.give_up_percent < 100 && self.rates.gives_up(follow.give_up_percent);
        if any_short && follow.shares && !enough {
            self.current = (self.current * 3 / 4).max(1);
        } else if !any_behind || !follow.shares || enough {
            self.current = (self.current + 1).min(self.max);
        }
    }
}
