//! What a hook of a Python scheduler raised.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

/// The first exception of a scheduler's hooks, and what it ends.
#[derive(Clone)]
pub(crate) struct Failed {
    error: Arc<Mutex<Option<PyErr>>>,
    happened: Arc<AtomicBool>,
    refused: Arc<AtomicBool>,
    /// A request that a scheduler held when its run ended.
    held: Arc<Mutex<Option<String>>>,
    end: Arc<dyn Fn() + Send + Sync>,
}

impl Failed {
    /// `end` is called at the first exception.
    pub(crate) fn new(end: impl Fn() + Send + Sync + 'static) -> Failed {
        Failed {
            error: Arc::default(),
            happened: Arc::default(),
            refused: Arc::default(),
            held: Arc::default(),
            end: Arc::new(end),
        }
    }

    pub(crate) fn set(&self, error: PyErr) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        self.happened.store(true, Ordering::Relaxed);
        (self.end)();
    }

    /// As if nothing had happened, for the next run; not after [`Failed::refuse`].
    pub(crate) fn reset(&self) {
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.refused.load(Ordering::Relaxed) {
            *error = None;
            self.happened.store(false, Ordering::Relaxed);
        }
    }

    /// No hook is called any more.
    pub(crate) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
        self.happened.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is(&self) -> bool {
        self.happened.load(Ordering::Relaxed)
    }

    /// A scheduler whose run ended held this request last.
    pub(crate) fn set_held(&self, request: Option<String>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = request;
    }

    /// The oldest request that a scheduler still held when its last run ended.
    pub(crate) fn held(&self) -> Option<String> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The exception, once.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
