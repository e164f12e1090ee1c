use dumbwaiter_block::{Flags, Ioprio, Nanos, Op, SECTOR_BYTES};
use proptest::prelude::*;

use super::*;
use crate::{Next, Want};
use dumbwaiter_text::units::Prefixes;

const GIB: u64 = 1 << 30;

fn job(options: &[(&str, &str)]) -> JobSpec {
    let mut spec = JobSpec::default();
    for (key, value) in options {
        spec.set(key, value, Prefixes::Plain).unwrap();
    }
    spec
}

fn context(instance: u32) -> BuildContext {
    BuildContext { seed: 1, capacity_sectors: GIB / SECTOR_BYTES, first_sector: 0, job: 0, instance, replicate: 0 }
}

/// Runs a job on a device that serves every I/O in `service`, in parallel, and reaps completions one by one; returns the I/Os
/// with their issue times.
fn run(spec: &JobSpec, context: BuildContext, service: Nanos, most: usize) -> Vec<(Nanos, Want)> {
    let mut workload = spec.build(context).unwrap();
    let (mut now, mut under, mut issued) = (Nanos::ZERO, std::collections::VecDeque::<Nanos>::new(), Vec::new());
    while issued.len() < most {
        let room = under.len() < spec.depth() as usize;
        let next = if room { workload.next(now) } else { Next::Blocked };
        let wake = match next {
            Next::Issue(want) => {
                issued.push((now, want));
                under.push_back(now + service);
                continue;
            }
            Next::Done => break,
            Next::Wait(until) | Next::Pause(until) => {
                assert!(until > now, "waits for the past");
                until
            }
            Next::Blocked => {
                assert!(!under.is_empty(), "blocked with nothing outstanding");
                Nanos::MAX
            }
        };
        now = under.front().copied().unwrap_or(Nanos::MAX).min(wake);
        if under.front().is_some_and(|done| *done <= now) {
            under.pop_front();
            workload.completed(now, 0, service);
        }
    }
    issued
}

fn wants(options: &[(&str, &str)], most: usize) -> Vec<Want> {
    run(&job(options), context(0), Nanos::from_us(100), most).into_iter().map(|(_, want)| want).collect()
}

#[test]
fn a_sequential_reader_starts_at_its_offset_and_wraps() {
    let issued = wants(&[("bs", "128k"), ("offset", "1m"), ("size", "256k")], 4);
    let sectors: Vec<u64> = issued.iter().map(|w| w.sector).collect();
    assert_eq!(sectors, [2048, 2304, 2048, 2304]);
    assert!(
        issued.iter().all(|w| w.op == Op::Read && w.sectors == 256 && w.flags == Flags::NONE && w.ioprio.is_none())
    );
}

/// The recorded fio job `rw=read:-8k bs=4k offset=1200m size=256m` began 8 KiB before the end of its region and went back
/// without gaps; `rw=write:4k bs=4k` left a hole after every block.
#[test]
fn offset_modifiers_leave_holes_and_go_backwards_as_recorded() {
    let back = wants(&[("rw", "read:-8k"), ("size", "256m")], 4);
    assert_eq!(back.iter().map(|w| w.sector).collect::<Vec<_>>(), [524_272, 524_264, 524_256, 524_248]);
    let holes = wants(&[("rw", "write:4k"), ("size", "32k")], 6);
    assert_eq!(holes.iter().map(|w| w.sector).collect::<Vec<_>>(), [0, 16, 32, 48, 0, 16]);
    let pass = wants(&[("rw", "write:4k"), ("size", "32k"), ("time_based", "0"), ("loops", "2")], 100);
    assert_eq!(pass.len(), 8);
}

#[test]
fn instances_are_spaced_by_their_increment_and_draw_independently() {
    let spec = job(&[("rw", "randread"), ("offset_increment", "256m"), ("size", "256m")]);
    let of = |instance| run(&spec, context(instance), Nanos::from_us(1), 500);
    for (a, b) in of(0).iter().zip(&of(1)) {
        assert!(a.1.sector < 1 << 19 && (1 << 19..1 << 20).contains(&b.1.sector));
    }
    let same = of(0).iter().zip(&of(1)).filter(|(a, b)| a.1.sector + (1 << 19) == b.1.sector).count();
    assert!(same < 10, "{same} of 500 alike");
    assert_eq!(of(1), of(1));
    let reseeded = run(&spec, BuildContext { seed: 2, ..context(0) }, Nanos::from_us(1), 500);
    assert_ne!(of(0), reseeded);
}

#[test]
fn a_uniform_pass_visits_each_block_once_and_ends() {
    let issued = wants(&[("rw", "randrw"), ("size", "4m"), ("time_based", "0")], usize::MAX);
    let mut sectors: Vec<u64> = issued.iter().map(|w| w.sector).collect();
    sectors.sort_unstable();
    assert!(sectors.into_iter().eq((0..1024).map(|i| i * 8)));
}

#[test]
fn a_direction_goes_on_until_it_has_its_share() {
    let issued = wants(&[("rw", "randrw"), ("rwmixread", "90")], 20_000);
    let (mut reads, mut writes, mut last) = (0, 0, Op::Read);
    for want in issued {
        if want.op == Op::Read {
            assert!(last == Op::Read || writes >= reads * 10 / 100, "{writes} writes beside {reads} reads");
            reads += 1;
        } else {
            writes += 1;
        }
        last = want.op;
    }
}

/// fio 3.33 covered 64 MiB by this job in 6259 I/Os (mean of 40 seeds, deviation 170), the first half in 2303 (95).
#[test]
fn several_sizes_visit_each_block_once_and_shorten_as_in_fio() {
    let options =
        [("rw", "randrw"), ("rwmixread", "70"), ("bssplit", "4k/50:8k/25:64k/25"), ("size", "64m"), ("loops", "40")];
    let (mut pass, mut half, mut passes) = (0, 0, Vec::new());
    let mut visited = vec![false; 16_384];
    let mut left = visited.len();
    for want in wants(&options, usize::MAX) {
        for block in want.sector / 8..(want.sector + u64::from(want.sectors)) / 8 {
            assert!(!std::mem::replace(&mut visited[block as usize], true), "block {block} twice in a pass");
            left -= 1;
        }
        pass += 1;
        half += u32::from(left > 8192);
        if left == 0 {
            passes.push(pass);
            (pass, left) = (0, visited.len());
            visited.fill(false);
        }
    }
    assert_eq!((passes.len(), left), (40, 16_384), "unfinished passes");
    let mean = passes.iter().sum::<u32>() / 40;
    assert!((6100..6420).contains(&mean), "{passes:?}");
    assert!((2240..2370).contains(&(half / 40)), "{}", half / 40);
}

#[test]
fn a_range_of_sizes_is_uniform_up_to_its_maximum() {
    let issued = wants(&[("rw", "randread"), ("bs", "4k-16k"), ("norandommap", "1")], 20_000);
    for size in [8, 16, 24, 32] {
        let share = issued.iter().filter(|w| w.sectors == size).count() as f64 / 20_000.0;
        assert!((share - 0.25).abs() < 0.015, "{size} sectors: {share}");
    }
}

#[test]
fn several_sizes_fill_a_sequential_pass_to_its_end() {
    let issued = wants(&[("rw", "read"), ("bs", "4k-64k"), ("size", "1m"), ("loops", "3")], usize::MAX);
    let mut next = 0;
    for want in issued {
        assert_eq!(want.sector, next % 2048);
        next += u64::from(want.sectors);
    }
    assert_eq!(next, 3 * 2048);
}

#[test]
fn a_region_too_large_for_a_map_draws_independently() {
    let spec = job(&[("rw", "randread"), ("bs", "4k-16k")]);
    let huge = BuildContext { capacity_sectors: 1 << 40, ..context(0) };
    assert_eq!(run(&spec, huge, Nanos::from_us(1), 1000).len(), 1000);
}

#[test]
fn mixes_and_splits_have_their_percentages() {
    let options = [("rw", "randrw"), ("rwmixread", "70"), ("bssplit", "4k/50:8k/25:64k/25"), ("norandommap", "1")];
    let issued = wants(&options, 40_000);
    let share = |f: &dyn Fn(&Want) -> bool| issued.iter().filter(|w| f(w)).count() as f64 / issued.len() as f64;
    assert!((share(&|w| w.op == Op::Read) - 0.70).abs() < 0.012);
    assert!((share(&|w| w.sectors == 8) - 0.50).abs() < 0.013);
    assert!((share(&|w| w.sectors == 16) - 0.25).abs() < 0.011);
    assert!((share(&|w| w.sectors == 128) - 0.25).abs() < 0.011);
    assert!(issued.iter().filter(|w| w.op == Op::Write).all(|w| w.flags == Flags::SYNC.with(Flags::IDLE)));
}

#[test]
fn log_normal_sizes_have_their_median() {
    let mut sizes: Vec<u32> = wants(&[("rw", "randread"), ("bs", "32k:1.0:4k-256k"), ("norandommap", "1")], 20_001)
        .iter()
        .map(|w| w.sectors)
        .collect();
    sizes.sort_unstable();
    assert!(sizes.iter().all(|n| n % 8 == 0 && (8..=512).contains(n)));
    let median = sizes[10_000];
    assert!((56..=72).contains(&median), "{median}");
}

#[test]
fn distributions_skew_as_in_fio() {
    let quarter = (GIB / SECTOR_BYTES) / 4;
    let share = |distribution: &str, f: &dyn Fn(u64) -> bool| {
        let issued = wants(&[("rw", "randread"), ("random_distribution", distribution)], 20_000);
        issued.iter().filter(|w| f(w.sector)).count() as f64 / issued.len() as f64
    };
    assert!((share("zoned:60/10:30/20:10/70", &|s| s < quarter * 4 / 10) - 0.60).abs() < 0.02);
    assert!((share("zoned:50/5:30/15:20/", &|s| s >= quarter * 4 / 5) - 0.20).abs() < 0.02);
    assert!((share("zoned_abs:90/256m:10/768m", &|s| s < quarter) - 0.90).abs() < 0.02);
    // The hottest blocks lie apart, the hottest of all at the centre.
    for (distribution, hottest) in [("pareto:0.2:0", 0), ("pareto:0.2:0.5", quarter * 2), ("zipf:1.2:0.25", quarter)] {
        assert!(share(distribution, &|s| s == hottest) > 0.1, "{distribution}");
    }
    assert!((share("normal:10", &|s| s < quarter * 2) - 0.5).abs() < 0.03);
    let mut blocks: Vec<u64> =
        wants(&[("rw", "randread"), ("random_distribution", "zipf:1.2")], 20_000).iter().map(|w| w.sector).collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert!(blocks.len() < 10_000, "zipf touched {} blocks of 262144 in 20000 draws", blocks.len());
    assert!(blocks.iter().any(|s| *s > quarter * 3) && blocks.iter().any(|s| *s < quarter));
}

#[test]
fn runs_follow_a_random_offset() {
    let issued = wants(&[("rw", "randread:8")], 800);
    let joined = issued.windows(2).filter(|w| w[0].sector + 8 == w[1].sector).count();
    assert!((699..=701).contains(&joined), "{joined}");
    let same = wants(&[("rw", "randread:8"), ("rw_sequencer", "identical")], 800);
    let joined = same.windows(2).filter(|w| w[0].sector == w[1].sector).count();
    assert!((699..=701).contains(&joined), "{joined}");
    let mixed = wants(&[("rw", "randread"), ("percentage_random", "30")], 10_000);
    let joined = mixed.windows(2).filter(|w| w[0].sector + 8 == w[1].sector).count() as f64 / 10_000.0;
    assert!((joined - 0.70).abs() < 0.02, "{joined}");
}

#[test]
fn think_time_follows_the_last_completion() {
    let of = |options: &[(&str, &str)], most| {
        let all = [&[("rw", "randread"), ("thinktime", "3ms"), ("thinktime_blocks", "4")], options].concat();
        let issued = run(&job(&all), context(0), Nanos::from_ms(1), most);
        issued.iter().map(|(t, _)| t.0 / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(of(&[("ioengine", "psync")], 12), [0, 1, 2, 3, 7, 8, 9, 10, 14, 15, 16, 17]);
    let issued = [("iodepth", "8"), ("thinktime_blocks_type", "issue")];
    assert_eq!(of(&issued, 12), [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8]);
    // Completions are counted when the full queue is reaped; those of the drain before a pause count for the next one.
    let completed = of(&[("iodepth", "8")], 23);
    assert_eq!(completed, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 5, 9, 9, 9, 9, 9, 9, 9, 9, 10, 10, 14]);
    let timed = of(&[("thinktime_blocks", "1"), ("thinktime_iotime", "2ms")], 12);
    assert_eq!(timed, [0, 1, 2, 3, 4, 8, 9, 13, 14, 18, 19, 23]);
}

/// In the recordings of a kernel a job of depth 64 with `thinktime_blocks=128` began with a burst of 191 I/Os, and one of depth
/// 32 with 64 blocks with 95; all bursts after it had 128 and 64.
#[test]
fn bursts_between_pauses_are_as_long_as_recorded() {
    for (depth, blocks, bursts) in [("64", "128", [191, 128, 128]), ("32", "64", [95, 64, 64])] {
        let spec = job(&[
            ("rw", "randread"),
            ("iodepth", depth),
            ("thinktime", "100ms"),
            ("thinktime_blocks", blocks),
            ("runtime", "1s"),
        ]);
        let issued = run(&spec, context(0), Nanos::from_ms(2), 600);
        let mut lengths = vec![1];
        for pair in issued.windows(2) {
            match pair[1].0.since(pair[0].0) > Nanos::from_ms(50) {
                true => lengths.push(1),
                false => *lengths.last_mut().unwrap() += 1,
            }
        }
        assert_eq!(lengths[..3], bursts);
    }
}

#[test]
fn inline_submission_waits_for_completions_before_it_sleeps_for_its_rate() {
    let of = |mode| {
        let spec = job(&[("rw", "randread"), ("rate_iops", "100"), ("iodepth", "8"), ("io_submit_mode", mode)]);
        let issued = run(&spec, context(0), Nanos::from_ms(25), 9);
        issued.iter().map(|(t, _)| t.0 / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(of("offload"), [0, 10, 20, 30, 40, 50, 60, 70, 80]);
    // Ahead of the rate by 10 ms after the first I/O: 25 ms for its completion, then the 10 ms. Three are due then.
    assert_eq!(of("inline"), [0, 35, 35, 35, 65, 65, 65, 95, 95]);
    assert_eq!(JobSpec::fio().io_submit_mode, SubmitMode::Inline);
}

#[test]
fn rates_hold_over_time_and_catch_up() {
    let even = run(&job(&[("rate_iops", "200")]), context(0), Nanos::from_us(10), 401);
    assert_eq!(even[400].0, Nanos::from_secs(2));
    assert_eq!(even[1].0, Nanos::from_ms(5));
    let bytes = run(&job(&[("rate", "1MiB/s"), ("bs", "64k")]), context(0), Nanos::from_us(10), 33);
    assert_eq!(bytes[32].0, Nanos::from_secs(2));
    // Served one at a time in 10 ms each, a rate of 200 cannot be reached, and nothing waits for it.
    let late = run(&job(&[("rate_iops", "200")]), context(0), Nanos::from_ms(10), 101);
    assert_eq!(late[100].0, Nanos::from_secs(1));
    let poisson = job(&[("rate_iops", "1000"), ("rate_process", "poisson"), ("iodepth", "64"), ("rw", "randread")]);
    let issued = run(&poisson, context(0), Nanos::from_us(10), 20_001);
    let gaps: Vec<f64> = issued.windows(2).map(|w| (w[1].0.0 - w[0].0.0) as f64 / 1e6).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / gaps.len() as f64).sqrt();
    assert!((mean - 1.0).abs() < 0.03 && (deviation - 1.0).abs() < 0.05, "{mean} {deviation}");
    let split = run(
        &job(&[("rw", "randrw"), ("rate_iops", "300,100"), ("iodepth", "32")]),
        context(0),
        Nanos::from_us(10),
        4000,
    );
    let reads = split.iter().filter(|(_, w)| w.op == Op::Read).count();
    assert!((2995..=3005).contains(&reads), "{reads}");
}

#[test]
fn bursts_alternate_with_pauses() {
    let spec = job(&[("burst_on", "10ms"), ("burst_off", "90ms"), ("iodepth", "2")]);
    let issued = run(&spec, context(0), Nanos::from_ms(1), 100);
    assert!(issued.iter().all(|(t, _)| t.0 % 100_000_000 < 10_000_000));
    assert_eq!(issued[99].0.0 / 100_000_000, 4);
    let spec = job(&[("burst_on", "5ms"), ("burst_off", "20ms"), ("burst_process", "exponential")]);
    let last = run(&spec, context(0), Nanos::from_us(50), 50_000).last().unwrap().0;
    // 50000 I/Os of 50 us take 2.5 s of bursts, a fifth of the time.
    assert!((last.as_secs_f64() - 12.5).abs() < 2.0, "{last}");
}

#[test]
fn jobs_start_after_their_delay_and_end_on_time() {
    let spec = job(&[("startdelay", "200ms"), ("ramp_time", "100ms"), ("runtime", "1s"), ("rw", "randread")]);
    let issued = run(&spec, context(0), Nanos::from_ms(10), usize::MAX);
    assert_eq!(issued[0].0, Nanos::from_ms(200));
    assert_eq!(issued.last().unwrap().0, Nanos::from_ms(1290));
    assert_eq!(spec.longest(), Some(Nanos::from_ms(1300)));
    let starts: Vec<Nanos> = (0..20)
        .map(|i| run(&job(&[("startdelay", "1s-2s"), ("size", "1m")]), context(i), Nanos::from_ms(1), 1)[0].0)
        .collect();
    assert!(starts.iter().all(|t| (Nanos::from_secs(1)..=Nanos::from_secs(2)).contains(t)));
    assert!(starts.iter().any(|t| *t < Nanos::from_ms(1500)) && starts.iter().any(|t| *t > Nanos::from_ms(1500)));
}

#[test]
fn limits_end_a_job() {
    assert_eq!(wants(&[("io_size", "1m")], usize::MAX).len(), 256);
    assert_eq!(wants(&[("number_ios", "17")], usize::MAX).len(), 17);
    assert_eq!(wants(&[("loops", "3"), ("size", "64k")], usize::MAX).len(), 48);
    assert_eq!(wants(&[("size", "64k")], 1000).len(), 1000, "a scenario's job runs on");
    let mut fio = JobSpec::fio();
    fio.set("size", "64k", Prefixes::Fio1024).unwrap();
    assert_eq!(run(&fio, context(0), Nanos(1), usize::MAX).len(), 16, "a fio job ends after its size");
}

#[test]
fn flushes_run_alone() {
    let spec = job(&[("rw", "randwrite"), ("iodepth", "4"), ("fsync", "8"), ("number_ios", "20"), ("end_fsync", "1")]);
    let issued = run(&spec, context(0), Nanos::from_ms(1), usize::MAX);
    let flushes: Vec<usize> = (0..issued.len()).filter(|i| issued[*i].1.op == Op::Flush).collect();
    assert_eq!(flushes, [8, 17, 22]);
    for i in flushes {
        assert_eq!(issued[i].1.sectors, 0);
        assert!(issued[i].0 >= issued[i - 1].0 + Nanos::from_ms(1));
        assert!(issued.get(i + 1).is_none_or(|after| after.0 == issued[i].0 + Nanos::from_ms(1)));
    }
}

#[test]
fn flags_follow_engine_and_cache() {
    let flags = |options: &[(&str, &str)]| wants(options, 1)[0].flags;
    assert_eq!(flags(&[("rw", "write"), ("direct", "0")]), Flags::BACKGROUND);
    assert_eq!(flags(&[("rw", "write"), ("sync", "dsync")]), Flags::SYNC.with(Flags::IDLE).with(Flags::FUA));
    assert_eq!(flags(&[("rw", "randtrim")]), Flags::SYNC);
    assert_eq!(flags(&[("hipri", "1")]), Flags::POLLED);
    assert_eq!(job(&[("ioengine", "psync"), ("iodepth", "32")]).depth(), 1);
    assert_eq!(job(&[("ioengine", "libaio"), ("iodepth", "32")]).depth(), 32);
    assert_eq!(job(&[("ioengine", "psync"), ("rw", "write"), ("direct", "0")]).depth(), WRITEBACK_DEPTH);
}

#[test]
fn priorities_match_the_kernel() {
    assert_eq!(job(&[]).ioprio(), None);
    assert_eq!(job(&[("prio", "3")]).ioprio(), Ioprio::parse("be/3"));
    assert_eq!(job(&[("prioclass", "1")]).ioprio(), Ioprio::parse("rt/0"));
    assert_eq!(job(&[("nice", "19")]).ioprio(), Ioprio::parse("be/7"));
    let some = wants(&[("cmdprio_percentage", "20"), ("cmdprio", "3")], 10_000);
    let raised = some.iter().filter(|w| w.ioprio == Ioprio::parse("rt/3")).count();
    assert!((1800..2200).contains(&raised), "{raised}");
    assert_eq!(some.iter().filter(|w| w.ioprio.is_none()).count(), 10_000 - raised);
}

#[test]
fn a_full_queue_drains_to_its_low_mark() {
    let spec = job(&[("iodepth", "8"), ("iodepth_low", "2"), ("rw", "randread")]);
    let mut workload = spec.build(context(0)).unwrap();
    let fill = |workload: &mut Box<dyn Workload>| {
        (0..).take_while(|_| matches!(workload.next(Nanos(1)), Next::Issue(_))).count()
    };
    assert_eq!(fill(&mut workload), 8);
    for expected in [0, 0, 0, 0, 0, 6] {
        workload.completed(Nanos(1), 0, Nanos(1));
        assert_eq!(fill(&mut workload), expected);
    }
}

#[test]
fn trimmed_blocks_are_written() {
    let issued = wants(&[("rw", "trimwrite"), ("io_size", "64k")], usize::MAX);
    assert_eq!(issued.len(), 32);
    for pair in issued.chunks(2) {
        assert_eq!((pair[0].op, pair[1].op), (Op::Discard, Op::Write));
        assert_eq!((pair[0].sector, pair[0].sectors), (pair[1].sector, pair[1].sectors));
    }
}

#[test]
fn files_take_the_ios_in_turn() {
    // Five blocks of 4 KiB fit each of three files in 64 KiB.
    let all = wants(&[("rw", "read"), ("size", "64k"), ("nrfiles", "3"), ("time_based", "0")], usize::MAX);
    let sectors: Vec<u64> = all.iter().map(|want| want.sector).collect();
    let expected: Vec<u64> = (0..5).flat_map(|block| [0, 40, 80].map(|start| start + block * 8)).collect();
    assert_eq!(sectors, expected);
    let random = wants(&[("rw", "randread"), ("size", "96k"), ("nrfiles", "3"), ("time_based", "0")], usize::MAX);
    let mut blocks: Vec<u64> = random.iter().map(|want| want.sector / 8).collect();
    assert!(blocks.iter().enumerate().all(|(i, block)| block / 8 == i as u64 % 3), "{blocks:?}");
    blocks.sort_unstable();
    assert_eq!(blocks, (0..24).collect::<Vec<u64>>(), "every block of every file once");
    let pairs = wants(&[("rw", "trimwrite"), ("size", "64k"), ("nrfiles", "2"), ("time_based", "0")], usize::MAX);
    assert!(pairs.chunks(2).all(|pair| pair[0].sector == pair[1].sector), "a write goes where its trim went");
}

/// Of writes of 2,300 bytes the device sees the pages that each touches, once it is flushed.
#[test]
fn buffered_ios_of_any_size_take_whole_pages() {
    let options = [("rw", "write"), ("direct", "0"), ("ioengine", "sync"), ("fdatasync", "1"), ("bs", "2300")];
    let issued = wants(&[options.as_slice(), &[("io_size", "23000")]].concat(), usize::MAX);
    let writes: Vec<(u64, u32)> =
        issued.iter().filter(|want| want.op == Op::Write).map(|want| (want.sector, want.sectors)).collect();
    let touched = |n: u64| {
        let (from, to) = (n * 2300 / 4096, ((n + 1) * 2300).div_ceil(4096));
        (from * 8, ((to - from) * 8) as u32)
    };
    assert_eq!(writes, (0..10).map(touched).collect::<Vec<_>>());
    assert_eq!(issued.iter().filter(|want| want.op == Op::Flush).count(), 10);
    let random = wants(&[("rw", "randread"), ("direct", "0"), ("bs", "100-9000"), ("size", "10000000")], 500);
    let inside =
        |want: &Want| want.sector.is_multiple_of(8) && want.sector + u64::from(want.sectors) <= 10_000_000 / 512;
    assert!(random.iter().all(inside));
    let steps = wants(&[("rw", "read:700"), ("direct", "0"), ("bs", "4k"), ("offset", "100"), ("size", "64k")], 3);
    assert_eq!(steps.iter().map(|want| (want.sector, want.sectors)).collect::<Vec<_>>(), [(0, 8), (8, 16), (16, 16)]);
}

#[test]
fn discards_may_have_any_size() {
    let mut context = context(0);
    context.capacity_sectors = (8 * GIB) / SECTOR_BYTES;
    let all = |options: &[(&str, &str)]| {
        let issued = run(&job(options), context, Nanos::from_us(100), usize::MAX);
        issued.into_iter().map(|(_, want)| (want.sector, want.sectors)).collect::<Vec<_>>()
    };
    let large = all(&[("rw", "trim"), ("bs", "3g"), ("io_size", "6g")]);
    assert_eq!(large, [(0, 3 << 21), (3 << 21, 3 << 21)]);
    assert_eq!(all(&[("rw", "trim"), ("bs", "700"), ("io_size", "1400")]), [(0, 2), (1, 2)]);
}

#[test]
fn a_size_beyond_the_device_keeps_a_job_of_fio_inside() {
    for rw in ["randread", "read"] {
        let spec = JobSpec { fio_job: Some(1), ..job(&[("rw", rw), ("size", "10g"), ("bs", "1m")]) };
        let issued = run(&spec, context(0), Nanos::from_us(100), 2000);
        assert!(issued.iter().all(|(_, want)| want.sector + u64::from(want.sectors) <= GIB / SECTOR_BYTES));
        assert_eq!(spec.cut_at(GIB, 1), Some(10 * GIB));
        // The seventh instance begins at 1.5 GiB.
        let spread = JobSpec { fio_job: Some(1), ..job(&[("rw", rw), ("size", "256m"), ("offset_increment", "256m")]) };
        assert_eq!((spread.region(GIB, 6), spread.cut_at(GIB, 7)), (Ok((GIB / 2, GIB / 4)), Some(GIB * 7 / 4)));
        assert_eq!(spread.cut_at(GIB, 4), None);
    }
    let whole = |text: &str| job(&[("size", text)]).size;
    assert_eq!((whole("0"), whole("4k")), (None, Some(Extent::Bytes(4096))));
}

#[test]
fn contradictory_options_are_refused_with_their_numbers() {
    let refused =
        |options: &[(&str, &str)]| job(options).build(context(0)).err().map(|e| e.to_string()).unwrap_or_default();
    assert_eq!(
        refused(&[("bs", "4kB")]),
        "bs: 4000 bytes is not a multiple of 512; a block device has 512-byte sectors, and direct I/O takes whole ones \
         (buffered: direct=0)"
    );
    assert_eq!(
        refused(&[("offset", "2g")]),
        "offset: the start, 2147483648 bytes, is beyond the device of 1073741824 bytes"
    );
    assert_eq!(
        refused(&[("offset", "1000m"), ("size", "100m")]),
        "size: 1048576000 + 104857600 bytes is beyond the device of 1073741824 bytes"
    );
    assert_eq!(refused(&[("size", "2k")]), "size: the region of 2048 bytes cannot hold a block of 4KiB");
    assert_eq!(
        refused(&[("rate", "1m"), ("rate_iops", "10")]),
        "rate_iops: rate limits the same direction; give one of the two"
    );
    assert_eq!(refused(&[("burst_on", "1s")]), "burst_on: bursts need both burst_on and burst_off");
    let set = |key: &str, value: &str| JobSpec::default().set(key, value, Prefixes::Plain).unwrap_err().to_string();
    assert_eq!(set("iodpeth", "1"), "unknown option `iodpeth`; did you mean `iodepth`?");
    assert_eq!(set("iodepth", "0"), r#"iodepth: "0" is not a whole number from 1 to 1048576"#);
    assert_eq!(
        set("bssplit", "4k/60:8k/60"),
        r#"bssplit: "4k/60:8k/60" is not a list whose percentages sum to 100 (these sum to 120)"#
    );
    assert_eq!(
        set("runtime", "-5"),
        r#"runtime: "-5" is not a time such as 500ms, 10s or 2m (a bare number is seconds)"#
    );
    assert_eq!(
        set("ioengine", "cpuio"),
        r#"ioengine: "cpuio" is not an I/O engine that does block I/O, such as io_uring, libaio, posixaio, sync, psync, pvsync2 or mmap"#
    );
}

/// Any option of a job, with interesting values.
fn any_option() -> impl Strategy<Value = (&'static str, String)> {
    let sizes =
        prop::sample::select(vec!["512", "4k", "64k", "1m", "20%", "33.3%", "4k,8k", ",16k", "8k,32k,", "0", "3"]);
    let numbers = prop::sample::select(vec!["0", "1", "2", "7", "50", "100", "1000", "20,80", "10,,5"]);
    let times = prop::sample::select(vec!["0", "1us", "100", "5ms", "1s", "2m", "1s-2s"]);
    let words = prop::sample::select(vec![
        "read",
        "randwrite",
        "randrw",
        "rw:4k",
        "read:-8k",
        "randread:8",
        "trimwrite",
        "randtrim",
        "psync",
        "libaio",
        "poisson",
        "identical",
        "exponential",
        "zipf:0.99",
        "zipf:1.2:0.5",
        "pareto:0.2",
        "normal:5",
        "zoned:60/10:40/90",
        "zoned_abs:50/1m:50/8m",
        "dsync",
        "true",
        "false",
        "4k/60:16k/40",
        "4k/50:8k,16k/25:32k/",
        "1k-64k",
        "8k-16k,4k",
        "32k:1.0:4k-256k",
        "random",
    ]);
    let value = prop_oneof![sizes, numbers, times, words].prop_map(str::to_string);
    (prop::sample::select(JobSpec::keys().collect::<Vec<_>>()), value)
}

fn any_job() -> impl Strategy<Value = JobSpec> {
    prop::collection::vec(any_option(), 0..24).prop_map(|options| {
        let mut spec = JobSpec::default();
        for (key, value) in options {
            let _ = spec.set(key, &value, Prefixes::Plain);
        }
        spec
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn formatted_jobs_parse_back(spec in any_job()) {
        let mut again = JobSpec::default();
        for (key, value) in spec.entries() {
            prop_assert!(again.set(key, &value.text(), Prefixes::Plain).is_ok(), "{key} = {value:?}");
        }
        prop_assert_eq!(again, spec);
    }

    /// With any options, I/O is inside the region, aligned, at most `depth` deep, repeatable and never stuck (see
    /// `run`).
    #[test]
    fn any_job_stays_inside_its_region(spec in any_job(), instance in 0u32..3, seed: u64) {
        let context = BuildContext { seed, ..context(instance) };
        if spec.build(context).is_ok() {
            let issued = run(&spec, context, Nanos::from_us(70), 300);
            for (_, want) in &issued {
                prop_assert!(want.sector + u64::from(want.sectors) <= context.capacity_sectors, "{want:?}");
                prop_assert_eq!(want.sectors == 0, want.op == Op::Flush);
            }
            prop_assert_eq!(issued, run(&spec, context, Nanos::from_us(70), 300));
        }
    }

    #[test]
    fn no_option_panics(key in prop::sample::select(JobSpec::keys().collect::<Vec<_>>()), value in "\\PC{0,40}") {
        let mut spec = JobSpec::default();
        if spec.set(key, &value, Prefixes::Plain).is_ok() {
            let _ = spec.build(context(3));
        }
    }
}
