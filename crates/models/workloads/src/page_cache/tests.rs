use super::*;
use crate::Next;
use crate::generate::{BuildContext, JobSpec};
use dumbwaiter_text::units::Prefixes;

const MIB_PAGES: u64 = 256;
const AWAITED: Flags = Flags::RAHEAD.with(Flags::SYNC);

fn job(options: &[(&str, &str)]) -> Box<dyn Workload> {
    let mut job = JobSpec::default();
    for (key, value) in options {
        job.set(key, value, Prefixes::Plain).unwrap();
    }
    job.build(BuildContext { seed: 1, capacity_sectors: 1 << 24, first_sector: 0, job: 0, instance: 0, replicate: 0 })
        .unwrap()
}

fn cache(bytes: u64) -> PageCache {
    PageCache::new(CacheSpec::new(bytes), 1 << 24)
}

/// Lets a task run until it has submitted so much, each I/O being done at once.
fn issued(workload: &mut dyn Workload, now: &mut Nanos, count: usize) -> Vec<Want> {
    let mut seen = Vec::new();
    while seen.len() < count {
        match workload.next(*now) {
            Next::Issue(want) => {
                seen.push(want);
                *now += Nanos(100);
                workload.completed(*now, 0, Nanos::ZERO);
            }
            Next::Wait(at) | Next::Pause(at) => *now = at,
            Next::Done => break,
            Next::Blocked => panic!("blocked with nothing under way"),
        }
    }
    seen
}

fn sizes(wants: &[Want]) -> Vec<(u64, u32, Flags)> {
    wants.iter().map(|want| (want.sector / 8, want.sectors / 8, want.flags)).collect()
}

#[test]
fn sequential_reads_are_read_ahead_in_growing_windows() {
    let c = cache(1 << 30);
    let read = job(&[("rw", "read"), ("bs", "4k"), ("ioengine", "psync"), ("size", "1m")]);
    let mut w = c.buffered(read, (0, 0), Advice::None);
    let seen = issued(&mut *w, &mut Nanos(0), 6);
    let ahead = Flags::RAHEAD;
    let expected = [(0, 4, AWAITED), (4, 8, ahead), (12, 16, ahead), (28, 32, ahead), (60, 32, ahead), (92, 32, ahead)];
    assert_eq!(sizes(&seen), expected);
}

#[test]
fn a_stream_that_begins_elsewhere_begins_with_a_read_of_itself() {
    let c = cache(1 << 30);
    let read = job(&[("rw", "read"), ("bs", "4k"), ("ioengine", "psync"), ("offset", "64m")]);
    let mut w = c.buffered(read, (0, 0), Advice::Sequential);
    let seen: Vec<u32> = issued(&mut *w, &mut Nanos(0), 8).iter().map(|want| want.sectors / 2).collect();
    assert_eq!(seen, [4, 16, 32, 64, 128, 256, 256, 256]);
}

#[test]
fn random_reads_are_not_read_ahead_and_wait() {
    let c = cache(1 << 30);
    let read = job(&[("rw", "randread"), ("bs", "4k"), ("ioengine", "psync"), ("randseed", "4")]);
    let mut w = c.buffered(read, (0, 0), Advice::None);
    for _ in 0..10 {
        let Next::Issue(want) = w.next(Nanos::ZERO) else { panic!() };
        assert_eq!((want.sectors, want.flags), (8, AWAITED));
        assert_eq!(w.next(Nanos::ZERO), Next::Blocked);
        w.completed(Nanos::ZERO, 0, Nanos::ZERO);
    }
}

/// What one task has read or written, another finds in memory, until other pages have taken the room.
#[test]
fn a_second_reader_hits_what_is_in_memory() {
    let c = cache(4 << 20);
    let reader = |size| job(&[("rw", "read"), ("bs", "4k"), ("ioengine", "psync"), ("io_size", size), ("size", "8m")]);
    let mut now = Nanos::ZERO;
    let first = issued(&mut *c.buffered(reader("2m"), (0, 0), Advice::None), &mut now, usize::MAX);
    assert!(first.iter().map(|want| want.sectors).sum::<u32>() >= 4096);
    let mut second = c.buffered(reader("2m"), (0, 0), Advice::None);
    assert_eq!(issued(&mut *second, &mut now, usize::MAX), []);
    let mut all = c.buffered(reader("8m"), (0, 0), Advice::None);
    issued(&mut *all, &mut now, usize::MAX);
    let third = issued(&mut *c.buffered(reader("2m"), (0, 0), Advice::None), &mut now, usize::MAX);
    assert_eq!(third.iter().map(|want| want.sectors).sum::<u32>(), first.iter().map(|want| want.sectors).sum::<u32>());
}

#[test]
fn what_another_task_reads_is_awaited_and_not_read_twice() {
    let c = cache(1 << 30);
    let reader = || job(&[("rw", "read"), ("bs", "4k"), ("ioengine", "psync"), ("io_size", "4k"), ("size", "1m")]);
    let (mut a, mut b) = (c.buffered(reader(), (0, 0), Advice::None), c.buffered(reader(), (0, 0), Advice::None));
    assert!(matches!(a.next(Nanos::ZERO), Next::Issue(_)));
    assert_eq!(b.next(Nanos::ZERO), Next::Wait(RETRY_INTERVAL));
    a.completed(Nanos(5), 0, Nanos(5));
    assert_eq!(b.next(RETRY_INTERVAL), Next::Done);
}

/// 100 MB of memory: the flusher begins above 2441 pages, writers are paused above 3661, and stop at 4882.
#[test]
fn writers_are_paused_and_the_flusher_stops_at_its_threshold() {
    let c = cache(100_000_000);
    let mut w = c.buffered(job(&[("rw", "write"), ("bs", "64k"), ("direct", "0")]), (0, 0), Advice::None);
    let mut flusher = c.flusher();
    assert!(matches!(flusher.next(Nanos::ZERO), Next::Wait(_)));
    let mut now = Nanos::ZERO;
    let first_pause = loop {
        match w.next(now) {
            Next::Pause(at) => break at,
            Next::Wait(at) => now = at,
            other => panic!("{other:?}"),
        }
    };
    let dirty = c.state().dirty.dirty();
    // Two ticks at twice the base rate are 410 pages.
    assert!((3662 + 410..3662 + 700).contains(&dirty), "{dirty}");
    assert_eq!(w.next(now), Next::Wait(first_pause));
    now = first_pause;
    while now < Nanos::from_secs(25) {
        match w.next(now) {
            Next::Pause(at) | Next::Wait(at) => now = at,
            other => panic!("{other:?}"),
        }
    }
    let dirty = c.state().dirty.dirty();
    assert!((4272..4882 + 32).contains(&dirty), "nothing is written, and the rate falls: {dirty}");
    let mut written = Vec::new();
    while let Next::Issue(want) = flusher.next(now) {
        written.push((want.sector, want.sectors));
        assert!(want.flags.has(Flags::BACKGROUND));
    }
    assert!(written.iter().all(|(_, sectors)| *sectors <= 2048), "at most 1 MiB each");
    assert!(written.windows(2).all(|w| w[0].0 + u64::from(w[0].1) == w[1].0), "{written:?}");
    let state = c.state();
    // The last turn of 4 MiB began above the threshold.
    assert!(state.dirty.dirty() <= 2441 && state.dirty.dirty() + 1024 > 2441, "{}", state.dirty.dirty());
    assert_eq!(state.dirty.total(), dirty, "pages in flight count too");
    drop(state);
    written.iter().for_each(|_| flusher.completed(now, 0, Nanos::ZERO));
    assert_eq!(c.dirty_pages().0, c.state().dirty.dirty());
}

#[test]
fn a_groups_flusher_writes_what_the_group_dirtied() {
    let c = cache(1 << 30);
    let (a, b) = (c.of_group(1), c.of_group(2));
    let mut files = [a.open(Some((0, 4096))), b.open(Some((4096, 4096)))];
    files[0].write(0, 8, Nanos::ZERO);
    files[1].write(512, 4, Nanos::ZERO);
    c.sync();
    let sectors = |group: &PageCache| {
        let mut flusher = group.flusher();
        std::iter::from_fn(move || match flusher.next(Nanos::ZERO) {
            Next::Issue(want) => Some((want.sector, want.sectors)),
            _ => None,
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(sectors(&c), [], "nothing is the root group's");
    assert_eq!(sectors(&b), [(4096, 32)]);
    assert_eq!(sectors(&a), [(0, 64)]);
}

#[test]
fn writers_of_one_place_write_one_file_in_one_order() {
    let c = cache(1 << 30);
    let mut files = [c.open(Some((0, 4096))), c.open(Some((0, 4096))), c.open(Some((4096, 4096)))];
    assert!(files[0].file == files[1].file && files[2].file != files[0].file);
    for (file, page) in [(0, 9), (1, 3), (0, 5)] {
        assert_eq!(files[file].write(page, 1, Nanos::ZERO), (1, None));
    }
    let mut flusher = c.flusher();
    let mut pages = Vec::new();
    for s in 0..40 {
        while let Next::Issue(want) = flusher.next(Nanos::from_secs(s)) {
            pages.push((s, want.sector / 8));
        }
    }
    assert_eq!(pages, [(30, 3), (30, 5), (30, 9)]);
    files[0].close();
    assert_eq!(c.state().files[files[0].file].writers, 1, "the other has it open");
}

/// Files are looked for each 5 s from the first dirtying on; 30 s count from a file's own first dirtying; its young pages go too.
#[test]
fn old_files_are_written_between_30_and_35_seconds_after_they_became_dirty() {
    let c = cache(1 << 30);
    let (mut a, mut b) = (c.open(None), c.open(None));
    let mut flusher = c.flusher();
    let mut runs = Vec::new();
    for ms in (1000..45_000).step_by(4) {
        match ms {
            1000 => _ = a.write(10, 2, Nanos::from_ms(ms)),
            3000 => _ = b.write(100_000, 1, Nanos::from_ms(ms)),
            30_000 => _ = a.write(70_000, 1, Nanos::from_ms(ms)),
            _ => {}
        }
        while let Next::Issue(want) = flusher.next(Nanos::from_ms(ms)) {
            runs.push((ms / 1000, want.sector / 8, want.sectors / 8));
            flusher.completed(Nanos::from_ms(ms), 0, Nanos::ZERO);
        }
    }
    assert_eq!(runs, [(31, 10, 2), (31, 70_000, 1), (36, 100_000, 1)]);
    a.close();
    b.close();
    assert_eq!(flusher.next(Nanos::from_secs(45)), Next::Done);
}

/// Half a second's worth at 100 MiB/s, rounded: 52 MiB of one file, then of the other.
#[test]
fn files_take_turns() {
    let c = cache(8 << 30);
    let mut files = [c.open(None), c.open(None)];
    let device = (1 << 24) / 8;
    for file in [0, 1] {
        for page in 0..600 * MIB_PAGES {
            files[file].write(file as u64 * device / 2 + page, 1, Nanos(file as u64));
        }
    }
    let mut flusher = c.flusher();
    let mut turns: Vec<(bool, u64)> = Vec::new();
    while let Next::Issue(want) = flusher.next(Nanos::from_ms(1)) {
        let second = want.sector >= 1 << 23;
        match turns.last_mut().filter(|(file, _)| *file == second) {
            Some((_, pages)) => *pages += u64::from(want.sectors / 8),
            None => turns.push((second, u64::from(want.sectors / 8))),
        }
    }
    let turn = 52 * MIB_PAGES;
    assert_eq!(
        turns,
        [
            (false, turn),
            (true, turn),
            (false, turn),
            (true, turn),
            (false, turn),
            (true, turn),
            (false, turn),
            (true, turn)
        ]
    );
    // limit/8 = 6 MiB: 8 MiB.
    let spec =
        CacheSpec { dirty: Amount::Bytes(48 << 20), background: Amount::Bytes(16 << 20), ..CacheSpec::new(8 << 30) };
    let c = PageCache::new(spec, 1 << 24);
    c.open(None).write(0, 30 * MIB_PAGES, Nanos::ZERO);
    let mut flusher = c.flusher();
    let mut pages = 0;
    while let Next::Issue(want) = flusher.next(Nanos::from_ms(1)) {
        pages += u64::from(want.sectors / 8);
    }
    assert_eq!(pages, 16 * MIB_PAGES, "two turns, and the threshold is reached");
}

/// Without looks for old files dirty pages stay, and the run ends.
#[test]
fn dirty_pages_stay_where_nobody_looks_for_old_ones() {
    let c = PageCache::new(CacheSpec { interval: Nanos::ZERO, ..CacheSpec::new(1 << 30) }, 1 << 24);
    let mut file = c.open(None);
    file.write(0, 9, Nanos::ZERO);
    let mut flusher = c.flusher();
    assert!(matches!(flusher.next(Nanos::from_secs(60)), Next::Wait(_)));
    file.close();
    assert_eq!(flusher.next(Nanos::from_secs(60)), Next::Done);
}

#[test]
fn fsync_writes_the_pages_of_its_file_itself() {
    let c = cache(1 << 30);
    c.open(None).write(5000, 4, Nanos::ZERO);
    let write = [("rw", "write"), ("bs", "4k"), ("direct", "0"), ("fsync", "3"), ("io_size", "12k"), ("size", "1m")];
    let mut w = c.buffered(job(&write), (0, 1 << 20), Advice::None);
    let seen = issued(&mut *w, &mut Nanos(0), usize::MAX);
    let ops: Vec<_> = seen.iter().map(|want| (want.op, want.sector, want.sectors, want.flags)).collect();
    assert_eq!(ops, [(Op::Write, 0, 24, Flags::SYNC), (Op::Flush, 0, 0, Flags::SYNC)]);
    assert_eq!(c.dirty_pages().0, 4, "the other file stays dirty");
    // A write that is synchronous does the same for its own pages.
    let write = [("rw", "write"), ("bs", "8k"), ("direct", "0"), ("sync", "1"), ("io_size", "8k"), ("size", "1m")];
    let mut w = c.buffered(job(&write), (0, 1 << 20), Advice::None);
    let ops: Vec<_> = issued(&mut *w, &mut Nanos(0), 9).iter().map(|want| (want.op, want.sectors)).collect();
    assert_eq!(ops, [(Op::Write, 16), (Op::Flush, 0)]);
}

/// What the flusher has sent is awaited, too.
#[test]
fn fsync_waits_for_what_is_under_write_back() {
    let c = cache(1 << 30);
    let write = [("rw", "write"), ("bs", "4k"), ("direct", "0"), ("fsync", "1"), ("io_size", "8k"), ("size", "1m")];
    let mut w = c.buffered(job(&write), (0, 1 << 20), Advice::None);
    let mut other = c.open(Some((0, 1 << 20)));
    other.write(100, 1, Nanos::ZERO);
    c.sync();
    let mut flusher = c.flusher();
    let mut last = None;
    assert!(!c.synced(&mut last));
    assert!(matches!(flusher.next(Nanos::ZERO), Next::Issue(want) if want.flags == Flags::NONE && want.sector == 800));
    assert!(!c.synced(&mut last) && last.is_some());
    assert!(matches!(w.next(Nanos::ZERO), Next::Issue(want) if want.sector == 0 && want.op == Op::Write));
    w.completed(Nanos::ZERO, 0, Nanos::ZERO);
    assert!(matches!(w.next(Nanos::ZERO), Next::Wait(_)));
    flusher.completed(Nanos::ZERO, 0, Nanos::ZERO);
    assert!(c.synced(&mut last));
    assert!(matches!(w.next(Nanos::ZERO), Next::Issue(want) if want.op == Op::Flush));
}

/// Files that overlap: one takes the pages of the other, and neither the flusher nor a sync goes on for ever.
#[test]
fn overlapping_files_are_written_and_end() {
    let c = cache(1 << 30);
    let mut files = [c.open(Some((0, 1 << 20))), c.open(Some((0, 2 << 20)))];
    files[0].write(0, 4, Nanos::ZERO);
    files[1].write(2, 6, Nanos::ZERO);
    files[0].write(9, 1, Nanos::ZERO);
    c.sync();
    let mut flusher = c.flusher();
    let mut pages = 0;
    for s in 0..40 {
        while let Next::Issue(want) = flusher.next(Nanos::from_secs(s)) {
            pages += want.sectors / 8;
            flusher.completed(Nanos::from_secs(s), 0, Nanos::ZERO);
        }
    }
    assert_eq!((pages, c.dirty_pages().0), (9, 0));
    files.iter_mut().for_each(OpenFile::close);
    assert_eq!(flusher.next(Nanos::from_secs(40)), Next::Done);
}
