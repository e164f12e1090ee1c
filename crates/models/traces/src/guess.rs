//! What the values of a column look like: units and meanings that are proposed, never taken.

use super::columns::{Columns, OpStyle, same_meaning};
use super::number;
use super::operation;
use super::table::{is_event, takes};
use super::text::header;

/// Lines whose values decide.
const LINES_SAMPLED: usize = 16;

/// Some values of a column.
pub(crate) struct Sample<'a>(Vec<&'a str>);

impl<'a> Sample<'a> {
    pub(crate) fn of(values: impl Iterator<Item = &'a str>) -> Sample<'a> {
        Sample(values.collect())
    }

    fn all(&self, is: impl Fn(&str) -> bool) -> bool {
        !self.0.is_empty() && self.0.iter().all(|value| is(value))
    }

    fn numbers(&self) -> Vec<f64> {
        let mut numbers: Vec<f64> = self.0.iter().filter_map(|value| value.parse().ok()).collect();
        numbers.sort_unstable_by(f64::total_cmp);
        numbers
    }

    /// The value in the middle.
    fn median(&self) -> Option<f64> {
        let numbers = self.numbers();
        numbers.get(numbers.len() / 2).copied()
    }

    fn whole(&self) -> bool {
        self.all(|value| number::unsigned(value.as_bytes()).is_some())
    }

    /// Most decimals of a value.
    fn decimals(&self) -> usize {
        self.0.iter().filter_map(|value| value.split_once('.')).map(|(_, places)| places.len()).max().unwrap_or(0)
    }

    /// Digits that stand for reads and writes.
    pub(crate) fn digits(&self) -> bool {
        self.all(|value| value == "0" || value == "1")
    }

    /// Words of operations.
    pub(crate) fn operations(&self) -> bool {
        self.all(|value| operation::op(value.as_bytes(), OpStyle::Letter).is_some())
    }

    /// Letters of blkparse's events, some of which are no operations.
    pub(crate) fn events(&self) -> bool {
        let letter =
            |value: &str| matches!(value, "Q" | "G" | "I" | "D" | "C" | "M" | "F" | "P" | "U" | "X" | "A" | "S");
        let word = |value: &str| value.starts_with("block_");
        self.all(|value| letter(value) || word(value)) && !self.operations()
    }

    /// Events of which at least one counts as the arrival of a request.
    pub(crate) fn tells_requests(&self) -> bool {
        self.0.iter().any(|value| is_event(value.as_bytes()))
    }

    /// The likely unit of arrival times: seconds if they have decimals, else by the size of a time since 1970 (or 1601).
    pub(crate) fn time_unit(&self) -> &'static str {
        match self.0.first() {
            Some(v) if v.contains(['.', ':']) => "s",
            Some(v) => match v.parse::<u64>().unwrap_or(0) {
                1_000_000_000..=9_999_999_999 => "s",
                1_000_000_000_000..=9_999_999_999_999 => "ms",
                100_000_000_000_000_000..=199_999_999_999_999_999 => "100ns",
                1_000_000_000_000_000_000.. => "ns",
                _ => "us",
            },
            None => "us",
        }
    }

    /// The likely unit of latencies beside arrivals in `time`: the first in which the one in the middle is between 1 us and 10 s.
    pub(crate) fn latency_unit(&self, time: &'static str) -> &'static str {
        let order: &[&'static str] = match self.decimals() {
            0 => &[time, "us", "100ns", "ns", "ms", "s"],
            1..=4 => &["ms", "us", "s"],
            _ => &["s", "ms", "us"],
        };
        let ns = |unit: &str| match unit {
            "s" => 1e9,
            "ms" => 1e6,
            "us" => 1e3,
            "100ns" => 100.0,
            _ => 1.0,
        };
        let Some(median) = self.median() else { return time };
        let likely = |unit: &&&'static str| (1e3..=1e10).contains(&(median * ns(unit)));
        order.iter().find(likely).copied().unwrap_or(order[0])
    }

    /// Bytes where every value is a multiple of 512, else sectors.
    pub(crate) fn length_unit(&self) -> &'static str {
        if self.all(|v| v.parse::<u64>().is_ok_and(|n| n.is_multiple_of(512))) { "bytes" } else { "sectors" }
    }
}

/// A list of columns in the making: each meaning once.
pub(crate) struct Proposal(Vec<String>);

impl Proposal {
    pub(crate) fn new(columns: usize) -> Proposal {
        Proposal(vec!["_".to_owned(); columns])
    }

    /// Takes a column with these values, unless another has its meaning or they are none of it.
    pub(crate) fn add(&mut self, at: usize, column: &str, values: &Sample) {
        if !self.has(column) && values.0.iter().all(|value| takes(column, value.as_bytes())) {
            column.clone_into(&mut self.0[at]);
        }
    }

    fn has(&self, column: &str) -> bool {
        self.0.iter().any(|other| same_meaning(other, column))
    }

    /// Finds an operation, an offset and a size by their values among the columns without a meaning.
    pub(crate) fn complete(&mut self, samples: &[Sample]) {
        let free = |proposal: &Proposal, is: &dyn Fn(&Sample) -> bool| -> Vec<usize> {
            (0..samples.len()).filter(|i| proposal.0[*i] == "_" && is(&samples[*i])).collect()
        };
        if let (false, [at, ..]) = (self.has("op"), free(self, &|sample| sample.operations()).as_slice()) {
            self.add(*at, "op", &samples[*at]);
        }
        if !self.has("offset_bytes") {
            // A number that is always the same is rather a device.
            let largest = |i: &usize| {
                let numbers = samples[*i].numbers();
                (numbers.first() < numbers.last(), numbers.last().map_or(0, |n| *n as u64))
            };
            let found =
                free(self, &|sample| sample.whole()).into_iter().filter(|i| largest(i).1 >= 512).max_by_key(largest);
            if let Some(at) = found {
                self.add(at, &format!("offset_{}", samples[at].length_unit()), &samples[at]);
            }
        }
    }

    /// The list, if a trace can be read by it.
    pub(crate) fn list(&self) -> Option<String> {
        let list = self.0.join(",");
        Columns::parse(&list).is_ok().then_some(list)
    }
}

/// The columns that lines without a header may have, as of `blkparse -f` and bpftrace's `printf`.
pub(crate) fn columns_of(lines: &[&[u8]]) -> Option<String> {
    let lines: Vec<&str> =
        lines.iter().filter(|l| !header(l)).filter_map(|l| std::str::from_utf8(l).ok()).take(LINES_SAMPLED).collect();
    let first = lines.first()?;
    let delimiter = [',', ';', '\t', '|'].into_iter().find(|d| first.matches(*d).count() >= 2).unwrap_or(' ');
    let split = |line: &&'_ str| -> Vec<String> {
        let fields = line.split(delimiter).map(|f| f.trim().to_owned());
        fields.filter(|f| delimiter != ' ' || !f.is_empty()).collect()
    };
    let rows: Vec<Vec<String>> = lines.iter().map(split).collect();
    let width = rows[0].len();
    if !(3..=32).contains(&width) {
        return None;
    }
    let rows: Vec<&Vec<String>> = rows.iter().filter(|row| row.len() == width).collect();
    let samples: Vec<Sample> = (0..width).map(|i| Sample::of(rows.iter().map(|row| row[i].as_str()))).collect();
    let mut proposed = Proposal::new(width);
    let clock = |value: &str| number::clock(value.as_bytes()).map(|(ns, _)| ns as f64);
    let increases = |sample: &Sample| {
        let numbers: Option<Vec<f64>> = sample.0.iter().map(|v| v.parse().ok().or_else(|| clock(v))).collect();
        numbers.is_some_and(|numbers| numbers.is_sorted() && numbers.first() < numbers.last())
    };
    let fine = |sample: &Sample| sample.decimals() > 0 || sample.numbers().first().is_some_and(|first| *first >= 1e6);
    if let Some(at) = samples.iter().position(|s| increases(s) && (fine(s) || s.all(|v| clock(v).is_some()))) {
        let unit = if samples[at].whole() { nanoseconds(&samples[at]) } else { "s" };
        proposed.add(at, &format!("time_{unit}"), &samples[at]);
    }
    if let Some(at) = samples.iter().position(Sample::events) {
        proposed.add(at, "event", &samples[at]);
    }
    proposed.complete(&samples);
    // A count of sectors or bytes follows the offset.
    let offset = proposed.0.iter().position(|column| same_meaning(column, "offset_bytes"));
    let free = |proposed: &Proposal, i: usize| proposed.0[i] == "_" && samples[i].whole();
    let behind = offset.and_then(|at| (at + 1..width).find(|i| free(&proposed, *i)));
    let bytes =
        |i: &usize| free(&proposed, *i) && samples[*i].all(|v| v != "0") && samples[*i].length_unit() == "bytes";
    if let Some(at) = behind.or_else(|| (0..width).find(bytes)) {
        proposed.add(at, &format!("size_{}", samples[at].length_unit()), &samples[at]);
    }
    proposed.list()
}

/// bpftrace's `nsecs` since the start of the machine is above 10^12 after a quarter of an hour.
fn nanoseconds(sample: &Sample) -> &'static str {
    match sample.time_unit() {
        "ms" => "ns",
        "us" if sample.numbers()[0] >= 1e11 => "ns",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_proposed_for_lines_without_a_header() {
        let of = |text: &str| columns_of(&text.lines().map(str::as_bytes).collect::<Vec<_>>()).unwrap_or_default();
        assert_eq!(
            of("0.000001 411 Q WS 9096 8\n0.000100 411 D WS 9096 8\n0.004 0 C WS 9096 8\n"),
            "time_s,_,event,op,offset_sectors,size_sectors"
        );
        assert_eq!(
            of("Attaching 1 probe...\n123456789012345 RA 1048576 4096\n123456789112345 R 2097152 8192\n"),
            "time_ns,op,offset_bytes,size_bytes"
        );
        assert_eq!(
            of("15:20:01.123 fio 259,0 R 4096 122223\n15:20:01.124 fio 259,0 W 4096 9\n"),
            "time_s,_,_,op,size_bytes,offset_sectors"
        );
        assert_eq!(of("some words\nand more\n"), "");
    }

    #[test]
    fn latencies_are_between_a_microsecond_and_ten_seconds() {
        let of = |values: &[&str], time| Sample::of(values.iter().copied()).latency_unit(time);
        assert_eq!(of(&["41300", "128600"], "100ns"), "100ns");
        assert_eq!(of(&["9.31", "11.02"], "s"), "ms");
        assert_eq!(of(&["0.000806", "0.001900"], "s"), "s");
        assert_eq!(of(&["850", "120"], "s"), "us");
        assert_eq!(of(&["850000", "120000"], "ns"), "ns");
    }
}
