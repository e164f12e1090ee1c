//! A recommendation in words: which scheduler, why, and what speaks against it.

use crate::criterion::{Focus, Goal, Metric};
use crate::ranking::{Row, several};
use dumbwaiter_measure::RunResult;
use dumbwaiter_measure::Verdict;
use dumbwaiter_measure::{latency_text, rate_text};
use serde::{Deserialize, Serialize};

/// A p99 of fewer requests than this rests on less than ten of them.
const P99_REQUESTS_MIN: u64 = 1000;

/// Which scheduler to take on one device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recommendation {
    /// Name of the device.
    pub device: String,
    /// What else is varied.
    pub variant: String,
    /// What was asked for.
    pub goal: Goal,
    /// The scheduler.
    pub scheduler: String,
    /// The completion method.
    #[serde(default)]
    pub completion: String,
    /// Whose block layer.
    #[serde(default)]
    pub via: String,
    /// The figure that decided, a [`Metric::key`].
    pub metric: String,
    /// Whose latency counted.
    pub focus: String,
    /// Everything below in one sentence.
    pub sentence: String,
    /// Why, without a full stop.
    pub reason: String,
    /// What speaks against it, most important first; never empty.
    pub caveats: Vec<String>,
}

/// Puts a ranking into words; `rows` are in order, the recommended one first.
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
    } else {
        format!("On {place}, use {}: {reason}; but {}.", winner.name(several(rows)), caveats[0])
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

/// `metric` of a row with its unit.
fn shown(row: &Row, metric: Metric) -> String {
    let value = row.mean(metric);
    match metric {
        Metric::MbPerS => rate_text(value),
        Metric::Pv | Metric::Jain if value.is_nan() => "undefined".to_string(),
        Metric::Pv | Metric::Jain => format!("{value:.3}"),
        Metric::Iops => format!("{} IOPS", dumbwaiter_measure::count_text(value)),
        _ => latency_text(value),
    }
}

fn named(metric: Metric, focus: &Focus) -> String {
    match metric {
        Metric::MbPerS => "throughput".to_string(),
        Metric::Pv => "PV (deviation from the weights)".to_string(),
        _ => format!("p99 latency of {}", focus.name()),
    }
}

fn reason(rows: &[Row], metric: Metric, focus: &Focus) -> String {
    let winner = &rows[0];
    let name = |row: &Row| row.name(several(rows));
    let figure = named(metric, focus);
    if rows.len() == 1 {
        return format!("it is the only one that ran, with a {figure} of {}", shown(winner, metric));
    }
    let value = winner.mean(metric);
    let rivals = || rows[1..].iter().filter(|r| r.keeps_throughput && !r.mean(metric).is_nan());
    let beaten = |r: &&Row| metric.better(value, r.mean(metric)) && r.verdict != Verdict::Tie;
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
    let name = |row: &Row| row.name(several(rows));
    let own = || {
        runs.iter().filter(|r| r.way() == (winner.scheduler.as_str(), winner.via.as_str(), winner.completion.as_str()))
    };
    let mut told = Vec::new();
    let failed: u64 = own().map(|r| r.errors).sum();
    if failed > 0 {
        told.push(format!("{failed} of its requests failed"));
    }
    if metric != goal.metric() {
        told.push(format!("{} cannot be judged here, so `balanced` decided", goal.name()));
    }
    if rows.len() > 1 && winner.replicates < 2 {
        told.push("with one run of each, chance is not ruled out (ask for replicates)".to_string());
    }
    let most = rows.iter().map(|r| r.mean(Metric::MbPerS)).fold(0.0, f64::max);
    let part = |r: &Row| r.mean(Metric::MbPerS) / most;
    // Whoever is much better but pays with throughput.
    let dear = rows.iter().find(|r| {
        let (a, b) = (r.mean(metric), winner.mean(metric));
        !r.keeps_throughput && metric.better(a, b) && (a - b).abs() > 0.3 * b.abs()
    });
    if let Some(r) = dear {
        let (text, percent) = (shown(r, metric), part(r) * 100.0);
        told.push(format!("{} reaches {text} if {percent:.0} % of the best throughput will do", name(r)));
    }
    if metric != Metric::MbPerS && part(winner) < 0.98 {
        let fastest = rows.iter().find(|r| r.mean(Metric::MbPerS) >= most);
        if let Some(r) = fastest {
            let more = (most / winner.mean(Metric::MbPerS) - 1.0) * 100.0;
            let cost = shown(r, metric);
            told.push(format!("{} moves {more:.0} % more, at {cost}", name(r)));
        }
    }
    if metric == Metric::MbPerS {
        let quick = rows[1..].iter().find(|r| r.mean(Metric::FocusP99) < 0.7 * winner.mean(Metric::FocusP99));
        if let Some(r) = quick {
            let (a, b) = (shown(r, Metric::FocusP99), shown(winner, Metric::FocusP99));
            let (figure, name) = (named(Metric::FocusP99, focus), name(r));
            told.push(format!("its {figure} is {b} where {name} has {a}"));
        }
    }
    if metric != Metric::Pv {
        let fairest = rows
            .iter()
            .reduce(|a, b| if Metric::Jain.better(b.mean(Metric::Jain), a.mean(Metric::Jain)) { b } else { a });
        if let Some(r) = fairest.filter(|r| winner.mean(Metric::Jain) < 0.8 * r.mean(Metric::Jain)) {
            let (a, b) = (winner.mean(Metric::Jain), r.mean(Metric::Jain));
            told.push(format!("{} keeps nearer to the weights (Jain index {b:.2} against {a:.2})", name(r)));
        }
    }
    let ties: Vec<String> = rows[1..].iter().filter(|r| r.verdict == Verdict::Tie).map(name).collect();
    if !ties.is_empty() {
        let (list, figure) = (ties.join(", "), named(metric, focus));
        told.push(format!("{list} cannot be told from it by {figure}"));
    }
    let fewest = own().map(|r| focus.count(r)).min().unwrap_or(0);
    if metric == Metric::FocusP99 && fewest < P99_REQUESTS_MIN {
        told.push(format!("its p99 rests on only {fewest} requests of {} in a run", focus.name()));
    }
    if let Some(cell) = winner.metrics.get(metric.key()) {
        let wide = cell.ci95.zip(cell.mean).filter(|(ci, mean)| *ci > 0.2 * mean.abs());
        if let Some((ci, mean)) = wide {
            told.push(format!("the figure is uncertain (95 % confidence: ± {:.0} %)", 100.0 * ci / mean));
        }
    }
    if told.is_empty() {
        told.push("it was tried under this load on this device only".to_string());
    }
    told
}
