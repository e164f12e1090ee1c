//! Completion methods.

use std::fmt;
use std::str::FromStr;

use dumbwaiter_block::Nanos;
use dumbwaiter_text::units::{self, BareTime, format_time};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A completion method. As text: `interrupt`, `poll`, `hybrid`, `hybrid-fixed:2us` (any time), `sqpoll`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// The device interrupts a CPU, which wakes the thread.
    #[default]
    Interrupt,
    /// Classic polling: the thread polls until the completion (preadv2 with RWF_HIPRI, io_uring with IOPOLL).
    Poll,
    /// Hybrid polling: the thread sleeps for half of the mean time of such an I/O, then polls (`io_poll_delay` 0 of
    /// Linux 4.10 to 6.3; for a ring io_uring's hybrid IOPOLL of Linux 6.13).
    Hybrid,
    /// Hybrid polling with a fixed sleep (`io_poll_delay` above 0).
    HybridFixed(Nanos),
    /// A kernel thread submits and polls for completions (io_uring SQPOLL with IOPOLL).
    Sqpoll,
}

impl Completion {
    /// The accepted texts.
    pub const EXPECTED: &'static str =
        "interrupt, poll, hybrid, hybrid-fixed:TIME (such as hybrid-fixed:2us) or sqpoll";

    /// Whether the thread sleeps until it is woken.
    pub fn sleeps(self) -> bool {
        matches!(self, Completion::Interrupt | Completion::Hybrid | Completion::HybridFixed(_))
    }
}

impl FromStr for Completion {
    type Err = String;

    fn from_str(text: &str) -> Result<Completion, String> {
        let unknown = || format!("{text:?} is not a completion method; expected {}", Completion::EXPECTED);
        Ok(match text.split_once(':') {
            None => match text {
                "interrupt" => Completion::Interrupt,
                "poll" => Completion::Poll,
                "hybrid" => Completion::Hybrid,
                "sqpoll" => Completion::Sqpoll,
                _ => return Err(unknown()),
            },
            Some(("hybrid-fixed", time)) => {
                let delay = units::time(time, BareTime::Microseconds).map_err(|e| format!("{text:?}: {e}"))?;
                if delay == Nanos::ZERO || delay > Nanos::from_secs(1) {
                    return Err(format!("{text:?}: expected a sleep above 0 and of at most 1s"));
                }
                Completion::HybridFixed(delay)
            }
            Some(_) => return Err(unknown()),
        })
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Completion::Interrupt => f.write_str("interrupt"),
            Completion::Poll => f.write_str("poll"),
            Completion::Hybrid => f.write_str("hybrid"),
            Completion::HybridFixed(delay) => write!(f, "hybrid-fixed:{}", format_time(*delay)),
            Completion::Sqpoll => f.write_str("sqpoll"),
        }
    }
}

impl Serialize for Completion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Completion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Completion, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for text in ["interrupt", "poll", "hybrid", "hybrid-fixed:2us", "sqpoll"] {
            assert_eq!(text.parse::<Completion>().unwrap().to_string(), text);
        }
        for text in ["", "polling", "hybrid:2us", "hybrid-fixed:", "hybrid-fixed:0us", "hybrid-fixed:2h"] {
            let message = text.parse::<Completion>().unwrap_err();
            assert!(message.contains(&format!("{text:?}")), "{message}");
        }
    }
}
