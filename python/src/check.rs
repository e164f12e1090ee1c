//! The project's conformance storms, on a scheduler that is written in Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once, PoisonError};

use dumbwaiter_block::Setup;
use dumbwaiter_testkit::storm;
use pyo3::prelude::*;

use crate::errors::{self, SchedulerError};
use crate::failed::Failed;
use crate::own_class::OwnClass;

/// Name of the threads whose panics are findings, not defects.
const THREAD: &str = "dumbwaiter-check";

/// One check at a time: it is single-threaded in any case.
static CHECKING: LazyLock<Mutex<()>> = LazyLock::new(Mutex::default);

/// A storm tells by a panic what it found; those are not printed.
fn keep_findings_quiet() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |what| {
            if std::thread::current().name() != Some(THREAD) {
                before(what);
            }
        }));
    });
}

/// Runs `cases` storms on a class; see `dumbwaiter.check`.
#[pyfunction]
#[pyo3(signature = (scheduler, *, cases = 200, seed = 1))]
pub(crate) fn check(py: Python<'_>, scheduler: Bound<'_, PyAny>, cases: u32, seed: u64) -> PyResult<()> {
    keep_findings_quiet();
    // Of the shortest case: each new one forgets what the one before it raised.
    let failed = Failed::new(|| {});
    let OwnClass { name, factory, .. } = OwnClass::of(&scheduler, &failed)?;
    let over = Arc::new(AtomicBool::new(false));
    let storms = {
        let (failed, over) = (failed.clone(), Arc::clone(&over));
        move || {
            let _one = CHECKING.lock().unwrap_or_else(PoisonError::into_inner);
            let make = |_: &[u64], setup: Setup| {
                failed.reset();
                factory(setup)
            };
            failed.attached(|| storm::check_unless(&make, cases, seed, &|| over.load(Ordering::Relaxed)))
        }
    };
    let stop = |py: Python<'_>| {
        over.store(true, Ordering::Relaxed);
        failed.interrupt(py);
    };
    let (found, told) = crate::compare::wait_named(py, THREAD, storms, |_| Ok(()), stop)?;
    if let Some(told) = told {
        let interrupt = told.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py);
        return Err(if interrupt { errors::interrupted(py, None) } else { told });
    }
    let Err(broken) = found else { return Ok(()) };
    let raised = failed.take();
    let reason = match &raised {
        Some(error) => error.to_string(),
        None => broken.reason,
    };
    let steps: Vec<String> = broken.plan.steps.iter().map(|step| format!("    {step:?}")).collect();
    let error = SchedulerError::new_err(format!(
        "{name}: {reason}\n  seed {seed}, shortest case, of {} steps:\n{}\n  on {:?}",
        steps.len(),
        steps.join("\n"),
        broken.plan.config().setup
    ));
    if let Some(raised) = raised {
        error.set_cause(py, Some(raised));
    }
    Err(error)
}
