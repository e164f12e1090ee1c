//! The survey of a block device under the kernel's schedulers, which only reads.

use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{Control, Failure, Subject, Surveyed, World};
use dumbwaiter_linux::Roots;
use dumbwaiter_linux::in_force::{in_force, offers_io_cost};
use dumbwaiter_linux::machine::Machine;
use dumbwaiter_scenario::SchedulerSpec;

use crate::{DeviceUnderTest, Engine, Kernel, KernelOptions, WorkerProgram};

/// Schedulers that a distribution's kernel may have as modules.
const COMMON_SCHEDULERS: [&str; 3] = ["mq-deadline", "kyber", "bfq"];

/// A device and the schedulers to try on it. While it exists, the device's settings are under its control; they are
/// restored when it is dropped.
pub struct Survey<'a> {
    kernel: Kernel<'a>,
    subject: Subject,
}

impl<'a> Survey<'a> {
    /// A survey of `device` with the schedulers of a comma-separated list, with settings after a colon, and the one that is
    /// set; `None` or `all`: those of the kernel.
    ///
    /// # Errors
    /// If the device has no scheduler of its own, its settings cannot be changed, or this kernel lacks one of the list.
    pub fn new(
        device: &'a DeviceUnderTest,
        schedulers: Option<&str>,
        worker: WorkerProgram,
    ) -> Result<Survey<'a>, Failure> {
        let path = device.path().display();
        let Some(queue) = device.queue() else {
            return Err(Failure::refused(match device.facts().disk {
                None => {
                    format!("{path} is a file, and only block devices have schedulers; give the device that holds it")
                }
                Some(_) => {
                    format!("{path} is a stacked device: the devices below it have the schedulers; give one of those")
                }
            }));
        };
        let kernel = Kernel::new(device, KernelOptions { keep_current: true, ..KernelOptions::new(worker) })?;
        let (current, all) = (kernel.current(), kernel.schedulers());
        let (machine, polling) = (Machine::now(), &device.facts().polling);
        let subject = Subject {
            path: path.to_string(),
            disk: queue.name().to_owned(),
            udev_match: dumbwaiter_linux::udev::matching(queue.name()),
            schedulers: candidates(schedulers, current, all, queue.name())?,
            not_loaded: COMMON_SCHEDULERS.into_iter().filter(|name| !all.iter().any(|a| a == name)).collect(),
            in_force: in_force(&Roots::default(), queue),
            offers_io_cost: offers_io_cost(&Roots::default()),
            polling: (polling.available, polling.about.clone()),
            load: machine.load,
            cpus: f64::from(machine.cpus),
            current: current.to_owned(),
        };
        Ok(Survey { kernel, subject })
    }

    /// Runs the survey within `budget` and decides by `goal`.
    ///
    /// # Errors
    /// If the budget is too short for a single run, or the first runs fail.
    pub fn recommend(
        &self,
        budget: Nanos,
        goal: dumbwaiter_advise::Goal,
        control: &Control,
    ) -> Result<Surveyed, Failure> {
        dumbwaiter_experiment::recommend(&self.subject, budget, goal, &self.kernel, control)
    }
}

/// Where io.cost's parameters of a device are measured: through the kernel, as its own tools do, or through our engine on what has
/// no queue of its own, and for the search of a rate (`whole`) where the kernel has no io.cost.
///
/// # Errors
/// If the device's settings cannot be changed, or another process measures it.
pub fn io_cost_world<'a>(
    device: &'a DeviceUnderTest,
    worker: WorkerProgram,
    whole: bool,
) -> Result<Box<dyn World + 'a>, Failure> {
    if device.queue().is_some() && (!whole || offers_io_cost(&Roots::default())) {
        return Ok(Box::new(Kernel::new(device, KernelOptions::new(worker))?));
    }
    Ok(Box::new(Engine::new(device)?))
}

/// The schedulers to try: those of the list and the current one, or all that the kernel has.
fn candidates(list: Option<&str>, current: &str, all: &[String], disk: &str) -> Result<Vec<SchedulerSpec>, Failure> {
    let Some(list) = list.filter(|list| *list != "all") else {
        return Ok(all.iter().map(|name| SchedulerSpec::named(name)).collect());
    };
    let mut specs = SchedulerSpec::parse_list(list).map_err(|e| Failure::refused(format!("--schedulers: {e}")))?;
    for spec in &specs {
        if !all.contains(&spec.name) || !spec.variant.is_empty() {
            return Err(Failure::refused(format!(
                "--schedulers: this kernel has no `{spec}` for {disk}; it has {}",
                all.join(", ")
            )));
        }
    }
    if let Some(twice) = specs.iter().enumerate().find(|(i, spec)| specs[..*i].contains(spec)) {
        return Err(Failure::refused(format!("--schedulers: `{}` is named twice", twice.1)));
    }
    if !specs.iter().any(|spec| spec.to_string() == current) {
        specs.insert(0, SchedulerSpec::named(current));
    }
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use super::candidates;

    fn named(list: Option<&str>) -> Result<Vec<String>, String> {
        let all = ["none", "mq-deadline", "bfq"].map(str::to_owned);
        let found = candidates(list, "mq-deadline", &all, "sdx");
        found.map(|specs| specs.iter().map(ToString::to_string).collect()).map_err(|failure| failure.reason)
    }

    #[test]
    fn the_current_scheduler_is_always_a_candidate() {
        assert_eq!(named(None).unwrap(), ["none", "mq-deadline", "bfq"]);
        assert_eq!(named(Some("all")).unwrap(), ["none", "mq-deadline", "bfq"]);
        assert_eq!(named(Some("bfq")).unwrap(), ["mq-deadline", "bfq"]);
        assert_eq!(named(Some("bfq,mq-deadline")).unwrap(), ["bfq", "mq-deadline"]);
    }

    #[test]
    fn a_scheduler_that_the_kernel_lacks_or_that_is_named_twice_is_refused() {
        assert!(named(Some("kyber")).unwrap_err().contains("it has none, mq-deadline, bfq"));
        assert!(named(Some("bfq,bfq")).unwrap_err().contains("named twice"));
    }
}
