//! CSV files of external power loggers (as Onset's HOBO loggers export them), read after the runs.

use std::io::Read;
use std::path::Path;

use crate::meters::energy::{Energy, Source};
use crate::meters::files::MeterError;
use crate::meters::logger_clock::{self, LoggerClock, Sample};
use crate::meters::logger_time;

/// Longest gap between samples, in periods, that a run may contain.
const GAP_PERIODS_MAX: f64 = 3.0;
/// Resolution of the loggers, W.
const STEP_W: f64 = 1.0;

/// Longest line.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Largest file that is read: decades of samples each second.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The samples of a logger's file.
#[derive(Clone, Debug)]
pub struct Logger {
    name: String,
    pub(crate) samples: Vec<Sample>,
    /// Serial number of the logger, if the file contains it.
    pub serial: Option<String>,
    /// Rows without values: marks such as "Started".
    pub marks: u64,
    /// Median time between samples, s.
    pub period: f64,
    /// Resolution of the energy column, J.
    energy_step: Option<f64>,
}

/// Quantity in a column, with its factor to watts or joules.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Power(f64),
    Energy(f64),
}

/// The header of a file: where its columns are.
struct Header {
    /// Number of its line, from 1.
    line: usize,
    separator: char,
    titles: Vec<String>,
    date: usize,
    /// The column of the time, if date and time have one each.
    time: Option<usize>,
    power: Option<(usize, Column)>,
    energy: Option<(usize, Column)>,
    /// Minutes east of Greenwich.
    zone: i32,
}

impl Header {
    /// Finds the header in the first 20 lines.
    fn find<'a>(
        name: &str,
        lines: &mut impl Iterator<Item = (usize, &'a str)>,
        zone: Option<i32>,
    ) -> Result<Header, MeterError> {
        let fail = |line: usize, what: String| MeterError(format!("{name}, line {line}: {what}"));
        let found = lines.take(20).find_map(|(line, text)| {
            // A cell may contain commas: the separator is the one that gives the most cells.
            let candidates = ['\t', ';', ','].map(|s| (s, cells(text, s)));
            let (separator, titles) = candidates.into_iter().rev().max_by_key(|(_, cells)| cells.len())?;
            let is_header = titles.len() > 1 && titles.iter().any(|c| is_date(c));
            is_header.then_some((line, separator, titles))
        });
        let (line, separator, titles) =
            found.ok_or_else(|| fail(1, "no header: expected a column that begins with \"Date Time\"".into()))?;
        let column_of = |want: fn(&Column) -> bool| {
            let mut all = titles.iter().enumerate().filter_map(|(i, c)| Some((i, column(c)?)));
            all.find(|(_, c)| want(c))
        };
        let power = column_of(|c| matches!(c, Column::Power(_)));
        let energy = column_of(|c| matches!(c, Column::Energy(_)));
        if power.is_none() && energy.is_none() {
            let what = "no column of power or energy with its unit (W, kW, Wh, kWh)";
            return Err(fail(line, format!("{what}; found {}", titles.join(" | "))));
        }
        let zone = titles.iter().find_map(|c| logger_time::zone(c)).or(zone);
        let zone = zone.ok_or_else(|| fail(line, "the header has no time zone (GMT-05:00): give it".into()))?;
        let date = titles.iter().position(|c| is_date(c)).unwrap_or_default();
        let time = titles.iter().position(|c| c.to_ascii_lowercase().starts_with("time"));
        Ok(Header { line, separator, titles, date, time, power, energy, zone })
    }

    /// The logger's serial number, if a title has it.
    fn serial(&self) -> Option<String> {
        self.titles.iter().find_map(|c| {
            let (_, rest) = c.split_once("S/N:")?;
            Some(rest.trim().chars().take_while(|c| c.is_ascii_alphanumeric()).collect())
        })
    }

    /// The sample in a row, with the number of decimals of its energy; `None` for a row without values.
    fn sample(&self, row: &[String]) -> Result<Option<(Sample, usize)>, String> {
        let cell = |i: usize| row.get(i).map_or("", String::as_str);
        let value = |column: Option<(usize, Column)>| -> Result<Option<(f64, usize)>, String> {
            let Some((i, kind)) = column.filter(|(i, _)| !cell(*i).is_empty()) else { return Ok(None) };
            let (Column::Power(factor) | Column::Energy(factor)) = kind;
            let (value, decimals) = number(cell(i))
                .ok_or_else(|| format!("expected a number at \"{}\", found \"{}\"", self.titles[i], cell(i)))?;
            // A finite number of kilowatts may be too many watts.
            let value = Some(value * factor).filter(|v| v.is_finite());
            let value = value.ok_or_else(|| format!("\"{}\" at \"{}\" is too large", cell(i), self.titles[i]))?;
            Ok(Some((value, decimals)))
        };
        let (watts, joules) = (value(self.power)?, value(self.energy)?);
        if watts.is_none() && joules.is_none() {
            return Ok(None);
        }
        let stamp = match self.time {
            Some(time) => format!("{} {}", cell(self.date), cell(time)),
            None => cell(self.date).to_owned(),
        };
        let at = logger_time::parse(&stamp)? - f64::from(self.zone) * 60.0;
        let sample = Sample { at, watts: watts.map(|(w, _)| w), joules: joules.map(|(j, _)| j), line: 0 };
        Ok(Some((sample, joules.map_or(0, |(_, d)| d))))
    }
}

impl Logger {
    /// Reads a file. `zone` is the logger's offset from UTC in minutes, for files whose header has none.
    ///
    /// # Errors
    /// A file that is not a regular file, is larger than 1 GiB, or does not parse.
    pub fn open(path: &Path, zone: Option<i32>) -> Result<Logger, MeterError> {
        Logger::parse(&path.display().to_string(), &read_whole(path, FILE_BYTES_MAX)?, zone)
    }

    /// Parses the text of a file; error messages call it `name`.
    ///
    /// # Errors
    /// No header, no column of power or energy, no time zone, a bad cell, or fewer than two samples; with the line.
    pub fn parse(name: &str, text: &str, zone: Option<i32>) -> Result<Logger, MeterError> {
        let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate().map(|(i, l)| (i + 1, l));
        // A cell takes more memory than its separator: a line of separators alone would take 24 times the file.
        if let Some((line, text)) = lines.clone().find(|(_, text)| text.len() > LINE_BYTES_MAX) {
            return Err(MeterError(format!("{name}, line {line}: {} bytes; expected at most 1 MiB", text.len())));
        }
        let header = Header::find(name, &mut lines, zone)?;
        let mut logger = Logger {
            name: name.into(),
            samples: Vec::new(),
            serial: header.serial(),
            marks: 0,
            period: 0.0,
            energy_step: None,
        };
        let mut decimals = 0;
        for (line, text) in lines {
            let row = cells(text, header.separator);
            match header.sample(&row).map_err(|what| MeterError(format!("{name}, line {line}: {what}")))? {
                Some((sample, joules_decimals)) => {
                    decimals = decimals.max(joules_decimals);
                    logger.samples.push(Sample { line, ..sample });
                }
                None => logger.marks += u64::from(row.iter().any(|c| !c.is_empty())),
            }
        }
        let mut steps: Vec<f64> = logger.samples.windows(2).map(|w| w[1].at - w[0].at).filter(|d| *d > 0.0).collect();
        if steps.is_empty() {
            return Err(MeterError(format!("{name}, line {}: fewer than two samples follow", header.line)));
        }
        steps.sort_by(f64::total_cmp);
        logger.period = steps[steps.len() / 2];
        if let Some((_, Column::Energy(factor))) = header.energy {
            logger.energy_step = Some(factor * 10f64.powi(-i32::try_from(decimals).unwrap_or(0)));
        }
        Ok(logger)
    }

    /// Logger time of the last sample, s since 1970; NaN without samples.
    pub fn last(&self) -> f64 {
        self.samples.last().map_or(f64::NAN, |s| s.at)
    }

    /// Finds the offset and drift of the clock from at least two load patterns that ran at known host times: each is 20
    /// s idle, 20 s at full load, 20 s idle, from the given time (s since 1970).
    ///
    /// # Errors
    /// Fewer than two patterns, or one that is not in the log.
    pub fn align(&self, patterns: &[f64]) -> Result<LoggerClock, MeterError> {
        logger_clock::align(&self.samples, patterns).map_err(|e| MeterError(format!("{}: {e}", self.name)))
    }

    /// Energy from `start` to `end`, host times in s since 1970.
    ///
    /// # Errors
    /// An interval outside the log, or with a gap or a falling clock in it.
    pub fn energy(&self, start: f64, end: f64, clock: &LoggerClock) -> Result<Energy, MeterError> {
        let fail = |what: String| MeterError(format!("{}: {what}", self.name));
        let (from, to) = (clock.shows(start), clock.shows(end));
        let seconds = end - start;
        if seconds.is_nan() || seconds <= 0.0 {
            return Err(fail(format!("an interval that ends {seconds} s after its start")));
        }
        // The samples of the run and one beyond each end.
        let first = self.samples.iter().position(|s| s.at > from).and_then(|i| i.checked_sub(1));
        let first = first.ok_or_else(|| fail("the run began before the first sample, or after the last".into()))?;
        let count = self.samples[first..].iter().position(|s| s.at >= to);
        let count = count.ok_or_else(|| fail("the run ended after the last sample".into()))?;
        let run = &self.samples[first..=first + count];
        for pair in run.windows(2) {
            let step = pair[1].at - pair[0].at;
            if step <= 0.0 {
                return Err(fail(format!("line {}: the clock stops or goes back during the run", pair[1].line)));
            }
            if step > GAP_PERIODS_MAX * self.period {
                return Err(fail(format!("line {}: {step} s without a sample during the run", pair[1].line)));
            }
        }
        let by_energy = self.by_energy(run, from, to);
        let joules = match by_energy {
            Some(joules) => joules,
            None => self.by_power(run, from, to)?,
        };
        // Two errors: the rounding of each sample, and the half second at each end in which power may have stepped.
        let watts: Vec<f64> = run.iter().filter_map(|s| s.watts).collect();
        let high = watts.iter().copied().fold(f64::MIN, f64::max);
        let low = watts.iter().copied().fold(f64::MAX, f64::min);
        let sigma = (!watts.is_empty()).then(|| {
            let rounding = STEP_W * STEP_W / 12.0 / watts.len() as f64;
            let edge = (high - low) * 0.5 / seconds;
            seconds * (rounding + edge * edge).sqrt()
        });
        let least = 60.0 * self.period;
        let warning = (seconds < least)
            .then(|| format!("samples every {:.1} s tell little of less than {least:.0} s", self.period));
        let part = if by_energy.is_some() { "energy column" } else { "power column, integrated" };
        Ok(Energy { joules, source: Source::LoggerCsv, parts: vec![(part.into(), joules)], seconds, sigma, warning })
    }

    /// Energy by the cumulative column, if its resolution suffices for this run.
    fn by_energy(&self, run: &[Sample], from: f64, to: f64) -> Option<f64> {
        let points: Option<Vec<(f64, f64)>> = run.iter().map(|s| Some((s.at, s.joules?))).collect();
        let points = points.filter(|p| p.windows(2).all(|w| w[1].1 >= w[0].1))?;
        let joules = at(&points, to)? - at(&points, from)?;
        (self.energy_step? <= joules * 1e-3).then_some(joules)
    }

    /// Energy by the trapezoid rule over the power column, interpolated at both ends.
    fn by_power(&self, run: &[Sample], from: f64, to: f64) -> Result<f64, MeterError> {
        let points: Option<Vec<(f64, f64)>> = run.iter().map(|s| Some((s.at, s.watts?))).collect();
        let none = || MeterError(format!("{}: neither power nor a fine enough energy during the run", self.name));
        let points = points.ok_or_else(none)?;
        let mut all = vec![(from, at(&points, from).ok_or_else(none)?)];
        all.extend(points.iter().copied().filter(|(t, _)| *t > from && *t < to));
        all.push((to, at(&points, to).ok_or_else(none)?));
        Ok(all.windows(2).map(|w| (w[1].0 - w[0].0) * (w[0].1 + w[1].1) / 2.0).sum())
    }
}

/// Linear interpolation between points.
fn at(points: &[(f64, f64)], time: f64) -> Option<f64> {
    let pair = points.windows(2).find(|w| w[0].0 <= time && time <= w[1].0)?;
    let share = (time - pair[0].0) / (pair[1].0 - pair[0].0);
    Some(pair[0].1 + share * (pair[1].1 - pair[0].1))
}

/// The text of a regular file of at most `most` bytes.
fn read_whole(path: &Path, most: u64) -> Result<String, MeterError> {
    let fail = |e| MeterError::file("read", path, &e);
    // Checked before it is opened: opening a pipe can block for ever.
    let facts = std::fs::metadata(path).map_err(fail)?;
    if !facts.is_file() {
        return Err(MeterError(format!("{}: is not a regular file; expected a logger's CSV file", path.display())));
    }
    if facts.len() > most {
        let (name, bytes) = (path.display(), facts.len());
        return Err(MeterError(format!("{name}: has {bytes} bytes; expected a logger's CSV file of at most {most}")));
    }
    let mut text = String::new();
    // Lines that are appended meanwhile may be left out.
    std::fs::File::open(path).and_then(|file| file.take(most).read_to_string(&mut text)).map_err(fail)?;
    Ok(text.trim().to_owned())
}

fn is_date(cell: &str) -> bool {
    cell.to_ascii_lowercase().starts_with("date")
}

/// The quantity of a column such as `Active Power, W (LGR ...)`.
fn column(cell: &str) -> Option<Column> {
    let lower = cell.to_ascii_lowercase();
    let known = ["active power", "power", "watts", "active energy", "energy", "kwh", "wh", "kw", "w"];
    let plain = lower.split('(').next().unwrap_or_default();
    let words: Vec<&str> = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    if !known.iter().any(|k| lower.starts_with(k)) || words.contains(&"factor") {
        return None;
    }
    let unit = words.iter().rev().find_map(|w| match *w {
        "kwh" => Some(Column::Energy(3.6e6)),
        "wh" => Some(Column::Energy(3600.0)),
        "kw" => Some(Column::Power(1000.0)),
        "w" | "watts" => Some(Column::Power(1.0)),
        _ => None,
    });
    // The unit may be in the parentheses.
    unit.or_else(|| {
        let inside = lower.split_once('(')?.1;
        match inside.split(')').next()?.trim() {
            "kwh" => Some(Column::Energy(3.6e6)),
            "wh" => Some(Column::Energy(3600.0)),
            "kw" => Some(Column::Power(1000.0)),
            "w" => Some(Column::Power(1.0)),
            _ => None,
        }
    })
}

/// A number with a decimal point or comma, and its count of decimals.
fn number(text: &str) -> Option<(f64, usize)> {
    let text = if text.contains('.') { text.replace(',', "") } else { text.replace(',', ".") };
    let value: f64 = text.parse().ok().filter(|v: &f64| v.is_finite())?;
    Some((value, text.split_once('.').map_or(0, |(_, d)| d.len())))
}

/// Cells of a line; quotes keep separators together.
fn cells(line: &str, separator: char) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c == separator && !quoted => all.push(String::new()),
            c => all.last_mut().into_iter().for_each(|cell| cell.push(c)),
        }
    }
    all.iter_mut().for_each(|c| *c = c.trim().to_owned());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const VENDOR: &str = "\u{feff}\"Plot Title: run-17\"\r\n\"#\",\"Date Time, GMT-05:00\",\"Active Power, W (LGR S/N: 10345678, SEN S/N: 10345678)\",\"Active Energy, Wh (LGR S/N: 10345678)\",\"Started (LGR S/N: 10345678)\",\"End Of File\"\r\n1,03/28/23 02:15:00 PM,,,Logged,\r\n2,03/28/23 02:15:01 PM,40.0,0.000,,\r\n3,03/28/23 02:15:02 PM,40.0,0.011,,\r\n4,03/28/23 02:15:03 PM,60.0,0.022,,\r\n5,03/28/23 02:15:04 PM,60.0,0.039,,\r\n6,03/28/23 02:15:05 PM,60.0,0.056,,\r\n7,03/28/23 02:15:06 PM,,,,Logged\r\n";
    /// 02:15:01 PM at GMT-5.
    const FIRST: f64 = 1_680_012_901.0 + 5.0 * 3600.0;

    #[test]
    fn a_vendor_file_is_read() {
        let logger = Logger::parse("run.csv", VENDOR, None).unwrap();
        assert_eq!((logger.samples.len(), logger.marks, logger.period), (5, 2, 1.0));
        assert_eq!(logger.serial.as_deref(), Some("10345678"));
        assert_eq!(logger.samples[0].at, FIRST);
        // 40 W for 1 s, 40 to 60 W for 1 s, 60 W for 1.5 s. The energy column's step of 3.6 J is too coarse here.
        let energy = logger.energy(FIRST, FIRST + 3.5, &LoggerClock::SAME).unwrap();
        assert!((energy.joules - 180.0).abs() < 1e-6, "{energy:?}");
        assert_eq!(energy.source, Source::LoggerCsv);
        assert!(energy.warning.is_some() && energy.sigma.is_some_and(|s| s > 0.0));
        // The same from a clock that is 7 s ahead.
        let ahead = LoggerClock { offset: 7.0, drift: 0.0, reference: FIRST };
        assert!((logger.energy(FIRST - 7.0, FIRST - 3.5, &ahead).unwrap().joules - 180.0).abs() < 1e-6);
    }

    #[test]
    fn long_lines_are_refused_in_the_header_too() {
        for text in [",".repeat(2 << 20), format!("{VENDOR}8,{}\r\n", ",".repeat(2 << 20))] {
            let said = Logger::parse("x", &text, None).unwrap_err().to_string();
            assert!(said.contains("expected at most 1 MiB"), "{said}");
        }
    }

    #[test]
    fn large_and_special_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.csv");
        std::fs::write(&path, VENDOR).unwrap();
        assert_eq!(Logger::open(&path, None).unwrap().samples.len(), 5);
        let bytes = VENDOR.len() as u64;
        assert_eq!(read_whole(&path, bytes).unwrap(), VENDOR.trim());
        let said = read_whole(&path, bytes - 1).unwrap_err().to_string();
        assert!(said.contains(&format!("has {bytes} bytes")) && said.contains("log.csv"), "{said}");
        // Sparse: it would not fit into memory.
        std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(Logger::open(&path, None).unwrap_err().to_string().contains("at most 1073741824"));
        for other in [Path::new("/dev/null"), dir.path()] {
            assert!(Logger::open(other, None).unwrap_err().to_string().contains("regular file"));
        }
    }

    #[test]
    fn other_separators_decimal_commas_and_two_columns_of_time() {
        let text =
            "Date;Time, GMT+01:00;Power (kW);kWh\n2023-03-28;14:15:00;0,040;1,0\n2023-03-28;14:15:01;0,060;1,1\n";
        let logger = Logger::parse("x", text, None).unwrap();
        assert_eq!(logger.samples[0].at, 1_680_012_900.0 - 3600.0);
        assert_eq!(logger.samples[1].watts.map(f64::round), Some(60.0));
        assert_eq!(logger.samples[1].joules.map(f64::round), Some(3_960_000.0));
        let tabs = "Date Time\tWatts\n2023-03-28 14:15:00\t5\n2023-03-28 14:15:01\t6\n";
        assert!(Logger::parse("x", tabs, None).unwrap_err().to_string().contains("time zone"));
        assert_eq!(Logger::parse("x", tabs, Some(0)).unwrap().samples[0].at, 1_680_012_900.0);
    }

    #[test]
    fn the_energy_column_is_used_if_its_resolution_suffices() {
        let mut text = String::from("\"Date Time, GMT+00:00\",\"Power, W\",\"Energy, Wh\"\n");
        for s in 0..1800 {
            // 36 W by the column; the power column says something else.
            text += &format!("2023-03-28 {:02}:{:02}:{:02},99,{:.3}\n", s / 3600, s / 60 % 60, s % 60, s as f64 * 0.01);
        }
        let logger = Logger::parse("x", &text, None).unwrap();
        let start = logger.samples[0].at;
        let energy = logger.energy(start + 10.0, start + 1000.0, &LoggerClock::SAME).unwrap();
        assert!((energy.joules - 990.0 * 36.0).abs() < 1e-6, "{energy:?}");
        assert!(energy.warning.is_none());
    }

    #[test]
    fn errors_name_the_line() {
        let says = |text: &str, what: &str| {
            let said = Logger::parse("log.csv", text, Some(0)).unwrap_err().to_string();
            assert!(said.starts_with("log.csv, line ") && said.contains(what), "{said}");
        };
        let head = "Date Time,\"Power, W\"\n";
        says("nothing\nat all\n", "Date Time");
        says("Date Time,\"Voltage, V\"\n", "no column of power");
        says(&format!("{head}3/28/2023 14:15,40\n"), "no seconds");
        says(&format!("{head}2023-03-28 14:15:00,forty\n"), "forty");
        for watts in ["nan", "inf", "-inf", "1e999"] {
            says(&format!("{head}2023-03-28 14:15:00,{watts}\n"), watts);
        }
        says("Date Time,\"Power, kW\"\n2023-03-28 14:15:00,1e306\n", "too large");
        says(&format!("{head}{}\n", " ".repeat(2 << 20)), "at most 1 MiB");
        says(&format!("{head}2023-03-28 14:15:00,40\n"), "fewer than two");
    }

    #[test]
    fn gaps_and_falling_clocks_refuse_only_the_runs_that_contain_them() {
        let mut text = String::from("Date Time,\"Power, W\"\n");
        for s in (0..20).chain(30..40).chain(35..50) {
            text += &format!("2023-03-28 00:00:{s:02},50\n");
        }
        let logger = Logger::parse("x", &text, Some(0)).unwrap();
        let zero = logger.samples[0].at;
        let run = |from: f64, to: f64| logger.energy(zero + from, zero + to, &LoggerClock::SAME);
        assert_eq!(run(2.0, 12.0).unwrap().joules, 500.0);
        assert!(run(10.0, 32.0).unwrap_err().to_string().contains("11 s without a sample"));
        assert!(run(31.0, 45.0).unwrap_err().to_string().contains("goes back"));
        assert!(run(-5.0, 5.0).unwrap_err().to_string().contains("before the first sample"));
        assert!(run(48.0, 60.0).unwrap_err().to_string().contains("after the last"));
        assert!(run(5.0, 5.0).is_err());
    }
}
