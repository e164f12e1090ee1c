//! Adaptive spinning: whether a wait looks at the ring for a while before it sleeps.
//!
//! A device that a thread of this machine serves, such as a loop device, completes a request within microseconds of that thread's
//! wake-up. On another CPU, the thread stays awake between requests if the next one arrives at once, so spinning saves a wake-up on
//! both sides; on the CPU of the one that waits it runs only once that one sleeps. Where the kernel runs it changes from moment to
//! moment, so trials decide.

use dumbwaiter_block::Nanos;

/// The longest spin of a wait. A wake-up of an idle virtual CPU takes 40 to 200 us.
pub(crate) const SPIN_MAX: Nanos = Nanos::from_us(64);
/// Waits of a trial.
const TRIAL_WAITS: u32 = 32;
/// A longer wait counts as one of this length in a trial: something else took the CPU.
const COUNTED_MAX: Nanos = Nanos::from_us(256);
/// Waits between two trials: at first, and after many with the same winner.
const FIRST_HOLD: u32 = 2_048;
const LONGEST_HOLD: u32 = 65_536;
/// This many spins in vain, one after another, start a trial early.
const VAIN_MAX: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits sleep at once, and are measured.
    TrialOfSleep,
    /// Waits spin first, and are measured.
    TrialOfSpin,
    /// The winner is in use.
    Hold,
}

/// Chooses between sleeping and spinning by trials in turn.
#[derive(Clone, Debug)]
pub(crate) struct Spinner {
    phase: Phase,
    /// Waits until the phase ends.
    left: u32,
    /// Time of the trial's waits.
    total: Nanos,
    /// Time of the waits that slept.
    slept: Nanos,
    /// Spinning won the last trial.
    spin_won: bool,
    /// Length of the next hold.
    hold: u32,
    /// Spins in vain, one after another.
    vain: u32,
}

impl Spinner {
    pub(crate) fn new() -> Spinner {
        Spinner {
            phase: Phase::TrialOfSleep,
            left: TRIAL_WAITS,
            total: Nanos::ZERO,
            slept: Nanos::ZERO,
            spin_won: false,
            hold: FIRST_HOLD,
            vain: 0,
        }
    }

    /// Does the next wait spin before it sleeps?
    #[inline]
    pub(crate) fn spins(&self) -> bool {
        match self.phase {
            Phase::TrialOfSleep => false,
            Phase::TrialOfSpin => true,
            Phase::Hold => self.spin_won,
        }
    }

    /// A wait took this long.
    #[inline]
    pub(crate) fn waited(&mut self, time: Nanos) {
        self.left -= 1;
        match self.phase {
            Phase::Hold => {
                self.vain = if self.spin_won && time > SPIN_MAX { self.vain + 1 } else { 0 };
                if self.left == 0 || self.vain == VAIN_MAX {
                    self.start(Phase::TrialOfSleep);
                }
            }
            Phase::TrialOfSleep => {
                self.total += time.min(COUNTED_MAX);
                if self.left == 0 {
                    self.slept = self.total;
                    // On a slower device a spin would be in vain.
                    match self.total.0 / u64::from(TRIAL_WAITS) < COUNTED_MAX.0 {
                        true => self.start(Phase::TrialOfSpin),
                        false => self.choose(false),
                    }
                }
            }
            Phase::TrialOfSpin => {
                self.total += time.min(COUNTED_MAX);
                // Spinning costs CPU time, so it must be faster by an eighth. A trial that is lost ends at once.
                if self.total.0 + self.slept.0 / 8 >= self.slept.0 {
                    self.choose(false);
                } else if self.left == 0 {
                    self.choose(true);
                }
            }
        }
    }

    fn start(&mut self, phase: Phase) {
        (self.phase, self.left, self.total, self.vain) = (phase, TRIAL_WAITS, Nanos::ZERO, 0);
    }

    fn choose(&mut self, spin: bool) {
        self.hold = if spin == self.spin_won { (2 * self.hold).min(LONGEST_HOLD) } else { FIRST_HOLD };
        (self.spin_won, self.phase, self.left, self.vain) = (spin, Phase::Hold, self.hold, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits of `sleep` or `spin` microseconds; how many of them spun.
    fn waits(spinner: &mut Spinner, count: u32, sleep: u64, spin: u64) -> u32 {
        let mut spun = 0;
        for _ in 0..count {
            let spins = spinner.spins();
            spun += u32::from(spins);
            spinner.waited(Nanos::from_us(if spins { spin } else { sleep }));
        }
        spun
    }

    #[test]
    fn the_faster_way_is_used_for_nearly_all_waits() {
        assert!(waits(&mut Spinner::new(), 100_000, 75, 7) > 99_500);
        assert!(waits(&mut Spinner::new(), 100_000, 12, 76) < 100, "a lost trial ends before it has cost much");
        assert!(waits(&mut Spinner::new(), 100_000, 12, 11) < 600, "as fast is not enough: it costs CPU time");
    }

    #[test]
    fn a_slow_device_is_never_spun_for() {
        assert_eq!(waits(&mut Spinner::new(), 100_000, 4_000, 4_000), 0);
    }

    #[test]
    fn a_winner_that_has_become_slow_is_given_up() {
        let mut spinner = Spinner::new();
        waits(&mut spinner, 200_000, 75, 7);
        assert!(waits(&mut spinner, 1_000, 12, 90) < 50, "spins in vain start a trial");
        assert!(waits(&mut spinner, 200_000, 75, 7) > 60_000, "and trials go on");
    }
}
