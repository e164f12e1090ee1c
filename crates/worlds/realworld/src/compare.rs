//! A whole comparison on a real file or device.

use std::sync::Arc;

use dumbwaiter_experiment::{Case, Comparison, Control, Experiment, Failure, SideBySide, World, compare_each};
use dumbwaiter_scenario::load::Prepared;

use crate::{DeviceUnderTest, Engine, Kernel, KernelOptions, WorkerProgram};

/// Through which schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Ours, over io_uring.
    Engine,
    /// The kernel's own.
    Kernel,
    /// Both, side by side.
    Both,
}

/// Compares the schedulers of an experiment on a device. `via` says through which stacks; with `None` it is both where the
/// device has schedulers that this program may set, and the engine with a remark where it has not.
pub fn compare(
    experiment: &Experiment,
    device: &DeviceUnderTest,
    via: Option<Via>,
    worker: WorkerProgram,
    control: &Control,
) -> Result<Comparison, Failure> {
    let mut experiment = experiment.clone();
    device.check_scenario(&experiment.scenario)?;
    let both = device.queue().is_some() && device.options().verify.is_none();
    let wanted = via.unwrap_or(if both { Via::Both } else { Via::Engine });
    if device.options().verify.is_some() && wanted != Via::Engine {
        let text = "--verify: only our engine checks what it wrote; leave out --via, or say --via engine";
        return Err(Failure::refused(text));
    }
    experiment.notes.extend(device.energy_note().map(str::to_owned));
    // Refused in any case where another process measures the device.
    device.guard().map_err(Failure::refused)?;
    let mut kernel = None;
    if wanted != Via::Engine {
        match kernel_world(&experiment, device, worker) {
            Ok(world) => kernel = Some(world),
            Err(failure) if via.is_none() => experiment.notes.push(format!("through our engine only: {failure}")),
            Err(failure) => {
                let fixed = device.scheduler_is_fixed();
                return Err(fixed.map_or(failure, |why| Failure::refused(format!("{why}, or with --via engine"))));
            }
        }
    }
    if kernel.is_some() && experiment.scenario.queue_depth.is_some() {
        let text = "the device's depth is the driver's through the kernel's schedulers, not what is asked for";
        experiment.notes.push(text.into());
    }
    let engine = if wanted == Via::Kernel { None } else { Some(Engine::new(device)?) };
    let engine = engine.as_ref().map(|engine| engine as &dyn World);
    let kernel = kernel.as_ref().map(|kernel| kernel as &dyn World);
    // The kernel's first: an interruption then leaves an answer about what can be set.
    let worlds = SideBySide(kernel.into_iter().chain(engine).collect());
    let mut comparison = dumbwaiter_experiment::compare(&experiment, &worlds, control)?;
    comparison.document.load_patterns_unix_s = device.load_patterns_unix_s();
    Ok(comparison)
}

/// Compares the schedulers under each of several scenarios on a device, and over all of them; `name` is what the whole is called.
///
/// # Errors
/// As [`compare()`]. Every scenario is checked before the first is run.
pub fn compare_all(
    name: &str,
    cases: &[Case],
    device: &DeviceUnderTest,
    via: Option<Via>,
    worker: &WorkerProgram,
    control: &Control,
) -> Result<Comparison, Failure> {
    for case in cases {
        device.check_scenario(&case.experiment.scenario).map_err(|failure| failure.of(&case.variant))?;
    }
    compare_each(name, cases, &mut |experiment| compare(experiment, device, via, worker.clone(), control), control)
}

/// The kernel's schedulers for an experiment, of which the device must have one.
pub(crate) fn kernel_world<'a>(
    experiment: &Experiment,
    device: &'a DeviceUnderTest,
    worker: WorkerProgram,
) -> Result<Kernel<'a>, Failure> {
    let (scenario, path) = (&experiment.scenario, device.path().display());
    let Some(queue) = device.queue() else {
        return Err(Failure::refused(match device.facts().disk {
            Some(_) => format!(
                "{path} hands its I/O on to the devices below it, which have the schedulers; leave out --via, or give one \
                 of those"
            ),
            None => format!(
                "{path} is a file: the kernel's schedulers belong to block devices; leave out --via, or give the device \
                 (a loop device over the file will do)"
            ),
        }));
    };
    let wanted = scenario.schedulers.iter().map(|spec| spec.name.clone()).collect();
    let kernel = Kernel::new(device, KernelOptions { wanted, ..KernelOptions::new(worker) })?;
    let refusals: Vec<_> = scenario.schedulers.iter().map(|spec| (spec, kernel.has(spec))).collect();
    if refusals.iter().all(|(_, has)| has.is_err()) {
        // One that is there is refused for what stands before it.
        let there = refusals.iter().find(|(spec, _)| kernel.schedulers().contains(&spec.name));
        let why = there.and_then(|(_, has)| Some(has.as_ref().err()?.to_string()));
        return Err(Failure::refused(why.unwrap_or_else(|| {
            let has = kernel.schedulers().join(", ");
            format!("this kernel has none of the schedulers asked for; for {} it has {has}", queue.name())
        })));
    }
    kernel.check_load(&Arc::new(Prepared::new(scenario)?)).map_err(Failure::refused)?;
    Ok(kernel)
}
