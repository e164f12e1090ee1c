//! What latency, throughput and shares are worth to each other.

use serde::{Deserialize, Serialize};

use crate::goal::Goal;

/// The weights of the logarithms of latency, throughput and share error. The same rate holds at every size and in both directions, so
/// that there is no threshold at which an answer turns over, and no circle of preferences.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Of the latency; also of dropped frames.
    pub latency: f64,
    /// Of the throughput.
    pub throughput: f64,
    /// Of the share error.
    pub shares: f64,
}

impl Rates {
    /// Those of a goal.
    pub fn of(goal: Goal) -> Rates {
        match goal {
            // A convention, and not a measurement: throughput is everybody's and latency that of one, so it weighs more.
            Goal::Balanced => Rates::worth(1.0 / 3.0),
            Goal::Latency => Rates { shares: 0.5, ..Rates::worth(0.5) },
            Goal::Throughput => Rates::worth(0.05),
            Goal::Fairness => Rates { latency: 0.5, throughput: 2.0, shares: 2.0 },
        }
    }

    /// The rate at which half the latency is worth this part of the throughput, between 0 and 1.
    pub fn worth(part: f64) -> Rates {
        Rates { latency: 1.0, throughput: libm::log(2.0) / -libm::log(1.0 - part), shares: 1.0 }
    }

    /// The part of the throughput that half the latency is worth.
    pub fn part(&self) -> f64 {
        1.0 - libm::exp2(-self.latency / self.throughput)
    }

    /// In words: `half the latency is worth a third of the throughput`.
    pub fn words(&self) -> String {
        let part = match (self.part() * 1000.0).round() {
            333.0 => "a third".to_owned(),
            500.0 => "half".to_owned(),
            _ => rate_text(self.part()),
        };
        format!("half the latency is worth {part} of the throughput")
    }
}

/// A rate, as `--rate` takes it: `26%` with a space for people, below 1 % with a digit more.
pub(crate) fn rate_text(part: f64) -> String {
    let percent = part * 100.0;
    if (0.95..=99.05).contains(&percent) { format!("{percent:.0} %") } else { format!("{percent:.2} %") }
}

/// The part at which an alternative whose latency and throughput change by these (natural logarithms) is worth nothing; `None` where
/// none gains what the other loses.
pub(crate) fn turns_at(latency: f64, throughput: f64) -> Option<f64> {
    let trades = latency * throughput > 0.0 && latency.abs() > 1e-3 && throughput.abs() > 1e-3;
    trades.then(|| 1.0 - libm::exp2(-throughput / latency))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goals_are_rates_that_are_said_in_words() {
        assert_eq!(Rates::of(Goal::Balanced).words(), "half the latency is worth a third of the throughput");
        assert_eq!(Rates::of(Goal::Latency).words(), "half the latency is worth half of the throughput");
        assert_eq!(Rates::of(Goal::Throughput).words(), "half the latency is worth 5 % of the throughput");
        assert_eq!(Rates::of(Goal::Fairness).words(), "half the latency is worth 16 % of the throughput");
        assert!((Rates::of(Goal::Balanced).throughput - 1.71).abs() < 0.001);
        assert!((Rates::of(Goal::Throughput).throughput - 13.5).abs() < 0.02);
    }

    #[test]
    fn what_balanced_pays_for_throughput_is_a_table() {
        let rates = Rates::of(Goal::Balanced);
        for (given_up, latency) in [(0.05, 0.084), (0.10, 0.16), (0.15, 0.24), (0.25, 0.39), (0.50, 0.69), (0.85, 0.96)]
        {
            let falls = 1.0 - libm::pow(1.0 - given_up, rates.throughput / rates.latency);
            assert!((falls - latency).abs() < 0.006, "{given_up}: {falls} for {latency}");
        }
    }

    #[test]
    fn an_answer_turns_where_what_is_gained_is_worth_what_is_lost() {
        // Latency -53 %, throughput -23 %.
        let at = turns_at(libm::log(0.47), libm::log(0.77)).unwrap();
        let rates = Rates::worth(at);
        let worth = -rates.latency * libm::log(0.47) + rates.throughput * libm::log(0.77);
        assert!(worth.abs() < 1e-9 && (0.2..0.25).contains(&at), "{at} {worth}");
        assert_eq!(turns_at(-0.5, 0.1), None);
    }
}
