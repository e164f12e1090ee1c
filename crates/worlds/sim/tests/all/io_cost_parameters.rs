//! io.cost's parameters of a volume, whose limits are known.

use dumbwaiter_experiment::{Control, IoCostPlan, io_cost_parameters};
use dumbwaiter_sim::Simulator;

#[test]
fn a_volume_has_the_model_of_its_limits() {
    let plan = IoCostPlan { device: "volume:ebs-gp3".to_owned(), service_p99_most_us: None };
    let found = io_cost_parameters(&plan, &Simulator::new(2), &Control::default()).unwrap();
    let [reads, writes] = found.settings().unwrap().model;
    for rates in [reads, writes] {
        assert!((rates.bps as f64 / 131_072_000.0 - 1.0).abs() < 0.05, "125 MiB/s: {}", found.model);
        assert!((rates.randiops as f64 / 3_000.0 - 1.0).abs() < 0.05, "3000 I/Os a second: {}", found.model);
    }
    // Less of the drive is less for all, and never a longer wait for the service than at the whole rate.
    let rates = &found.rates;
    assert_eq!((rates[0].percent, rates[0].throughput), (100, 1.0));
    assert!(rates.is_sorted_by(|a, b| a.throughput >= b.throughput * 0.98), "{rates:?}");
    let (whole, least) = (rates[0].service_p99_us, rates[rates.len() - 1].service_p99_us);
    assert!(least <= whole * 1.05, "{rates:?}");
    let qos = found.qos_isolation.as_ref().expect("the lowest rate protects by definition");
    let percent = found.isolation_percent.unwrap();
    assert!(qos.ends_with(&format!("min={percent}.00 max={percent}.00")), "{qos}");
    let entry = found.hwdb("A DRIVE");
    assert!(entry.starts_with("block:*:name:A DRIVE:fwrev:*:\n  IOCOST_SOLUTIONS=isolation naive\n"), "{entry}");
    assert!(entry.contains(&format!("  IOCOST_QOS_ISOLATION={qos}\n")), "{entry}");
    let [model, qos] = <[String; 2]>::try_from(found.commands("259:0")).unwrap();
    assert!(model.starts_with("echo '259:0 ctrl=user model=linear rbps="), "{model}");
    assert!(qos.starts_with("echo '259:0 enable=1 ctrl=user rpct=0.00"), "{qos}");
}

/// A goal that nothing meets gives no rate that protects, and the whole rate.
#[test]
fn no_rate_meets_a_goal_below_the_volumes_latency() {
    let plan = IoCostPlan { device: "volume:ebs-gp3".to_owned(), service_p99_most_us: Some(1.0) };
    let found = io_cost_parameters(&plan, &Simulator::new(2), &Control::default()).unwrap();
    assert_eq!((found.isolation_percent, &found.qos_isolation), (None, &None));
    assert!(found.hwdb("A DRIVE").contains("IOCOST_SOLUTIONS=naive\n"));
}
