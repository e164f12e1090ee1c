//! How far a logger's clock is from the host's, by a pattern of load that shows in the logged power.

use super::logger::{Logger, LoggerClock, Sample};

/// Idle, load, idle: seconds of each.
const PART: f64 = 20.0;
const WHOLE: f64 = 3.0 * PART;
/// Clocks further apart than this, in seconds, are not searched: set the logger before.
const REACH: i32 = 120;
/// Steps of the search in a second.
const STEPS: i32 = 10;
/// A worse correlation is no pattern.
const LEAST: f64 = 0.8;
/// A worse fit, in seconds, is refused.
const RESIDUAL: f64 = 1.0;

pub(crate) fn align(logger: &Logger, patterns: &[f64]) -> Result<LoggerClock, String> {
    if patterns.len() < 2 {
        return Err(format!(
            "{} pattern of load; the clock needs two or more, before and after the runs",
            patterns.len()
        ));
    }
    let found: Result<Vec<(f64, f64)>, String> =
        patterns.iter().map(|start| Ok((*start, offset(&logger.samples, *start)?))).collect();
    let found = found?;
    // The straight line that fits best.
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
    if worst > RESIDUAL {
        return Err(format!("the clocks do not fit: {worst:.1} s off at a pattern, at most {RESIDUAL} s are accepted"));
    }
    Ok(clock)
}

/// Seconds by which the pattern that began at `start` shows later in the log.
fn offset(samples: &[Sample], start: f64) -> Result<f64, String> {
    let reach = f64::from(REACH);
    let near: Vec<(f64, f64)> = samples
        .iter()
        .filter_map(|s| Some((s.at - start, s.watts?)))
        .filter(|(t, _)| (-reach..reach + WHOLE).contains(t))
        .collect();
    let scores: Vec<f64> = (-REACH * STEPS..=REACH * STEPS)
        .map(|step| correlation(&near, f64::from(step) / f64::from(STEPS)).unwrap_or(f64::MIN))
        .collect();
    let best = scores.iter().copied().fold(f64::MIN, f64::max);
    if best < LEAST {
        let best = if best == f64::MIN { "no samples".to_owned() } else { format!("correlation {best:.2}") };
        return Err(format!("no pattern of load within {REACH} s of {start:.0} ({best})"));
    }
    // Between two samples nothing changes: the middle of the first stretch that is as good as the best.
    let first = scores.iter().position(|s| *s == best).unwrap_or_default();
    let last = first + scores[first..].iter().take_while(|s| **s == best).count() - 1;
    Ok((first + last) as f64 / 2.0 / f64::from(STEPS) - reach)
}

/// Correlation of the logged power with the pattern, if it shows `offset` later; -1 to 1.
fn correlation(near: &[(f64, f64)], offset: f64) -> Option<f64> {
    let inside = || near.iter().filter(|(t, _)| (0.0..WHOLE).contains(&(t - offset)));
    let wave = |t: f64| f64::from(u8::from((PART..2.0 * PART).contains(&(t - offset))));
    let n = inside().count() as f64;
    if n < 9.0 {
        return None;
    }
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

    /// A log of 1 Hz and whole watts of a machine that runs the pattern at the times given.
    fn log(offset: f64, drift: f64, patterns: &[f64], seconds: u32) -> Logger {
        let begin = patterns[0];
        let mut text = String::from("\"Date Time, GMT+00:00\",\"Power, W\"\n");
        for s in 0..seconds {
            // What the logger shows at its s-th sample, and when that is.
            let shown = f64::from(s);
            let host = (shown - 200.0 - offset) / (1.0 + drift) + begin;
            let load = patterns.iter().any(|p| (PART..2.0 * PART).contains(&(host - p)));
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
}
