//! How long a disk's thread looks at rings before it sleeps. A driver that answers within microseconds costs a sleep and a wake-up each
//! time otherwise; a thread that looks while others want its CPU takes it from them.

use std::time::{Duration, Instant};

/// The first and the longest look.
const SHORTEST: Duration = Duration::from_micros(4);
const LONGEST: Duration = Duration::from_micros(32);
/// Between two looks at the clock lies less, unless somebody else had the CPU.
const LOST_CPU: Duration = Duration::from_micros(20);
/// Sleeps without a look, after the CPU was lost.
const PAUSE: u32 = 1024;

/// Chooses the length from how long the last sleeps were.
#[derive(Debug, Default)]
pub(crate) struct Spinner {
    length: Duration,
    /// Sleeps until it looks again.
    pause: u32,
}

impl Spinner {
    /// Looks until `news` answers yes. Did it?
    pub(crate) fn look(&mut self, mut news: impl FnMut() -> bool) -> bool {
        if news() {
            return true;
        }
        if self.length.is_zero() || self.pause > 0 {
            return false;
        }
        let begun = Instant::now();
        let mut last = begun;
        while last - begun < self.length {
            for _ in 0..8 {
                if news() {
                    return true;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if now - last > LOST_CPU {
                self.pause = PAUSE;
                return false;
            }
            last = now;
        }
        false
    }

    /// A sleep is over.
    pub(crate) fn slept(&mut self, time: Duration) {
        self.pause = self.pause.saturating_sub(1);
        self.length = match time < LONGEST {
            true => (2 * self.length).clamp(SHORTEST, LONGEST),
            false if self.length > SHORTEST => self.length / 2,
            false => Duration::ZERO,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_sleeps_make_it_look_longer_and_long_ones_end_that() {
        let mut spinner = Spinner::default();
        let mut looks = 0;
        let mut count = || {
            looks += 1;
            false
        };
        assert!(!spinner.look(&mut count));
        assert_eq!(looks, 1, "once, before it has learned anything");
        let lengths: Vec<u128> = (0..5)
            .map(|_| {
                spinner.slept(Duration::from_micros(10));
                spinner.length.as_micros()
            })
            .collect();
        assert_eq!(lengths, [4, 8, 16, 32, 32]);
        for _ in 0..4 {
            spinner.slept(Duration::from_millis(1));
        }
        assert!(spinner.length.is_zero());
    }

    #[test]
    fn a_thread_that_lost_its_cpu_looks_no_more_for_a_while() {
        let mut spinner = Spinner::default();
        spinner.slept(Duration::from_micros(1));
        spinner.look(|| {
            std::thread::sleep(Duration::from_micros(100));
            false
        });
        assert_eq!(spinner.pause, PAUSE);
        let mut looks = 0;
        spinner.look(|| {
            looks += 1;
            false
        });
        assert_eq!(looks, 1);
    }
}
