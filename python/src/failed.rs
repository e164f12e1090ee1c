//! The exception that a hook of a Python scheduler raised.

use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

/// The first exception of a scheduler's hooks, and what it ends.
#[derive(Clone)]
pub(crate) struct Failed {
    error: Arc<Mutex<Option<PyErr>>>,
    happened: Arc<AtomicBool>,
    /// The interpreter's number of the thread that runs hooks; 0 while none does.
    thread: Arc<AtomicI64>,
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
            thread: Arc::default(),
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

    /// As if nothing had happened, for the next run.
    pub(crate) fn reset(&self) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.happened.store(false, Ordering::Relaxed);
    }

    /// Runs `work`, which calls hooks on this thread, with the interpreter's lock held throughout: taking it for every call of a
    /// hook would cost more than the hooks. The interpreter lends it to other threads now and then while it runs a hook.
    pub(crate) fn attached<T>(&self, work: impl FnOnce() -> T) -> T {
        Python::attach(|_| {
            // SAFETY: it only reads the number of the thread that calls it.
            let thread = unsafe { pyo3::ffi::PyThread_get_thread_ident() };
            self.thread.store(thread as i64, Ordering::Relaxed);
            let value = work();
            self.thread.store(0, Ordering::Relaxed);
            value
        })
    }

    /// Raises KeyboardInterrupt in the hook that runs now, or in the next one: a hook may never return by itself.
    pub(crate) fn interrupt(&self, _py: Python<'_>) {
        let thread = self.thread.load(Ordering::Relaxed);
        if thread != 0 {
            // SAFETY: the interpreter's lock is held, and the exception is an object that lives as long as the interpreter. A
            // thread that is gone is no error.
            unsafe {
                pyo3::ffi::PyThreadState_SetAsyncExc(thread as c_long, pyo3::ffi::PyExc_KeyboardInterrupt);
            }
        }
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
