//! The Python package's extension module, `dumbwaiter._native`.
//!
//! It holds no logic: it takes Python's values, calls the library's functions and hands their results back. The package around
//! it, in `dumbwaiter/`, has the names that people use.
#![deny(unsafe_op_in_unsafe_fn)]

mod arrow;
mod catalogue;
mod check;
mod compare;
mod errors;
mod failed;
mod histogram;
mod measured;
mod own_cells;
mod own_class;
mod own_runs;
mod policy;
mod request;
mod result;
mod rows;
mod served;
mod stop;
mod sweep;
mod switch;
mod table;
mod tune;

use pyo3::prelude::*;

/// Panics, so that a test sees what becomes of a panic.
#[pyfunction]
fn _panic(py: Python<'_>) -> PyResult<()> {
    let (value, _) = compare::wait(py, || panic!("provoked by a test"), |_| Ok(()), |_| {})?;
    Ok(value)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::add(module)?;
    module.add_class::<result::ResultDocument>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<histogram::Histogram>()?;
    module.add_class::<table::Stream>()?;
    module.add_class::<rows::TraceTable>()?;
    module.add_class::<request::Request>()?;
    module.add_class::<policy::WaitUntil>()?;
    module.add_class::<policy::PySetup>()?;
    module.add_class::<catalogue::Device>()?;
    module.add_class::<own_runs::OwnRuns>()?;
    module.add_class::<switch::SwitchLoad>()?;
    module.add_class::<switch::SwitchEpisode>()?;
    module.add_class::<sweep::SweepPlan>()?;
    module.add_class::<sweep::SweepDone>()?;
    module.add_class::<sweep::SweepFolder>()?;
    module.add_class::<tune::TunePlan>()?;
    module.add_class::<stop::Stop>()?;
    module.add_function(wrap_pyfunction!(own_cells::own_scheduler, module)?)?;
    module.add_function(wrap_pyfunction!(tune::tune_trial, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::sweep_points, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::sweep_points_of_parts, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::in_order, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::axis_label, module)?)?;
    module.add_function(wrap_pyfunction!(compare::compare, module)?)?;
    module.add_function(wrap_pyfunction!(check::check, module)?)?;
    module.add_function(wrap_pyfunction!(policy::wait_until, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::schedulers, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::devices, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::trace_stat, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::trace_read, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::trace_write, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::fidelity, module)?)?;
    module.add_function(wrap_pyfunction!(measured::measured, module)?)?;
    module.add_function(wrap_pyfunction!(measured::fit_device, module)?)?;
    module.add_function(wrap_pyfunction!(measured::survey, module)?)?;
    module.add_function(wrap_pyfunction!(measured::fit_host, module)?)?;
    module.add_function(wrap_pyfunction!(measured::fit_this_host, module)?)?;
    module.add_function(wrap_pyfunction!(measured::hosts, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue::main, module)?)?;
    module.add_function(wrap_pyfunction!(_panic, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
