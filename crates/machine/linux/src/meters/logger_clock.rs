//! Offset and drift of a logger's clock, found from load patterns that show in the logged power.

use std::ops::Range;

/// A sample; `at` is the logger's time, s since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: f64,
    pub(crate) watts: Option<f64>,
    pub(crate) joules: Option<f64>,
    /// Its line in the file, from 1.
    pub(crate) line: usize,
}

/// Difference between the clocks of logger and host: the logger is `offset` seconds ahead at `reference` (host time, s
/// since 1970) and gains `drift` seconds a second.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct LoggerClock {
    /// Time that the logger is ahead of the host, s.
    pub offset: f64,
    /// Time that the logger gains a second, s.
    pub drift: f64,
    /// Host time at which `offset` holds, s since 1970.
    pub reference: f64,
}

impl LoggerClock {
    /// A logger whose clock is synchronised with the host's.
    pub const SAME: LoggerClock = LoggerClock { offset: 0.0, drift: 0.0, reference: 0.0 };

    /// Logger time at a host time, s since 1970.
    pub fn shows(&self, host: f64) -> f64 {
        host + self.offset + self.drift * (host - self.reference)
    }
}

/// Length of each of the three parts of a pattern (idle, load, idle), s.
const PATTERN_PART_S: f64 = 20.0;
const PATTERN_S: f64 = 3.0 * PATTERN_PART_S;
/// Largest clock offset that is searched, s: set the logger's clock before.
const OFFSET_MAX_S: i32 = 120;
/// Steps of the search per second.
const STEPS_PER_S: i32 = 10;
/// Offsets that are searched.
const STEPS: usize = (2 * OFFSET_MAX_S * STEPS_PER_S + 1) as usize;
/// Largest drift of a clock; quartz has under 100 ppm.
const DRIFT_MAX: f64 = 1e-3;
/// How much two offsets may differ besides, for coarse samples, s.
const DRIFT_SLACK_S: f64 = 1.0;
/// Correlation below which there is no pattern.
const CORRELATION_MIN: f64 = 0.8;
/// Samples within a pattern below which it cannot be recognised.
const SAMPLES_MIN: usize = 9;
/// Residual of the fit above which it is refused, s.
const RESIDUAL_MAX_S: f64 = 1.0;

/// The clock whose offset and drift fit the patterns best.
pub(crate) fn align(samples: &[Sample], patterns: &[f64]) -> Result<LoggerClock, String> {
    if patterns.len() < 2 {
        return Err(format!(
            "{} pattern of load; the clock needs two or more, before and after the runs",
            patterns.len()
        ));
    }
    let found = offsets(samples, patterns)?;
    // Least-squares line.
    let n = found.len() as f64;
    let reference = found.iter().map(|(at, _)| at).sum::<f64>() / n;
    let offset = found.iter().map(|(_, o)| o).sum::<f64>() / n;
    let spread: f64 = found.iter().map(|(at, _)| (at - reference).powi(2)).sum();
    if spread <= 0.0 {
        return Err("the patterns of load have the same time".into());
    }
    let drift = found.iter().map(|(at, o)| (at - reference) * (o - offset)).sum::<f64>() / spread;
    let clock = LoggerClock { offset, drift, reference };
    let worst = found.iter().map(|(at, o)| (clock.shows(*at) - at - o).abs()).fold(0.0, f64::max);
    if worst > RESIDUAL_MAX_S {
        return Err(format!(
            "the clocks do not fit: {worst:.1} s off at a pattern, at most {RESIDUAL_MAX_S} s are accepted"
        ));
    }
    Ok(clock)
}

/// Each pattern's start and the offset at which it correlates best with the log, s. All patterns look the same, and short runs leave
/// them closer together than the search reaches: so the offsets of all must agree up to the drift that a clock may have.
fn offsets(samples: &[Sample], patterns: &[f64]) -> Result<Vec<(f64, f64)>, String> {
    let scores: Vec<Vec<f64>> = patterns.iter().map(|start| scores(samples, *start)).collect();
    for (start, scores) in patterns.iter().zip(&scores) {
        let best = scores.iter().copied().fold(f64::MIN, f64::max);
        if best < CORRELATION_MIN {
            let best = if best == f64::MIN { "no samples".to_owned() } else { format!("correlation {best:.2}") };
            return Err(format!("no pattern of load within {OFFSET_MAX_S} s of {start:.0} ({best})"));
        }
    }
    let begin = patterns[0];
    // The steps at which the pattern from `start` may lie if the first one lies at `step`.
    let window = |step: usize, start: f64| {
        let slack = ((DRIFT_MAX * (start - begin).abs() + DRIFT_SLACK_S) * f64::from(STEPS_PER_S)) as usize;
        step.saturating_sub(slack)..(step + slack + 1).min(STEPS)
    };
    let best_in = |scores: &[f64], steps: Range<usize>| scores[steps].iter().copied().fold(f64::MIN, f64::max);
    let fit = |step: usize| -> f64 {
        let others = patterns.iter().zip(&scores).skip(1);
        scores[0][step] + others.map(|(start, scores)| best_in(scores, window(step, *start))).sum::<f64>()
    };
    let fits: Vec<f64> = (0..STEPS).map(fit).collect();
    let first = middle_of_best(&fits, 0..STEPS);
    let found = patterns.iter().zip(&scores).enumerate().map(|(n, (start, scores))| {
        let steps = if n == 0 { first as usize..first as usize + 1 } else { window(first as usize, *start) };
        let best = best_in(scores, steps.clone());
        if best < CORRELATION_MIN {
            return Err(format!(
                "the patterns of load from {begin:.0} and {start:.0} are not both in the log, at clocks that differ by at most {} ppm \
                 (correlation {best:.2})",
                DRIFT_MAX * 1e6
            ));
        }
        let step = if n == 0 { first } else { middle_of_best(scores, steps) };
        Ok((*start, step / f64::from(STEPS_PER_S) - f64::from(OFFSET_MAX_S)))
    });
    found.collect()
}

/// The step with the best score; a correlation is constant between samples, so the middle of the first range that has it.
fn middle_of_best(scores: &[f64], steps: Range<usize>) -> f64 {
    let best = scores[steps.clone()].iter().copied().fold(f64::MIN, f64::max);
    let first = steps.start + scores[steps.clone()].iter().position(|s| *s == best).unwrap_or_default();
    let last = first + scores[first..steps.end].iter().take_while(|s| **s == best).count() - 1;
    (first + last) as f64 / 2.0
}

/// How well the pattern that began at `start` correlates with the log, at each step of the search.
fn scores(samples: &[Sample], start: f64) -> Vec<f64> {
    let reach = f64::from(OFFSET_MAX_S);
    let near: Vec<(f64, f64)> = samples
        .iter()
        .filter_map(|s| Some((s.at - start, s.watts?)))
        .filter(|(t, _)| (-reach..reach + PATTERN_S).contains(t))
        .collect();
    if near.len() < SAMPLES_MIN {
        return vec![f64::MIN; STEPS];
    }
    let offset = |step: usize| step as f64 / f64::from(STEPS_PER_S) - reach;
    (0..STEPS).map(|step| correlation(&near, offset(step)).unwrap_or(f64::MIN)).collect()
}

/// Correlation of the logged power with the pattern shifted by `offset`, -1 to 1; `None` with too few samples.
fn correlation(near: &[(f64, f64)], offset: f64) -> Option<f64> {
    let inside = || near.iter().filter(|(t, _)| (0.0..PATTERN_S).contains(&(t - offset)));
    let wave = |t: f64| f64::from(u8::from((PATTERN_PART_S..2.0 * PATTERN_PART_S).contains(&(t - offset))));
    let n = inside().count();
    if n < SAMPLES_MIN {
        return None;
    }
    let n = n as f64;
    let (mean_w, mean_p) = inside().fold((0.0, 0.0), |(w, p), (t, power)| (w + wave(*t) / n, p + power / n));
    let (mut both, mut ww, mut pp) = (0.0, 0.0, 0.0);
    for (t, power) in inside() {
        let (w, p) = (wave(*t) - mean_w, power - mean_p);
        both += w * p;
        ww += w * w;
        pp += p * p;
    }
    (ww > 0.0 && pp > 0.0).then(|| both / (ww * pp).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meters::Logger;

    /// A log, at 1 Hz and in whole watts, of a machine that runs the patterns at the given times.
    fn log(offset: f64, drift: f64, patterns: &[f64], seconds: u32) -> Logger {
        let begin = patterns[0];
        let mut text = String::from("\"Date Time, GMT+00:00\",\"Power, W\"\n");
        for s in 0..seconds {
            // Logger time and host time of sample s.
            let shown = f64::from(s);
            let host = (shown - 200.0 - offset) / (1.0 + drift) + begin;
            let load = patterns.iter().any(|p| (PATTERN_PART_S..2.0 * PATTERN_PART_S).contains(&(host - p)));
            let noise = f64::from(s * 7919 % 5) - 2.0;
            let watts = (40.0 + if load { 35.0 } else { 0.0 } + noise).round();
            text += &format!(
                "2023-03-{:02} {:02}:{:02}:{:02},{watts}\n",
                28 + s / 86_400,
                s / 3600 % 24,
                s / 60 % 60,
                s % 60
            );
        }
        Logger::parse("log", &text, None).unwrap()
    }

    #[test]
    fn offset_and_drift_are_found() {
        // The log's first sample is at midnight, and the first pattern 200 s (plus the offset) later.
        let begin = 1_679_961_600.0 + 200.0;
        let patterns = [begin, begin + 40_000.0];
        let logger = log(7.3, 23e-6, &patterns, 40_600);
        let clock = logger.align(&patterns).unwrap();
        for at in patterns {
            let expected = 7.3 + 23e-6 * (at - begin);
            let found = clock.shows(at) - at;
            assert!((found - expected).abs() <= 0.5, "{found} for {expected}");
        }
        assert!(logger.align(&patterns[..1]).is_err());
        let elsewhere = logger.align(&[begin, begin + 20_000.0]).unwrap_err().to_string();
        assert!(elsewhere.contains("no pattern"), "{elsewhere}");
    }

    /// After short runs the second pattern is nearer to the first than the search reaches, and looks the same.
    #[test]
    fn patterns_close_together_are_not_taken_for_each_other() {
        let begin = 1_679_961_600.0 + 200.0;
        for apart in [62.0, 82.0, 115.0, 240.0] {
            for offset in [7.3, -60.0, 90.0] {
                let patterns = [begin, begin + apart];
                let clock = log(offset, 0.0, &patterns, 900).align(&patterns).unwrap();
                assert!(clock.drift.abs() <= 1.0 / apart, "{apart} s apart: drift {}", clock.drift);
                let found = clock.shows(begin) - begin;
                assert!((found - offset).abs() <= 1.0, "{apart} s apart: {found} for {offset}");
            }
        }
        // Only one of the two patterns is in the log.
        let lost = log(7.3, 0.0, &[begin], 900).align(&[begin, begin + 82.0]).unwrap_err().to_string();
        assert!(lost.contains("not both in the log"), "{lost}");
    }
}
