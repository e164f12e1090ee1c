//! The search for better settings on a real file or device.

use dumbwaiter_experiment::{Control, Experiment, Failure, TuneOptions, Tuned, World};

use crate::compare::kernel_world;
use crate::{DeviceUnderTest, Engine, WorkerProgram};

/// Searches settings of the kernel's schedulers on a block device, and of ours on a file.
///
/// # Errors
/// As [`crate::compare`].
pub fn tune(
    experiment: &Experiment,
    options: &TuneOptions,
    device: &DeviceUnderTest,
    worker: WorkerProgram,
    control: &Control,
) -> Result<Tuned, Failure> {
    let mut experiment = experiment.clone();
    if !options.schedulers.is_empty() {
        experiment.scenario.schedulers.clone_from(&options.schedulers);
    }
    device.check_scenario(&experiment.scenario)?;
    device.guard().map_err(Failure::refused)?;
    let world: Box<dyn World> = match device.queue() {
        Some(_) => Box::new(kernel_world(&experiment, device, worker)?),
        None => Box::new(Engine::new(device)?),
    };
    dumbwaiter_experiment::tune(&experiment, options, &*world, control)
}
