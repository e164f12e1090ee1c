//! Tables of io.cost's settings: one reader with a weight of its own beside readers that together want more than the drive has.

use dumbwaiter_scenario::IoCostSettings;

use super::MeasuredError;
use super::case::{Case, Clipped, Figures, FioOptions, Job, Length, MeasuredRow, Part, WeightedGroup};
use super::csv::{Row, Table};

/// The columns that such a table must have.
pub(super) const COLUMNS: [&str; 7] = [
    "experiment",
    "weight_of_prioritized",
    "model_amplifier",
    "read_target_us",
    "min_scaling_pct",
    "prio_latency_us",
    "aggregate_GiB_s",
];

/// The experiment: random reads of 4 KiB, one at a time beside eight processes with 256 at once each.
const EXPERIMENT: &str = "tapps";
const OTHERS: u32 = 8;
const OTHERS_DEPTH: u32 = 256;
const READ_BYTES: f64 = 4096.0;
/// The study's model of its Intel Optane 900P: bytes per second, and I/Os per second.
const MODEL: [(&str, f64); 6] = [
    ("rbps", 2_413_821_952.0),
    ("rseqiops", 589_312.0),
    ("rrandiops", 589_312.0),
    ("wbps", 2_413_821_952.0),
    ("wseqiops", 589_312.0),
    ("wrandiops", 589_312.0),
];
/// A target for writes of a second makes a period of io.cost as long, and its rate goes down by a percent or two in each. It stayed
/// from one setting of the table to the next, so that most of it is measured where the rate no longer moves.
const LENGTH: Length = Length { warmup_s: 200.0, seconds: 30.0 };
const GIB: f64 = 1_073_741_824.0;

/// The cases of a table: one for each row, of the reader and of all together.
pub(super) fn cases(table: &Table) -> Result<Vec<Case>, MeasuredError> {
    table.rows().iter().map(|row| case(table, row)).collect()
}

fn case(table: &Table, row: &Row) -> Result<Case, MeasuredError> {
    let experiment = table.text(row, "experiment");
    if experiment != EXPERIMENT {
        return Err(table.wrong(row, "experiment", EXPERIMENT));
    }
    let number =
        |column: &str| table.number(row, column)?.ok_or_else(|| table.wrong(row, column, "a number, 0 or larger"));
    let (amplifier, target, least) =
        (number("model_amplifier")?, number("read_target_us")?, number("min_scaling_pct")?);
    let weight = number("weight_of_prioritized")?;
    if weight.fract() != 0.0 || !(1.0..=10_000.0).contains(&weight) {
        return Err(table.wrong(row, "weight_of_prioritized", "a whole number from 1 to 10000"));
    }
    let model: Vec<String> =
        MODEL.iter().map(|(name, value)| format!("{name}={}", (value * amplifier) as u64)).collect();
    let qos = format!("rpct=99 rlat={target} wpct=95 wlat=1000000 min={least} max=150");
    let settings = IoCostSettings { enabled: true, ..IoCostSettings::default() };
    let settings =
        settings.with_model(&model.join(" ")).map_err(|why| table.wrong(row, "model_amplifier", &why.to_string()))?;
    settings.with_qos(&qos).map_err(|why| table.wrong(row, "min_scaling_pct", &why.to_string()))?;
    let job = |name: &str, iodepth| Job {
        name: name.to_owned(),
        numjobs: 1,
        options: options(&[("rw", "randread"), ("bs", "4k"), ("norandommap", "1"), ("cgroup", name)]),
        writes: false,
        reads: true,
        iodepth,
        cpus: Vec::new(),
        drives: None,
    };
    let others: Vec<String> = (1..=OTHERS).map(|number| format!("other-{number}")).collect();
    let bytes = number("aggregate_GiB_s")? * GIB;
    let measured = |role: &str, part, figures| MeasuredRow {
        path: table.path().to_owned(),
        line: row.line,
        role: role.to_owned(),
        part,
        figures,
        clipped: Clipped::default(),
    };
    let of_reader = Figures { p99_us: Some(number("prio_latency_us")?), ..Figures::default() };
    let of_all = Figures { iops: Some(bytes / READ_BYTES), mb_s: Some(bytes / 1e6), ..Figures::default() };
    Ok(Case {
        figure: experiment.to_owned(),
        condition: String::new(),
        scheduler: format!("weight {weight}, model x {amplifier}, rlat={target} min={least}"),
        stack: Ok(format!("none+io.cost:qos={qos},model={}", model.join(" "))),
        drives: 1,
        jobs: std::iter::once(job("first", 1)).chain(others.iter().map(|name| job(name, OTHERS_DEPTH))).collect(),
        rows: vec![measured("first", Part::Job(0), of_reader), measured("all", Part::All, of_all)],
        length: Some(LENGTH),
        groups: vec![
            WeightedGroup { name: "prioritized", weight: weight as u32, jobs: vec!["first".to_owned()] },
            WeightedGroup { name: "others", weight: 1, jobs: others },
        ],
        seconds_max: LENGTH.seconds,
        note: None,
    })
}

fn options(list: &[(&str, &str)]) -> FioOptions {
    let always = [("ioengine", "libaio"), ("direct", "1")];
    always.iter().chain(list).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
