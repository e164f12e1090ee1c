//! Our own models served back: a survey of a model in virtual time, fitted, gives its parameters again.

use std::sync::atomic::AtomicBool;

use dumbwaiter_devices::{DeviceModel, Kind, Params, load, parse};
use dumbwaiter_realworld::fit::{Fitted, Model, Options, Origin, device_file, fit, survey};

/// Relative error of a recovered parameter.
const TOLERANCE: f64 = 0.10;

fn fitted(spec: &str) -> (DeviceModel, Fitted) {
    let model = load(spec).unwrap();
    let mut subject = Model::new(model.clone(), 5);
    let found = survey(&mut subject, &Options::default(), &AtomicBool::new(false), &mut |_| {}).unwrap();
    let fitted = fit(&found).unwrap();
    println!("{}", device_file(&fitted));
    (model, fitted)
}

/// The fitted values of these parameters are those of the model, and the survey determined them.
#[track_caller]
fn recovers(model: &DeviceModel, fitted: &Fitted, names: &[&str]) {
    let truth = toml::Table::try_from(model).unwrap();
    for name in names {
        let found = fitted.parameters.iter().find(|p| p.name == *name).unwrap();
        assert!(!matches!(found.origin, Origin::Assumed(_) | Origin::Doubtful(_)), "{name} is assumed");
        let number = |v: &toml::Value| v.as_float().or(v.as_integer().map(|i| i as f64)).unwrap();
        let (is, should) = (number(&found.value), number(&truth[*name]));
        assert!((is / should - 1.0).abs() <= TOLERANCE, "{name}: {is}, expected {should}");
    }
}

/// The points that the fit did not see are predicted.
#[track_caller]
fn predicts(fitted: &Fitted) {
    let held = &fitted.held_back;
    assert!(held.points >= 5 && held.worst_error < 0.15, "{held:?}");
    let file = parse(&device_file(fitted), "fitted.toml", "").unwrap();
    assert_eq!(file.params(), fitted.model.params());
}

#[test]
fn a_hard_disk() {
    let (model, fitted) = fitted("hdd:st1000dm003-slow");
    assert_eq!((fitted.kind, fitted.depth), (Kind::Hdd, Some(32)));
    let densities = ["sectors_per_track_outer", "sectors_per_track_inner"];
    recovers(&model, &fitted, &["rpm", "seek_a_ms", "seek_b_ms", "t_cmd_ms", "read_ahead_min_kib"]);
    recovers(&model, &fitted, &densities);
    predicts(&fitted);
}

#[test]
fn a_sata_ssd() {
    let (model, fitted) = fitted("ssd:850pro-256");
    assert_eq!((fitted.kind, fitted.depth), (Kind::Ssd, Some(32)));
    recovers(&model, &fitted, &["ncq_depth", "link_mb_per_s", "firmware_read_us", "t_read_us", "latency_read_us"]);
    recovers(&model, &fitted, &["channel_mb_per_s"]);
    predicts(&fitted);
}

#[test]
fn an_nvme_ssd() {
    let (model, fitted) = fitted("ssd:nvme-tlc");
    assert_eq!(fitted.kind, Kind::Ssd);
    recovers(&model, &fitted, &["ncq_depth", "queues", "link_mb_per_s", "t_read_us"]);
    predicts(&fitted);
}

#[test]
fn an_ultra_low_latency_ssd() {
    let (model, fitted) = fitted("ull:optane-900p");
    assert_eq!(fitted.kind, Kind::Ull);
    recovers(&model, &fitted, &["link_read_mb_per_s", "link_command_us", "media_read_us", "channels"]);
    predicts(&fitted);
}

/// As `null_blk` with `completion_nsec=2000000` and `hw_queue_depth=1`.
#[test]
fn a_fixed_latency() {
    let (model, fitted) = fitted("null:0us?latency_ns=2000000&depth=1&queues=1");
    assert_eq!((fitted.kind, fitted.depth), (Kind::Null, Some(1)));
    recovers(&model, &fitted, &["latency_ns", "depth"]);
    predicts(&fitted);
    assert!(matches!(fitted.model.params(), Params::Null(p) if p.latency_ns == 2_000_000));
}

#[test]
fn what_a_disturbed_survey_measured_is_doubtful() {
    let mut subject = Model::new(load("ssd:850pro-256").unwrap(), 5);
    let mut found = survey(&mut subject, &Options::default(), &AtomicBool::new(false), &mut |_| {}).unwrap();
    let undisturbed = fit(&found).unwrap();
    assert!(undisturbed.parameters.iter().all(|p| !matches!(p.origin, Origin::Doubtful(_))));
    // Every other point waited for a CPU for most of the time.
    for point in found.points.iter_mut().step_by(2) {
        point.point.iops /= 8.0;
        point.point.mean_us *= 8.0;
        point.spread = 0.9;
    }
    let fitted = fit(&found).unwrap();
    assert!(fitted.warning().is_some_and(|warning| warning.contains("idle machine")), "{:?}", fitted.warning());
    assert!(fitted.parameters.iter().all(|p| !matches!(p.origin, Origin::Measured(_))));
    assert!(fitted.undetermined().any(|p| p.name == "link_mb_per_s"));
}

#[test]
fn a_survey_that_waited_for_the_cpus_says_that_it_cannot_be_trusted() {
    let mut subject = Model::new(load("ssd:850pro-256").unwrap(), 5);
    let mut found = survey(&mut subject, &Options::default(), &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(found.cpu_wait, 0.0, "virtual time waits for no CPU");
    found.cpu_wait = 0.3;
    let fitted = fit(&found).unwrap();
    assert!(fitted.held_back.median_error < 0.15, "its own figures agree with one another");
    assert!(fitted.warning().is_some_and(|warning| warning.contains("for 30 % of its time")), "{:?}", fitted.warning());
    assert!(fitted.parameters.iter().all(|p| !matches!(p.origin, Origin::Measured(_))));
}
