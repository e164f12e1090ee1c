//! Results that are on their way to a file or a pipe, so that a program can be ended whose reader takes nothing.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Since when something is being written, and how many threads do.
static SINCE: Mutex<(Option<Instant>, u32)> = Mutex::new((None, 0));

/// While it exists, a result is being written.
#[derive(Debug)]
pub struct Writing(());

impl Writing {
    /// Begins to write.
    #[must_use]
    pub fn begin() -> Writing {
        let mut state = SINCE.lock().unwrap_or_else(PoisonError::into_inner);
        state.0.get_or_insert_with(Instant::now);
        state.1 += 1;
        Writing(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut state = SINCE.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 -= 1;
        if state.1 == 0 {
            state.0 = None;
        }
    }
}

/// For how long something has been written without a pause; `None` if nothing is.
pub fn writing_for() -> Option<Duration> {
    SINCE.lock().unwrap_or_else(PoisonError::into_inner).0.map(|since| since.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_the_first_begin_to_the_last_end() {
        let outer = Writing::begin();
        drop(Writing::begin());
        assert!(writing_for().is_some());
        drop(outer);
        assert_eq!(writing_for(), None);
    }
}
