//! Properties of every device under random loads.

use dumbwaiter_block::{Nanos, Op, TenantId};
use dumbwaiter_devices::closed_loop::{Job, run};
use dumbwaiter_devices::{Command, Completion, Device, Submitted, load};
use proptest::prelude::*;

const DEVICES: &[&str] = &[
    "hdd:st1000dm003",
    "hdd:st1000dm003?cache=off&rpo_window=1",
    "hdd:st1000dm003?write_cache_mib=0.1&write_back_window=0&t_idle_destage_ms=1",
    "hdd:st1000dm003-slow?ncq_depth=4",
    "hdd:hts541010a9e662?lookahead=false",
    "hdd:hts541010a9e662?read_ahead_max_kib=64&segments=2&buffer_mib=0.25",
    "ssd:px256m5s",
    "ssd:850pro-256?write_buffer_mib=0.1&ncq_depth=7",
    "ssd:sata-mlc?cache=off",
    "ssd:sata-mlc?channels=1&dies_per_channel=1&planes=1&pages_per_block=8&ftl_gib=0.004&state=steady",
    "ssd:850pro-256?channels=1&dies_per_channel=2&pages_per_block=8&ftl_gib=0.01&over_provisioning=0.2&t_idle_gc_ms=2",
    "ssd:nvme-tlc?state=empty&prefetch_kib=64",
    "ssd:nvme-tlc?in_order=true&duplex=half&slots=3&write_gap_mib=0.2&write_buffer_mib=0.5&drain_mb_per_s=50&reads_per_program=1&suspend_every_us=100&t_read_fast_us=40&firmware_further_us=1&latency_large_read_us=20",
    "ssd:980pro-1tb?ftl_gib=0.05&suspend=erase",
    "hdd:dt01aca200?write_cache_mib=2&destage_high_mib=1&destage_span_mib=1",
    "cloud:gcp-pd-ssd",
    "ull:optane-900p",
    "ull:zssd-sz985?queues=1&queue_depth=8",
    "null:0us?depth=3&latency_ns=1000",
];

/// Time since the previous command, in ns, and the command.
type Step = (u64, Command);

fn commands(hot: u64) -> impl Strategy<Value = Step> {
    let op = prop_oneof![
        8 => Just(Op::Read),
        8 => Just(Op::Write),
        1 => Just(Op::Flush),
        1 => Just(Op::Discard),
        1 => Just(Op::WriteZeroes),
        1 => Just(Op::SecureErase),
    ];
    let gap = prop_oneof![Just(0u64), 1..10_000u64, 10_000..1_000_000u64, 1_000_000..50_000_000u64];
    let sector = prop_oneof![
        6 => 0..hot,
        2 => (0..hot / 8).prop_map(|s| s * 8),
        1 => 0..190_000_000u64,
        1 => Just(u64::MAX - 3),
    ];
    let sectors = prop_oneof![Just(8u32), Just(1u32), 1..300u32, Just(2048u32)];
    (gap, op, sector, sectors, prop::bool::weighted(0.1)).prop_map(|(gap, op, sector, sectors, fua)| {
        let (sector, sectors) = if op == Op::Flush { (0, 0) } else { (sector, sectors) };
        (gap, Command { tag: 0, op, fua, sector, sectors, queue: 0, tenant: TenantId(0) })
    })
}

/// Random commands, and sequential runs among them.
fn script() -> impl Strategy<Value = Vec<Step>> {
    let run = (commands(60_000), 1..12usize).prop_map(|((gap, first), length)| {
        (0..length as u64)
            .map(|i| {
                let sector = first.sector.saturating_add(i * u64::from(first.sectors));
                (if i == 0 { gap } else { gap / 100 }, Command { sector, ..first })
            })
            .collect::<Vec<_>>()
    });
    prop::collection::vec(run, 1..25).prop_map(|runs| {
        let mut steps = runs.concat();
        for (tag, (_, command)) in (0..).zip(&mut steps) {
            command.tag = tag;
        }
        steps
    })
}

/// When the driver calls `advance`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cadence {
    /// At each event.
    Exact,
    /// At each event, and at many other times.
    Eager,
    /// Only when the device is full.
    Lazy,
}

/// Runs a script; returns the completions in order, and each command's submission time by tag.
fn play(device: &mut dyn Device, script: &[Step], cadence: Cadence) -> (Vec<Completion>, Vec<Nanos>) {
    let (mut now, mut due) = (Nanos::ZERO, Nanos::ZERO);
    let (mut done, mut taken) = (Vec::new(), Vec::new());
    for (gap, command) in script {
        due = (due + Nanos(*gap)).max(now);
        match cadence {
            Cadence::Lazy => {}
            Cadence::Exact => run_to(device, due, &mut done),
            Cadence::Eager => {
                for part in 1..4 {
                    let extra = Nanos(now.0 + (due.0 - now.0) * part / 4);
                    run_to(device, extra, &mut done);
                    device.advance(extra, &mut done);
                }
                run_to(device, due, &mut done);
                device.advance(due, &mut done);
            }
        }
        now = due;
        while device.submit(now, command) == Submitted::Busy {
            // A full device without a next event would never accept a command.
            now = device.next_event().expect("a busy device has a next event").max(now);
            device.advance(now, &mut done);
        }
        taken.push(now);
        if cadence == Cadence::Eager {
            device.advance(now, &mut done);
        }
    }
    run_to(device, Nanos::MAX, &mut done);
    assert_eq!(device.next_event(), None);
    (done, taken)
}

fn run_to(device: &mut dyn Device, end: Nanos, done: &mut Vec<Completion>) {
    while let Some(at) = device.next_event().filter(|at| *at <= end) {
        device.advance(at, done);
        assert!(device.next_event().is_none_or(|next| next > at), "no event remains before the present");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn devices_conserve_commands_and_time_at_any_cadence(script in script(), seed in any::<u64>()) {
        for name in DEVICES {
            let model = load(name).unwrap();
            let mut device = model.build(seed);
            let (done, taken) = play(&mut *device, &script, Cadence::Exact);

            // Each command completes once, not before its submission, and in order of time.
            let mut tags: Vec<u32> = done.iter().map(|c| c.tag).collect();
            tags.sort_unstable();
            prop_assert_eq!(&tags, &(0..script.len() as u32).collect::<Vec<_>>(), "{}", name);
            prop_assert!(done.windows(2).all(|w| w[0].at <= w[1].at), "{}", name);
            for completion in &done {
                let tag = completion.tag as usize;
                prop_assert!(completion.at >= taken[tag]);
                // The breakdown is exact, and only commands beyond the end fail.
                prop_assert_eq!(completion.breakdown.sum(), completion.at.since(taken[tag]), "{} {:?}", name, completion);
                let command = script[tag].1;
                let end = command.sector.saturating_add(u64::from(command.sectors));
                prop_assert_eq!(completion.failed, end > model.facts().capacity_sectors, "{}", name);
            }

            // The counters agree with the script.
            let counters = device.counters();
            let count = |ops: &[Op]| script.iter().filter(|(_, c)| ops.contains(&c.op)).count() as u64;
            let bytes = |op| -> u64 {
                script.iter().filter(|(_, c)| c.op == op).map(|(_, c)| u64::from(c.sectors) * 512).sum()
            };
            prop_assert_eq!(counters.reads, count(&[Op::Read]));
            prop_assert_eq!(counters.writes, count(&[Op::Write]));
            prop_assert_eq!(counters.flushes, count(&[Op::Flush]));
            prop_assert_eq!(counters.discards, count(&[Op::Discard, Op::SecureErase, Op::WriteZeroes]));
            prop_assert_eq!((counters.read_bytes, counters.write_bytes), (bytes(Op::Read), bytes(Op::Write)));
            prop_assert!(counters.max_depth <= model.facts().depth);

            for cadence in [Cadence::Exact, Cadence::Eager, Cadence::Lazy] {
                let mut again = model.build(seed);
                let (other, _) = play(&mut *again, &script, cadence);
                prop_assert_eq!(&other, &done, "{} {:?}", name, cadence);
                prop_assert_eq!(again.counters(), counters, "{} {:?}", name, cadence);
            }
        }
    }

    #[test]
    fn a_later_command_never_speeds_an_earlier_one(script in script(), extra in commands(60_000)) {
        let fifo = [
            "hdd:st1000dm003?cache=off&rpo_window=1&lookahead=false&buffer_mib=0",
            "ssd:sata-mlc",
            "ull:optane-900p",
            "null:0us?latency_ns=5000",
        ];
        // A depth that is never reached, so that no command waits in the host.
        let script = &script[..script.len().min(30)];
        let mut longer = script.to_vec();
        longer.push((extra.0, Command { tag: script.len() as u32, ..extra.1 }));
        for name in fifo {
            let model = load(name).unwrap();
            let times = |script: &[Step]| {
                let (done, _) = play(&mut *model.build(1), script, Cadence::Exact);
                let mut at = vec![Nanos::ZERO; script.len()];
                done.iter().for_each(|c| at[c.tag as usize] = c.at);
                at
            };
            let (short, long) = (times(script), times(&longer));
            for (tag, at) in short.iter().enumerate() {
                prop_assert!(long[tag] >= *at, "{} {}", name, tag);
            }
        }
    }
}

/// Programs go to the dies in turn: lasting data that alternates with overwritten data all lies on one die.
#[test]
fn lasting_data_that_falls_on_one_die_does_not_fill_it() {
    for state in ["steady", "empty"] {
        let small = "channels=1&dies_per_channel=2&pages_per_block=8&ftl_gib=0.01&over_provisioning=0.2";
        let model = load(&format!("ssd:850pro-256?{small}&state={state}")).unwrap();
        let whole = (0.01 * 1024.0 * 1024.0 * 2.0) as u64;
        for sectors in [8, 16, 32, 64, 128] {
            let command = |i: u64| {
                let sector = if i.is_multiple_of(2) { 0 } else { i / 2 * u64::from(sectors) % whole };
                let (op, tenant) = (Op::Write, TenantId(0));
                Command { tag: i as u32, op, fua: false, sector, sectors, queue: 0, tenant }
            };
            let script: Vec<Step> = (0..whole * 8 / u64::from(sectors)).map(|i| (1_000, command(i))).collect();
            let (done, _) = play(&mut *model.build(1), &script, Cadence::Exact);
            assert_eq!(done.len(), script.len(), "{state} {sectors}");
        }
    }
}

fn iops(name: &str, reads: f64, depth: u32) -> f64 {
    let model = load(name).unwrap();
    let job = Job { reads, ..Job::reads_4k(depth, model.facts().capacity_sectors, 20_000) };
    run(&mut *model.build(1), &job).iops
}

#[test]
fn more_channels_or_dies_never_cost_throughput() {
    for reads in [1.0, 0.7, 0.0] {
        for key in ["channels", "dies_per_channel"] {
            let rates: Vec<f64> =
                [1, 2, 4, 8].iter().map(|n| iops(&format!("ssd:850pro-256?{key}={n}"), reads, 32)).collect();
            assert!(rates.windows(2).all(|w| w[1] >= w[0] * 0.999), "{key} {reads}: {rates:?}");
        }
    }
}

#[test]
fn disabling_the_cache_never_speeds_up_writes() {
    for device in ["ssd:px256m5s", "ssd:850pro-256", "ssd:sata-mlc", "ssd:nvme-tlc", "hdd:st1000dm003"] {
        for depth in [1, 4, 32] {
            let (on, off) = (iops(device, 0.0, depth), iops(&format!("{device}?cache=off"), 0.0, depth));
            assert!(off <= on * 1.001, "{device} {depth}: {off} > {on}");
        }
    }
}

#[test]
fn more_depth_never_costs_throughput() {
    // An age limit may cost a disk throughput, so it is set out of reach here.
    let devices = ["ssd:px256m5s", "ssd:sata-mlc", "ssd:nvme-tlc", "ull:optane-p4801x", "ull:zssd-sz985"];
    for device in devices.into_iter().chain(["hdd:st1000dm003?t_age_ms=3600000"]) {
        for reads in [1.0, 0.5, 0.0] {
            if device.starts_with("hdd") && reads < 1.0 {
                continue;
            }
            let rates: Vec<f64> = [1, 2, 4, 8, 16, 32, 64].iter().map(|depth| iops(device, reads, *depth)).collect();
            assert!(rates.windows(2).all(|w| w[1] >= w[0] * 0.99), "{device} {reads}: {rates:?}");
        }
    }
}

#[test]
fn results_depend_on_the_seed_alone() {
    for name in ["hdd:st1000dm003", "ull:optane-900p"] {
        let model = load(name).unwrap();
        let read =
            Command { tag: 0, op: Op::Read, fua: false, sector: 80_000, sectors: 8, queue: 0, tenant: TenantId(0) };
        let at = |seed| play(&mut *model.build(seed), &[(0, read)], Cadence::Exact).0[0].at;
        assert_eq!(at(3), at(3));
        assert_ne!(at(3), at(4));
    }
}
