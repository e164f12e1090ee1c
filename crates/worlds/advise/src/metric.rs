//! The metrics that schedulers are compared by: a row each, from which every table, format and sentence takes them.

use dumbwaiter_measure::{Latency, PlayerStats, RunResult, StartUpStats, count_text, latency_text, rate_text};

use crate::focus::Focus;

/// Smaller relative differences are of no practical use.
pub const USEFUL: f64 = 0.03;

/// A metric: where it is found in a run, what it is called, how it is compared and where it is shown.
struct MetricRow {
    /// In JSON, CSV and Parquet, with the unit at its end.
    key: &'static str,
    /// In a sentence; followed by the focus where it is `of_focus`.
    name: &'static str,
    /// Explanation of the name, where it does not explain itself.
    meaning: &'static str,
    /// Of its column, beside the unit; below the tenants of the focus where it is `of_focus`.
    heading: &'static str,
    unit: Unit,
    higher_is_better: bool,
    of_focus: bool,
    useful: f64,
    of: fn(&RunResult, &Focus) -> f64,
    /// Whether that is known, and not just a lower bound because of unfinished requests.
    is_known: fn(&RunResult, &Focus) -> bool,
    /// Whether a run that lacks it starved those that it is about.
    is_starved: fn(&RunResult, &Focus) -> bool,
    /// In place of a figure where a run starved.
    starved: &'static str,
    /// The tables that may have it, its place in them from left to right, and whether they do, by the metrics that the runs have.
    extent: Extent,
    place: u8,
    shown_if: fn(&dyn Fn(Metric) -> bool) -> bool,
}

/// A latency that no table shows.
const PLAIN: MetricRow = MetricRow {
    key: "",
    name: "",
    meaning: "",
    heading: "",
    unit: Unit::Us,
    higher_is_better: false,
    of_focus: false,
    useful: USEFUL,
    of: |_, _| f64::NAN,
    is_known: |_, _| true,
    is_starved: |_, _| false,
    starved: "starved",
    extent: Extent::Files,
    place: 0,
    shown_if: |_| true,
};

/// Runs have both reads and writes.
fn mixed(has: &dyn Fn(Metric) -> bool) -> bool {
    has(Metric::ReadP99) && has(Metric::WriteP99)
}

macro_rules! metrics {
    ($($(#[$about:meta])+ $name:ident { $($row:tt)* })+) => {
        /// A figure of a run that schedulers are compared by.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric { $($(#[$about])+ $name,)+ }

        impl Metric {
            /// All metrics, in order of presentation.
            pub const ALL: [Metric; ROWS.len()] = [$(Metric::$name),+];
        }

        const ROWS: &[MetricRow] = &[$(MetricRow { $($row)* ..PLAIN }),+];
    };
}

metrics! {
    /// Throughput, MB/s (10^6 bytes).
    MbPerS {
        key: "mb_per_s", name: "throughput", unit: Unit::MbPerS, higher_is_better: true, of: |run, _| run.mb_per_s,
        extent: Extent::FirstScreen, place: 10,
    }
    /// Requests per second.
    Iops {
        key: "iops", name: "IOPS", unit: Unit::Iops, higher_is_better: true, of: |run, _| run.iops,
        extent: Extent::FirstScreen, place: 150,
    }
    /// Mean latency, us.
    Mean {
        key: "latency_mean_us", name: "mean latency", heading: "mean", of: |run, _| run.latency_us.mean,
        is_known: |run, _| run.latency_us.is_known(1.0), extent: Extent::Page, place: 110,
    }
    /// Median latency, us.
    P50 {
        key: "latency_p50_us", name: "median latency", heading: "p50", of: |run, _| run.latency_us.p50,
        is_known: |run, _| run.latency_us.is_known(0.5),
    }
    /// 99th percentile of the latency, us.
    P99 {
        key: "latency_p99_us", name: "p99 latency", heading: "p99", of: |run, _| run.latency_us.p99,
        is_known: |run, _| run.latency_us.is_known(0.99),
        extent: Extent::FirstScreen, place: 80, shown_if: |has| !mixed(has),
    }
    /// 99.9th percentile of the latency, us.
    P999 {
        key: "latency_p99_9_us", name: "p99.9 latency", heading: "p99.9", of: |run, _| run.latency_us.p99_9,
        is_known: |run, _| run.latency_us.is_known(0.999), extent: Extent::Page, place: 100,
    }
    /// 99th percentile of reads, us.
    ReadP99 {
        key: "read_p99_us", name: "p99 latency of reads", heading: "read p99", of: |run, _| run.read.latency_us.p99,
        is_known: |run, _| run.read.latency_us.is_known(0.99),
        extent: Extent::FirstScreen, place: 60, shown_if: mixed,
    }
    /// 99th percentile of writes, us.
    WriteP99 {
        key: "write_p99_us", name: "p99 latency of writes", heading: "write p99", of: |run, _| run.write.latency_us.p99,
        is_known: |run, _| run.write.latency_us.is_known(0.99),
        extent: Extent::FirstScreen, place: 70, shown_if: mixed,
    }
    /// Mean latency of the [`Focus`], us.
    FocusMean {
        key: "focus_mean_us", name: "mean latency", heading: "mean", of_focus: true, of: |run, focus| of_focus(run, focus, |l| l.mean),
        is_known: |run, focus| focus.pooled(run).is_known(1.0),
        is_starved: |run, focus| focus.count(run) == 0, extent: Extent::FirstScreen, place: 45,
    }
    /// 95th percentile of the latency of the [`Focus`], us.
    FocusP95 {
        key: "focus_p95_us", name: "p95 latency", heading: "p95", of_focus: true, of: |run, focus| of_focus(run, focus, |l| l.p95),
        is_known: |run, focus| focus.pooled(run).is_known(0.95),
        is_starved: |run, focus| focus.count(run) == 0, extent: Extent::Page, place: 48,
    }
    /// Requests of the [`Focus`] whose latency was measured.
    FocusRequests {
        key: "focus_requests", name: "requests", heading: "n", of_focus: true, unit: Unit::Count, higher_is_better: true,
        of: |run, focus| if *focus == Focus::Nobody { f64::NAN } else { focus.pooled(run).samples as f64 },
        extent: Extent::FirstScreen, place: 52,
    }
    /// 99th percentile of the latency of the [`Focus`], us.
    FocusP99 {
        key: "focus_p99_us", name: "p99 latency", heading: "p99", of_focus: true, of: |run, focus| focus.p99_us(run),
        is_known: |run, focus| focus.latencies(run).all(|latency| latency.is_known(0.99)),
        is_starved: |run, focus| focus.count(run) == 0, extent: Extent::FirstScreen, place: 50,
    }
    /// Start-up time of the slowest application, s; infinite where it never started.
    StartUp {
        key: "start_up_s", name: "start-up time", heading: "start-up", unit: Unit::Seconds, starved: "never",
        of: |run, _| start_ups(run).map(start_up_s).fold(f64::NAN, f64::max),
        is_known: |run, _| start_ups(run).all(|start_up| !start_up.at_least),
        extent: Extent::FirstScreen, place: 30,
    }
    /// Dropped frames of the worst player, %.
    DroppedFrames {
        key: "dropped_frames_percent", name: "part of dropped frames", heading: "dropped", unit: Unit::Percent,
        // One frame in 200 can be seen.
        useful: 0.005, of: |run, _| players(run).map(|player| player.drop_percent).fold(f64::NAN, f64::max),
        extent: Extent::FirstScreen, place: 40,
    }
    /// Requests refused because of their deadlines, % of all; undefined where none was.
    Rejected {
        key: "rejected_percent", name: "part of refused I/Os", heading: "refused", unit: Unit::Percent,
        of: |run, _| rejected_percent(run), extent: Extent::FirstScreen, place: 20,
    }
    /// Share error: part of the data that the wrong tenants moved, 0 to 1, 0 is best.
    ShareError {
        key: "share_error", name: "share error", meaning: "deviation from the weights", heading: "share error",
        unit: Unit::Part, of: |run, _| run.fairness.share_error, is_starved: |_, _| true,
        extent: Extent::FirstScreen, place: 90,
    }
    /// Proportionality variation: deviation of shares from weights, 0 is best (A+CFQ, 2020). It grows without bound where a light
    /// tenant gets little.
    Pv {
        key: "pv", name: "PV", meaning: "deviation from the weights", heading: "PV", unit: Unit::Index(f64::INFINITY),
        of: |run, _| run.fairness.pv, is_starved: |_, _| true, extent: Extent::All, place: 120,
    }
    /// Jain's fairness index over shares by weight, 1 is best.
    Jain {
        key: "jain", name: "Jain's index", heading: "Jain", unit: Unit::Index(1.0), higher_is_better: true,
        of: |run, _| run.fairness.jain, extent: Extent::Page, place: 130,
    }
    /// CPU time per I/O, us.
    CpuUsPerIo {
        key: "cpu_us_per_io", name: "CPU time per I/O", heading: "CPU/IO", of: |run, _| run.cpu.us_per_io,
        extent: Extent::FirstScreen, place: 140,
    }
    /// Context switches per I/O.
    CtxPerIo {
        key: "ctx_per_io", name: "context switches per I/O", heading: "ctx/IO", unit: Unit::PerIo,
        of: |run, _| run.cpu.ctx_per_io,
        extent: Extent::FirstScreen, place: 180, shown_if: |has| has(Metric::JPerMio),
    }
    /// Joules per million I/Os.
    JPerMio {
        key: "j_per_mio", name: "energy per million I/Os", unit: Unit::JPerMio,
        of: |run, _| run.energy.as_ref().map_or(f64::NAN, |energy| energy.j_per_mio),
        extent: Extent::FirstScreen, place: 160,
    }
    /// Bytes per joule.
    BytesPerJ {
        key: "bytes_per_j", name: "data per joule", unit: Unit::BytesPerJ, higher_is_better: true,
        of: |run, _| run.energy.as_ref().map_or(f64::NAN, |energy| energy.bytes_per_j),
        extent: Extent::FirstScreen, place: 170,
    }
}

impl Metric {
    fn row(self) -> &'static MetricRow {
        &ROWS[self as usize]
    }

    /// The metrics of a table, most important first. `has`: whether the runs have a metric.
    pub fn columns(extent: Extent, has: &dyn Fn(Metric) -> bool) -> Vec<Metric> {
        let shown = |metric: &Metric| metric.row().extent <= extent && (metric.row().shown_if)(has);
        let mut columns: Vec<Metric> = Metric::ALL.into_iter().filter(shown).collect();
        columns.sort_by_key(|metric| metric.row().place);
        columns
    }

    /// The metric with this key.
    pub fn of_key(key: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.key() == key)
    }

    /// The key in JSON.
    pub fn key(self) -> &'static str {
        self.row().key
    }

    /// Its name in a sentence, with that of the focus.
    pub(crate) fn name(self, focus: &str) -> String {
        let name = self.row().name;
        if self.row().of_focus { format!("{name} of {focus}") } else { name.to_owned() }
    }

    /// Its name in a sentence, and what that means.
    pub(crate) fn explained(self, focus: &Focus) -> String {
        let (name, meaning) = (self.name(&focus.name()), self.row().meaning);
        if meaning.is_empty() { name } else { format!("{name} ({meaning})") }
    }

    /// The title of its column without the unit; empty where the unit says enough.
    pub fn heading(self, focus: &Focus) -> String {
        match focus {
            Focus::Tenants(names) | Focus::Tasks(names) if self.row().of_focus => {
                format!("{} {}", names.join("+"), self.row().heading)
            }
            // Reads and synchronous writes, as the kernel calls them together.
            Focus::Waited if self.row().of_focus => format!("sync {}", self.row().heading),
            _ => self.row().heading.to_owned(),
        }
    }

    /// A value with its unit, for a sentence.
    pub(crate) fn shown(self, value: f64) -> String {
        match value {
            _ if value.is_nan() => "undefined".to_owned(),
            _ if value.is_infinite() => self.starved().to_owned(),
            _ => self.unit().text(value),
        }
    }

    /// The text shown where a run starved.
    pub fn starved(self) -> &'static str {
        self.row().starved
    }

    /// The unit of its values.
    pub fn unit(self) -> Unit {
        self.row().unit
    }

    /// How much worse `own` is than `other`, as a fraction: 0.5 for a latency half longer or a throughput lower by a half; for
    /// percentages and shares the difference.
    pub fn worse_by(self, own: f64, other: f64) -> f64 {
        let signed = if self.unit().by_ratio() { own / other - 1.0 } else { (own - other) / self.unit().whole() };
        if self.higher_is_better() { -signed } else { signed }
    }

    /// The smallest difference, as [`Metric::worse_by`] gives it, that is of practical use.
    pub fn useful(self) -> f64 {
        self.row().useful
    }

    /// Whether a higher value is better.
    pub fn higher_is_better(self) -> bool {
        self.row().higher_is_better
    }

    /// Whether `a` is better than `b`. NaN, an undefined value, is worse than every number.
    pub fn better(self, a: f64, b: f64) -> bool {
        match (a.is_nan(), b.is_nan()) {
            (true, _) => false,
            (false, true) => true,
            _ if self.higher_is_better() => a > b,
            _ => a < b,
        }
    }

    /// Whether the metric of a run is known, and not just a lower bound because of unfinished requests.
    pub(crate) fn is_known(self, run: &RunResult, focus: &Focus) -> bool {
        (self.row().is_known)(run, focus)
    }

    /// Whether the run lacks the metric because it starved those that the metric is about.
    pub(crate) fn is_worst_without_service(self, run: &RunResult, focus: &Focus) -> bool {
        (self.row().is_starved)(run, focus)
    }

    /// The metric of one run; NaN where undefined, infinite for the latency of a focus that waits and gets nothing.
    pub fn of(self, run: &RunResult, focus: &Focus) -> f64 {
        (self.row().of)(run, focus)
    }
}

fn start_ups(run: &RunResult) -> impl Iterator<Item = &StartUpStats> {
    run.applications.iter().filter_map(|application| application.start_up.as_ref())
}

fn players(run: &RunResult) -> impl Iterator<Item = &PlayerStats> {
    run.applications.iter().filter_map(|application| application.player.as_ref())
}

/// Mean start-up time, s: infinite where no launch completed, NaN without a launch.
fn start_up_s(of: &StartUpStats) -> f64 {
    if of.count > 0 && of.started == 0 { f64::INFINITY } else { of.mean_s }
}

/// A latency of the focus: infinite where it waits and got nothing, NaN where it wanted nothing.
fn of_focus(run: &RunResult, focus: &Focus, of: fn(&Latency) -> f64) -> f64 {
    let latency = focus.pooled(run);
    if latency.samples == 0 && latency.unfinished > 0 { f64::INFINITY } else { of(&latency) }
}

fn rejected_percent(run: &RunResult) -> f64 {
    if run.rejected == 0 { f64::NAN } else { 100.0 * run.rejected as f64 / (run.rejected + run.requests) as f64 }
}

/// How many columns a table shows; each has those of the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Those of the first screen.
    FirstScreen,
    /// Those of a page.
    Page,
    /// All of them.
    All,
    /// And those that only files have.
    Files,
}

/// The unit of a metric, how values are written in it, and how they are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    /// 10^6 bytes per second.
    MbPerS,
    /// Requests per second.
    Iops,
    /// A number of requests.
    Count,
    /// Times in us.
    Us,
    /// Times in s.
    Seconds,
    /// Parts of a whole in percent.
    Percent,
    /// Parts of a whole, 0 to 1.
    Part,
    /// A number without a unit, up to this one.
    Index(f64),
    /// A number of things for each I/O.
    PerIo,
    /// Joules per million I/Os.
    JPerMio,
    /// Bytes per joule.
    BytesPerJ,
}

/// How the values of a column are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The name of the unit; empty where there is none.
    pub name: &'static str,
    divisor: f64,
    /// `None`: with a letter for thousands and millions.
    decimals: Option<usize>,
}

impl Scale {
    /// A value without its unit.
    pub fn number(&self, value: f64) -> String {
        self.decimals.map_or_else(|| count_text(value), |decimals| format!("{:.decimals$}", value / self.divisor))
    }
}

impl Unit {
    /// Whether differences are ratios, as of times and rates. Those of percentages and shares are differences in points.
    pub(crate) fn by_ratio(self) -> bool {
        !matches!(self, Unit::Percent | Unit::Part | Unit::Index(_))
    }

    /// Whether values are parts of a whole, which have no logarithm to speak of.
    pub(crate) fn is_part(self) -> bool {
        matches!(self, Unit::Percent | Unit::Part)
    }

    /// A difference of 1, where differences are not ratios.
    pub(crate) fn whole(self) -> f64 {
        if self == Unit::Percent { 100.0 } else { 1.0 }
    }

    /// The largest possible value.
    pub(crate) fn largest(self) -> f64 {
        match self {
            Unit::Part | Unit::Percent => self.whole(),
            Unit::Index(most) => most,
            _ => f64::INFINITY,
        }
    }

    /// A value with its unit.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Unit::MbPerS => rate_text(value),
            Unit::Us => latency_text(value),
            Unit::Seconds => latency_text(value * 1e6),
            _ => {
                let scale = self.scale(value);
                format!("{} {}", scale.number(value), scale.name).trim_end().to_owned()
            }
        }
    }

    /// How a column writes its values, of which `least` is the smallest.
    pub fn scale(self, least: f64) -> Scale {
        let (name, divisor, decimals) = match self {
            Unit::MbPerS => ("MB/s", 1.0, None),
            Unit::Iops => return Scale { name: "IOPS", divisor: 1.0, decimals: None },
            Unit::Count => ("", 1.0, Some(0)),
            Unit::Seconds => ("s", 1.0, Some(2)),
            Unit::Percent => ("%", 1.0, Some(1)),
            Unit::Part | Unit::Index(_) => ("", 1.0, Some(3)),
            Unit::PerIo => ("", 1.0, Some(2)),
            Unit::JPerMio => ("J per million I/Os", 1.0, None),
            Unit::BytesPerJ if least >= 1e6 => ("MB per joule", 1e6, None),
            Unit::BytesPerJ => ("kB per joule", 1e3, None),
            // The unit, at most a second, in which the best value has a digit before the decimal point.
            Unit::Us if least >= 1e6 => ("s", 1e6, None),
            Unit::Us if least >= 1e3 => ("ms", 1e3, None),
            Unit::Us => ("us", 1.0, None),
        };
        let three_digits = match least / divisor {
            v if v >= 100.0 => 0,
            v if v >= 10.0 => 1,
            _ => 2,
        };
        Scale { name, divisor, decimals: Some(decimals.unwrap_or(three_digits)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_metric_can_be_told_from_the_others_and_is_in_the_manual() {
        let manual = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("docs/json.md"));
        let manual = manual.filter_map(|path| std::fs::read_to_string(path).ok()).next().expect("docs/json.md is here");
        let (mut titles, mut places) = (BTreeSet::new(), BTreeSet::new());
        for metric in Metric::ALL {
            let row = metric.row();
            assert_eq!(Metric::of_key(row.key), Some(metric), "two metrics have the key {}", row.key);
            assert!(!row.name.is_empty(), "{metric:?} has no name in sentences");
            assert!(manual.contains(&format!("`{}`", row.key)), "docs/json.md has no `{}`", row.key);
            if row.extent != Extent::Files {
                assert!(places.insert(row.place), "{metric:?} has the place of another");
                let title = (row.of_focus, row.heading, row.unit.scale(1.0).name);
                assert!(
                    title.1.len() + title.2.len() > 0 && titles.insert(title),
                    "{metric:?} has the title of another"
                );
            }
        }
    }

    #[test]
    fn tables_have_the_columns_of_those_that_show_less() {
        let all = |_| true;
        let [first, page, whole] = [Extent::FirstScreen, Extent::Page, Extent::All].map(|e| Metric::columns(e, &all));
        assert!(first.iter().all(|m| page.contains(m)) && page.iter().all(|m| whole.contains(m)));
        assert_eq!(first[..3], [Metric::MbPerS, Metric::Rejected, Metric::StartUp]);
        assert!(whole.contains(&Metric::Pv) && !page.contains(&Metric::Pv) && !whole.contains(&Metric::P50));
        let reads_only = |metric| metric != Metric::WriteP99;
        assert!(Metric::columns(Extent::All, &reads_only).contains(&Metric::P99) && !whole.contains(&Metric::P99));
    }

    #[test]
    fn values_are_written_in_their_unit() {
        let text = |metric: Metric, value: f64| metric.shown(value);
        assert_eq!(text(Metric::StartUp, 1.5), "1.50 s");
        assert_eq!(text(Metric::StartUp, f64::INFINITY), "never");
        assert_eq!(text(Metric::FocusP99, f64::INFINITY), "starved");
        assert_eq!(text(Metric::Iops, 14_200.0), "14.2k IOPS");
        assert_eq!(text(Metric::Rejected, 12.34), "12.3 %");
        assert_eq!(text(Metric::Jain, 0.5), "0.500");
        assert_eq!(text(Metric::BytesPerJ, 12_340.0), "12.3 kB per joule");
    }
}
