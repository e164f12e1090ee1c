//! Recordings of controllers in a closed loop: reads, writes and shares while all jobs run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use dumbwaiter_block::{Nanos, Op};
use dumbwaiter_controllers::io_max::{Release, with_limits};
use dumbwaiter_experiment::{Cell, Stack, World};
use dumbwaiter_measure::RunResult;
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{CacheSize, IoCostChange, IoCostSettings, Scenario, TenantChange, WbtTarget};
use serde_json::Value;

use super::conditions::{self, Conditions, Group};
use super::{Agreement, scenario};
use crate::controllers::{Event, Events, Recorded};
use crate::recording::{self, Files, Recording, as_number, read_description};

/// Jobs that began less long ago are not at their pace.
const SETTLING: Nanos = Nanos::from_ms(500);

/// What a recording's load does while all of it runs.
struct Observed {
    from: Nanos,
    until: Nanos,
    reads: Flow,
    writes: Flow,
    /// Bytes by process.
    bytes: BTreeMap<i32, u64>,
}

/// I/Os of one direction that ended.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    ios: u64,
    bytes: u64,
    latency_ns: u128,
}

impl Flow {
    fn mean_us(&self) -> f64 {
        if self.ios == 0 { 0.0 } else { self.latency_ns as f64 / self.ios as f64 / 1e3 }
    }
}

/// A recording of a controller, to be compared with a run.
pub(super) struct ControllerCase {
    file: String,
    scheduler: String,
    before: Before,
    kernel: Observed,
    /// The groups with jobs: their names as tenants, and their processes.
    parties: Vec<(String, Vec<i32>)>,
}

/// What stands before the scheduler in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Controller(Recorded),
    /// The page cache, which reads ahead.
    ReadAhead,
}

impl Before {
    fn name(self) -> &'static str {
        match self {
            Before::Controller(recorded) => recorded.name(),
            Before::ReadAhead => "page cache",
        }
    }
}

/// What a recording of more than a scheduler is of, by its JSON.
pub(super) fn recorded(files: &Files) -> Option<(Before, Value)> {
    let about = serde_json::from_slice::<Value>(&read_description(&files.description).ok()?).ok()?;
    let reads_ahead = || about.get("workload").and_then(Value::as_str) == Some("readahead");
    let before = Recorded::of(&about).map(Before::Controller).or_else(|| reads_ahead().then_some(Before::ReadAhead))?;
    Some((before, about))
}

/// The run of a recording, or why there can be none.
pub(super) fn case(
    path: &Path,
    before: Before,
    about: Value,
    world: &dyn World,
) -> Result<Result<(ControllerCase, Cell), String>, recording::Error> {
    let files = Files::of(path);
    let conditions = Conditions::read(&files.description)?;
    if let Some(reason) = conditions.obstacle_to_any() {
        return Ok(Err(reason));
    }
    let described = Recording::described(&files.rows, &files.description, &read_description(&files.description)?)?;
    let events = Events::read(&files.rows, files.open_rows()?, &files.description, about)?;
    Ok(comparable(super::name_of(path), before, &conditions, &described, &events, world))
}

fn comparable(
    file: String,
    before: Before,
    conditions: &Conditions,
    described: &Recording,
    events: &Events,
    world: &dyn World,
) -> Result<(ControllerCase, Cell), String> {
    let parties = parties(conditions, &events.rows);
    let observed = match before {
        Before::Controller(_) => observe(&events.rows, &parties),
        Before::ReadAhead => observe_all(&events.rows),
    };
    let kernel = observed.ok_or("its jobs do not run together for long enough")?;
    let mut scenario = scenario::scenario(conditions, described)?;
    add_controller(&mut scenario, before, (conditions, described), events)?;
    set_dirty_limits(&mut scenario, &events.about);
    if before != Before::ReadAhead {
        (scenario.warmup, scenario.duration) = (kernel.from, Some(kernel.until - kernel.from));
    }
    let load = Arc::new(Prepared::new(&scenario).map_err(|e| e.to_string())?);
    let sectors = scenario::capacity_sectors(conditions)?;
    load.load(scenario.seed, sectors, scenario.host.cpus).map_err(|e| e.to_string())?;
    let cell = Cell::of(&load, &scenario.devices[0], Stack::Simulated, scenario.schedulers[0].clone());
    world.supports(&cell).map_err(|refusal| refusal.to_string())?;
    let scheduler = described.scheduler.clone();
    Ok((ControllerCase { file, scheduler, before, kernel, parties }, cell))
}

/// What stands before the scheduler in a recording.
fn add_controller(
    scenario: &mut Scenario,
    before: Before,
    (conditions, described): (&Conditions, &Recording),
    events: &Events,
) -> Result<(), String> {
    let about = &events.about;
    let release = about.get("kernel").and_then(Value::as_str).and_then(Release::of);
    scenario.kernel.controls.release = release.ok_or("kernel: expected a release such as 6.12.117")?;
    match before {
        Before::ReadAhead | Before::Controller(Recorded::Wbt) => {
            let us = about.pointer("/queue/wbt_lat_usec").and_then(as_number).unwrap_or(0);
            // The device was set up without a scheduler.
            scenario.kernel.controls.wbt_depth = Some(scenario::depth(conditions, described));
            scenario.kernel.controls.wbt = Some(if us == 0 { WbtTarget::Off } else { WbtTarget::Us(us) });
            Ok(())
        }
        Before::Controller(Recorded::IoMax) => {
            limit_groups(scenario, about).and_then(|()| change_limits(scenario, &events.rows))
        }
        Before::Controller(Recorded::IoCost) => {
            let text = |key: &str| crate::controllers::text_of(about.get(key));
            let settings = IoCostSettings::default().with_model(&text("model")).map_err(|e| format!("model: {e}"))?;
            let settings = settings.with_qos(&text("qos")).map_err(|e| format!("qos: {e}"))?;
            scenario.kernel.controls.io_cost = Some(settings);
            change_io_cost(scenario, about, &events.rows)
        }
    }
}

/// The page cache of a recording: what was written to `/proc/sys/vm`.
fn set_dirty_limits(scenario: &mut Scenario, about: &Value) {
    let number = |key: &str| about.pointer("/vm").and_then(|vm| as_number(vm.get(key)?));
    let small = |key: &str| number(key).and_then(|value| u32::try_from(value).ok());
    let pages = about.pointer("/thresholds_pages/nr_dirty_threshold").and_then(as_number);
    let host = &mut scenario.host;
    host.dirty_bytes = number("dirty_bytes").map(CacheSize);
    host.dirty_background_bytes = number("dirty_background_bytes").map(CacheSize);
    if host.dirty_bytes.is_none() {
        // The memory of which the threshold is a part.
        let percent = small("dirty_ratio").unwrap_or(20).max(1);
        host.page_cache = pages.map(|pages| CacheSize(pages * 4096 * 100 / u64::from(percent)));
        (host.dirty_ratio, host.dirty_background_ratio) = (small("dirty_ratio"), small("dirty_background_ratio"));
    }
    host.dirty_expire_centisecs = small("dirty_expire_centisecs");
    host.dirty_writeback_centisecs = small("dirty_writeback_centisecs");
}

/// The limits of the groups of a recording of io.max.
fn limit_groups(scenario: &mut Scenario, about: &Value) -> Result<(), String> {
    for group in about.get("groups").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| group.get(key).and_then(Value::as_str).unwrap_or_default();
        let limits = with_limits(Default::default(), text("io.max")).map_err(|why| format!("io.max: {why}"))?;
        let name = scenario::tenant_name(text("path"));
        if let Some(tenant) = scenario.tenants.iter_mut().find(|tenant| tenant.name == name) {
            tenant.controls.io_max = limits;
        }
    }
    Ok(())
}

/// The limits of groups that changed during a recording of io.max, at the times that its rows say. A key that is not named keeps its
/// limit.
fn change_limits(scenario: &mut Scenario, rows: &[Event]) -> Result<(), String> {
    for row in rows {
        let Some((path, limits)) = row.changed_limits() else { continue };
        let name = scenario::tenant_name(path);
        let Some(tenant) = scenario.tenants.iter_mut().find(|tenant| tenant.name == name) else { continue };
        let before = tenant.changes.iter().rev().find_map(|change| change.io_max).unwrap_or(tenant.controls.io_max);
        let io_max = Some(with_limits(before, limits).map_err(|why| format!("io.max: {why}"))?);
        tenant.changes.push(TenantChange { at: row.at, weight: None, io_max });
    }
    Ok(())
}

/// The changes of io.cost and of weights during its recording, at the times that its rows say.
fn change_io_cost(scenario: &mut Scenario, about: &Value, rows: &[Event]) -> Result<(), String> {
    let mut planned = about.get("changes").and_then(Value::as_array).into_iter().flatten();
    if planned.any(|change| change.get("model").is_some()) {
        return Err("model changes while it runs, which no row says".to_owned());
    }
    let changes_weight = |row: &&Event| row.name == "group_weight";
    if rows.iter().any(|row| changes_weight(&row)) {
        scenario.tenants.iter_mut().for_each(|tenant| tenant.changes.clear());
    }
    for row in rows.iter().filter(changes_weight) {
        let name = scenario::tenant_name(row.text("group").ok_or("group_weight: expected group=PATH")?);
        let weight = u32::try_from(row.number("weight")?).map_err(|e| format!("group_weight: weight: {e}"))?;
        if let Some(tenant) = scenario.tenants.iter_mut().find(|tenant| tenant.name == name) {
            tenant.changes.push(TenantChange { at: row.at, weight: Some(weight), io_max: None });
        }
    }
    let mut settings = scenario.kernel.controls.io_cost.unwrap_or_default();
    for row in rows.iter().filter(|row| row.name == "qos") {
        let qos = row.details.strip_prefix("qos ").unwrap_or(&row.details);
        settings = settings.with_qos(qos).map_err(|e| format!("qos: {e}"))?;
        scenario.kernel.io_cost_changes.push(IoCostChange { at: row.at, qos: Some(qos.to_owned()), model: None });
    }
    Ok(())
}

/// The groups with jobs and their processes. One whose processes are not named, or that writes through the page cache, has those that
/// no other group has, too: a worker submits what a limit let go, and the flusher what was written.
fn parties(conditions: &Conditions, rows: &[Event]) -> Vec<(String, Vec<i32>)> {
    let groups: Vec<_> = conditions.groups.iter().flatten().filter(|group| group.job.is_some()).collect();
    let known: BTreeSet<i32> = groups.iter().flat_map(|group| group.pids.iter().copied()).collect();
    let all: BTreeSet<i32> = rows.iter().filter(|row| row.name.starts_with("bio_")).map(|row| row.pid).collect();
    let has_others = |group: &Group| group.pids.is_empty() || group.job.as_deref().is_some_and(conditions::is_buffered);
    let one = groups.iter().filter(|group| has_others(group)).count() == 1;
    let party = |group: &&Group| {
        let mut pids = group.pids.clone();
        if one && has_others(group) {
            pids.extend(all.difference(&known));
        }
        (scenario::tenant_name(&group.path).to_owned(), pids)
    };
    groups.iter().map(party).collect()
}

/// An I/O, from its arrival to the end of its last piece.
#[derive(Clone, Copy, Debug)]
struct Bio {
    at: Nanos,
    pid: i32,
    op: Op,
    bytes: u64,
    /// Bytes that have not ended.
    left: u64,
    ended: Nanos,
}

/// The load between the last job's start, with time to settle, and the first job's end.
fn observe(rows: &[Event], parties: &[(String, Vec<i32>)]) -> Option<Observed> {
    let bios = bios(rows);
    let of_party = |pids: &Vec<i32>| {
        let own = bios.iter().filter(|bio| pids.contains(&bio.pid));
        own.map(|bio| (bio.at, bio.ended)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    };
    // Without groups, as long as something is read.
    let read = bios.iter().filter(|bio| bio.op == Op::Read);
    let read = read.map(|bio| (bio.at, bio.ended)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let reads = read.filter(|_| parties.is_empty());
    let spans: Vec<(Nanos, Nanos)> =
        reads.into_iter().chain(parties.iter().filter_map(|(_, pids)| of_party(pids))).collect();
    let from = spans.iter().map(|span| span.0).max()? + SETTLING;
    let until = spans.iter().map(|span| span.1).min()?;
    if until <= from + SETTLING {
        return None;
    }
    Some(count(rows, &bios, from, until))
}

/// What ended in a time.
fn count(rows: &[Event], bios: &[Bio], from: Nanos, until: Nanos) -> Observed {
    let mut observed =
        Observed { from, until, reads: Flow::default(), writes: Flow::default(), bytes: BTreeMap::new() };
    for bio in bios.iter().filter(|bio| bio.left == 0 && bio.ended >= from && bio.ended < until) {
        let flow = if bio.op == Op::Read { &mut observed.reads } else { &mut observed.writes };
        flow.ios += 1;
        flow.bytes += bio.bytes;
        flow.latency_ns += u128::from(bio.ended.since(bio.at).0);
        *observed.bytes.entry(bio.pid).or_default() += bio.bytes;
    }
    // Rows of bios that merged may be missing: what is written is counted by requests.
    observed.writes.bytes = written(rows, from, until);
    observed
}

/// All of a load, from its first I/O to the end of its last.
fn observe_all(rows: &[Event]) -> Option<Observed> {
    let bios = bios(rows);
    let until = bios.iter().map(|bio| bio.ended).max()?;
    let from = bios.iter().map(|bio| bio.at).min()?;
    Some(count(rows, &bios, from, until + Nanos(1)))
}

/// Bytes of the writes that completed in a time.
fn written(rows: &[Event], from: Nanos, until: Nanos) -> u64 {
    let mut issued = BTreeMap::new();
    let mut bytes = 0;
    for row in rows.iter().filter(|row| row.op == Op::Write && row.req > 0) {
        if row.name == "rq_issue" {
            issued.insert(row.req, row.bytes);
        } else if row.name == "rq_complete" {
            let done = issued.remove(&row.req).unwrap_or(row.bytes);
            bytes += if row.at >= from && row.at < until { done } else { 0 };
        }
    }
    bytes
}

/// All I/Os as they were submitted.
fn bios(rows: &[Event]) -> Vec<Bio> {
    let mut bios: Vec<Bio> = Vec::new();
    // By place: those, or their rests, that have no request yet.
    let mut arrived: BTreeMap<(u64, Op), VecDeque<usize>> = BTreeMap::new();
    let mut held: BTreeMap<u32, Vec<(usize, u64)>> = BTreeMap::new();
    // What each process cut: its rest is what it submits next.
    let mut cut_off: BTreeMap<i32, usize> = BTreeMap::new();
    // The last piece of each process and where it ends, for rests whose submission has no row.
    let mut last: BTreeMap<i32, (usize, u64)> = BTreeMap::new();
    let submitted = rows.iter().any(|row| row.name == "bio_submit");
    for row in rows {
        let place = (row.sector, row.op);
        // Beside limits, what is limited has been submitted before it is queued; the rest is queued at once.
        let waits = || submitted && arrived.get(&place).is_some_and(|waiting| !waiting.is_empty());
        let arrives = row.name == "bio_submit" || row.name == "bio_queue" && !waits();
        let rest = || last.get(&row.pid).filter(|(_, at)| *at == row.sector).map(|(bio, _)| *bio);
        match row.name.as_str() {
            _ if arrives => {
                let bio = cut_off.remove(&row.pid).unwrap_or(bios.len());
                if bio == bios.len() {
                    let (pid, op, bytes) = (row.pid, row.op, row.bytes);
                    bios.push(Bio { at: row.at, pid, op, bytes, left: bytes, ended: row.at });
                }
                arrived.entry(place).or_default().push_back(bio);
            }
            "split" => {
                let of_place =
                    arrived.iter().find(|((sector, _), waiting)| *sector == row.sector && !waiting.is_empty());
                if let Some(bio) = of_place.and_then(|(_, waiting)| waiting.back().copied()) {
                    cut_off.insert(row.pid, bio);
                }
            }
            "getrq" | "bio_backmerge" | "bio_frontmerge" => {
                let bio = arrived.get_mut(&place).and_then(VecDeque::pop_front).or_else(rest);
                if let Some(bio) = bio {
                    held.entry(row.req).or_default().push((bio, row.bytes));
                    last.insert(row.pid, (bio, row.sector + row.bytes / 512));
                }
            }
            "rq_merge" => {
                let absorbed = row.number("absorbs").ok().and_then(|req| held.remove(&(req as u32)));
                held.entry(row.req).or_default().extend(absorbed.unwrap_or_default());
            }
            "rq_complete" => {
                for (bio, bytes) in held.remove(&row.req).unwrap_or_default() {
                    bios[bio].left = bios[bio].left.saturating_sub(bytes);
                    bios[bio].ended = row.at;
                }
            }
            _ => {}
        }
    }
    bios
}

impl ControllerCase {
    pub(super) fn agreement(&self, run: &RunResult) -> Agreement {
        let ratio = |ours: f64, kernel: f64| if kernel > 0.0 && ours.is_finite() { ours / kernel } else { 0.0 };
        let seconds = (self.kernel.until - self.kernel.from).as_secs_f64();
        let (reads, writes) = (self.kernel.reads, self.kernel.writes);
        // fio begins its stages one after the other with pauses of its own: the number counts, and each read's time.
        let (of_run, seconds) = if self.before == Before::ReadAhead { (run.duration_s, 1.0) } else { (1.0, seconds) };
        let mb = |bytes: u64| bytes as f64 / seconds / 1e6;
        let reads_ratio = (reads.ios > 0).then(|| ratio(run.read.iops * of_run, reads.ios as f64 / seconds));
        // What reaches the device: of buffered writers what is written back.
        let ours_written = run.write.mb_per_s;
        let write_mb_ratio = (writes.bytes > 0).then(|| ratio(ours_written, mb(writes.bytes)));
        // Reads are what people wait for; without any, writes.
        let (ours, kernel) = match reads.ios {
            0 => (&run.write.latency_us, writes),
            _ => (&run.read.latency_us, reads),
        };
        Agreement {
            file: self.file.clone(),
            scheduler: self.scheduler.clone(),
            controller: Some(self.before.name()),
            mb_ratio: ratio(run.mb_per_s * of_run, mb(reads.bytes + writes.bytes)),
            mean_ratio: ratio(ours.mean, kernel.mean_us()),
            p95_ratio: None,
            reads_ratio,
            write_mb_ratio,
            share_error: self.share_error(run),
        }
    }

    /// The largest difference of a group's share of the bytes; 1 where a group is missing.
    fn share_error(&self, run: &RunResult) -> f64 {
        if self.parties.is_empty() {
            let share = |reads: f64, writes: f64| reads / (reads + writes).max(f64::MIN_POSITIVE);
            let kernel = share(self.kernel.reads.bytes as f64, self.kernel.writes.bytes as f64);
            return (share(run.read.mb_per_s, run.write.mb_per_s) - kernel).abs();
        }
        let of_group = |name: &str| run.tenants.iter().find(|t| t.name == name).map(|t| t.mb_per_s);
        let bytes = |pids: &Vec<i32>| pids.iter().filter_map(|pid| self.kernel.bytes.get(pid)).sum::<u64>() as f64;
        let kernel: Vec<f64> = self.parties.iter().map(|(_, pids)| bytes(pids)).collect();
        let ours: Option<Vec<f64>> = self.parties.iter().map(|(name, _)| of_group(name)).collect();
        let Some(ours) = ours else { return 1.0 };
        let share = |values: &[f64], at: usize| values[at] / values.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let errors = (0..kernel.len()).map(|at| (share(&kernel, at) - share(&ours, at)).abs());
        errors.fold(0.0, f64::max)
    }
}
