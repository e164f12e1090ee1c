use super::*;

#[test]
fn without_any_meter_all_reasons_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (meter, about) = best_in(dir.path());
    assert!(meter.is_none());
    for part in ["no energy meter", "powercap", "perf", "hwmon"] {
        assert!(about.contains(part), "{about}");
    }
    assert!(!about.contains('\n'));
}

#[test]
fn the_one_that_works_is_told_with_those_that_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let chip = dir.path().join("sys/class/hwmon/hwmon0");
    std::fs::create_dir_all(&chip).unwrap();
    std::fs::write(chip.join("name"), "power_meter\n").unwrap();
    std::fs::write(chip.join("power1_average"), "40000000\n").unwrap();
    let (meter, about) = best_in(dir.path());
    assert_eq!(meter.unwrap().source(), Source::Hwmon);
    assert!(about.starts_with("energy meter: hwmon power_meter") && about.contains("not RAPL"), "{about}");
}

#[test]
fn this_machine_is_looked_at_without_harm() {
    let (meter, about) = open_best();
    println!("{about}");
    if let Some(mut meter) = meter {
        meter.start().unwrap();
        assert!(meter.stop().unwrap().energy.joules >= 0.0);
    }
}
