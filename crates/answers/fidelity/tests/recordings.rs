//! Our schedulers checked against every kernel recording of the shared set.

use std::path::{Path, PathBuf};

use dumbwaiter_experiment::Control;
use dumbwaiter_fidelity::recording::Recording;
use dumbwaiter_fidelity::{BOUNDS, call_by_call, closed_loops, compare, free_running, kernel_order, scheduler_of};
use dumbwaiter_schedulers::Choice;
use dumbwaiter_sim::Simulator;

fn recordings(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data").join(folder);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.to_string_lossy().ends_with(".csv.zst"));
    paths.sort();
    paths
}

/// Least share of calls with the kernel's answer.
fn floor(name: &str) -> f64 {
    match name {
        n if n.starts_with("none") => 1.0,
        n if n.starts_with("mq-deadline") => 0.999,
        // In real time the kernel's own clock, which it measures service times with, is not that of the rows.
        n if n.contains("-wall-2cpu") => 0.985,
        _ => 0.995,
    }
}

#[test]
fn every_recording_is_followed() {
    let paths = [recordings("kernel-dispatch"), recordings("kernel-dispatch-groups")].concat();
    if paths.is_empty() {
        println!("skipped: no shared data");
        return;
    }
    let mut failures = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let recording = Recording::open(&path).unwrap();
        let Some(scheduler) = scheduler_of(&recording) else { continue };
        let choice = Choice::parse(&scheduler.to_string()).unwrap();
        let make = |setup| choice.scheduler(setup);
        let found = call_by_call(&recording, &make, Some(1));
        let order = free_running(&recording, &make);
        let kernel = kernel_order(&recording);
        // One that idles at other times than the kernel did may have some left when the calls end.
        let all = if recording.scheduler == "bfq" { kernel.len() * 99 / 100 } else { kernel.len() };
        if order.len() < all {
            failures.push(format!("{name}: free running dispatched {} of {} requests", order.len(), kernel.len()));
        }
        let compared = compare(&kernel, &order);
        let order = compared.order.unwrap();
        println!(
            "{name}: {} calls, {:.4} % agree, {} differ; free running {:.4} identical, kendall {:.6}, {} missing, {} extra",
            found.calls(),
            found.agreement() * 100.0,
            found.differences.len(),
            order.identical_share,
            order.kendall_tau_distance,
            compared.missing,
            compared.extra
        );
        if found.agreement() < floor(&name) {
            failures.push(format!("{name}: {:.5}\n{}", found.agreement(), found.explanation.unwrap_or_default()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn entry_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The project's own recordings, of several control groups: weights, changes of weight, processes that move, nested groups.
#[test]
fn our_own_recordings_of_groups_are_followed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../recordings");
    let mut agreements = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = entry_name(&path);
        if !(name.starts_with("bfq-") && name.ends_with(".csv.zst")) {
            continue;
        }
        let recording = Recording::open(&path).unwrap();
        let choice = Choice::parse(&scheduler_of(&recording).unwrap().to_string()).unwrap();
        let found = call_by_call(&recording, &|setup| choice.scheduler(setup), Some(1));
        let why = found.explanation.clone().unwrap_or_default();
        assert!(found.agreement() >= 0.95, "{}: {:.4}\n{why}", path.display(), found.agreement());
        agreements.push(found.agreement());
    }
    agreements.sort_by(f64::total_cmp);
    assert!(agreements.len() >= 8 && agreements[agreements.len() / 2] >= 0.99, "{agreements:?}");
}

/// The project's own recordings of what stands before the scheduler, by `record --dispatch` of two kernels.
#[test]
fn our_own_recordings_of_controllers_are_followed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../recordings");
    let names = ["wbt-writeback", "iomax-limits", "iocost-costs"];
    let paths = names.iter().flat_map(|name| ["6.12", "6.18"].map(|of| folder.join(format!("{name}-{of}.csv.zst"))));
    let found = dumbwaiter_fidelity::scores(&paths.collect::<Vec<_>>(), None, None).unwrap();
    for (of, least) in found.controllers.iter().zip([1_400, 500, 70]) {
        println!("{of:?}");
        let expected = (of.files == 2 || of.controller == "wbt") && of.verdicts >= least;
        assert!(expected && of.agreed as f64 >= 0.995 * of.verdicts as f64, "{of:?}");
    }
    let controllers: Vec<&str> = found.controllers.iter().map(|of| of.controller).collect();
    assert_eq!(controllers, ["io.cost", "io.max", "wbt"]);
    // Each has a score of its scheduler too.
    assert_eq!(found.summary.iter().map(|of| of.files).sum::<usize>(), 6);
}

/// The jobs of every recording that can be judged run, in simulation, and the others have a reason.
#[test]
fn every_job_runs_in_a_closed_loop() {
    let paths = [recordings("kernel-dispatch"), recordings("kernel-dispatch-groups")].concat();
    if paths.is_empty() {
        println!("skipped: no shared data");
        return;
    }
    let found = closed_loops(&paths, &Simulator::on_all_cpus(), &Control::default()).unwrap();
    for one in &found.compared {
        println!("{one:?}");
        let ratios = [one.mb_ratio, one.mean_ratio, one.p95_ratio.unwrap_or(1.0)];
        assert!(ratios.iter().all(|ratio| *ratio > 0.0) && one.share_error < 1.0, "{one:?}");
    }
    for other in &found.not_comparable {
        println!("{other:?}");
        let expected = ["scsi", "wall", "sync-async", "open-loop"];
        assert!(expected.iter().any(|kind| other.file.contains(kind)), "{other:?}");
    }
    assert_eq!(found.compared.len() + found.not_comparable.len(), paths.len());
    // Where no task waits for a request, the loop is the kernel's.
    let kyber = found.compared.iter().find(|one| one.file.starts_with("kyber-contention.")).unwrap();
    assert!(kyber.within(&BOUNDS), "{kyber:?}");
}

/// Recordings of controllers: costs and ticks without exception, and few verdicts on a microsecond that no row tells.
#[test]
fn every_recording_of_a_controller_is_followed_and_most_loops_are_the_kernels() {
    let cost = recordings("kernel-iocost");
    let mut limits = recordings("kernel-throttling");
    limits.retain(|path| path.to_string_lossy().contains("/iomax-"));
    if cost.is_empty() {
        println!("skipped: no shared data");
        return;
    }
    for of in dumbwaiter_fidelity::scores(&[cost.clone(), limits.clone()].concat(), None, None).unwrap().controllers {
        println!("{of:?}");
        for kind in &of.kinds {
            let least = if matches!(kind.kind, "cost" | "tick") { 1.0 } else { 0.995 };
            assert!(kind.agreed as f64 >= least * kind.verdicts as f64, "{kind:?}");
        }
    }
    let found = closed_loops(&[cost, limits].concat(), &Simulator::on_all_cpus(), &Control::default()).unwrap();
    let agree = found.compared.iter().filter(|one| one.agrees()).count();
    assert!(agree * 100 >= 80 * found.compared.len() && found.compared.len() >= 20, "{agree}: {:?}", found.compared);
}
