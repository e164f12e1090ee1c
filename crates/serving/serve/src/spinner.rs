//! How long a disk's thread looks at rings before it sleeps. A driver that answers within microseconds costs a sleep and a wake-up each
//! time otherwise; a thread that looks while others want its CPU takes it from them.

use std::time::{Duration, Instant};

/// The first and the longest look.
const SHORTEST: Duration = Duration::from_micros(4);
const LONGEST: Duration = Duration::from_micros(64);
/// Two readings of the clock lie closer together, unless another thread had the CPU between them.
const LOST_CPU: Duration = Duration::from_micros(20);
/// Sleeps without a look after the CPU was lost: at first, and where it is lost again and again.
const FIRST_PAUSE: u32 = 16;
const LONGEST_PAUSE: u32 = 1024;
/// This many requests are worth a system call at once.
const ENOUGH: u32 = 16;
/// A sleep after this many requests costs each of them little, and a look would cost more.
const SHARED_BY: u64 = 8;
/// Spins between two looks at a driver that is offering requests, about 0.3 µs.
const SETTLE: u32 = 16;

/// Chooses the length from how long the last sleeps were.
#[derive(Debug)]
pub(crate) struct Spinner {
    length: Duration,
    /// Sleeps until it looks again.
    pause: u32,
    /// The pause after the next loss of the CPU.
    next_pause: u32,
    /// It never looks more than once.
    off: bool,
}

impl Default for Spinner {
    fn default() -> Spinner {
        Spinner { length: Duration::ZERO, pause: 0, next_pause: FIRST_PAUSE, off: false }
    }
}

impl Spinner {
    /// One for a disk in virtual time, in which waiting takes none.
    pub(crate) fn never() -> Spinner {
        Spinner { off: true, ..Spinner::default() }
    }

    /// Looks until drivers offer requests, whose number `offered` answers. Do they?
    pub(crate) fn look(&mut self, mut offered: impl FnMut() -> u32) -> bool {
        if gather(&mut offered) {
            return true;
        }
        if !self.is_on() {
            return false;
        }
        let begun = Instant::now();
        let mut last = begun;
        while last - begun < self.length {
            for _ in 0..8 {
                if gather(&mut offered) {
                    self.next_pause = (self.next_pause / 2).max(FIRST_PAUSE);
                    return true;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if now - last > LOST_CPU {
                self.pause = self.next_pause;
                self.next_pause = (2 * self.next_pause).min(LONGEST_PAUSE);
                return false;
            }
            last = now;
        }
        false
    }

    /// Will it look more than once?
    pub(crate) fn is_on(&self) -> bool {
        !self.off && !self.length.is_zero() && self.pause == 0
    }

    /// A sleep is over, before which drivers had offered this many requests since the sleep before it.
    pub(crate) fn slept(&mut self, time: Duration, requests: u64) {
        self.pause = self.pause.saturating_sub(1);
        self.length = match time < LONGEST {
            _ if requests >= SHARED_BY => Duration::ZERO,
            true => (2 * self.length).clamp(SHORTEST, LONGEST),
            false if self.length > SHORTEST => self.length / 2,
            false => Duration::ZERO,
        };
    }
}

/// Is anything there? A driver that is offering requests one by one is given the time for the rest of them.
fn gather(news: &mut impl FnMut() -> u32) -> bool {
    let mut have = news();
    if have == 0 {
        return false;
    }
    while have < ENOUGH {
        for _ in 0..SETTLE {
            std::hint::spin_loop();
        }
        let now = news();
        if now <= have {
            break;
        }
        have = now;
    }
    true
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
            0
        };
        assert!(!spinner.look(&mut count));
        assert_eq!(looks, 1, "once, before it has learned anything");
        let lengths: Vec<u128> = (0..6)
            .map(|_| {
                spinner.slept(Duration::from_micros(10), 1);
                spinner.length.as_micros()
            })
            .collect();
        assert_eq!(lengths, [4, 8, 16, 32, 64, 64]);
        for _ in 0..5 {
            spinner.slept(Duration::from_millis(1), 1);
        }
        assert!(spinner.length.is_zero());
    }

    #[test]
    fn a_sleep_that_many_requests_share_is_not_put_off() {
        let mut spinner = Spinner::default();
        let mut slept = |requests| {
            spinner.slept(Duration::from_micros(10), requests);
            spinner.is_on()
        };
        assert!(slept(SHARED_BY - 1));
        assert!(!slept(SHARED_BY));
        assert!(slept(1), "a driver that asks for one thing after another again");
    }

    #[test]
    fn the_more_often_the_cpu_is_lost_the_longer_it_does_not_look() {
        let mut spinner = Spinner::default();
        let lose = |spinner: &mut Spinner| {
            spinner.length = SHORTEST;
            spinner.look(|| {
                std::thread::sleep(Duration::from_micros(100));
                0
            });
            std::mem::take(&mut spinner.pause)
        };
        let pauses: Vec<u32> = (0..8).map(|_| lose(&mut spinner)).collect();
        assert_eq!(pauses, [16, 32, 64, 128, 256, 512, 1024, 1024]);
        spinner.pause = 2;
        let mut looks = 0;
        spinner.look(|| {
            looks += 1;
            0
        });
        assert_eq!(looks, 1);
    }

    #[test]
    fn a_driver_that_is_offering_is_given_the_time_for_the_rest() {
        let mut offered = 0;
        assert!(Spinner::default().look(|| {
            offered = (offered + 1).min(5);
            offered
        }));
        assert_eq!(offered, 5);
    }
}
