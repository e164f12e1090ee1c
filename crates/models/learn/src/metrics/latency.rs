//! Metrics of latency predictions.

use serde::Serialize;

/// Pairs of requests further apart than this in a queue are not compared.
const PAIR_DISTANCE: usize = 16;
/// Pairs whose latencies differ by less than this factor are not compared.
const PAIR_DIFFERENCE: f64 = 1.1;

/// A latency and its prediction, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// The true latency.
    pub truth: f64,
    /// The prediction.
    pub predicted: f64,
}

/// Predictions of one run: stretches of consecutive requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PredictedRun {
    /// Each a stretch of consecutive requests, in order.
    pub stretches: Vec<Vec<Predicted>>,
}

/// Metrics of latency predictions. Only the last two show whether a queue can be ordered by them; the others also reward
/// distinguishing workloads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyQuality {
    /// Pearson correlation of ln latency, over all runs.
    pub pcc_ln: f64,
    /// Pearson correlation of microseconds, over all runs.
    pub pcc_us: f64,
    /// Spearman rank correlation, over all runs.
    pub spearman: f64,
    /// Share predicted within a factor of 2.
    pub within_2x: f64,
    /// Share predicted within 25 %.
    pub within_25_percent: f64,
    /// Median of |prediction - truth| / truth.
    pub median_relative_error: f64,
    /// Pearson correlation of ln latency inside each run, the mean over runs.
    pub mean_pcc_in_run: f64,
    /// Of pairs at most 16 requests apart whose latencies differ by more than 10 %, the share ordered correctly; 0.5 is chance.
    pub pair_order: f64,
}

impl LatencyQuality {
    /// Of predictions by run.
    pub fn of(runs: &[PredictedRun]) -> LatencyQuality {
        let all: Vec<Predicted> = runs.iter().flat_map(|run| run.stretches.iter().flatten().copied()).collect();
        let share =
            |is: &dyn Fn(&Predicted) -> bool| all.iter().filter(|p| is(p)).count() as f64 / all.len().max(1) as f64;
        let mut errors: Vec<f64> = all.iter().map(|p| (p.predicted - p.truth).abs() / p.truth).collect();
        errors.sort_by(f64::total_cmp);
        let in_runs: Vec<f64> = runs
            .iter()
            .filter(|run| !run.stretches.is_empty())
            .map(|run| pcc_ln(run.stretches.iter().flatten()))
            .collect();
        let column = |value: fn(&Predicted) -> f64| all.iter().map(value).collect::<Vec<f64>>();
        let (truth, predicted) = (column(|p| p.truth), column(|p| p.predicted));
        LatencyQuality {
            pcc_ln: pcc_ln(all.iter()),
            pcc_us: pearson(&truth, &predicted),
            spearman: pearson(&ranks(&truth), &ranks(&predicted)),
            within_2x: share(&|p| p.predicted <= 2.0 * p.truth && p.truth <= 2.0 * p.predicted),
            within_25_percent: share(&|p| (p.predicted - p.truth).abs() <= 0.25 * p.truth),
            median_relative_error: errors.get(errors.len() / 2).copied().unwrap_or(0.0),
            mean_pcc_in_run: in_runs.iter().sum::<f64>() / in_runs.len().max(1) as f64,
            pair_order: pair_order(runs),
        }
    }
}

fn pcc_ln<'a>(predictions: impl Iterator<Item = &'a Predicted>) -> f64 {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for p in predictions {
        x.push(libm::log(p.truth.max(1.0)));
        y.push(libm::log(p.predicted.max(1.0)));
    }
    pearson(&x, &y)
}

/// Pearson correlation; 0 where one of both does not vary.
pub fn pearson(x: &[f64], y: &[f64]) -> f64 {
    let n = x.len().max(1) as f64;
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (x, y) = (x - mean_x, y - mean_y);
        (xx, yy, xy) = (xx + x * x, yy + y * y, xy + x * y);
    }
    let product = (xx * yy).sqrt();
    if product > 0.0 { xy / product } else { 0.0 }
}

/// Ranks from 0; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = first as f64 + (equal.len() - 1) as f64 / 2.0;
        equal.iter().for_each(|&index| ranks[index] = rank);
        first += equal.len();
    }
    ranks
}

/// The share of pairs ordered correctly; equal predictions count half. 0.5 where there is no pair.
fn pair_order(runs: &[PredictedRun]) -> f64 {
    let (mut right, mut pairs) = (0.0, 0u64);
    for stretch in runs.iter().flat_map(|run| &run.stretches) {
        for (i, a) in stretch.iter().enumerate() {
            for b in stretch.iter().skip(i + 1).take(PAIR_DISTANCE) {
                if let Some(score) = pair_score(a, b) {
                    right += score;
                    pairs += 1;
                }
            }
        }
    }
    if pairs == 0 { 0.5 } else { right / pairs as f64 }
}

/// 1 if the pair is ordered correctly, 0.5 if predicted equal, 0 if not; `None` if its latencies hardly differ.
fn pair_score(a: &Predicted, b: &Predicted) -> Option<f64> {
    let (shorter, longer) = if a.truth <= b.truth { (a, b) } else { (b, a) };
    (longer.truth > PAIR_DIFFERENCE * shorter.truth).then(|| match shorter.predicted.total_cmp(&longer.predicted) {
        std::cmp::Ordering::Less => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Greater => 0.0,
    })
}
