use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag that ends other threads of a test when the test ends, also by a failure: a scope would wait for them for ever.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
