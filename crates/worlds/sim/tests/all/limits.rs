//! Limits and reservations in scenarios: a tenant gets no more than its limit, and no less than its reservation.

use dumbwaiter_experiment::Control;
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::Scenario;
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::Prepared;

/// Two tenants that read 4 KiB at random, 32 at a time each, on a device that serves 4,000 of them a second.
fn run(keys: [&str; 2], scheduler: &str) -> RunResult {
    run_with("", keys, scheduler)
}

fn run_with(top: &str, keys: [&str; 2], scheduler: &str) -> RunResult {
    let tenant = |name: &str, keys: &str| {
        format!(
            "[[tenant]]\nname = \"{name}\"\n{keys}\n[[tenant.task]]\nname = \"{name}\"\nrw = \"randread\"\nbs = \"4k\"\niodepth = 32\nioengine = \"libaio\"\n"
        )
    };
    let toml = format!(
        "duration = \"4s\"\nwarmup = \"2s\"\nqueue_depth = 4\n{top}\n{}{}",
        tenant("a", keys[0]),
        tenant("b", keys[1])
    );
    let scenario = Scenario::from_toml(&toml, "test").unwrap();
    let model = dumbwaiter_devices::load("null:0us?latency_ns=1000000&depth=8&queues=1").unwrap();
    let choice = Choice::parse(scheduler).unwrap();
    let prepared = Prepared::new(&scenario).unwrap();
    prepared.run(&model, &choice, 0, &Control::default()).unwrap().run
}

fn iops(run: &RunResult, tenant: usize) -> f64 {
    run.tenants[tenant].count as f64 / 4.0
}

#[test]
fn a_tenant_gets_its_limit_and_no_more_under_every_scheduler() {
    for scheduler in ["none", "mq-deadline", "bfq", "kyber", "headway"] {
        let limited = run(["limit_iops = 200", ""], scheduler);
        assert!((iops(&limited, 0) - 200.0).abs() <= 3.0, "{scheduler}: {}", iops(&limited, 0));
        let bytes = run(["limit_bytes = \"1MiB\"", ""], scheduler);
        assert!((iops(&bytes, 0) - 256.0).abs() <= 3.0, "{scheduler}: {}", iops(&bytes, 0));
        // The other has the rest.
        assert!(iops(&limited, 1) > 3000.0, "{scheduler}: {}", iops(&limited, 1));
        let again = run(["limit_iops = 200", ""], scheduler);
        assert_eq!(iops(&again, 0), iops(&limited, 0), "one seed, one result");
    }
}

#[test]
fn a_limit_counts_for_the_tenants_nested_in_it() {
    let nested = run(["limit_iops = 300", "parent = \"a\""], "none");
    let both = iops(&nested, 0) + iops(&nested, 1);
    assert!((both - 300.0).abs() <= 5.0, "{both}");
    assert!(iops(&nested, 0) > 100.0 && iops(&nested, 1) > 100.0, "{} and {}", iops(&nested, 0), iops(&nested, 1));
}

#[test]
fn a_reservation_is_kept_against_a_neighbour_of_greater_weight() {
    let plain = run(["weight = 10", "weight = 1000"], "headway");
    let reserved = run(["weight = 10\nreservation_iops = 1500", "weight = 1000"], "headway");
    assert!(iops(&plain, 0) < 300.0, "{}", iops(&plain, 0));
    assert!(iops(&reserved, 0) >= 1450.0 && iops(&reserved, 0) <= 1700.0, "{}", iops(&reserved, 0));
}

#[test]
fn limits_that_cannot_be_are_refused() {
    let refusal = |keys: &str| {
        let toml = format!(
            "duration = \"1s\"\n[[tenant]]\nname = \"a\"\n{keys}\n[[tenant.task]]\nname = \"t\"\nrw = \"read\"\nsize = \"1m\"\n"
        );
        Scenario::from_toml(&toml, "f.toml")
            .and_then(|s| s.validate(&|_| Ok(()), &|_| Ok(())).map(|()| s))
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    };
    assert!(
        refusal("limit_iops = 0").contains("limit_iops of 0 lets nothing through"),
        "{}",
        refusal("limit_iops = 0")
    );
    let both = refusal("limit_iops = 10\nreservation_iops = 20");
    assert!(both.contains("reservation_iops 20 is more than its limit_iops of 10"), "{both}");
    assert!(refusal("limit_bytes = \"fast\"").contains("fast"), "{}", refusal("limit_bytes = \"fast\""));
    assert_eq!(refusal("limit_bytes = \"1M\""), "");
}

#[test]
fn a_priority_class_counts_where_the_scheduler_goes_by_that_of_an_io() {
    let share = |scheduler: &str| {
        // The first tag is never far away: with few, those that wait for tags get them in turn, whatever their class.
        let run = run_with("nr_requests = 256", ["prio_class = \"idle\"", ""], scheduler);
        iops(&run, 0) / (iops(&run, 0) + iops(&run, 1))
    };
    // Idle I/O waits until there is no other, but for what ages.
    assert!(share("mq-deadline") < 0.1, "{}", share("mq-deadline"));
    for scheduler in ["none", "bfq"] {
        assert!((share(scheduler) - 0.5).abs() < 0.05, "{scheduler}: {}", share(scheduler));
    }
    let text = "[[tenant]]\nname = \"a\"\nprio_class = \"rt\"\n[[tenant.task]]\nname = \"t\"\nrw = \"read\"\n";
    let refused = Scenario::from_toml(text, "a.toml").unwrap_err().to_string();
    assert!(refused.contains("\"rt\" is no priority class; expected one of no-change, promote-to-rt"), "{refused}");
    let kept = Scenario::from_toml(&text.replace("\"rt\"", "\"restrict-to-be\""), "a.toml").unwrap();
    assert_eq!(kept.tenants[0].controls.prio_class.name(), "restrict-to-be");
}

#[test]
fn io_max_counts_as_in_the_kernel() {
    for scheduler in ["none", "mq-deadline", "bfq", "headway"] {
        let limited = run(["io_max = \"riops=200\"", ""], scheduler);
        // What goes in a tenth of a second goes at once: at either end of the run it counts whole or not.
        assert!((iops(&limited, 0) - 200.0).abs() <= 5.0, "{scheduler}: {}", iops(&limited, 0));
        assert!(iops(&limited, 1) > 3000.0, "{scheduler}: {}", iops(&limited, 1));
        let again = run(["io_max = \"riops=200\"", ""], scheduler);
        assert_eq!(iops(&again, 0), iops(&limited, 0), "one seed, one result");
    }
    let bytes = run(["io_max = \"rbps=2MiB wbps=max\"", ""], "none");
    assert!((iops(&bytes, 0) - 512.0).abs() <= 13.0, "{}", iops(&bytes, 0));
    // Reads of a few a second: the newer kernel lets more through than it was told.
    for (release, expected) in [("6.12", 5.0), ("6.18", 10.2)] {
        let few = run_with(&format!("[kernel]\nrelease = \"{release}\""), ["io_max = \"riops=7\"", ""], "none");
        assert!((iops(&few, 0) - expected).abs() <= 1.0, "{release}: {}", iops(&few, 0));
    }
    // Around both, and by I/O: the inner one gets its own limit of the 300.
    let nested = run(["io_max = \"riops=300\"", "parent = \"a\"\nio_max = \"riops=100\""], "none");
    assert!((iops(&nested, 0) - 200.0).abs() <= 8.0, "{}", iops(&nested, 0));
    assert!((iops(&nested, 1) - 100.0).abs() <= 8.0, "{}", iops(&nested, 1));
}

#[test]
fn io_max_is_read_written_and_refused_in_the_kernels_words() {
    let text = |limits: &str| {
        format!("[[tenant]]\nname = \"a\"\nio_max = \"{limits}\"\n[[tenant.task]]\nname = \"t\"\nrw = \"read\"\n")
    };
    let read = |limits: &str| Scenario::from_toml(&text(limits), "a.toml");
    let scenario = read("rbps=2MiB wiops=100 riops=max").unwrap();
    let [reads, writes] = scenario.tenants[0].controls.io_max;
    assert_eq!((reads.bytes, reads.ios, writes.bytes, writes.ios), (Some(2 << 20), None, None, Some(100)));
    assert!(scenario.to_toml().contains("io_max = \"rbps=2097152 wiops=100\""), "{}", scenario.to_toml());
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "again").unwrap(), scenario);
    for (limits, said) in [
        ("rbps=0", "io_max: rbps: `0`: expected max or a number from 1"),
        ("rbps=fast", "io_max: rbps: \"fast\" is not a size"),
        ("riops=2k", "io_max: riops: `2k`: expected max or a number from 1"),
        ("iops=7", "io_max: `iops`: expected rbps, wbps, riops or wiops"),
        ("rbps", "io_max: `rbps`: expected KEY=VALUE"),
    ] {
        let refused = read(limits).unwrap_err().to_string();
        assert!(refused.contains(said) && refused.contains("a.toml"), "{limits}: {refused}");
    }
}

#[test]
fn io_latency_slows_the_tenant_beside_one_that_misses_its_target() {
    // Without a target each has half, and 64 under way take 16 ms.
    let run = |keys| run_with("nr_requests = 256", keys, "mq-deadline");
    let [free, protected] = [["", ""], ["io_latency = \"12ms\"", ""]].map(run);
    assert!((iops(&free, 0) / iops(&free, 1) - 1.0).abs() < 0.1, "{} and {}", iops(&free, 0), iops(&free, 1));
    assert!(iops(&protected, 0) > 2.0 * iops(&protected, 1), "{} and {}", iops(&protected, 0), iops(&protected, 1));
    let again = run(["io_latency = \"12ms\"", ""]);
    assert_eq!(iops(&again, 0), iops(&protected, 0), "one seed, one result");
    let text = |time: &str| {
        format!(
            "[[tenant]]\nname = \"a\"\nio_latency = \"{time}\"\n[[tenant.task]]\nname = \"t\"\nrw = \"read\"\nsize = \"1m\"\n"
        )
    };
    let scenario = Scenario::from_toml(&text("5ms"), "a.toml").unwrap();
    assert!(scenario.to_toml().contains("io_latency = \"5ms\""), "{}", scenario.to_toml());
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "again").unwrap(), scenario);
    let refused = Scenario::from_toml(&text("0"), "a.toml").unwrap().validate(&|_| Ok(()), &|_| Ok(())).unwrap_err();
    assert!(refused.to_string().contains("an io_latency below 1 us is none"), "{refused}");
}

#[test]
fn limits_of_io_max_change_during_a_run() {
    // In the middle of what is measured.
    let changed =
        |limits: &str| format!("io_max = \"riops=400\"\n[[tenant.change]]\nat = \"4s\"\nio_max = \"{limits}\"");
    let halves = |limits: &str| iops(&run([&changed(limits), ""], "none"), 0);
    let steady = iops(&run(["io_max = \"riops=400\"", ""], "none"), 0);
    assert!((steady - 400.0).abs() <= 10.0, "{steady}");
    assert!((halves("riops=100") - 250.0).abs() <= 30.0, "{}", halves("riops=100"));
    assert!(halves("riops=max") > 1000.0, "{}", halves("riops=max"));
    let text = "[[tenant]]\nname = \"a\"\n[[tenant.task]]\nname = \"t\"\nrw = \"read\"\nsize = \"1m\"\n[[tenant.change]]\nat = \"1s\"\nio_max = \"riops=max\"\n";
    let scenario = Scenario::from_toml(text, "a.toml").unwrap();
    assert_eq!(scenario.tenants[0].changes[0].io_max, Some(Default::default()));
    assert_eq!(Scenario::from_toml(&scenario.to_toml(), "b.toml").unwrap().tenants, scenario.tenants);
    let none = text.replace("io_max = \"riops=max\"\n", "");
    let refused = Scenario::from_toml(&none, "a.toml").and_then(|s| s.validate(&|_| Ok(()), &|_| Ok(())));
    assert!(refused.unwrap_err().to_string().contains("changes nothing"));
}
