//! Traces as workloads.

use std::collections::VecDeque;

use dumbwaiter_block::{Flags, Io, IoTag, Nanos, Op};
use dumbwaiter_traces::{
    Fit, Format, Known, Options, Record, Replay, ReplayMode, ReplayOptions, StatusHandle, TraceWriter, open,
};
use dumbwaiter_workloads::{Next, Want, Workload};
use proptest::prelude::*;

const ALL: Known = Known { times: true, sizes: true, devices: true, tasks: true };

fn trace(records: &[Record]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::create(file.path(), Format::Columnar, None, ALL).unwrap();
    records.iter().for_each(|r| writer.write(r).unwrap());
    writer.finish().unwrap();
    file
}

fn at(us: u64, sector: u64, task: u32) -> Record {
    Record { time: Nanos(us * 1000), task, ..Record::new(Op::Read, sector, 8) }
}

fn options(mode: ReplayMode) -> ReplayOptions {
    ReplayOptions { mode, capacity: 1 << 20, fit: Fit::Truncate, limit: None }
}

fn replay(records: &[Record], options: &ReplayOptions) -> Replay {
    Replay::open(&[trace(records).path()], &Options::default(), options, None).unwrap()
}

#[test]
fn a_replayed_request_has_the_tag_of_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let text = "time_us,op,offset_sectors,size_sectors,io_tag\n0,R,0,8,12\n1,W,8,8,file_4kb\n2,R,16,8,\n3,R,24,8,-\n4,R,32,8,24\n";
    std::fs::write(&path, text).unwrap();
    let told = || {
        let replay = Replay::open(&[&path], &Options::default(), &options(ReplayMode::Open { speed: 1.0 }), None);
        let mut told = Vec::new();
        run(replay.unwrap(), |_, want, _| {
            told.push(IoTag::of_io(&Io { stream: want.stream, flags: want.flags, ..Io::default() }));
        });
        told
    };
    // 24 is no tag: that line is left out.
    assert_eq!(told(), [IoTag::JOURNAL, IoTag::FILE_4KB, IoTag::UNKNOWN, IoTag::UNKNOWN]);
    // A record that the kernel marked as metadata is metadata, if nothing else is said.
    let marked = Record { flags: Flags::META, ..at(0, 0, 1) };
    let said = Record { tag: Some(IoTag::JOURNAL), ..marked };
    let mut told = Vec::new();
    run(replay(&[marked, said], &options(ReplayMode::Open { speed: 1.0 })), |_, want, _| {
        told.push(IoTag::of_io(&Io { stream: want.stream, flags: want.flags, ..Io::default() }));
    });
    assert_eq!(told, [IoTag::META, IoTag::JOURNAL]);
}

/// Runs against a device that serves requests in order in 100 µs each; returns the issued requests with their times.
fn run(mut workload: Replay, mut issued: impl FnMut(Nanos, &Want, usize)) -> (usize, StatusHandle) {
    let status = workload.status();
    let mut now = Nanos(1_000_000);
    let mut device: VecDeque<(Nanos, u16)> = VecDeque::new();
    let mut n = 0;
    loop {
        let wake = match workload.next(now) {
            Next::Issue(want) => {
                n += 1;
                issued(now, &want, device.len());
                let free = device.back().map_or(now, |(t, _)| *t).max(now);
                device.push_back((Nanos(free.0 + 100_000), want.task));
                continue;
            }
            Next::Wait(until) | Next::Pause(until) => {
                assert!(until > now);
                Some(until)
            }
            Next::Blocked => None,
            Next::Done => return (n, status),
        };
        match (device.front().copied(), wake) {
            (Some((t, task)), wake) if wake.is_none_or(|w| t <= w) => {
                device.pop_front();
                now = t;
                workload.completed(now, task, Nanos(100_000));
            }
            (_, Some(until)) => now = until,
            (None, None) => panic!("blocked with nothing outstanding"),
            (Some(_), None) => unreachable!(),
        }
    }
}

#[test]
fn an_open_loop_keeps_the_recorded_times() {
    let records = [at(0, 0, 1), at(5, 8, 1), at(5, 16, 2), at(1000, 24, 1)];
    for (speed, want) in [(1.0, [0, 5, 5, 1000]), (2.0, [0, 2, 2, 500]), (0.5, [0, 10, 10, 2000])] {
        let mut times = Vec::new();
        let (n, status) = run(replay(&records, &options(ReplayMode::Open { speed })), |now, _, _| {
            times.push((now.0 - 1_000_000) / 1000);
        });
        assert_eq!((n, times), (4, want.to_vec()));
        let status = status.lock().unwrap();
        assert!(status.done && status.error.is_none());
        assert_eq!((status.issued, status.records), (4, 4));
    }
}

#[test]
fn a_closed_loop_keeps_order_and_depth() {
    let records: Vec<Record> = (0..500).map(|i| at(i * 1_000_000, i * 8, (i % 5) as u32)).collect();
    let (mut deepest, mut sectors) = (0, Vec::new());
    run(replay(&records, &options(ReplayMode::Closed { depth: 7 })), |_, want, outstanding| {
        deepest = deepest.max(outstanding + 1);
        sectors.push(want.sector);
    });
    assert_eq!(deepest, 7);
    assert_eq!(sectors, (0..500).map(|i| i * 8).collect::<Vec<u64>>());
}

#[test]
fn tasks_of_a_replay_by_task_do_not_wait_for_each_other() {
    // Task 9 has many requests before the only one of task 3.
    let mut records: Vec<Record> = (0..100).map(|i| at(i, i * 8, 9)).collect();
    records.push(at(100, 8000, 3));
    let mut order = Vec::new();
    run(replay(&records, &options(ReplayMode::ClosedPerTask { depth: 2 })), |_, want, _| order.push(want.task));
    assert_eq!(order.len(), 101);
    assert_eq!(order[..3], [0, 0, 1]);
}

proptest! {
    #[test]
    fn a_replay_by_task_keeps_order_and_depth_of_each_task(tasks in prop::collection::vec(0u32..6, 1..300), depth in 1u32..5) {
        let records: Vec<Record> = tasks.iter().enumerate().map(|(i, t)| at(i as u64, i as u64 * 8, *t)).collect();
        let mut last = [None; 8];
        let mut replay = replay(&records, &options(ReplayMode::ClosedPerTask { depth }));
        let mut outstanding = [0u32; 8];
        let mut queue = VecDeque::new();
        let mut n = 0;
        loop {
            match replay.next(Nanos(0)) {
                Next::Issue(w) => {
                    n += 1;
                    let t = usize::from(w.task);
                    prop_assert!(last[t].is_none_or(|s| s < w.sector));
                    last[t] = Some(w.sector);
                    outstanding[t] += 1;
                    prop_assert!(outstanding[t] <= depth);
                    queue.push_back(w.task);
                }
                Next::Blocked => {
                    let task = queue.pop_front().expect("a request is outstanding");
                    outstanding[usize::from(task)] -= 1;
                    replay.completed(Nanos(0), task, Nanos(1));
                }
                Next::Done => break,
                Next::Wait(_) | Next::Pause(_) => prop_assert!(false, "a closed loop does not wait"),
            }
        }
        prop_assert_eq!(n, records.len());
    }

    #[test]
    fn every_fit_stays_on_the_device(places in prop::collection::vec((0u64..1 << 40, 1u32..5000, 0u32..3), 1..100), capacity in 100u64..1 << 24, fit in 0usize..3) {
        let records: Vec<Record> = places.iter().map(|(s, n, d)| Record { device: *d, ..Record::new(Op::Write, *s, *n) }).collect();
        let fit = [Fit::Truncate, Fit::Wrap, Fit::Scale][fit];
        let options = ReplayOptions { capacity, fit, ..options(ReplayMode::Closed { depth: u32::MAX }) };
        let mut ends = Vec::new();
        let (n, status) = run(replay(&records, &options), |_, w, _| ends.push(w.sector + u64::from(w.sectors)));
        prop_assert!(ends.iter().all(|e| *e <= capacity));
        let skipped: u64 = status.lock().unwrap().skipped.iter().map(|s| s.count).sum();
        prop_assert_eq!(n as u64 + skipped, records.len() as u64);
    }
}

#[test]
fn each_device_has_its_own_region() {
    let on = |device, sector| Record { device, ..Record::new(Op::Read, sector, 8) };
    let records = [on(7, 0), on(3, 0), on(7, 8), on(5, 300_000), on(5, 16)];
    let mut sectors = Vec::new();
    let (n, status) = run(
        replay(&records, &ReplayOptions { capacity: 900_000, ..options(ReplayMode::Closed { depth: 1 }) }),
        |_, w, _| sectors.push(w.sector),
    );
    assert_eq!((n, sectors), (4, vec![0, 300_000, 8, 600_016]));
    let status = status.lock().unwrap();
    assert_eq!((status.skipped[0].reason.as_str(), status.skipped[0].count), ("beyond the device", 1));
}

#[test]
fn scaling_keeps_neighbours_and_never_scales_up() {
    let records: Vec<Record> = [0u64, 8, 16, 4_000_000, 4_000_008].map(|s| Record::new(Op::Read, s, 8)).to_vec();
    let mut sectors = Vec::new();
    let scaled = ReplayOptions { capacity: 1 << 20, fit: Fit::Scale, ..options(ReplayMode::Closed { depth: 1 }) };
    run(replay(&records, &scaled), |_, w, _| sectors.push(w.sector));
    assert_eq!(sectors[..3], [0, 8, 16]);
    assert_eq!(sectors[4] - sectors[3], 8);
    let wide = ReplayOptions { capacity: 1 << 30, ..scaled };
    let mut same = Vec::new();
    run(replay(&records, &wide), |_, w, _| same.push(w.sector));
    assert_eq!(same, [0, 8, 16, 4_000_000, 4_000_008]);
}

#[test]
fn tasks_beyond_4096_share_numbers() {
    let records: Vec<Record> = (0..5000u32).map(|i| at(u64::from(i), 0, 1_000_000 - i)).collect();
    let mut tasks = Vec::new();
    run(replay(&records, &options(ReplayMode::Closed { depth: 4 })), |_, w, _| tasks.push(w.task));
    assert_eq!(tasks, (0..5000u32).map(|i| (i % 4096) as u16).collect::<Vec<_>>());
}

#[test]
fn the_limit_ends_a_replay() {
    let records: Vec<Record> = (0..50).map(|i| at(i, i * 8, 0)).collect();
    let limited = ReplayOptions { limit: Some(20), ..options(ReplayMode::Closed { depth: 4 }) };
    assert_eq!(run(replay(&records, &limited), |_, _, _| ()).0, 20);
}

#[test]
fn an_error_ends_a_replay_and_is_reported() {
    let records: Vec<Record> = (0..100_000).map(|i| at(i, i % 1000 * 8, 0)).collect();
    let file = trace(&records);
    let whole = std::fs::read(file.path()).unwrap();
    std::fs::write(file.path(), &whole[..whole.len() - 100]).unwrap();
    let reader = open(&[file.path()], &Options::default()).unwrap();
    let broken = Replay::new(reader, &options(ReplayMode::Closed { depth: 8 }), None).unwrap();
    let (n, status) = run(broken, |_, _, _| ());
    let status = status.lock().unwrap();
    assert!((65_536..100_000).contains(&n));
    assert!(status.error.as_ref().unwrap().to_string().contains("truncated"), "{status:?}");
}

#[test]
fn impossible_options_are_refused() {
    let file = trace(&[at(0, 0, 0)]);
    let refuse = |o: ReplayOptions| {
        Replay::open(&[file.path()], &Options::default(), &o, None).err().expect("an error").to_string()
    };
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refuse(options(ReplayMode::Open { speed })).contains("speed"));
    }
    assert!(refuse(options(ReplayMode::Closed { depth: 0 })).contains("depth"));
    assert!(refuse(options(ReplayMode::ClosedPerTask { depth: 0 })).contains("depth"));
    assert!(refuse(ReplayOptions { capacity: 0, ..options(ReplayMode::Closed { depth: 1 }) }).contains("capacity"));
    std::fs::write(file.path(), "Read,0\nWrite,512\n").unwrap();
    assert!(refuse(options(ReplayMode::Open { speed: 1.0 })).contains("--depth"));
    let closed = Replay::open(&[file.path()], &Options::default(), &options(ReplayMode::Closed { depth: 1 }), None);
    assert_eq!(run(closed.unwrap(), |_, _, _| ()).0, 2);
}

#[test]
fn requests_across_the_end_are_cut_and_counted() {
    let records = [Record::new(Op::Read, 96, 8), Record::new(Op::Read, 100, 8), Record::new(Op::Read, 104, 8)];
    let small = ReplayOptions { capacity: 104, ..options(ReplayMode::Closed { depth: 1 }) };
    let mut sizes = Vec::new();
    let (n, status) = run(replay(&records, &small), |_, w, _| sizes.push(w.sectors));
    assert_eq!((n, sizes), (2, vec![8, 4]));
    let status = status.lock().unwrap();
    assert_eq!((status.skipped[0].count, status.changed[0].count), (1, 1));
}
