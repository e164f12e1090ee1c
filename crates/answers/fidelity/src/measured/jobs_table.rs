//! Tables with one row a job: rows of one figure, condition and scheduler ran together.

use std::collections::BTreeMap;

use dumbwaiter_scenario::DRIVES_MAX;

use super::MeasuredError;
use super::case::{Case, Clipped, Figures, FioOptions, Job, MeasuredRow, Part, cpu_list};
use super::csv::{Row, Table};

/// The columns that such a table must have.
pub(super) const COLUMNS: [&str; 10] =
    ["figure", "condition", "scheduler", "devices", "role", "rw", "bs", "iodepth", "numjobs", "iops"];

/// A row whose figures are sums over the others.
const TOTAL: &str = "total";
/// A row for all background processes together.
const BACKGROUND: &str = "background";
/// Rows of the reads and the writes of one job, where the condition says that they are one.
const MIX: &str = "mix";
const SECONDS_MAX: f64 = 5.0;

/// The cases of a table, in the order in which they begin.
pub(super) fn cases(table: &Table) -> Result<Vec<Case>, MeasuredError> {
    let mut places: BTreeMap<[&str; 3], usize> = BTreeMap::new();
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in table.rows() {
        let key = ["figure", "condition", "scheduler"].map(|column| table.text(row, column));
        if key[2].is_empty() {
            return Err(table.wrong(row, "scheduler", "the name of a scheduler"));
        }
        let at = *places.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[at].push(row);
    }
    groups.iter().map(|rows| case(table, rows)).collect()
}

fn case(table: &Table, rows: &[&Row]) -> Result<Case, MeasuredError> {
    let text = |column: &str| table.text(rows[0], column);
    let (condition, scheduler) = (text("condition"), text("scheduler"));
    let mut case = Case {
        figure: text("figure").to_owned(),
        condition: condition.to_owned(),
        scheduler: scheduler.to_owned(),
        stack: stack(scheduler, condition),
        drives: table.count(rows[0], "devices", u32::from(DRIVES_MAX))? as u8,
        jobs: Vec::new(),
        rows: Vec::new(),
        length: None,
        groups: Vec::new(),
        seconds_max: SECONDS_MAX,
        note: None,
    };
    let one_job = condition.split(',').any(|part| part.trim() == MIX);
    for row in rows {
        if table.count(row, "devices", u32::from(DRIVES_MAX))? != u32::from(case.drives) {
            let expected = format!("{}, as in the other rows of this condition", case.drives);
            return Err(table.wrong(row, "devices", &expected));
        }
        let role = table.text(row, "role").to_owned();
        let part = match role.as_str() {
            "" => return Err(table.wrong(row, "role", "a name of the job")),
            TOTAL => Part::Total,
            _ => {
                let job = job(table, row, &mut case)?;
                let found = if one_job { joined(&mut case, job) } else { case.push(job) };
                match table.text(row, "rw") {
                    rw if one_job && rw.contains("write") => Part::Writes(found),
                    _ if one_job => Part::Reads(found),
                    _ if role == BACKGROUND => Part::EachOf(found),
                    _ => Part::Job(found),
                }
            }
        };
        let figures = figures(table, row)?;
        let path = table.path().to_owned();
        case.rows.push(MeasuredRow { path, line: row.line, role, part, figures, clipped: Clipped::default() });
    }
    if case.jobs.is_empty() {
        return Err(table.wrong(rows[0], "role", "a job beside the sum of jobs"));
    }
    Ok(case)
}

impl Case {
    fn push(&mut self, job: Job) -> usize {
        self.jobs.push(job);
        self.jobs.len() - 1
    }
}

/// Adds the second row of a job that reads and writes to the first.
fn joined(case: &mut Case, job: Job) -> usize {
    if case.jobs.is_empty() {
        return case.push(job);
    }
    let own = &mut case.jobs[0];
    (own.writes, own.reads) = (own.writes || job.writes, own.reads || job.reads);
    if let Some((_, rw)) = own.options.iter_mut().find(|(key, _)| key == "rw") {
        *rw = if rw.starts_with("rand") { "randrw".to_owned() } else { "rw".to_owned() };
    }
    0
}

fn job(table: &Table, row: &Row, case: &mut Case) -> Result<Job, MeasuredError> {
    let text = |column: &str| table.text(row, column);
    let rw = text("rw");
    let (writes, reads) = match rw {
        "read" | "randread" => (false, true),
        "write" | "randwrite" => (true, false),
        "rw" | "readwrite" | "randrw" => (true, true),
        _ => return Err(table.wrong(row, "rw", "read, write, randread, randwrite, rw or randrw")),
    };
    if dumbwaiter_text::units::size(text("bs"), dumbwaiter_text::units::Prefixes::Plain).is_err() {
        return Err(table.wrong(row, "bs", "a size, such as 4k"));
    }
    let cpus = match text("cpus") {
        "" | "all" => Some(Vec::new()),
        list => cpu_list(list),
    };
    let cpus = cpus.ok_or_else(|| table.wrong(row, "cpus", "`all`, or numbers such as 0,2-5"))?;
    let iodepth = table.count(row, "iodepth", 65_536)?;
    let engine = match text("engine").split('+').next() {
        None | Some("") => "io_uring",
        Some(engine) => engine,
    };
    if engine == "spdk" {
        case.stack = Err("spdk submits without the kernel's block layer, which is what is simulated".to_owned());
    }
    let mut options: FioOptions = [("rw", rw), ("bs", text("bs")), ("ioengine", engine), ("direct", "1")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    // Of a whole drive no block comes twice in a run of seconds, and no process has to remember which it had.
    options.push(("norandommap".to_owned(), "1".to_owned()));
    let role = text("role");
    let same = case.jobs.iter().filter(|job| job.name.split('~').next() == Some(role)).count();
    let name = if same == 0 { role.to_owned() } else { format!("{role}~{}", same + 1) };
    let numjobs = table.count(row, "numjobs", 65_535)?;
    Ok(Job { name, numjobs, options, writes, reads, iodepth, cpus, drives: None })
}

fn figures(table: &Table, row: &Row) -> Result<Figures, MeasuredError> {
    Ok(Figures {
        iops: table.number(row, "iops")?,
        mb_s: table.number(row, "mb_s")?,
        mean_us: table.number(row, "lat_mean_us")?,
        p50_us: table.number(row, "clat_p50_us")?,
        p95_us: table.number(row, "clat_p95_us")?,
        p99_us: table.number(row, "clat_p99_us")?,
        cpu_us: table.number(row, "cpu_us_per_io")?,
    })
}

/// The scheduler as ours, with the targets that the condition gives kyber.
fn stack(scheduler: &str, condition: &str) -> Result<String, String> {
    if scheduler != "kyber" {
        return Ok(scheduler.to_owned());
    }
    let mut settings = Vec::new();
    for (key, value) in condition.split(',').filter_map(|part| part.split_once('=')) {
        let setting = match key.trim() {
            "read_lat" => "read_lat_nsec",
            "write_lat" => "write_lat_nsec",
            _ => continue,
        };
        let time = dumbwaiter_text::units::time(value.trim(), dumbwaiter_text::units::BareTime::Seconds);
        settings.push(format!("{setting}={}", time.map_err(|why| format!("{key}={value}: {why}"))?.0));
    }
    Ok(if settings.is_empty() { scheduler.to_owned() } else { format!("{scheduler}:{}", settings.join(",")) })
}
