//! The memory model of the simulation: values that each sector may hold.

use std::collections::BTreeMap;

/// A value that was written to a sector, oldest first. Each sector belongs to one client, which never has two writes of it under way.
#[derive(Clone, Copy, Debug)]
struct Written {
    value: u64,
    /// When it was answered well; `None`: under way, failed or unanswered, so that it may be there or not.
    acknowledged: Option<u64>,
    /// It was permanent when it was answered.
    fua: bool,
}

/// All that was ever written.
pub(super) struct History {
    sectors: Vec<Vec<Written>>,
    next_value: u64,
    /// Counts events: what was answered before what.
    events: u64,
    /// When the last flush began that was answered well: everything that was answered before it is permanent.
    flushed: u64,
}

impl History {
    pub(super) fn new(sectors: u64) -> History {
        let blank = Written { value: 0, acknowledged: Some(0), fua: true };
        History { sectors: vec![vec![blank]; sectors as usize], next_value: 1, events: 1, flushed: 0 }
    }

    /// The time of this event.
    pub(super) fn tick(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    pub(super) fn fresh_value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value
    }

    /// A write of these sectors is sent.
    pub(super) fn begin(&mut self, sector: u64, sectors: u64, value: u64, fua: bool) {
        for at in sector..sector + sectors {
            self.sectors[at as usize].push(Written { value, acknowledged: None, fua });
        }
    }

    /// The last write of these sectors, which had this value, was answered well.
    pub(super) fn acknowledge(&mut self, sector: u64, sectors: u64, value: u64) {
        let now = self.tick();
        for at in sector..sector + sectors {
            let all = &mut self.sectors[at as usize];
            let own = all.iter_mut().rev().find(|written| written.value == value).unwrap();
            own.acknowledged = Some(now);
        }
    }

    /// A flush that was sent at `begun` was answered well.
    pub(super) fn flushed(&mut self, begun: u64) {
        self.flushed = self.flushed.max(begun);
    }

    /// How many values a sector has had: a read that begins now sees the last acknowledged of them or a later one.
    pub(super) fn oldest_visible(&self, sector: u64) -> usize {
        let all = &self.sectors[sector as usize];
        all.iter().rposition(|written| written.acknowledged.is_some()).unwrap()
    }

    /// A read that began when [`History::oldest_visible`] was `oldest` found this value.
    pub(super) fn check_read(&self, sector: u64, oldest: usize, found: u64) {
        let all = &self.sectors[sector as usize];
        let allowed = all[oldest..].iter().any(|written| written.value == found);
        assert!(allowed, "sector {sector} holds {found}; expected one of {:?}", &all[oldest..]);
    }

    /// Checks the contents after a loss of power: each sector has the last value that was promised to be permanent, or a later one. Counts sectors by
    /// kind of promise.
    pub(super) fn check_after_power_loss(&self, left: &[u64]) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for (sector, all) in self.sectors.iter().enumerate() {
            let permanent = |written: &Written| written.acknowledged.is_some_and(|at| written.fua || at < self.flushed);
            let floor = all.iter().rposition(permanent).unwrap();
            let allowed = all[floor..].iter().any(|written| written.value == left[sector]);
            assert!(allowed, "sector {sector} lost {:?}: it holds {}", &all[floor..], left[sector]);
            let kind = match (floor, all[floor].fua) {
                (0, _) => "never written",
                (_, true) => "by FUA",
                (_, false) => "by a flush",
            };
            *counts.entry(kind).or_insert(0) += 1;
        }
        counts
    }
}
