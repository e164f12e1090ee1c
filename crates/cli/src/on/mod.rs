//! `compare --on`: the matrix on a real file or device, through our engine and through the kernel's own schedulers.

mod groups;
mod kernel;
pub(crate) mod part;
pub(crate) mod recommend;
pub(crate) mod reproduce;
mod rocksdb;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use dumbwaiter_block::Nanos;
use dumbwaiter_drive::verify::Verified;
use dumbwaiter_drive::{CompletionMode as Completion, Options, Rings, Sleep, Target, Verify};
use dumbwaiter_experiment::Control;
use dumbwaiter_experiment::Experiment;
use dumbwaiter_linux::queue::{Queue, Settings};
use dumbwaiter_linux::{Roots, undo};
use dumbwaiter_load::Prepared;
use dumbwaiter_measure::RunResult;
use dumbwaiter_meters::{self as meters, Meter};
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_schedulers::Choice;

use crate::args::{Compare, VerifyArgs, Via};
use crate::progress::Bar;
use crate::{Ended, energy, output, results};

/// One cell of the matrix.
enum Way<'a> {
    /// Our block layer and scheduler.
    Engine(&'a Choice),
    /// The kernel's scheduler.
    Kernel(&'a SchedulerSpec),
}

impl Way<'_> {
    fn label(&self) -> String {
        match self {
            Way::Engine(choice) => choice.label().to_owned(),
            Way::Kernel(spec) => spec.to_string(),
        }
    }
}

/// What one run gave, beside its result.
struct Cell {
    result: RunResult,
    /// Remarks for people.
    notes: Vec<String>,
    /// The first I/O that failed, in words.
    failure: Option<String>,
    /// Acknowledged writes that are not there, in words.
    unsound: Option<String>,
    /// How long the oldest I/O had been waiting that was not finished at the end.
    oldest: Nanos,
    cancelled: bool,
}

/// What all runs have in common.
struct Bench<'a> {
    path: &'a Path,
    prepared: &'a Prepared,
    options: &'a Options,
    control: &'a Control,
}

fn choices_of(scenario: &Scenario) -> Result<Vec<Choice>> {
    Ok(scenario.schedulers.iter().map(|spec| Choice::parse(&spec.to_string())).collect::<Result<_, _>>()?)
}

/// Runs the matrix and writes what came out.
pub(crate) fn run(args: &Compare, experiment: Experiment) -> Result<Ended> {
    let Some(path) = args.on.as_deref() else { bail!("expected --on PATH") };
    let (scenario, warnings) = (&experiment.scenario, experiment.notes.clone());
    let facts = dumbwaiter_linux::target::Target::of(path)?;
    let writes = dumbwaiter_drive::writes(scenario);
    if writes.is_some() || args.allow_writes {
        if let Some(task) = writes.as_ref().filter(|_| !args.allow_writes) {
            bail!(
                "task `{task}` writes, and {} is only read unless you say --allow-writes, which destroys what is on it; \
                 expected a load that only reads, such as scenarios/real-drive.toml",
                path.display()
            );
        }
        facts.check_writes(args.allow_writes, args.i_know_this_destroys.as_deref())?;
    }
    let rings = match args.rings.as_deref() {
        None => Rings::Auto,
        Some(text) => match Rings::parse(text) {
            Some(rings) => rings,
            None => bail!("--rings: `{text}` is not known; expected auto, per-core or a number from 1 to 1024"),
        },
    };
    let verify = args.verify.then(|| Verify { journal: args.verify_journal.clone() });
    let options = Options {
        direct: !args.buffered,
        allow_writes: args.allow_writes,
        exclusive: args.i_know_this_destroys.is_none(),
        verify,
        sqpoll: false,
        keep_going: args.keep_going,
        round_out: args.round_out,
        rings,
        ..Options::default()
    };
    let mut inputs: Vec<&Path> = args.input.iter().chain(&args.on).map(PathBuf::as_path).collect();
    inputs.extend(args.verify_journal.as_deref());
    inputs.extend(args.power.power_log.as_deref());
    results::check_outputs(&args.outputs, &inputs)?;
    let log = energy::Log::of(&args.power)?;
    let queue = facts.queue().filter(Queue::schedules);
    let mut via = args.via.unwrap_or(if queue.is_some() && !args.verify { Via::Both } else { Via::Engine });
    if args.verify && via != Via::Engine {
        bail!("--verify: only our engine checks what it wrote; leave out --via, or say --via engine");
    }
    let mut notes = warnings;
    let choices = choices_of(scenario)?;
    if let Some(journal) = &args.verify_journal
        && let Some(found) = of_earlier_run(path, journal)?
    {
        if !found.clean() {
            crate::tell!(
                "dumbwaiter: {}: what an earlier run wrote is not there: {found}; remove the journal to begin anew",
                journal.display()
            );
            return Ok(Ended::DeviceFailed);
        }
        notes.push(format!("{}, of an earlier run: {found}", journal.display()));
    }
    let completions = completions(scenario, path, &options, &mut notes)?;

    let stop = Arc::new(AtomicBool::new(false));
    undo::on_signals(Some(Arc::clone(&stop)))?;
    if let Some(why) = queue.as_ref().filter(|_| via == Via::Both && args.via.is_none()).and_then(not_to_be_set) {
        notes.push(format!("through our engine only: {why}"));
        via = Via::Engine;
    }
    let mut settings = match &queue {
        Some(queue) => settings_of(queue, via, scenario, &mut notes)?,
        None => None,
    };
    notes.extend(queue.iter().flat_map(|queue| queue.remarks(&Roots::default())));
    let mut kernels = match (&queue, via) {
        (_, Via::Engine) => Vec::new(),
        (None, _) if facts.disk.is_some() => bail!(
            "{} hands its I/O on to the devices below it, which have the schedulers; leave out --via, or give one of those",
            path.display()
        ),
        (None, _) => bail!(
            "{} is a file: the kernel's schedulers belong to block devices; leave out --via, or give the device (a loop device \
             over the file will do)",
            path.display()
        ),
        (Some(queue), _) => match kernel::schedulers(queue, scenario, via, &mut notes) {
            Err(e) if args.via.is_none() => {
                notes.push(format!("through our engine only: {e}"));
                Vec::new()
            }
            other => other?,
        },
    };
    let engines: &[Choice] = if via == Via::Kernel { &[] } else { &choices };

    let control = Arc::new(Control::default());
    cancel_with(&stop, &control);
    let prepared = Prepared::new(scenario)?;
    let bench = Bench { path, prepared: &prepared, options: &options, control: &control };
    if !kernels.is_empty()
        && let Err(e) = kernel::check(&bench, &mut notes)
    {
        if args.via.is_some() {
            return Err(e);
        }
        notes.push(format!("through our engine only: {e}"));
        kernels.clear();
    }
    let mut meter = None;
    if log.is_none() {
        let (best, about) = meters::open_best();
        meter = best;
        notes.push(about);
    }

    let ways: Vec<Way> = engines.iter().map(Way::Engine).chain(kernels.iter().map(Way::Kernel)).collect();
    let matrix: Vec<(&Way, &(Completion, bool))> =
        ways.iter().flat_map(|way| completions.iter().map(move |c| (way, c))).collect();
    let planned = matrix.len() * scenario.replicates as usize;
    let each = prepared.expected().unwrap_or(Nanos::from_secs(1));
    crate::tell!(
        "{}: {planned} run{} of {}, {}",
        path.display(),
        if planned == 1 { "" } else { "s" },
        prepared.expected().map_or("unknown length".to_owned(), |t| t.to_string()),
        if args.allow_writes { "WRITING to it" } else { "only reading" }
    );
    let mut patterns = Vec::new();
    if args.power_sync {
        patterns.extend(energy::pattern(&stop));
    }
    let bar = Bar::new(planned as u64, Duration::from_nanos(each.0));
    let mut cells: Vec<Cell> = Vec::new();
    let (mut broken, mut refused) = (None, false);
    'runs: for replicate in 0..scenario.replicates {
        for i in 0..matrix.len() {
            // Each replicate begins elsewhere, so that a drift of the device does not favour a place in the order.
            let (way, (completion, sqpoll)) = matrix[(i + replicate as usize) % matrix.len()];
            let what = way.label();
            bar.begin(&what);
            let cell = one(&bench, way, *completion, *sqpoll, replicate, settings.as_mut(), meter.as_mut());
            bar.done();
            match cell {
                Ok(cell) if cell.cancelled => {
                    // Lost data is lost, whether or not the run came to its end.
                    broken = cell.unsound.map(|unsound| format!("{what}: {unsound}"));
                    break 'runs;
                }
                Ok(cell) => {
                    // To go on after failed I/Os is not to put up with data that is lost.
                    let failed = cell.failure.clone().filter(|_| !args.keep_going).or(cell.unsound.clone());
                    cells.push(cell);
                    if let Some(failure) = failed {
                        broken = Some(format!("{what}: {failure}"));
                        break 'runs;
                    }
                }
                Err(e) => {
                    refused = is_refusal(&e);
                    broken = Some(format!("{what}: {e:#}"));
                    break 'runs;
                }
            }
        }
    }
    bar.finish();
    if let Some(settings) = &mut settings {
        notes.extend(settings.restore());
    }
    if args.power_sync && broken.is_none() {
        patterns.extend(energy::pattern(&stop));
    }
    let interrupted = stop.load(Ordering::Relaxed);
    if cells.is_empty() {
        match broken {
            Some(reason) if refused => bail!(reason),
            Some(reason) => {
                crate::tell!("dumbwaiter: {reason}");
                return Ok(Ended::DeviceFailed);
            }
            None => {
                crate::tell!("dumbwaiter: interrupted before the first run was finished");
                return Ok(Ended::Interrupted);
            }
        }
    }
    if interrupted || broken.is_some() {
        let why = if interrupted { "interrupted" } else { "ended early" };
        notes.push(format!("{why}: {} of {planned} runs finished", cells.len()));
    }
    for cell in &cells {
        for note in &cell.notes {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
    }
    // Where one ended early, that is what there is to tell.
    let ends = cells.iter().filter(|cell| cell.failure.is_none()).map(|cell| (&cell.result, cell.oldest));
    notes.extend(results::starved_notes(ends, |run| format!("{}, {}", run.scheduler, run.via)));
    let mut runs: Vec<RunResult> = cells.into_iter().map(|c| c.result).collect();
    let mut unread = None;
    if let Some(log) = &log {
        match log.read_to_the_end_of(&runs, &patterns).and_then(|read| read.fill(&mut runs)) {
            Ok(told) => notes.extend(told),
            Err(e) => unread = Some(e),
        }
    }
    let mut document = results::document(args, scenario, runs, notes)?;
    document.load_patterns_unix_s = patterns;
    results::write_all(&args.outputs, &document)?;
    if let Some(e) = unread {
        return Err(e.context("the runs have no energy; `dumbwaiter energy` can add it to their JSON later"));
    }
    Ok(match broken {
        Some(reason) if refused => bail!(reason),
        Some(reason) => {
            crate::tell!("dumbwaiter: {reason}");
            Ended::DeviceFailed
        }
        None if interrupted => Ended::Interrupted,
        None => Ended::Done,
    })
}

/// Is it what was asked for that cannot be, and not the device that failed?
pub(crate) fn is_refusal(error: &anyhow::Error) -> bool {
    let asked = error.downcast_ref::<dumbwaiter_drive::Error>().is_some_and(dumbwaiter_drive::Error::is_refusal);
    asked || matches!(error.downcast_ref(), Some(dumbwaiter_linux::Error::Refused(_)))
}

pub(crate) fn cancel_with(stop: &Arc<AtomicBool>, control: &Arc<Control>) {
    let (stop, control) = (Arc::clone(stop), Arc::clone(control));
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        control.cancel.store(true, Ordering::Relaxed);
        crate::tell!("\ninterrupted: finishing with what is done (again to stop at once)");
    });
}

/// The completion methods that the target can do, each with whether the ring has a thread in the kernel.
fn completions(
    scenario: &Scenario,
    path: &Path,
    options: &Options,
    notes: &mut Vec<String>,
) -> Result<Vec<(Completion, bool)>> {
    use dumbwaiter_scenario::Completion as Asked;
    let target = Target::open(path, options)?;
    notes.extend(target.notes().iter().cloned());
    let mut can = Vec::new();
    let mut refused = Vec::new();
    for asked in &scenario.completion {
        let (completion, sqpoll) = match asked {
            Asked::Interrupt => (Completion::Interrupt, false),
            Asked::Poll => (Completion::Poll, false),
            Asked::Hybrid => (Completion::Hybrid(Sleep::Auto), false),
            Asked::HybridFixed(time) => (Completion::Hybrid(Sleep::Fixed(*time)), false),
            Asked::Sqpoll if target.check(Completion::Poll).is_ok() => (Completion::Poll, true),
            Asked::Sqpoll => {
                notes.push(
                    "completion sqpoll: a thread of the kernel submits, and interrupts tell what is done, since nothing is \
                     there to be polled"
                        .into(),
                );
                (Completion::Interrupt, true)
            }
        };
        match target.check(completion) {
            Ok(_) => can.push((completion, sqpoll)),
            Err(e) => refused.push(e.to_string()),
        }
    }
    if can.is_empty() {
        bail!("{}", refused.join("; "));
    }
    notes.extend(refused);
    Ok(can)
}

/// Why this program may not set the scheduler, if so.
fn not_to_be_set(queue: &Queue) -> Option<String> {
    let file = format!("/sys/block/{}/queue/scheduler", queue.name());
    let opened = std::fs::OpenOptions::new().write(true).open(&file);
    opened.err().map(|e| format!("the kernel's scheduler cannot be set; run as root ({file}: {e})"))
}

/// Guards the queue's settings, where they may be changed at all.
fn settings_of(queue: &Queue, via: Via, scenario: &Scenario, notes: &mut Vec<String>) -> Result<Option<Settings>> {
    let (now, _) = queue.schedulers()?;
    match not_to_be_set(queue) {
        Some(why) if via != Via::Engine => bail!("{why}, or with --via engine"),
        Some(why) => {
            notes.extend((now != "none").then(|| format!("the kernel's scheduler stays `{now}` below ours: {why}")));
            return Ok(None);
        }
        None => {}
    }
    let mut settings = Settings::new(queue)?;
    match settings.set("scheduler", &now) {
        Ok(_) => {
            if via != Via::Engine {
                settings.load_schedulers(|name| scenario.schedulers.iter().any(|s| s.name == name))?;
            }
            Ok(Some(settings))
        }
        Err(e) if via == Via::Engine => {
            notes.push(format!("the kernel's scheduler stays `{now}` below ours: {e}"));
            Ok(None)
        }
        Err(e) => Err(e).context("the kernel's scheduler cannot be set; run as root, or with --via engine"),
    }
}

fn one(
    bench: &Bench<'_>,
    way: &Way<'_>,
    completion: Completion,
    sqpoll: bool,
    replicate: u32,
    settings: Option<&mut Settings>,
    mut meter: Option<&mut Meter>,
) -> Result<Cell> {
    let mut told = None;
    match (way, settings) {
        (Way::Engine(_), Some(settings)) => {
            settings.set("scheduler", "none")?;
        }
        (Way::Kernel(spec), Some(settings)) => {
            let scenario = bench.prepared.scenario();
            kernel::set(settings, spec, scenario)?;
            settings.set("nomerges", &scenario.nomerges.to_string())?;
            let (asked, got) = (scenario.nr_requests, settings.queue().get("nr_requests")?);
            told = asked.filter(|n| n.to_string() != got).map(|n| {
                format!("{n} requests were asked for, {} has {got} under the kernel's {spec}", settings.queue().name())
            });
        }
        (_, None) => {}
    }
    if let Some(meter) = &mut meter {
        meter.start()?;
    }
    let mut cell = match way {
        Way::Engine(choice) => engine(bench, choice, completion, sqpoll, replicate)?,
        Way::Kernel(spec) => kernel::run(bench, spec, completion, sqpoll, replicate)?,
    };
    cell.notes.extend(told);
    if sqpoll {
        cell.result.completion = "sqpoll".into();
    }
    if let Some(meter) = &mut meter {
        let drawn = meter.stop()?;
        let run = &mut cell.result;
        // The meter ran over the warm-up too.
        if let (Some(from), Some(to)) = (run.started_unix_ns, run.ended_unix_ns) {
            run.energy = Some(energy::of(run, drawn.between(from, to), meter.about()));
        }
        cell.notes.extend(drawn.energy.warning);
    }
    Ok(cell)
}

fn engine(bench: &Bench<'_>, choice: &Choice, completion: Completion, sqpoll: bool, replicate: u32) -> Result<Cell> {
    let options = Options { sqpoll, ..bench.options.clone() };
    let target = Target::open(bench.path, &options)?;
    let before = unix_ns();
    let mut cell = dumbwaiter_drive::run(bench.prepared, &target, choice, completion, replicate, bench.control)?;
    let warmup = bench.prepared.scenario().warmup.0;
    let measured = (cell.result.duration_s * 1e9) as u64;
    // Rings and buffers are made before a run; what was written is checked after it.
    let verified = bench.options.verify.is_some();
    stamp(&mut cell.result, if verified { before + warmup } else { unix_ns().saturating_sub(measured) });
    let mut notes = cell.notes;
    notes.extend(cell.skipped.iter().map(|(reason, n)| format!("{} I/Os: {reason}", output::grouped(*n))));
    notes.extend(cell.failures.iter().map(|(error, n)| format!("{} I/Os failed: {error}", output::grouped(*n))));
    let mut unsound = None;
    if let Some(verified) = &cell.verified {
        notes.push(format!("verified: {verified}"));
        unsound = (!verified.clean()).then(|| format!("verifying failed: {verified}"));
    }
    let (failure, oldest, cancelled) = (cell.failure, cell.oldest, cell.cancelled);
    Ok(Cell { result: cell.result, notes, failure, unsound, oldest, cancelled })
}

/// What became of the writes in a journal that is there already; nothing in it is thrown away unseen.
fn of_earlier_run(path: &Path, journal: &Path) -> Result<Option<Verified>> {
    if !std::fs::metadata(journal).is_ok_and(|meta| meta.is_file() && meta.len() > 0) {
        return Ok(None);
    }
    let target = Target::open(path, &Options::default())?;
    let found = dumbwaiter_drive::verify::check(&target, journal);
    found.map(Some).context("--verify-journal: that file is there; remove it or give another")
}

/// The time of day, ns since 1970.
fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64)
}

/// Notes when the measured time of a run was.
fn stamp(run: &mut RunResult, started: u64) {
    run.started_unix_ns = Some(started);
    run.ended_unix_ns = Some(started + (run.duration_s * 1e9) as u64);
}

/// Looks for acknowledged writes that are lost or torn.
pub(crate) fn verify(args: &VerifyArgs) -> Result<Ended> {
    let target = Target::open(&args.target, &Options::default())?;
    let found = dumbwaiter_drive::verify::check(&target, &args.journal)?;
    output::print(&format!("{found}\n"))?;
    Ok(if found.clean() { Ended::Done } else { Ended::DeviceFailed })
}
