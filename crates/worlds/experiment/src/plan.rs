//! The loads of a survey, and how long each runs.

use dumbwaiter_advise::Metric;
use dumbwaiter_advise::race::{GUARD_ROUNDS, ROUNDS_MIN};
use dumbwaiter_block::Nanos;
use dumbwaiter_scenario::Scenario;

use crate::Failure;

/// Rounds at the deciding point that the plan has time for.
const ROUNDS_PLANNED: u64 = 10;
/// Part of the time for the points that do not decide, in percent.
const GUARD_PERCENT: u64 = 30;
const DECIDING_MIN: Nanos = Nanos::from_ms(300);
const DECIDING_MAX: Nanos = Nanos::from_secs(3);
const GUARD_MIN: Nanos = Nanos::from_ms(250);
const GUARD_MAX: Nanos = Nanos::from_secs(2);
/// Time to start and collect a run, beside its own length.
pub(crate) const OVERHEAD: Nanos = Nanos::from_ms(150);
/// Part of a run that is warm-up, in percent.
const WARMUP_PERCENT: u64 = 20;

/// A load that the schedulers are tried under.
pub(crate) struct Point {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The figure that is reported.
    pub(crate) metric: Metric,
    pub(crate) scenario: Scenario,
}

/// The points, the deciding one first.
pub(crate) struct Plan {
    pub(crate) points: Vec<Point>,
    /// Time for the schedulers.
    pub(crate) race: Nanos,
    /// Length of a run at each depth of the completion methods.
    pub(crate) completion: Nanos,
}

/// One task of one tenant.
fn alone(task: &str) -> Result<Scenario, Failure> {
    let text =
        format!("schedulers = [\"none\"]\n[[tenant]]\nname = \"reader\"\n[[tenant.task]]\nname = \"read\"\n{task}");
    Scenario::from_toml(&text, "built-in point").map_err(Failure::refused)
}

/// All points: the deciding one, then the guards, the most informative first.
fn points() -> Result<Vec<Point>, Failure> {
    let point = |name, about, metric, scenario| Point { name, about, metric, scenario };
    let four = ["a", "b", "c", "d"].map(|name| {
        format!(
            "[[tenant]]\nname = \"{name}\"\n[[tenant.task]]\nname = \"read\"\nrw = \"randread\"\nbs = \"4k\"\niodepth = 8\n"
        )
    });
    let four = Scenario::from_toml(&format!("schedulers = [\"none\"]\n{}", four.concat()), "built-in point")
        .map_err(Failure::refused)?;
    Ok(vec![
        point(
            "shared",
            "an interactive user, a database and a backup at once",
            Metric::FocusP99,
            Scenario::builtin_real(),
        ),
        point(
            "4k-32",
            "random reads of 4 KiB, queue depth 32",
            Metric::Iops,
            alone("rw = \"randread\"\nbs = \"4k\"\niodepth = 32")?,
        ),
        point(
            "4k-1",
            "random reads of 4 KiB, queue depth 1",
            Metric::Iops,
            alone("rw = \"randread\"\nbs = \"4k\"\nioengine = \"psync\"")?,
        ),
        point(
            "stream",
            "sequential reads of 128 KiB, queue depth 4",
            Metric::MbPerS,
            alone("rw = \"read\"\nbs = \"128k\"\niodepth = 4")?,
        ),
        point("four", "four tenants, each with random reads of 4 KiB, queue depth 8", Metric::Iops, four),
        point(
            "64k-8",
            "random reads of 64 KiB, queue depth 8",
            Metric::MbPerS,
            alone("rw = \"randread\"\nbs = \"64k\"\niodepth = 8")?,
        ),
        point(
            "4k-8",
            "random reads of 4 KiB, queue depth 8",
            Metric::Iops,
            alone("rw = \"randread\"\nbs = \"4k\"\niodepth = 8")?,
        ),
    ])
}

/// Random 4 KiB reads at this queue depth, to compare completion methods.
pub(crate) fn reads_of_4k(depth: u32, length: Nanos) -> Result<Scenario, Failure> {
    Ok(timed(&alone(&format!("rw = \"randread\"\nbs = \"4k\"\niodepth = {depth}"))?, length))
}

fn timed(scenario: &Scenario, length: Nanos) -> Scenario {
    let warmup = Nanos(length.0 * WARMUP_PERCENT / 100);
    Scenario { warmup, duration: Some(Nanos(length.0 - warmup.0)), ..scenario.clone() }
}

/// Divides `budget` for this many schedulers; `polled`: the device can be polled, so that there is more to find out.
pub(crate) fn plan(budget: Nanos, schedulers: usize, polled: bool) -> Result<Plan, Failure> {
    let n = schedulers.max(1) as u64;
    let percent = if polled { 80 } else { 90 };
    let race = budget.0 / 100 * percent;
    let least = n * ROUNDS_MIN as u64 * (DECIDING_MIN + OVERHEAD).0;
    if race < least {
        let seconds = (least * 100 / percent).div_ceil(1_000_000_000);
        return Err(Failure::refused(format!(
            "--for: {budget} is too short to try {n} schedulers; expected {seconds}s or more, or fewer --schedulers"
        )));
    }
    let mut points = points()?;
    let guard_rounds = n * GUARD_ROUNDS as u64;
    let guards = ((race - least) / (guard_rounds * (GUARD_MIN + OVERHEAD).0)).min(points.len() as u64 - 1);
    points.truncate(1 + guards as usize);
    let runs = guard_rounds * guards;
    let guard =
        Nanos((race * GUARD_PERCENT / 100 / runs.max(1)).saturating_sub(OVERHEAD.0)).clamp(GUARD_MIN, GUARD_MAX);
    let left = race.saturating_sub(runs * (guard + OVERHEAD).0);
    let deciding = Nanos((left / (n * ROUNDS_PLANNED)).saturating_sub(OVERHEAD.0)).clamp(DECIDING_MIN, DECIDING_MAX);
    for (i, point) in points.iter_mut().enumerate() {
        point.scenario = timed(&point.scenario, if i == 0 { deciding } else { guard });
    }
    Ok(Plan { points, race: Nanos(race), completion: guard })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(point: &Point) -> u64 {
        point.scenario.warmup.0 + point.scenario.duration.unwrap().0
    }

    #[test]
    fn the_least_that_must_run_fits_into_the_time() {
        for (seconds, schedulers) in [(7, 4), (10, 4), (20, 3), (30, 4), (120, 4), (120, 1), (600, 8)] {
            let plan = plan(Nanos::from_secs(seconds), schedulers, true).unwrap();
            let rounds = |i: usize| if i == 0 { ROUNDS_MIN } else { GUARD_ROUNDS } as u64;
            let runs = plan.points.iter().enumerate().map(|(i, p)| rounds(i) * (length(p) + OVERHEAD.0));
            let all = runs.sum::<u64>() * schedulers as u64;
            assert!(all <= plan.race.0, "{seconds} s, {schedulers} schedulers: {all} of {}", plan.race.0);
            assert!(plan.race < Nanos::from_secs(seconds));
        }
    }

    #[test]
    fn two_minutes_look_at_every_point_and_ten_seconds_at_the_one_that_decides() {
        let all = plan(Nanos::from_secs(120), 4, false).unwrap();
        assert_eq!(all.points.len(), 7);
        assert!(length(&all.points[0]) > length(&all.points[1]), "what decides runs longest");
        let tenants: Vec<usize> = all.points.iter().map(|p| p.scenario.tenants.len()).collect();
        assert_eq!(tenants, [3, 1, 1, 1, 4, 1, 1]);
        let few = plan(Nanos::from_secs(10), 4, false).unwrap();
        assert_eq!(few.points[0].name, "shared");
        assert!(few.points.len() < 4);
    }

    #[test]
    fn too_short_a_time_is_refused_with_what_would_do() {
        let Err(error) = plan(Nanos::from_secs(2), 4, false) else { panic!("2 s for 4 schedulers") };
        let said = error.to_string();
        assert!(said.contains("--for: 2.000 s is too short") && said.contains("6s or more"), "{said}");
        assert!(plan(Nanos::from_secs(6), 4, false).is_ok());
    }

    #[test]
    fn nothing_is_written() {
        for point in points().unwrap() {
            assert_eq!(point.scenario.writer(), None, "{}", point.name);
        }
    }
}
