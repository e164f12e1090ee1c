//! What the study's figures show, as statements about orders that a prediction keeps or not.

use dumbwaiter_fidelity::measured::{Compared, MeasuredAgainst};

/// The schedulers in the order in which they cost less.
const BY_COST: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// A statement: the ratio that it is about, and whether it holds; `None` where a row has no prediction.
pub(super) struct Order {
    pub(super) figure: &'static str,
    pub(super) case: &'static str,
    pub(super) says: &'static str,
    pub(super) holds: fn(&Predictions<'_>) -> Option<(f64, bool)>,
}

/// Predictions of the rows of some figures.
pub(super) struct Predictions<'a>(pub(super) &'a [MeasuredAgainst]);

type Figure = fn(&Compared) -> Option<f64>;
const IOPS: Figure = |f| f.iops_predicted;
const P99: Figure = |f| f.p99_us_predicted;
const CPU: Figure = |f| f.cpu_us_predicted;

impl Predictions<'_> {
    fn of(&self, figure: Figure, of: &str, condition: &str, scheduler: &str, role: &str) -> Option<f64> {
        let row = self.0.iter().find(|row| {
            (row.figure.as_str(), row.condition.as_str(), row.scheduler.as_str(), row.role.as_str())
                == (of, condition, scheduler, role)
        });
        figure(&row?.figures)
    }

    /// Does a figure rise from scheduler to scheduler? And the last by the first.
    fn rises(&self, figure: Figure, of: &str, condition: &str, role: &str, schedulers: &[&str]) -> Option<(f64, bool)> {
        let values: Option<Vec<f64>> =
            schedulers.iter().map(|name| self.of(figure, of, condition, name, role)).collect();
        let values = values?;
        Some((values.last()? / values.first()?, values.windows(2).all(|pair| pair[0] < pair[1])))
    }

    /// The least ratio of `a` to `b` over some schedulers.
    fn least(&self, schedulers: &[&str], ratio: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        let all: Option<Vec<f64>> = schedulers.iter().map(|name| ratio(name)).collect();
        all.map(|all| all.into_iter().fold(f64::INFINITY, f64::min))
    }
}

fn reversed() -> [&'static str; 4] {
    let mut all = BY_COST;
    all.reverse();
    all
}

pub(super) const ORDERS: [Order; 11] = [
    Order {
        figure: "2",
        case: "depth 1",
        says: "processor time of an I/O rises: none, mq-deadline, kyber, bfq",
        holds: |p| p.rises(CPU, "2", "depth 1", "L", &BY_COST),
    },
    Order {
        figure: "2",
        case: "depth 64",
        says: "one CPU makes fewer I/Os: none, mq-deadline, kyber, bfq",
        holds: |p| p.rises(IOPS, "2", "depth 64", "L", &reversed()),
    },
    Order {
        figure: "3",
        case: "16 processes",
        says: "processes on one CPU make fewer I/Os: none, mq-deadline, kyber, bfq",
        holds: |p| p.rises(IOPS, "3", "processes 16", "L", &reversed()),
    },
    Order {
        figure: "3",
        case: "256 processes",
        says: "p99 rises: none, mq-deadline, kyber, bfq",
        holds: |p| p.rises(P99, "3", "processes 256", "L", &BY_COST),
    },
    Order {
        figure: "7",
        case: "4 processes by 1",
        says: "none and kyber make at least twice the I/Os on four CPUs",
        holds: |p| {
            let ratio = |name: &str| {
                Some(p.of(IOPS, "7", "processes 4", name, "L")? / p.of(IOPS, "7", "processes 1", name, "L")?)
            };
            p.least(&["none", "kyber"], ratio).map(|least| (least, least >= 2.0))
        },
    },
    Order {
        figure: "7",
        case: "4 processes by 10",
        says: "mq-deadline and bfq make fewer I/Os on ten CPUs than on four",
        holds: |p| {
            let ratio = |name: &str| {
                Some(p.of(IOPS, "7", "processes 4", name, "L")? / p.of(IOPS, "7", "processes 10", name, "L")?)
            };
            p.least(&["mq-deadline", "bfq"], ratio).map(|least| (least, least > 1.0))
        },
    },
    Order {
        figure: "7",
        case: "10 processes",
        says: "none makes 1.5 times the I/Os of mq-deadline, and that 1.5 times those of bfq, at least",
        holds: |p| {
            let of = |name: &str| p.of(IOPS, "7", "processes 10", name, "L");
            let (none, deadline, bfq) = (of("none")?, of("mq-deadline")?, of("bfq")?);
            let least = (none / deadline).min(deadline / bfq);
            Some((least, least >= 1.5))
        },
    },
    Order {
        figure: "11a",
        case: "beside 8 readers",
        says: "the throughput of readers falls: none, kyber, mq-deadline, bfq",
        holds: |p| p.rises(IOPS, "11a", "beside 8", "background", &["bfq", "mq-deadline", "kyber", "none"]),
    },
    Order {
        figure: "11c",
        case: "beside 2 writers",
        says: "beside writers the p99 of a reader is above 1 ms under each scheduler",
        holds: |p| {
            let least = p.least(&BY_COST, |name| p.of(P99, "11c", "beside 2", name, "L"))?;
            Some((least / 1000.0, least > 1000.0))
        },
    },
    Order {
        figure: "11c",
        case: "beside 16 writers",
        says: "kyber and bfq hold the reader's p99 to a third of none's, at most",
        holds: |p| {
            let none = p.of(P99, "11c", "beside 16", "none", "L")?;
            let least = p.least(&["kyber", "bfq"], |name| Some(none / p.of(P99, "11c", "beside 16", name, "L")?))?;
            Some((least, least >= 3.0))
        },
    },
    Order {
        figure: "12a",
        case: "beside 4 readers of 64 KiB",
        says: "p99 of small reads beside large ones rises: none, mq-deadline, kyber, bfq",
        holds: |p| p.rises(P99, "12a", "beside 4", "L", &BY_COST),
    },
];
