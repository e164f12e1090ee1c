//! `bench engine`: the engine on a real device, in turns with fio and with a ring that nothing else is around.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use dumbwaiter_block::Nanos;
use dumbwaiter_engine::{Completion, Options, Target, bare};
use dumbwaiter_experiment::Control;
use dumbwaiter_linux::loops::OwnLoop;
use dumbwaiter_linux::place;
use dumbwaiter_linux::queue::{Queue, Settings};
use dumbwaiter_linux::{Roots, target, undo};
use dumbwaiter_load::Prepared;
use dumbwaiter_measure::median;
use dumbwaiter_report::{Align, table};
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_schedulers::Choice;
use dumbwaiter_workloads::units;
use serde::Serialize;

use crate::args::Bench;
use crate::{Ended, on, output};

const SCHEDULERS: &str = "none,mq-deadline,kyber,bfq";
/// As fio names them, too.
const OPS: [&str; 6] = ["randread", "randwrite", "randrw", "read", "write", "rw"];
const DEPTHS: [u32; 3] = [1, 32, 128];
const ROUNDS: u32 = 3;
const TIME: Nanos = Nanos::from_secs(2);
/// Size of the device that is made where none is named.
const OWN_BYTES: u64 = 1 << 30;
const BLOCK: u32 = 4096;

/// Who runs.
#[derive(Clone, PartialEq, Eq)]
enum Who {
    /// The engine, with one of our schedulers.
    Engine(String),
    /// A ring and nothing else.
    Bare,
    /// fio, stock or tuned, with one of the kernel's schedulers over the device.
    Fio { tuned: bool, scheduler: String },
}

impl Who {
    fn name(&self) -> String {
        match self {
            Who::Engine(scheduler) => format!("engine, {scheduler}"),
            Who::Bare => "bare ring".to_owned(),
            Who::Fio { tuned, scheduler } => format!("{}, {scheduler}", peer(*tuned)),
        }
    }
}

fn peer(tuned: bool) -> &'static str {
    if tuned { "fio-tuned" } else { "fio" }
}

/// One run.
#[derive(Clone, Copy)]
struct Figure {
    iops: f64,
    us_cpu_per_io: f64,
}

/// All runs of somebody at one depth.
struct Runs {
    who: Who,
    depth: u32,
    figures: Vec<Figure>,
}

impl Runs {
    fn median(&self, of: impl Fn(&Figure) -> f64) -> f64 {
        median(self.figures.iter().map(of).collect())
    }
}

#[derive(Serialize)]
struct Row {
    peer: &'static str,
    depth: u32,
    op: String,
    scheduler: String,
    iops: f64,
    us_cpu_per_io: f64,
    fio_iops: f64,
    fio_us_cpu_per_io: f64,
    iops_ratio: f64,
    cpu_ratio: f64,
    bare_iops: f64,
}

struct Setting<'a> {
    path: &'a Path,
    op: &'a str,
    time: Nanos,
    options: Options,
}

/// Measures and prints.
pub(crate) fn run(args: &Bench) -> Result<Ended> {
    let time = match &args.engine.time {
        Some(text) => units::time(text, units::BareTime::Seconds).map_err(|e| anyhow!("--time: {e}"))?,
        None => TIME,
    };
    if time < Nanos::from_ms(1) {
        bail!("--time: expected a time above 0, of 1ms at least");
    }
    let op = args.engine.op.as_deref().unwrap_or(OPS[0]);
    if !OPS.contains(&op) {
        bail!("--op {op}: expected one of {}", OPS.join(", "));
    }
    let list = args.schedulers.as_deref().unwrap_or(SCHEDULERS);
    let specs = SchedulerSpec::parse_list(list).map_err(|e| anyhow!("--schedulers: {e}"))?;
    let stop = Arc::new(AtomicBool::new(false));
    undo::on_signals(Some(Arc::clone(&stop)))?;
    let own = match &args.engine.on {
        Some(_) => None,
        None => Some(own_loop(OWN_BYTES).context("a device in memory cannot be made (name one with --on)")?),
    };
    let path: &Path = match (&args.engine.on, &own) {
        (Some(path), _) => path,
        (None, Some(own)) => own.device(),
        (None, None) => bail!("--on: expected a file or a block device"),
    };
    let schedulers: Vec<String> = specs.iter().map(ToString::to_string).collect();
    let options = Options { allow_writes: args.engine.allow_writes || own.is_some(), ..Options::default() };
    if !options.allow_writes && !op.ends_with("read") {
        bail!(
            "--op {op}: {} is only read unless writing is allowed (--allow-writes): that destroys what is on it",
            path.display()
        );
    }
    let setting = Setting { path, op, time, options };
    {
        if args.engine.allow_writes && own.is_none() {
            let facts = target::Target::of(path)?;
            if !facts.uses.is_empty() {
                bail!("{} is in use ({}): writing would destroy it", path.display(), facts.uses.join("; "));
            }
            facts.check_writes(true, None)?;
        }
        let target = Target::open(path, &setting.options)?;
        for note in target.notes() {
            crate::tell!("{}: {note}", path.display());
        }
        let bytes = target.facts().bytes;
        if bytes < u64::from(BLOCK) {
            bail!("{}: has {bytes} bytes; expected room for one I/O of {BLOCK}", path.display());
        }
    }
    let mut settings = settings_of(path)?;
    let known = settings.as_ref().and_then(|s| s.queue().schedulers().ok()).map(|(_, all)| all).unwrap_or_default();
    if let (Some(settings), true) = (&mut settings, own.is_some()) {
        // The kernel keeps a loop device's settings for whoever uses that number next.
        settings.queue().release_tags()?;
        settings.set("nomerges", "0")?;
        settings.set("rq_affinity", "1")?;
    }
    for remark in Queue::of(path)?.iter().flat_map(|queue| queue.remarks(&Roots::default())) {
        crate::tell!("{remark}");
    }
    let fio = fio_version();
    if fio.is_none() {
        crate::tell!(
            "fio is not installed: only the engine and the bare ring are measured (Debian: apt-get install fio)"
        );
    }
    let mut who = vec![Who::Bare];
    for scheduler in &schedulers {
        who.push(Who::Engine(scheduler.clone()));
        let there = scheduler == "none" || known.contains(scheduler);
        if fio.is_some() && there {
            for tuned in [false, true] {
                who.push(Who::Fio { tuned, scheduler: scheduler.clone() });
            }
        }
    }
    let depths = if args.engine.depth.is_empty() { DEPTHS.to_vec() } else { args.engine.depth.clone() };
    let rounds = args.engine.rounds.unwrap_or(ROUNDS);
    // What cannot be asked for is found out now, so that what goes wrong later is the device.
    for scheduler in &schedulers {
        load(&setting, scheduler, depths[0], 0)?;
        Choice::parse(scheduler)?;
    }
    let (all, broken) = measure(&setting, &who, &depths, rounds, settings.as_mut(), &stop);
    if let Some(e) = broken.as_ref().filter(|e| on::is_refusal(e)) {
        bail!(crate::told_once(e));
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let rows = rows(&all, op);
    match &args.json {
        Some(path) => output::write_json(path, &rows)?,
        None => print(&all, &rows, fio.as_deref())?,
    }
    Ok(match broken {
        Some(e) => {
            crate::tell!("dumbwaiter: {}", crate::told_once(&e));
            Ended::DeviceFailed
        }
        None if interrupted => Ended::Interrupted,
        None => Ended::Done,
    })
}

/// Everybody in turn, each depth for itself; every second round the other way round. What was finished, and the error that
/// ended it.
fn measure(
    setting: &Setting<'_>,
    who: &[Who],
    depths: &[u32],
    rounds: u32,
    mut settings: Option<&mut Settings>,
    stop: &AtomicBool,
) -> (Vec<Runs>, Option<anyhow::Error>) {
    let mut all = Vec::new();
    let mut broken = None;
    for depth in depths {
        let mut runs: Vec<Runs> =
            who.iter().map(|who| Runs { who: who.clone(), depth: *depth, figures: Vec::new() }).collect();
        'rounds: for round in 0..rounds {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            crate::tell!("depth {depth}, round {} of {rounds}", round + 1);
            let mut order: Vec<usize> = (0..runs.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for i in order {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                match one(setting, &runs[i].who, *depth, round, settings.as_deref_mut()) {
                    Ok(figure) => runs[i].figures.push(figure),
                    // fio hears of Ctrl-C too.
                    Err(_) if stop.load(Ordering::Relaxed) => break,
                    Err(e) => {
                        broken = Some(e.context(runs[i].who.name()));
                        break 'rounds;
                    }
                }
            }
        }
        all.extend(runs.into_iter().filter(|r| !r.figures.is_empty()));
        if broken.is_some() {
            break;
        }
    }
    (all, broken)
}

fn one(s: &Setting<'_>, who: &Who, depth: u32, round: u32, settings: Option<&mut Settings>) -> Result<Figure> {
    // The engine's schedulers and the bare ring have nothing of the kernel's below them.
    let below = match who {
        Who::Fio { scheduler, .. } => scheduler,
        Who::Engine(_) | Who::Bare => "none",
    };
    if let Some(settings) = settings {
        settings.set("scheduler", below)?;
    }
    match who {
        Who::Bare => {
            let target = Target::open(s.path, &s.options)?;
            let bare = bare::read_at_random(&target, depth, BLOCK, s.time, u64::from(round) + 1)?;
            Ok(Figure { iops: bare.iops, us_cpu_per_io: bare.us_cpu_per_io })
        }
        Who::Engine(scheduler) => {
            let scenario = load(s, scheduler, depth, round)?;
            let target = Target::open(s.path, &s.options)?;
            let prepared = Prepared::new(&scenario)?;
            let control = Control::default();
            let choice = Choice::parse(scheduler)?;
            let cell = dumbwaiter_engine::run(&prepared, &target, &choice, Completion::Interrupt, 0, &control)?;
            if let Some(failure) = cell.failure {
                bail!("{failure}");
            }
            Ok(Figure { iops: cell.result.iops, us_cpu_per_io: cell.result.cpu.us_per_io })
        }
        Who::Fio { tuned, .. } => fio(s, depth, *tuned, true),
    }
}

/// The engine's load.
fn load(s: &Setting<'_>, scheduler: &str, depth: u32, round: u32) -> Result<Scenario> {
    let text = format!(
        "duration = \"{}ms\"\nseed = {}\n[[task]]\nname = \"bench\"\nrw = \"{}\"\nbs = \"4k\"\niodepth = {depth}\nioengine = \"io_uring\"\n",
        s.time.0 / 1_000_000,
        round + 1,
        s.op
    );
    let mut scenario = Scenario::from_toml(&text, "bench")?;
    scenario.schedulers = SchedulerSpec::parse_list(scheduler).map_err(|e| anyhow!("{e}"))?;
    Ok(scenario)
}

fn rows(all: &[Runs], op: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for ours in all {
        let Who::Engine(name) = &ours.who else { continue };
        let bare = all.iter().find(|r| r.depth == ours.depth && r.who == Who::Bare);
        for tuned in [false, true] {
            let theirs = Who::Fio { tuned, scheduler: name.clone() };
            let Some(theirs) = all.iter().find(|r| r.depth == ours.depth && r.who == theirs) else { continue };
            // Pairs of one round, so that what disturbs a round disturbs both.
            let pairs = || ours.figures.iter().zip(&theirs.figures);
            rows.push(Row {
                peer: peer(tuned),
                depth: ours.depth,
                op: op.to_owned(),
                scheduler: name.clone(),
                iops: ours.median(|f| f.iops),
                us_cpu_per_io: ours.median(|f| f.us_cpu_per_io),
                fio_iops: theirs.median(|f| f.iops),
                fio_us_cpu_per_io: theirs.median(|f| f.us_cpu_per_io),
                iops_ratio: median(pairs().map(|(a, b)| a.iops / b.iops).collect()),
                cpu_ratio: median(pairs().map(|(a, b)| a.us_cpu_per_io / b.us_cpu_per_io).collect()),
                bare_iops: bare.map_or(f64::NAN, |b| b.median(|f| f.iops)),
            });
        }
    }
    rows
}

fn print(all: &[Runs], rows: &[Row], fio: Option<&str>) -> Result<()> {
    let header = [
        ("depth", Align::Right),
        ("who", Align::Left),
        ("IOPS", Align::Right),
        ("us CPU per I/O", Align::Right),
        ("of the bare ring", Align::Right),
        ("lost to none", Align::Right),
    ];
    let mut lines = Vec::new();
    for runs in all {
        let iops = runs.median(|f| f.iops);
        let of = |who: &Who| all.iter().find(|r| r.depth == runs.depth && r.who == *who).map(|r| r.median(|f| f.iops));
        let without = match &runs.who {
            Who::Engine(name) if name != "none" => of(&Who::Engine("none".into())),
            Who::Fio { tuned, scheduler } if scheduler != "none" => {
                of(&Who::Fio { tuned: *tuned, scheduler: "none".into() })
            }
            _ => None,
        };
        lines.push(vec![
            runs.depth.to_string(),
            runs.who.name(),
            output::grouped(iops as u64),
            format!("{:.2}", runs.median(|f| f.us_cpu_per_io)),
            of(&Who::Bare).map_or("–".to_owned(), |bare| format!("{:.2}", iops / bare)),
            without.map_or("–".to_owned(), |none| format!("{:.0} %", (1.0 - iops / none) * 100.0)),
        ]);
    }
    output::print(&table(&header, &lines, output::style()))?;
    if rows.is_empty() {
        return Ok(());
    }
    let header = [
        ("depth", Align::Right),
        ("scheduler", Align::Left),
        ("against", Align::Left),
        ("IOPS, ratio", Align::Right),
        ("CPU per I/O, ratio", Align::Right),
    ];
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|r| {
            vec![
                r.depth.to_string(),
                r.scheduler.clone(),
                r.peer.to_owned(),
                format!("{:.2}", r.iops_ratio),
                format!("{:.2}", r.cpu_ratio),
            ]
        })
        .collect();
    output::print(&format!("\n{}", table(&header, &lines, output::style())))?;
    output::print(&format!(
        "\nmedians; the engine with its schedulers over a device without one, {} with the kernel's of the same name\n",
        fio.unwrap_or("fio")
    ))
}

fn fio_version() -> Option<String> {
    let out = Command::new("fio").arg("--version").output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// The system's number for too little memory, here: too little that may be locked.
const ENOMEM: i64 = 12;

/// Runs it; where `fixed` buffers cannot be had, once more without them, as the engine does.
fn fio(s: &Setting<'_>, depth: u32, tuned: bool, fixed: bool) -> Result<Figure> {
    let mut command = Command::new("fio");
    command.arg("--name=bench").arg(format!("--filename={}", s.path.display())).args([
        "--direct=1",
        "--ioengine=io_uring",
        &format!("--rw={}", s.op),
        &format!("--bs={BLOCK}"),
        &format!("--iodepth={depth}"),
        &format!("--runtime={}ms", s.time.0 / 1_000_000),
        "--time_based",
        "--output-format=json",
    ]);
    if !s.options.allow_writes {
        command.arg("--readonly");
    }
    if tuned {
        let batch = (depth / 4).max(1);
        if fixed {
            command.arg("--fixedbufs");
        }
        command.args([
            "--registerfiles",
            "--gtod_reduce=1",
            &format!("--iodepth_batch_submit={batch}"),
            &format!("--iodepth_batch_complete_min={batch}"),
            &format!("--iodepth_batch_complete_max={depth}"),
        ]);
    }
    place::end_with_us(&mut command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let out = command.spawn().and_then(|child| child.wait_with_output()).context("fio cannot be started")?;
    let text = String::from_utf8_lossy(&out.stdout);
    let complaint = || {
        let errors = String::from_utf8_lossy(&out.stderr);
        // What befalls a job is told on stdout.
        let of_job = text.lines().find(|line| line.starts_with("fio:")).unwrap_or_default();
        anyhow!("fio failed: {}", format!("{} {of_job}", errors.trim()).trim())
    };
    // Warnings may stand before the document.
    let json: serde_json::Value =
        serde_json::from_str(text.get(text.find('{').ok_or_else(complaint)?..).unwrap_or_default())
            .map_err(|_| complaint())?;
    let job = &json["jobs"][0];
    if tuned && fixed && job["error"].as_i64() == Some(ENOMEM) {
        crate::tell!("fio-tuned runs without fixed buffers; `ulimit -l` raises the limit of locked memory");
        return fio(s, depth, tuned, false);
    }
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(0.0);
    let (reads, writes) = (number(&job["read"]["total_ios"]), number(&job["write"]["total_ios"]));
    let seconds = number(&job["read"]["runtime"]).max(number(&job["write"]["runtime"])) / 1e3;
    if job["error"].as_i64() != Some(0) || reads + writes == 0.0 || seconds == 0.0 {
        return Err(complaint());
    }
    let busy = (number(&job["usr_cpu"]) + number(&job["sys_cpu"])) / 100.0 * seconds;
    Ok(Figure { iops: (reads + writes) / seconds, us_cpu_per_io: busy * 1e6 / (reads + writes) })
}

/// The settings of a loop device, whose scheduler changes with the runs; other devices are left as they are.
fn settings_of(path: &Path) -> Result<Option<Settings>> {
    let Some(queue) = Queue::of(path)?.filter(|queue| queue.name().starts_with("loop")) else { return Ok(None) };
    let mut settings = Settings::new(&queue)?;
    // Can it be written? To the one that it has.
    let (now, _) = queue.schedulers()?;
    let tried = settings.set("scheduler", &now).and_then(|_| settings.load_schedulers(|_| true));
    Ok(tried.is_ok().then_some(settings))
}

/// A loop device over a file in memory with random content.
fn own_loop(bytes: u64) -> Result<OwnLoop, dumbwaiter_linux::Error> {
    OwnLoop::new(Path::new("/dev/shm"), |file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..bytes / 8 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            out.write_all(&state.to_le_bytes())?;
        }
        out.flush()
    })
}
