use super::super::limits::Amount;
use super::*;

const MIB: u64 = 256;

/// Writers as fast as they may be, a flusher and a device that serves one I/O after another.
struct World {
    dirty: Dirty,
    writers: Vec<(Writer, Nanos)>,
    /// Pages that each writer has dirtied.
    done: Vec<u64>,
    /// Pages of an I/O, and its time.
    io: (u64, Nanos),
    queue: u64,
    depth: u64,
    busy_until: Option<Nanos>,
    flushing: bool,
    now: Nanos,
    /// Time to dirty a page.
    copy: Nanos,
    /// Lengths of pauses with the pages before each.
    pauses: Vec<(Nanos, u64)>,
    paused_below_freerun: bool,
    most: u64,
}

impl World {
    fn new(thresholds: Thresholds, writers: usize, io: (u64, Nanos), depth: u64) -> World {
        World {
            dirty: Dirty::new(thresholds, 250),
            writers: vec![(Writer::default(), Nanos::ZERO); writers],
            done: vec![0; writers],
            io,
            queue: 0,
            depth,
            busy_until: None,
            flushing: false,
            now: Nanos::ZERO,
            copy: Nanos(1000),
            pauses: Vec::new(),
            paused_below_freerun: false,
            most: 0,
        }
    }

    fn device(&mut self) {
        if self.busy_until.is_some_and(|at| at <= self.now) {
            self.busy_until = None;
            self.dirty.written(self.io.0);
            self.queue -= 1;
        }
        self.flushing = self.dirty.over_background();
        while self.flushing && self.queue < self.depth && self.dirty.dirty() >= self.io.0 {
            self.dirty.writeback_started(self.io.0);
            self.queue += 1;
            self.flushing = self.dirty.over_background();
        }
        if self.busy_until.is_none() && self.queue > 0 {
            self.busy_until = Some(self.now + self.io.1);
        }
    }

    fn writer(&mut self, number: usize) {
        let (writer, at) = &mut self.writers[number];
        let before = writer.dirtied;
        if let Some(until) = self.dirty.pause(writer, self.now) {
            self.paused_below_freerun |= self.dirty.total() <= self.dirty.thresholds().freerun;
            self.pauses.push((until.since(self.now), before));
            *at = until;
            return;
        }
        self.dirty.dirtied(writer, 1);
        *at = self.now + self.copy;
        self.done[number] += 1;
        self.most = self.most.max(self.dirty.total());
    }

    fn run(&mut self, until: Nanos) {
        loop {
            self.device();
            let next = (0..self.writers.len()).min_by_key(|n| self.writers[*n].1);
            let writer_at = next.map_or(Nanos::MAX, |n| self.writers[n].1);
            let at = writer_at.min(self.busy_until.unwrap_or(Nanos::MAX));
            if at > until {
                self.now = until;
                return;
            }
            self.now = at.max(self.now);
            if let Some(number) = next.filter(|_| writer_at <= self.now) {
                self.writer(number);
            }
        }
    }

    /// Pages that each writer dirties in a time from now on.
    fn rates(&mut self, time: Nanos) -> Vec<u64> {
        let before = self.done.clone();
        self.run(self.now + time);
        self.done.iter().zip(before).map(|(now, before)| now - before).collect()
    }
}

fn eight_gib() -> Thresholds {
    Thresholds::new(8 << 18, Amount::Percent(20), Amount::Percent(10))
}

/// 48 MiB with a background of 16 MiB.
fn small() -> Thresholds {
    Thresholds::new(8 << 18, Amount::Bytes(48 << 20), Amount::Bytes(16 << 20))
}

/// The worked example D1: 8 GiB, the default thresholds, a writer of 4 GB/s and a device of 100 MiB/s.
#[test]
fn a_writer_runs_freely_and_then_as_fast_as_the_device() {
    let mut w = World::new(eight_gib(), 1, (MIB / 4, Nanos::from_us(2500)), 128);
    w.run(Nanos::from_ms(209));
    assert!((w.dirty.total() / MIB).abs_diff(819) < 5 && w.queue == 0, "{}", w.dirty.total() / MIB);
    w.run(Nanos::from_ms(312));
    assert!((w.dirty.total() / MIB).abs_diff(1210) < 20 && w.pauses.is_empty(), "{}", w.dirty.total() / MIB);
    w.run(Nanos::from_secs(5));
    w.pauses.clear();
    let mib_per_s = w.rates(Nanos::from_secs(10))[0] / MIB / 10;
    assert!((95..=105).contains(&mib_per_s), "{mib_per_s}");
    let total = w.dirty.total() / MIB;
    assert!((1400..=1470).contains(&total), "{total}");
    // Steps of 0.8 MiB.
    let sleeps = w.pauses.iter().map(|(time, _)| time.0 / 4_000_000).max();
    assert!(
        sleeps <= Some(4) && w.dirty.pauses().pages.abs_diff(200) <= 20,
        "{sleeps:?} ticks, {:?}",
        w.dirty.pauses().pages
    );
}

/// The worked example D2: the device does 62 MB/s in I/Os of 64 KiB, the base rate still comes down from 100 MiB/s.
#[test]
fn little_dirty_memory_is_kept_nearly_full() {
    let mut w = World::new(small(), 1, (16, Nanos::from_us(1048)), 256);
    let first = w.dirty.rate();
    w.run(Nanos::from_ms(500));
    w.pauses.clear();
    let mut totals = Vec::new();
    let before = w.done[0];
    for _ in 0..300 {
        w.run(w.now + Nanos::from_ms(10));
        totals.push(w.dirty.total());
    }
    let mb_per_s = (w.done[0] - before) * 4096 / 3_000_000;
    assert!((60..=65).contains(&mb_per_s), "{mb_per_s}");
    let mean = totals.iter().sum::<u64>() as f64 / 300.0 / MIB as f64;
    assert!((45.4..=46.8).contains(&mean), "{mean} MiB");
    let fell = 1.0 - w.dirty.rate() as f64 / first as f64;
    assert!((0.07..=0.14).contains(&fell), "2 to 4 % a second: {fell}");
    let pages = w.pauses.iter().map(|(_, pages)| *pages).sum::<u64>() / w.pauses.len() as u64;
    assert!((170..=200).contains(&pages), "{pages}");
    let longest = w.pauses.iter().map(|(time, _)| time.0).max().unwrap();
    assert!(longest <= 16_000_000, "{longest}");
}

/// The same beside a reader under bfq, which leaves 2.6 MB/s: at the limit, where nothing may be dirtied for a while.
#[test]
fn at_the_limit_a_writer_sleeps_again_and_again() {
    let mut w = World::new(small(), 1, (16, Nanos::from_ms(25)), 256);
    w.run(Nanos::from_secs(6));
    let total = w.dirty.total();
    assert!(total.abs_diff(48 * MIB) < MIB, "{total}");
    assert!(w.most <= 48 * MIB + 250, "{}", w.most);
    let longest = w.pauses.iter().map(|(time, _)| time.0).max().unwrap();
    assert!((50_000_000..=204_000_000).contains(&longest), "{longest}");
}

#[test]
fn equal_writers_get_equal_rates_and_together_the_bandwidth() {
    for writers in [2, 4, 8] {
        let mut w = World::new(eight_gib(), writers, (MIB / 4, Nanos::from_us(2500)), 128);
        // What is dirtied beyond the setpoint at first has to be written too.
        w.run(Nanos::from_secs(40));
        let rates = w.rates(Nanos::from_secs(5));
        let (least, most) = (rates.iter().min().unwrap(), rates.iter().max().unwrap());
        assert!(most * 10 <= least * 11, "{rates:?}");
        let mib_per_s = rates.iter().sum::<u64>() / MIB / 5;
        assert!((95..=105).contains(&mib_per_s), "{mib_per_s}");
        assert!(!w.paused_below_freerun);
        assert!(w.most <= w.dirty.thresholds().limit + writers as u64 * 250, "{}", w.most);
    }
}

#[test]
fn the_rate_follows_the_device() {
    // MiB/s.
    for (speed, thresholds) in [(5, small()), (40, eight_gib()), (300, eight_gib()), (900, eight_gib())] {
        let time = Nanos(1_000_000_000 / 4 / speed);
        let mut w = World::new(thresholds, 1, (MIB / 4, time), 128);
        w.run(Nanos::from_secs(100));
        let mib_per_s = w.rates(Nanos::from_secs(20))[0] / 20;
        assert!((mib_per_s.abs_diff(speed * MIB)) * 20 <= speed * MIB, "{} of {speed}", mib_per_s / MIB);
        assert!(
            w.dirty.bandwidth().abs_diff(speed * MIB) * 10 <= speed * MIB,
            "{} of {speed}",
            w.dirty.bandwidth() / MIB
        );
    }
}

#[test]
fn the_next_check_comes_sooner_the_nearer_the_limit_is() {
    let mut dirty = Dirty::new(eight_gib(), 250);
    let mut writer = Writer::default();
    dirty.dirtied(&mut writer, 31);
    assert_eq!(dirty.pause(&mut writer, Nanos::ZERO), None);
    assert_eq!(writer.dirtied, 31, "not checked");
    dirty.dirtied(&mut writer, 1);
    assert_eq!(dirty.pause(&mut writer, Nanos::ZERO), None);
    assert_eq!((writer.dirtied, writer.check_at), (0, 512));
}

/// A writer that does not write for a while is not paused for what it wrote before, and gets no credit for more than a second.
#[test]
fn time_between_pauses_is_credited_for_a_second() {
    let mut dirty = Dirty::new(small(), 250);
    let mut writer = Writer::default();
    dirty.dirtied(&mut writer, 40 * MIB);
    assert!(dirty.pause(&mut writer, Nanos::from_ms(4)).is_some());
    // 200 pages each 10 ms are less than the rate at the setpoint.
    let mut now = Nanos::from_secs(1);
    writer.rested = 250;
    for _ in 0..50 {
        dirty.dirtied(&mut writer, 200);
        dirty.writeback_started(200);
        dirty.written(200);
        now += Nanos::from_ms(10);
        assert_eq!(dirty.pause(&mut writer, now), None);
    }
    let credit = 250 + 125 - writer.rested;
    assert!((0..=125).contains(&credit), "{credit}");
    now += Nanos::from_secs(5);
    dirty.dirtied(&mut writer, 400);
    assert_eq!(dirty.pause(&mut writer, now), None);
    assert_eq!(writer.rested, 250 * 13 / 2, "the credit is gone");
}
