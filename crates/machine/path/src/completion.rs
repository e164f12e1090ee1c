//! How the completion of a request is found: what is asked for, and what a target supports.

use std::fmt;

use dumbwaiter_block::Nanos;

use crate::ring::RingMode;

/// How completions are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompletionMode {
    /// The device interrupts; the thread sleeps meanwhile.
    #[default]
    Interrupt,
    /// The kernel polls the device (`IORING_SETUP_IOPOLL`); the CPU is busy meanwhile.
    Poll,
    /// Sleeps for a part of the expected time, then polls.
    Hybrid(Sleep),
}

/// How long hybrid polling sleeps first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sleep {
    /// As the kernel does (`IORING_SETUP_HYBRID_IOPOLL`, Linux 6.13) where it and the device can; else as `Learned`.
    #[default]
    Auto,
    /// Half of the mean service time of requests of that size and direction, measured here.
    Learned,
    /// A fixed time.
    Fixed(Nanos),
}

const FIXED: &str = "hybrid-fixed:";
const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const LONGEST_SLEEP: Nanos = Nanos::from_secs(1);

impl CompletionMode {
    /// Reads `interrupt`, `poll`, `hybrid`, `hybrid-learned` or `hybrid-fixed:20us` (a whole number of ns, us, ms or s, at most
    /// 1 s), as [`fmt::Display`] writes them.
    pub fn parse(text: &str) -> Option<CompletionMode> {
        Some(match text {
            "interrupt" | "irq" => CompletionMode::Interrupt,
            "poll" => CompletionMode::Poll,
            "hybrid" => CompletionMode::Hybrid(Sleep::Auto),
            "hybrid-learned" => CompletionMode::Hybrid(Sleep::Learned),
            other => CompletionMode::Hybrid(Sleep::Fixed(parse_sleep(other.strip_prefix(FIXED)?)?)),
        })
    }
}

fn parse_sleep(text: &str) -> Option<Nanos> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, ns) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let sleep = Nanos(number.parse::<u64>().ok()?.checked_mul(*ns)?);
    (sleep > Nanos::ZERO && sleep <= LONGEST_SLEEP).then_some(sleep)
}

impl fmt::Display for CompletionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompletionMode::Interrupt => f.write_str("interrupt"),
            CompletionMode::Poll => f.write_str("poll"),
            CompletionMode::Hybrid(Sleep::Auto) => f.write_str("hybrid"),
            CompletionMode::Hybrid(Sleep::Learned) => f.write_str("hybrid-learned"),
            CompletionMode::Hybrid(Sleep::Fixed(time)) => {
                let largest = UNITS.iter().rev().find(|(_, ns)| time.0.is_multiple_of(*ns));
                let (name, ns) = largest.copied().unwrap_or(UNITS[0]);
                write!(f, "{FIXED}{}{name}", time.0 / ns)
            }
        }
    }
}

/// How completions will be found on a target; see [`Target::check`](crate::Target::check).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompletionSupport {
    pub(crate) ring: RingMode,
    /// The disk sleeps itself before it looks.
    pub(crate) sleep: Option<Sleep>,
}

impl CompletionSupport {
    /// In words, for results and people.
    pub fn describe(&self) -> &'static str {
        match (self.ring, self.sleep.is_some()) {
            (RingMode::Interrupt, false) => "interrupts",
            (RingMode::Iopoll, false) => "the kernel polls",
            (RingMode::HybridIopoll, _) => "the kernel sleeps, then polls",
            (RingMode::Iopoll, true) => "we sleep, then the kernel polls",
            (RingMode::Interrupt, true) => "we sleep, then look for the interrupt's completion without sleeping",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "interrupt",
            "poll",
            "hybrid",
            "hybrid-learned",
            "hybrid-fixed:20us",
            "hybrid-fixed:1500ns",
            "hybrid-fixed:1s",
        ] {
            assert_eq!(CompletionMode::parse(name).unwrap().to_string(), name);
        }
        let wrong = ["", "polling", "hybrid-20us", "hybrid-fixed:", "hybrid-fixed:0", "hybrid-fixed:0us"];
        for wrong in wrong.into_iter().chain(["hybrid-fixed:2s", "hybrid-fixed:us", "hybrid-fixed:-1us", "sqpoll"]) {
            assert_eq!(CompletionMode::parse(wrong), None, "{wrong}");
        }
    }
}
