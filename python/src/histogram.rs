//! Histograms of latencies.

use std::sync::{Mutex, MutexGuard, PoisonError};

use dumbwaiter_block::Nanos;
use dumbwaiter_report::columns::Columns;
use pyo3::prelude::*;

use crate::errors::plain;
use crate::table::Table;

/// Three decimal digits.
type Counts = dumbwaiter_measure::Histogram<11>;

/// Counts of latencies from 0 to 1 h, exact to 0.1 %. Longer ones are counted as 1 h. It pickles.
///
/// >>> import dumbwaiter as dw
/// >>> histogram = dw.Histogram([80.0, 120.0, 4000.0])
/// >>> len(histogram), round(histogram.percentile(50))
/// (3, 120)
#[pyclass(frozen, module = "dumbwaiter")]
pub(crate) struct Histogram {
    counted: Mutex<Counts>,
}

fn bucket(us: f64) -> PyResult<usize> {
    let ns = us * 1e3;
    if !ns.is_finite() || ns < 0.0 {
        return Err(plain(format!("latency {us} us: expected a number from 0")));
    }
    Ok(Counts::bucket(ns.round() as u64))
}

impl Histogram {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extended(&self, values: &Bound<'_, PyAny>) -> PyResult<()> {
        // All are read before the first is counted: a wrong one changes nothing.
        let values = values.try_iter()?.map(|value| bucket(value?.extract()?)).collect::<PyResult<Vec<_>>>()?;
        let mut counted = self.lock();
        values.into_iter().for_each(|bucket| counted.add(bucket));
        Ok(())
    }
}

#[pymethods]
impl Histogram {
    /// A histogram of these latencies, in us.
    #[new]
    #[pyo3(signature = (values_us = None))]
    fn new(values_us: Option<&Bound<'_, PyAny>>) -> PyResult<Histogram> {
        let histogram = Histogram { counted: Mutex::default() };
        values_us.map_or(Ok(()), |values| histogram.extended(values))?;
        Ok(histogram)
    }

    /// Counts `count` latencies of this length in us.
    #[pyo3(signature = (latency_us, count = 1))]
    fn add(&self, latency_us: f64, count: u64) -> PyResult<()> {
        self.lock().add_many(bucket(latency_us)?, count);
        Ok(())
    }

    /// Counts latencies, in us.
    fn extend(&self, values_us: &Bound<'_, PyAny>) -> PyResult<()> {
        self.extended(values_us)
    }

    /// Adds all that another one counted.
    fn merge(&self, other: &Bound<'_, Histogram>) {
        // A copy: it may be the same one.
        let other = other.get().lock().clone();
        self.lock().join(&other);
    }

    /// The latency in us that `percent` per cent of all do not exceed; NaN where there are none.
    fn percentile(&self, percent: f64) -> PyResult<f64> {
        if !(0.0..=100.0).contains(&percent) {
            return Err(plain(format!("percentile {percent}: expected 0 to 100")));
        }
        Ok(self.lock().percentile_us(percent / 100.0))
    }

    /// A table of `from_us`, `to_us` and `count`, by rising latency, without empty rows.
    fn counts(&self) -> Table {
        let counts: Vec<(u64, u64)> = self.lock().recorded().collect();
        let us = |ns: u64| Nanos(ns).as_us_f64();
        let mut columns = Columns::default();
        columns
            .real("from_us", counts.iter().map(|(to, _)| us(Counts::shortest(*to))))
            .real("to_us", counts.iter().map(|(to, _)| us(*to)))
            .whole("count", counts.iter().map(|(_, count)| *count));
        Table::new(columns)
    }

    fn __len__(&self) -> usize {
        self.lock().len() as usize
    }

    fn __repr__(&self) -> String {
        let counted = self.lock();
        let us = |quantile| counted.percentile_us(quantile);
        format!("<dumbwaiter.Histogram: {} latencies, p50 {:.4} us, p99 {:.4} us>", counted.len(), us(0.5), us(0.99))
    }

    fn __getstate__(&self) -> Vec<(u64, u64)> {
        self.lock().recorded().collect()
    }

    fn __setstate__(&self, state: Vec<(u64, u64)>) {
        let mut counted = self.lock();
        state.into_iter().for_each(|(ns, count)| counted.add_many(Counts::bucket(ns), count));
    }
}
