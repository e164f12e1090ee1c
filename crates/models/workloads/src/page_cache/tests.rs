use super::*;
use crate::generate::{BuildContext, JobSpec};
use dumbwaiter_text::units::Prefixes;

fn job(options: &[(&str, &str)]) -> Box<dyn Workload> {
    let mut job = JobSpec::default();
    for (key, value) in options {
        job.set(key, value, Prefixes::Plain).unwrap();
    }
    job.build(BuildContext { seed: 1, capacity_sectors: 1 << 24, job: 0, instance: 0, replicate: 0 }).unwrap()
}

fn cache(bytes: u64, delay: Nanos) -> PageCache {
    PageCache::new(CacheSpec { bytes, readahead: true, writeback_delay: delay }, 1 << 24)
}

#[test]
fn sequential_reads_are_read_ahead_in_growing_windows() {
    let c = cache(1 << 30, Nanos::from_secs(30));
    let mut w = c.buffered(job(&[("rw", "read"), ("bs", "4k"), ("ioengine", "psync"), ("size", "1m")]), (0, 0));
    let (mut now, mut seen) = (Nanos::ZERO, Vec::new());
    while seen.len() < 6 {
        match w.next(now) {
            Next::Issue(want) => {
                seen.push((want.sector, want.sectors, want.flags));
                now += Nanos(100);
                w.completed(now, 0, Nanos::ZERO);
            }
            Next::Wait(at) => now = at,
            other => panic!("{other:?}"),
        }
    }
    let ahead = Flags::RAHEAD;
    let expected = [
        (0, 32, Flags::SYNC),
        (32, 64, ahead),
        (96, 128, ahead),
        (224, 256, ahead),
        (480, 256, ahead),
        (736, 256, ahead),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn random_reads_are_not_read_ahead() {
    let c = cache(1 << 30, Nanos::from_secs(30));
    let mut w = c.buffered(job(&[("rw", "randread"), ("bs", "4k"), ("ioengine", "psync"), ("randseed", "4")]), (0, 0));
    let (mut now, mut seen) = (Nanos::ZERO, Vec::new());
    while seen.len() < 100 {
        match w.next(now) {
            Next::Issue(want) => {
                seen.push(want);
                assert_eq!(w.next(now), Next::Blocked);
                w.completed(now, 0, Nanos::ZERO);
            }
            Next::Wait(at) => now = at,
            other => panic!("{other:?}"),
        }
    }
    // The first read may begin a sequence: one window and its successor.
    assert!(seen[2..].iter().all(|want| want.sectors == 8 && want.flags == Flags::SYNC), "{seen:?}");
}

/// 100 MB of memory: write-back begins above 2441 pages, and writers wait from 4882.
#[test]
fn writers_wait_above_20_percent_and_the_flusher_stops_at_10_percent() {
    let c = cache(100_000_000, Nanos::from_secs(30));
    let mut w = c.buffered(job(&[("rw", "write"), ("bs", "64k"), ("direct", "0")]), (0, 0));
    let mut flusher = c.flusher();
    assert!(matches!(flusher.next(Nanos::ZERO), Next::Wait(_)));
    let mut now = Nanos::ZERO;
    loop {
        match w.next(now) {
            Next::Wait(at) if at == now + RETRY_INTERVAL => break,
            Next::Wait(at) => now = at,
            other => panic!("{other:?}"),
        }
    }
    let dirty = c.state().dirty;
    assert!((4882..4882 + 16).contains(&dirty), "{dirty}");
    let mut written = Vec::new();
    while let Next::Issue(want) = flusher.next(now) {
        written.push((want.sector, want.sectors));
        assert!(want.flags.has(Flags::BACKGROUND));
    }
    assert_eq!(written[0], (0, 8192), "4 MiB at once");
    assert!(written.windows(2).all(|w| w[0].0 + u64::from(w[0].1) == w[1].0), "{written:?}");
    let state = c.state();
    assert!(state.dirty <= 2441 && state.dirty + state.writeback == dirty);
    drop(state);
    assert!(!c.write(0, &want(0), now), "pages in flight count too");
    written.iter().for_each(|_| flusher.completed(now, 0, Nanos::ZERO));
    assert!(c.write(0, &want(0), now));
}

fn want(sector: u64) -> Want {
    Want { op: Op::Write, sector, sectors: 8, flags: Flags::NONE, ioprio: None, stream: 0, task: 0 }
}

#[test]
fn writers_of_one_place_write_one_file_in_one_order() {
    let c = cache(1 << 30, Nanos::from_secs(1));
    let (a, b) = (c.open_at((0, 4096)), c.open_at((0, 4096)));
    assert!(a == b && c.open_at((4096, 4096)) != a);
    for (file, page) in [(a, 9), (b, 3), (a, 5)] {
        assert!(c.write(file, &want(page * 8), Nanos::ZERO));
    }
    let mut flusher = c.flusher();
    let mut pages = Vec::new();
    while let Next::Issue(want) = flusher.next(Nanos::from_secs(1)) {
        pages.push(want.sector / 8);
    }
    assert_eq!(pages, [3, 5, 9]);
    c.close(a);
    assert_eq!(c.state().files[a].writers, 1, "the other has it open");
}

#[test]
fn old_pages_are_written_and_sync_writes_all() {
    let c = cache(1 << 30, Nanos::from_secs(1));
    let file = c.open();
    let mut flusher = c.flusher();
    for page in [9, 3, 4, 70_000] {
        assert!(c.write(file, &want(page * 8), Nanos::ZERO));
    }
    assert!(matches!(flusher.next(Nanos::from_ms(999)), Next::Wait(_)));
    let mut runs = Vec::new();
    while let Next::Issue(want) = flusher.next(Nanos::from_secs(1)) {
        runs.push((want.sector / 8, want.sectors / 8));
    }
    assert_eq!(runs, [(3, 2), (9, 1), (70_000, 1)], "sorted, and contiguous pages merged");
    runs.iter().for_each(|_| flusher.completed(Nanos::from_secs(1), 0, Nanos::ZERO));
    let now = Nanos::from_ms(1001);
    assert!(c.write(file, &want(0), now));
    c.sync();
    let mut last = None;
    assert!(!c.synced(&mut last));
    assert!(matches!(flusher.next(now), Next::Issue(want) if want.flags == Flags::NONE));
    assert!(!c.synced(&mut last) && last.is_some());
    flusher.completed(now, 0, Nanos::ZERO);
    assert!(c.synced(&mut last));
    c.close(file);
    assert_eq!(flusher.next(now), Next::Done);
}
