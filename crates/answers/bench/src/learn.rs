//! Time of one inference of the shipped models.

use std::hint::black_box;
use std::time::Instant;

use dumbwaiter_block::{IoTag, Nanos, Op};
use dumbwaiter_experiment::Failure;
use dumbwaiter_learn::{Classifier, History, Kind, LatencyModel, Place, RequestVector, shipped};
use dumbwaiter_report::{Align, Style, table};
use serde::Serialize;

/// One model at one number of rows.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The model.
    pub model: String,
    /// Requests predicted at one moment of the device.
    pub rows: usize,
    /// Time of one prediction, in nanoseconds: the tenth percentile of the rounds, which other load on the machine hardly moves.
    pub ns_per_inference: f64,
    /// The median of the rounds.
    pub median_ns_per_inference: f64,
}

const ROUNDS: usize = 101;
/// Predictions between two readings of the clock.
const GROUP: usize = 640;
/// Candidates of one dispatch.
const ROWS: [usize; 2] = [1, 16];

/// Measures every shipped model.
pub fn run() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for name in shipped::NAMES {
        let refused = |error: String| Failure::refused(format!("shipped:{name}: {error}"));
        let model = shipped::model(name).ok_or_else(|| refused("it is missing".to_owned()))?;
        let model = model.map_err(|error| refused(error.to_string()))?;
        if model.about.kind == Kind::Classifier {
            let classifier = model.classifier().map_err(|error| refused(error.to_string()))?;
            rows.push(row(name, 1, || classify(&classifier)));
        } else {
            let latency = model.latency().map_err(|error| refused(error.to_string()))?;
            rows.extend(ROWS.map(|count| row(name, count, || predict(&latency, count))));
        }
    }
    Ok(rows)
}

/// The rows as a table.
pub fn text(rows: &[Row], style: Style) -> String {
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|r| {
            let (fast, median) = (format!("{:.0}", r.ns_per_inference), format!("{:.0}", r.median_ns_per_inference));
            vec![r.model.clone(), r.rows.to_string(), fast, median]
        })
        .collect();
    let header = [
        ("model", Align::Left),
        ("rows", Align::Right),
        ("ns per inference (p10)", Align::Right),
        ("median", Align::Right),
    ];
    format!("{}\nrows: predictions at one moment of the device\n", table(&header, &lines, style))
}

fn row(name: &str, rows: usize, mut group: impl FnMut()) -> Row {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            group();
            started.elapsed().as_nanos() as f64 / GROUP as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    Row {
        model: format!("shipped:{name}"),
        rows,
        ns_per_inference: times[ROUNDS / 10],
        median_ns_per_inference: times[ROUNDS / 2],
    }
}

/// A history that changes from prediction to prediction, as it does between two completions.
fn step(history: &mut History, index: usize) -> RequestVector {
    let op = if index.is_multiple_of(3) { Op::Write } else { Op::Read };
    let request = RequestVector::new(op, 4096 << (index % 5), IoTag::UNKNOWN);
    history.push(request, index as i64 * 977 - 300_000, Nanos(80_000 + 1_000 * (index as u64 % 64)));
    request
}

fn warm() -> History {
    let mut history = History::new();
    for index in 0..16 {
        step(&mut history, index);
    }
    history
}

fn classify(classifier: &Classifier) {
    let history = warm();
    for _ in 0..GROUP {
        black_box(classifier.posterior(black_box(&history)));
    }
}

fn predict(model: &LatencyModel, rows: usize) {
    let mut history = warm();
    let request = step(&mut history, 17);
    for _ in 0..GROUP / rows {
        let moment = model.moment(black_box(&history));
        for row in 0..rows {
            let place = Place { gap: row as i64 * 4096, angle: [0.6, 0.8], position: 0.5, region: 0.1, depth: 4 };
            black_box(model.predict(&moment, black_box(&request), &place));
        }
    }
}
