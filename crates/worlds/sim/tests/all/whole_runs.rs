//! Whole runs: conservation, determinism, Little's law and what schedulers are for.

use dumbwaiter_experiment::Control;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::{Choice, REGISTRY};
use dumbwaiter_sim::Prepared;
use proptest::prelude::*;

fn run_with(scenario: &Scenario, device: &str, scheduler: &str, replicate: u32) -> RunResult {
    let model = dumbwaiter_devices::load(device).unwrap();
    let choice = Choice::parse_stack(scheduler).unwrap();
    let prepared = Prepared::new(scenario).unwrap();
    prepared.run(&model, &choice, replicate, &Control::default()).unwrap().run
}

fn run(toml: &str, device: &str, scheduler: &str) -> RunResult {
    run_with(&Scenario::from_toml(toml, "test").unwrap(), device, scheduler, 0)
}

/// Everything at once: sizes, flushes, trims, priorities, buffered writers, think time.
const MIXTURE: &str = r#"
duration = "60ms"
[[tenant]]
name = "a"
weight = 300
[[tenant.task]]
name = "mixed"
count = 3
rw = "randrw"
bs = "4k/50:64k/30:512/20"
bs_unaligned = true
iodepth = 16
size = "10%"
[[tenant.task]]
name = "commit"
rw = "write"
bs = "16k"
fdatasync = 4
ioprio = "rt/0"
[[tenant]]
name = "b"
[[tenant.task]]
name = "trim"
rw = "randtrim"
bs = "1m"
iodepth = 4
[[tenant.task]]
name = "log"
rw = "write"
bs = "128k"
direct = false
rate = "20MB/s"
[[tenant.task]]
name = "user"
rw = "randread"
bs = "4k"
ioengine = "psync"
thinktime = "2ms"
ioprio = "idle"
"#;

#[test]
fn every_request_comes_back_under_every_scheduler_on_every_kind_of_device() {
    for device in ["hdd:hts541010a9e662", "ssd:850pro-256", "ull:zssd-sz985", "null:0us"] {
        for entry in REGISTRY {
            let result = run(MIXTURE, device, entry.name);
            let l = &result.ledger;
            assert!(l.submitted > 10 && l.submitted == l.completed, "{device} {}: {l:?}", entry.name);
            assert_eq!(l.failed, 0, "{device} {}", entry.name);
        }
    }
}

#[test]
fn one_seed_gives_one_result_and_another_seed_another() {
    let scenario = Scenario::from_toml(MIXTURE, "test").unwrap();
    let json =
        |replicate| serde_json::to_string(&run_with(&scenario, "ssd:px256m5s", "mq-deadline", replicate)).unwrap();
    let first = json(0);
    assert_eq!(first, json(0));
    assert_ne!(first, json(1));
}

#[test]
fn littles_law_holds_for_a_closed_loop() {
    let toml = "duration = \"500ms\"\n[host]\nprofile = \"free\"\n[[task]]\nname = \"t\"\nrw = \"randread\"\nbs = \"4k\"\niodepth = 16\n";
    for scheduler in ["none", "mq-deadline", "kyber"] {
        let r = run(toml, "ull:optane-900p", scheduler);
        let outstanding = r.iops * r.latency_us.mean / 1e6;
        assert!((15.92..=16.08).contains(&outstanding), "{scheduler}: {outstanding}");
    }
}

/// Random reads of a disk after a warm-up, with as many slots as I/Os, so that none waits outside.
fn disk_reads(depth: u32, warmup_s: u64, duration_s: u64) -> RunResult {
    let toml = format!(
        "warmup = \"{warmup_s}s\"\nduration = \"{duration_s}s\"\nnr_requests = 1024\n[[task]]\nname = \"t\"\n\
         rw = \"randread\"\nbs = \"4k\"\niodepth = {depth}\n"
    );
    run(&toml, "hdd:st1000dm003", "none")
}

#[test]
fn rates_do_not_depend_on_the_warm_up_at_any_depth() {
    for (depth, duration_s) in [(1, 60), (32, 60), (512, 200)] {
        let of_warmup = |s| disk_reads(depth, s, duration_s);
        let runs = [0, 1, 10].map(of_warmup);
        let (least, most) = runs.iter().fold((f64::MAX, 0.0f64), |(a, b), r| (a.min(r.iops), b.max(r.iops)));
        assert!(most < 1.03 * least, "depth {depth}: {least} to {most} IOPS");
        for r in &runs {
            assert_eq!(r.requests, r.warmup_completed + r.completed + r.unfinished);
            assert_eq!((r.requests, r.unfinished), (r.ledger.submitted, u64::from(depth)));
            let in_flight = r.iops * r.latency_us.mean / 1e6 / f64::from(depth);
            assert!((0.98..1.02).contains(&in_flight), "depth {depth}: {in_flight}, {:?}", r.latency_us);
        }
    }
}

#[test]
fn processor_time_and_energy_are_those_of_the_measured_time() {
    let toml = |warmup: &str| {
        format!(
            "warmup = \"{warmup}\"\nduration = \"1s\"\n[host]\ncpus = 1\n[[task]]\nname = \"t\"\nrw = \"randread\"\n\
             bs = \"4k\"\nioengine = \"psync\"\n"
        )
    };
    let (cold, warm) = (run(&toml("0s"), "ull:optane-900p", "none"), run(&toml("3s"), "ull:optane-900p", "none"));
    let near = |a: f64, b: f64| (a - b).abs() < 0.02 * a;
    for figure in [
        |r: &RunResult| r.cpu.busy_s,
        |r: &RunResult| r.cpu.us_per_io,
        |r: &RunResult| r.cpu.ctx_per_io,
        |r: &RunResult| r.cpu.utilisation[0],
        |r: &RunResult| r.energy.as_ref().unwrap().j_per_mio,
        |r: &RunResult| r.energy.as_ref().unwrap().bytes_per_j,
    ] {
        assert!(near(figure(&cold), figure(&warm)), "{} {}", figure(&cold), figure(&warm));
    }
    assert!(warm.warmup_completed > 2 * warm.completed);
}

#[test]
fn a_sorting_scheduler_moves_more_on_a_disk_and_less_is_said_about_flash() {
    let toml =
        "duration = \"20s\"\nqueue_depth = 1\n[[task]]\nname = \"t\"\nrw = \"randread\"\nbs = \"4k\"\niodepth = 64\n";
    let iops = |device, scheduler| run(toml, device, scheduler).iops;
    let disk = "hdd:st1000dm003";
    assert!(iops(disk, "c-look") > 1.3 * iops(disk, "noop"));
    assert!(iops(disk, "sstf") > 1.3 * iops(disk, "noop"));
    let flash = iops("ssd:850pro-256", "c-look") / iops("ssd:850pro-256", "noop");
    assert!((0.97..1.03).contains(&flash), "{flash}");
}

#[test]
fn realtime_goes_before_best_effort_under_mq_deadline_only() {
    let toml = r#"
duration = "5s"
[[task]]
name = "background"
rw = "randread"
iodepth = 64
[[task]]
name = "urgent"
ioprio = "rt/0"
rw = "randread"
ioengine = "psync"
thinktime = "10ms"
"#;
    let urgent = |scheduler| {
        let r = run(toml, "hdd:st1000dm003", scheduler);
        r.tasks.iter().find(|t| t.name == "urgent").unwrap().latency_us.mean
    };
    assert!(urgent("mq-deadline") < 0.8 * urgent("kyber"), "{} {}", urgent("mq-deadline"), urgent("kyber"));
}

#[test]
fn what_starves_is_still_seen_at_the_end() {
    // It comes once the drive is full of the others' requests: what a drive has it serves within three seconds.
    let toml = "duration = \"5s\"\n[[task]]\nname = \"near\"\nrw = \"randread\"\nsize = \"1%\"\niodepth = 60\n[[task]]\nname = \"far\"\nstart = \"50ms\"\nrw = \"randread\"\noffset = \"90%\"\nioengine = \"psync\"\n";
    let scenario = Scenario::from_toml(toml, "test").unwrap();
    let model = dumbwaiter_devices::load("hdd:st1000dm003").unwrap();
    let prepared = Prepared::new(&scenario).unwrap();
    let choice = Choice::parse("sstf").unwrap();
    let cell = prepared.run(&model, &choice, 0, &Control::default()).unwrap();
    let r = &cell.run;
    assert_eq!((r.ledger.outstanding, r.unfinished), (61, 61));
    assert!(r.oldest_unfinished_s > 3.0, "{}", r.oldest_unfinished_s);
    let far = &r.tasks.iter().find(|t| t.name == "far").unwrap().latency_us;
    assert!(far.max > 3e6 && !far.is_known(0.99), "{far:?}");
}

/// The flusher sleeps for a tag most of the time, in a batch: its writes count when the device completes them.
#[test]
fn write_back_that_waits_for_tags_is_counted_when_the_device_has_it() {
    let result = run(
        "duration = \"2s\"\n[host]\npage_cache = \"64MiB\"\n[[task]]\nname = \"writer\"\nrw = \"randwrite\"\ndirect = false\n\
         [[task]]\nname = \"reader\"\nrw = \"randread\"\niodepth = 4",
        "hdd:st1000dm003?ncq_depth=1&cache=off",
        "none",
    );
    let [writer, reader] =
        ["flusher", "reader"].map(|name| result.tasks.iter().find(|t| t.name == name).unwrap().count);
    // Five wait for one tag in turn, one of them the flusher.
    assert!(writer * 5 > reader, "{writer} writes beside {reader} reads");
}

#[test]
fn stages_run_one_after_the_other() {
    let toml = r#"
[[task]]
name = "first"
rw = "write"
bs = "4k"
number_ios = 100
[[task]]
name = "second"
stage = 1
rw = "read"
bs = "4k"
number_ios = 50
"#;
    let r = run(toml, "null:0us", "none");
    assert_eq!((r.read.count, r.write.count), (50, 100));
    let alone = run(&toml.replace("stage = 1\n", ""), "null:0us", "none");
    assert!(r.duration_s > alone.duration_s, "{} {}", r.duration_s, alone.duration_s);
}

#[test]
fn processor_time_adds_up_and_a_scheduler_costs_some() {
    let toml = "duration = \"200ms\"\n[host]\ncpus = 4\n[[task]]\nname = \"t\"\ncount = 4\nrw = \"randread\"\nioengine = \"psync\"\n";
    let (none, bfq_like) = (run(toml, "ull:optane-900p", "none"), run(toml, "ull:optane-900p", "mq-deadline"));
    for r in [&none, &bfq_like] {
        let c = &r.cpu;
        assert!(c.utilisation.len() == 4 && c.utilisation.iter().all(|u| (0.0..=1.0).contains(u)), "{c:?}");
        let parts = c.submit_s + c.scheduler_s + c.irq_s + c.poll_s;
        assert!(c.busy_s >= parts * 0.999, "SMT only stretches: {c:?}");
    }
    assert_eq!(none.cpu.scheduler_s, 0.0);
    assert!(bfq_like.cpu.scheduler_s > 0.0 && bfq_like.cpu.us_per_io > none.cpu.us_per_io);
}

#[test]
fn what_drains_behind_the_end_is_charged_to_nobody() {
    let toml = "duration = \"200ms\"\nnr_requests = 1000\n[[task]]\nname = \"t\"\nrw = \"randread\"\nbs = \"4k\"\niodepth = 1000\n";
    let r = run(toml, "hdd:st1000dm003", "none");
    assert!(r.ledger.completed > 10 * r.completed, "much is left: {:?}", r.ledger);
    let busy = r.device_counters["media_busy_s"];
    assert!(busy > 0.1 && busy < 0.3, "the arm was busy for {busy} s of 0.2 s");
    assert!(r.cpu.irq_s < 2e-5 * r.completed as f64, "20 us an interrupt at most: {:?}", r.cpu);
}

#[test]
fn a_timer_behind_the_last_request_does_not_lengthen_the_run() {
    let toml = "[[task]]\nname = \"t\"\nrw = \"randread\"\nbs = \"4k\"\niodepth = 4\nio_size = \"1m\"\nsize = \"1g\"\n";
    let seconds = |scheduler| run(toml, "ull:optane-900p", scheduler).duration_s;
    let (none, kyber) = (seconds("none"), seconds("kyber"));
    assert!(none > 0.0 && kyber < 1.5 * none, "none {none} s, kyber {kyber} s");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever the depths, queues and limits: every request comes back, and the run ends.
    #[test]
    fn any_setting_drains(
        scheduler in 0..REGISTRY.len(),
        device in 0usize..4,
        queue_depth in 1u32..40,
        nr_requests in 4u32..300,
        cpus in 1u16..9,
        hw_queues in 1u16..5,
        nomerges in 0u8..3,
        seed in any::<u64>(),
    ) {
        let device = ["hdd:st1000dm003", "ssd:sata-mlc", "ull:optane-900p", "null:0us"][device];
        let mut scenario = Scenario::from_toml(MIXTURE, "test").unwrap();
        scenario.queue_depth = Some(queue_depth);
        scenario.nr_requests = Some(nr_requests);
        scenario.host.cpus = cpus;
        scenario.host.hw_queues = Some(hw_queues);
        scenario.nomerges = nomerges;
        scenario.seed = seed >> 1;
        scenario.duration = Some(dumbwaiter_block::Nanos::from_ms(30));
        let result = run_with(&scenario, device, REGISTRY[scheduler].name, 0);
        prop_assert_eq!(result.ledger.submitted, result.ledger.completed);
    }
}

#[test]
fn every_ready_scenario_runs_with_the_devices_and_schedulers_it_names() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let (mut scenario, _) = Scenario::load(&path).unwrap();
        // Programs are launched after three seconds.
        let launches = scenario.tasks().any(|(_, task)| matches!(task.work, dumbwaiter_scenario::Work::App(_)));
        scenario.duration = Some(dumbwaiter_block::Nanos::from_ms(if launches { 3_500 } else { 40 }));
        scenario.warmup = dumbwaiter_block::Nanos::ZERO;
        for device in &scenario.devices {
            for scheduler in &scenario.schedulers {
                let result = run_with(&scenario, device, &scheduler.to_string(), 0);
                assert!(result.completed > 0, "{}: {device}, {scheduler}", path.display());
            }
        }
        seen += 1;
    }
    assert!(seen >= 5);
}

/// Neighbouring reads that arrive together merge, unless the trace says that they are of different kinds.
#[test]
fn a_traces_tags_reach_the_requests_of_the_block_layer() {
    let folder = tempfile::tempdir().unwrap();
    let merges = |name: &str, tags: [&str; 2]| {
        let path = folder.path().join(name);
        let lines = (0..256u64).map(|i| {
            let time = i / 32 * 100_000;
            format!("{time},R,{},8,1,{}\n", i * 8, tags[i as usize % 2])
        });
        std::fs::write(
            &path,
            "time_us,op,offset_sectors,size_sectors,task,io_tag\n".to_owned() + &lines.collect::<String>(),
        )
        .unwrap();
        let toml = format!("queue_depth = 1\n[[task]]\nname = \"replay\"\ntrace = \"{}\"\n", path.display());
        let run = run(&toml, "hdd:st1000dm003", "mq-deadline");
        assert_eq!(run.completed, 256, "{name}");
        run.merges.back + run.merges.front + run.merges.requests
    };
    assert!(merges("one", ["12", "JOURNAL"]) > 100);
    assert!(merges("unknown", ["-", ""]) > 100);
    assert_eq!(merges("two", ["JOURNAL", "FILE_4KB"]), 0);
}
