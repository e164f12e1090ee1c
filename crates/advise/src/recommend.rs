//! Words a recommendation: the scheduler, the reason and the caveats. All texts here end up in the JSON of results.

use crate::criterion::{Focus, Goal, Metric};
use crate::figures::{independent, repeats_a_recording};
use crate::row::{Axes, Row};
use dumbwaiter_measure::RunResult;
use dumbwaiter_measure::Verdict;
use dumbwaiter_measure::{latency_text, rate_text};
use serde::{Deserialize, Serialize};

/// Requests below which a p99 is worth a caveat: fewer than ten requests lie above it.
const P99_REQUESTS_MIN: u64 = 1000;

/// The recommended scheduler of one device, with the reason and the caveats.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recommendation {
    /// Name of the device.
    pub device: String,
    /// Name of the variant of the scenario; empty if it has none.
    pub variant: String,
    /// The goal that the schedulers were ranked by.
    pub goal: Goal,
    /// The recommended scheduler.
    pub scheduler: String,
    /// Its completion method.
    #[serde(default)]
    pub completion: String,
    /// Its block layer: `sim`, `engine` or `kernel`.
    #[serde(default)]
    pub via: String,
    /// [`Metric::key`] of the metric that decided.
    pub metric: String,
    /// [`Focus::name`] of the requests whose latency counted.
    pub focus: String,
    /// The scheduler, the reason and the first caveat as one sentence.
    pub sentence: String,
    /// The reason, a clause without a full stop.
    pub reason: String,
    /// Arguments against it, most important first; never empty.
    pub caveats: Vec<String>,
}

/// Words the recommendation of a ranking; `rows` are sorted, the recommended one first.
pub(crate) fn recommend(
    rows: &[Row],
    goal: Goal,
    metric: Metric,
    focus: &Focus,
    runs: &[&RunResult],
) -> Recommendation {
    let winner = &rows[0];
    let reason = reason(rows, metric, focus);
    let caveats = caveats(rows, goal, metric, focus, runs);
    let place = if winner.variant.is_empty() {
        winner.device.clone()
    } else {
        format!("{} ({})", winner.device, winner.variant)
    };
    let idle = runs.iter().all(|run| run.read.count + run.write.count + run.other.count == 0);
    let sentence = if idle {
        format!(
            "On {place} nothing can be told: no I/O was done in the measured time; a longer `duration` or a shorter `warmup` may help."
        )
    } else if winner.mean(metric).is_infinite() {
        let focus = focus.name();
        format!(
            "On {place} no scheduler can be recommended: under each of them {focus} got nothing in at least one run."
        )
    } else {
        format!("On {place}, use {}: {reason}; but {}.", winner.name(Axes::of_rows(rows)), caveats[0])
    };
    Recommendation {
        device: winner.device.clone(),
        variant: winner.variant.clone(),
        goal,
        scheduler: winner.scheduler.clone(),
        completion: winner.completion.clone(),
        via: winner.via.clone(),
        metric: metric.key().to_string(),
        focus: focus.name(),
        sentence,
        reason,
        caveats,
    }
}

/// Mean of `metric` in a row, with its unit.
fn shown(row: &Row, metric: Metric) -> String {
    let value = row.mean(metric);
    match metric {
        _ if value.is_infinite() => "starvation".to_string(),
        Metric::MbPerS => rate_text(value),
        Metric::Pv | Metric::Jain if value.is_nan() => "undefined".to_string(),
        Metric::Pv | Metric::Jain => format!("{value:.3}"),
        Metric::Iops => format!("{} IOPS", dumbwaiter_measure::count_text(value)),
        _ => latency_text(value),
    }
}

/// Name of a metric in a sentence.
fn named(metric: Metric, focus: &Focus) -> String {
    match metric {
        Metric::MbPerS => "throughput".to_string(),
        Metric::Pv => "PV (deviation from the weights)".to_string(),
        _ => format!("p99 latency of {}", focus.name()),
    }
}

/// Whether the figure of a row can be held against that of the recommended one: it is known in as many runs.
fn may_win(row: &Row, winner: &Row, metric: Metric) -> bool {
    row.mean(metric).is_finite() && row.known(metric) >= winner.known(metric)
}

fn reason(rows: &[Row], metric: Metric, focus: &Focus) -> String {
    let winner = &rows[0];
    let name = |row: &Row| row.name(Axes::of_rows(rows));
    let figure = named(metric, focus);
    if rows.len() == 1 {
        return format!("it is the only one that ran, with a {figure} of {}", shown(winner, metric));
    }
    let value = winner.mean(metric);
    let rivals = || rows[1..].iter().filter(|r| r.keeps_throughput && may_win(r, winner, metric));
    // A difference that rounds to nothing is none to speak of.
    let differs = |r: &Row| shown(r, metric) != shown(winner, metric);
    let beaten = |r: &&Row| metric.better(value, r.mean(metric)) && r.verdict != Verdict::Tie && differs(r);
    let worst =
        rivals().filter(beaten).reduce(|a, b| if metric.better(a.mean(metric), b.mean(metric)) { b } else { a });
    let best = rivals().all(|r| !metric.better(r.mean(metric), value));
    let superlative = if metric.higher_is_better() { "the highest" } else { "the lowest" };
    let mut text = match (best, worst) {
        (true, Some(worst)) => {
            let against = format!("{} with {}", shown(worst, metric), name(worst));
            format!("it has {superlative} {figure}, {} (up to {against})", shown(winner, metric))
        }
        (false, Some(worst)) => {
            let against = format!("{} with {}", shown(worst, metric), name(worst));
            format!("its {figure}, {}, is as good as any (up to {against})", shown(winner, metric))
        }
        (_, None) => format!("no other has a better {figure} than its {} by more than chance", shown(winner, metric)),
    };
    if metric != Metric::MbPerS {
        let most = rows.iter().map(|r| r.mean(Metric::MbPerS)).fold(0.0, f64::max);
        let part = winner.mean(Metric::MbPerS) / most;
        if part.is_finite() {
            let rate = shown(winner, Metric::MbPerS);
            text += &match part {
                p if p > 0.9995 => format!(" and no other moves more than its {rate}"),
                p => format!(" at {:.0} % of the best throughput ({rate})", p * 100.0),
            };
        }
    }
    text
}

fn caveats(rows: &[Row], goal: Goal, metric: Metric, focus: &Focus, runs: &[&RunResult]) -> Vec<String> {
    let winner = &rows[0];
    let configuration = (winner.scheduler.as_str(), winner.via.as_str(), winner.completion.as_str());
    let own = || runs.iter().filter(|r| r.configuration() == configuration);
    let mut caveats = Vec::new();
    let failed: u64 = own().map(|r| r.errors).sum();
    if failed > 0 {
        caveats.push(format!("{failed} of its requests failed"));
    }
    if metric != goal.metric() {
        caveats.push(format!("{} cannot be judged here, so `balanced` decided", goal.name()));
    }
    let estimate = winner.metrics.get(metric.key());
    if estimate.is_some_and(|estimate| estimate.at_least) {
        let figure = named(metric, focus);
        caveats
            .push(format!("its {figure} is a lower bound: I/Os that had waited longer than any took were unfinished"));
    }
    let runs_of_winner: Vec<&RunResult> = own().copied().collect();
    if rows.len() > 1 && independent(&runs_of_winner).len() < 2 {
        caveats.push(if runs_of_winner.iter().all(|run| repeats_a_recording(run)) {
            "its load is recorded, the same in every run, so chance cannot be judged".to_string()
        } else if winner.replicates > 1 {
            "its runs all gave the same result, so chance cannot be judged".to_string()
        } else {
            "with one run of each, chance is not ruled out (ask for replicates)".to_string()
        });
    }
    caveats.extend(better_elsewhere(rows, metric, focus));
    let fewest = own().map(|r| focus.samples(r)).min().unwrap_or(0);
    if metric == Metric::FocusP99 && fewest < P99_REQUESTS_MIN {
        caveats.push(format!("its p99 rests on only {fewest} requests of {} in a run", focus.name()));
    }
    if let Some(([low, high], mean)) = estimate.and_then(|estimate| estimate.ci95.zip(estimate.mean))
        && high > 1.2 * mean
    {
        let percent = |bound: f64| 100.0 * (bound / mean - 1.0);
        let (low, high) = (percent(low), percent(high));
        caveats.push(format!("the figure is uncertain (95 % confidence: {low:+.0} to {high:+.0} %)"));
    }
    if caveats.is_empty() {
        caveats.push("it was tried under this load on this device only".to_string());
    }
    caveats
}

/// Schedulers that beat the recommended one by another metric, at the cost of throughput, or by chance.
fn better_elsewhere(rows: &[Row], metric: Metric, focus: &Focus) -> Vec<String> {
    let winner = &rows[0];
    let name = |row: &Row| row.name(Axes::of_rows(rows));
    let mut caveats = Vec::new();
    let most = rows.iter().map(|r| r.mean(Metric::MbPerS)).fold(0.0, f64::max);
    let part = |r: &Row| r.mean(Metric::MbPerS) / most;
    // Much better, but below the throughput floor.
    let slow = rows.iter().find(|r| {
        let (a, b) = (r.mean(metric), winner.mean(metric));
        !r.keeps_throughput && may_win(r, winner, metric) && metric.better(a, b) && (a - b).abs() > 0.3 * b.abs()
    });
    if let Some(r) = slow {
        let (text, percent) = (shown(r, metric), part(r) * 100.0);
        caveats.push(format!("{} reaches {text} if {percent:.0} % of the best throughput will do", name(r)));
    }
    if metric != Metric::MbPerS && part(winner) < 0.98 {
        let fastest = rows.iter().find(|r| r.mean(Metric::MbPerS) >= most);
        if let Some(r) = fastest {
            let more = (most / winner.mean(Metric::MbPerS) - 1.0) * 100.0;
            let cost = shown(r, metric);
            caveats.push(format!("{} moves {more:.0} % more, at {cost}", name(r)));
        }
    }
    if metric == Metric::MbPerS {
        let focus_p99 = Metric::FocusP99;
        let quick = rows[1..]
            .iter()
            .find(|r| may_win(r, winner, focus_p99) && r.mean(focus_p99) < 0.7 * winner.mean(focus_p99));
        if let Some(r) = quick {
            let (a, b) = (shown(r, Metric::FocusP99), shown(winner, Metric::FocusP99));
            let (figure, name) = (named(Metric::FocusP99, focus), name(r));
            caveats.push(format!("its {figure} is {b} where {name} has {a}"));
        }
    }
    if metric != Metric::Pv {
        let fairest = rows
            .iter()
            .reduce(|a, b| if Metric::Jain.better(b.mean(Metric::Jain), a.mean(Metric::Jain)) { b } else { a });
        if let Some(r) = fairest.filter(|r| winner.mean(Metric::Jain) < 0.8 * r.mean(Metric::Jain)) {
            let (a, b) = (winner.mean(Metric::Jain), r.mean(Metric::Jain));
            caveats.push(format!("{} keeps nearer to the weights (Jain index {b:.2} against {a:.2})", name(r)));
        }
    }
    let ties: Vec<String> = rows[1..].iter().filter(|r| r.verdict == Verdict::Tie).map(name).collect();
    if !ties.is_empty() {
        let (list, figure) = (ties.join(", "), named(metric, focus));
        caveats.push(format!("{list} cannot be told from it by {figure}"));
    }
    caveats
}
