//! The engine on a real device, in turns with fio and with a bare ring.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dumbwaiter_block::Nanos;
use dumbwaiter_experiment::{Control, Failure, FailureKind};
use dumbwaiter_linux::loops::OwnLoop;
use dumbwaiter_linux::queue::Queue;
use dumbwaiter_linux::settings::Settings;
use dumbwaiter_linux::{Roots, target};
use dumbwaiter_measure::{grouped, median};
use dumbwaiter_realworld::drive::{CompletionMode as Completion, Options, Target, bare};
use dumbwaiter_report::{Align, Style, table};
use dumbwaiter_scenario::load::Prepared;
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use dumbwaiter_schedulers::Choice;
use serde::Serialize;

type Result<T> = std::result::Result<T, Failure>;

/// The schedulers that are measured by default.
pub const SCHEDULERS: &str = "none,mq-deadline,kyber,bfq";
/// The operations, as fio names them too.
pub const OPS: [&str; 6] = ["randread", "randwrite", "randrw", "read", "write", "rw"];
/// Size of the device that is made where none is named.
const OWN_BYTES: u64 = 1 << 30;
const BLOCK: u32 = 4096;

/// A measurement: its target, loads and schedulers.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A file or block device; `None` makes a loop device in memory.
    pub on: Option<PathBuf>,
    /// May the device that is named be written? That destroys its content.
    pub allow_writes: bool,
    /// The operation, one of [`OPS`].
    pub op: String,
    /// Length of one run.
    pub time: Nanos,
    /// I/Os in flight.
    pub depths: Vec<u32>,
    /// Runs of each; the median counts.
    pub rounds: u32,
    /// Our schedulers, and the kernel's of the same names below fio.
    pub schedulers: Vec<SchedulerSpec>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            on: None,
            allow_writes: false,
            op: OPS[0].to_owned(),
            time: Nanos::from_secs(2),
            depths: vec![1, 32, 128],
            rounds: 3,
            schedulers: SchedulerSpec::parse_list(SCHEDULERS).unwrap_or_default(),
        }
    }
}

/// The result of a measurement.
pub struct Measured {
    runs: Vec<Runs>,
    /// The engine beside fio, by depth and scheduler.
    pub rows: Vec<Row>,
    /// fio's version, where it is installed.
    fio: Option<String>,
    /// Why it ended early, if a run failed.
    pub failure: Option<Failure>,
}

/// A program that does the load.
#[derive(Clone, PartialEq, Eq)]
enum Program {
    /// The engine, with one of our schedulers.
    Engine(String),
    /// A ring and nothing else.
    Bare,
    /// fio, stock or tuned, with one of the kernel's schedulers over the device.
    Fio { tuned: bool, scheduler: String },
}

impl Program {
    fn name(&self) -> String {
        match self {
            Program::Engine(scheduler) => format!("engine, {scheduler}"),
            Program::Bare => "bare ring".to_owned(),
            Program::Fio { tuned, scheduler } => format!("{}, {scheduler}", peer(*tuned)),
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

/// All runs of a program at one depth.
struct Runs {
    program: Program,
    depth: u32,
    figures: Vec<Figure>,
}

impl Runs {
    fn median(&self, of: impl Fn(&Figure) -> f64) -> f64 {
        median(self.figures.iter().map(of).collect())
    }
}

/// The engine beside fio.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `fio` as it is, or `fio-tuned`.
    pub peer: &'static str,
    /// I/Os in flight.
    pub depth: u32,
    /// The operation.
    pub op: String,
    /// The scheduler: ours in the engine, the kernel's below fio.
    pub scheduler: String,
    /// The engine's I/Os a second (median).
    pub iops: f64,
    /// The engine's CPU time of an I/O in microseconds (median).
    pub us_cpu_per_io: f64,
    /// fio's I/Os a second (median).
    pub fio_iops: f64,
    /// fio's CPU time of an I/O in microseconds (median).
    pub fio_us_cpu_per_io: f64,
    /// Median of the ratios of each round, engine over fio.
    pub iops_ratio: f64,
    /// The same for CPU time.
    pub cpu_ratio: f64,
    /// The bare ring's I/Os a second (median); NaN where it did not run.
    pub bare_iops: f64,
}

struct Setting<'a> {
    path: &'a Path,
    op: &'a str,
    time: Nanos,
    options: Options,
}

/// Measures every program in turns until `control` cancels; `progress` receives lines for people. Nothing is written to a
/// device that the plan names unless the plan allows it. Call [`dumbwaiter_linux::undo::on_signals`] before: settings of
/// loop devices change.
pub fn run(plan: &Plan, control: &Control, progress: &dyn Fn(&str)) -> Result<Measured> {
    if plan.time < Nanos::from_ms(1) {
        return Err(Failure::refused("--time: expected a time above 0, of 1ms at least"));
    }
    if !OPS.contains(&plan.op.as_str()) {
        return Err(Failure::refused(format!("--op {}: expected one of {}", plan.op, OPS.join(", "))));
    }
    let own =
        match &plan.on {
            Some(_) => None,
            None => Some(own_loop(OWN_BYTES).map_err(|e| {
                Failure::refused(format!("a device in memory cannot be made (name one with --on): {e}"))
            })?),
        };
    let path: &Path = match (&plan.on, &own) {
        (Some(path), _) => path,
        (None, Some(own)) => own.device(),
        (None, None) => return Err(Failure::refused("--on: expected a file or a block device")),
    };
    let options = Options { allow_writes: plan.allow_writes || own.is_some(), ..Options::default() };
    let setting = Setting { path, op: &plan.op, time: plan.time, options };
    check(plan, &setting, own.is_some(), progress)?;
    let mut settings = settings_of(path)?;
    let known = settings.as_ref().and_then(|s| s.queue().schedulers().ok()).map(|(_, all)| all).unwrap_or_default();
    if let (Some(settings), true) = (&mut settings, own.is_some()) {
        // The kernel keeps a loop device's settings for its next user.
        settings.queue().release_tags().map_err(linux)?;
        settings.set("nomerges", "0").map_err(linux)?;
        settings.set("rq_affinity", "1").map_err(linux)?;
    }
    for remark in Queue::of(path).map_err(linux)?.iter().flat_map(|queue| queue.remarks(&Roots::default())) {
        progress(&remark);
    }
    let fio = fio_version();
    if fio.is_none() {
        progress("fio is not installed: only the engine and the bare ring are measured (Debian: apt-get install fio)");
    }
    let schedulers: Vec<String> = plan.schedulers.iter().map(ToString::to_string).collect();
    let programs = programs(&schedulers, fio.is_some(), &known);
    // A load that cannot be asked for is refused now: later failures are the device's.
    for scheduler in &schedulers {
        load(&setting, scheduler, plan.depths.first().copied().unwrap_or(1), 0)?;
        Choice::parse(scheduler).map_err(Failure::refused)?;
    }
    let mut turns = Turns { setting: &setting, settings, control, progress };
    let (runs, failure) = turns.all(&programs, &plan.depths, plan.rounds);
    match failure {
        Some(failure) if failure.kind == FailureKind::Refused => Err(failure),
        failure => Ok(Measured { rows: rows(&runs, &plan.op), runs, fio, failure }),
    }
}

/// Refuses what would destroy data, or cannot run.
fn check(plan: &Plan, setting: &Setting<'_>, own: bool, progress: &dyn Fn(&str)) -> Result<()> {
    let (path, op) = (setting.path, setting.op);
    if !setting.options.allow_writes && !op.ends_with("read") {
        return Err(Failure::refused(format!(
            "--op {op}: {} is opened for reading only; --destroy {} allows writes, which destroy the data on it",
            path.display(),
            path.display()
        )));
    }
    if plan.allow_writes && !own {
        let facts = target::PathFacts::of(path).map_err(linux)?;
        if !facts.uses.is_empty() {
            let uses = facts.uses.join("; ");
            return Err(Failure::refused(format!("{} is in use ({uses}): writing would destroy it", path.display())));
        }
        facts.check_writes(true, None).map_err(linux)?;
    }
    let target = Target::open(path, &setting.options).map_err(Failure::refused)?;
    for note in target.notes() {
        progress(&format!("{}: {note}", path.display()));
    }
    let bytes = target.facts().bytes;
    if bytes < u64::from(BLOCK) {
        return Err(Failure::refused(format!(
            "{}: has {bytes} bytes; expected room for one I/O of {BLOCK}",
            path.display()
        )));
    }
    Ok(())
}

/// The bare ring, then the engine and fio with each scheduler.
fn programs(schedulers: &[String], fio: bool, known: &[String]) -> Vec<Program> {
    let mut programs = vec![Program::Bare];
    for scheduler in schedulers {
        programs.push(Program::Engine(scheduler.clone()));
        if fio && (scheduler == "none" || known.contains(scheduler)) {
            programs.extend([false, true].map(|tuned| Program::Fio { tuned, scheduler: scheduler.clone() }));
        }
    }
    programs
}

fn linux(error: dumbwaiter_linux::Error) -> Failure {
    match error {
        dumbwaiter_linux::Error::Refused(_) => Failure::refused(error),
        dumbwaiter_linux::Error::File { .. } => Failure::device(error),
    }
}

fn disk(error: impl Into<dumbwaiter_realworld::drive::Error>) -> Failure {
    let error = error.into();
    if error.is_refusal() { Failure::refused(error) } else { Failure::device(error) }
}

/// The programs taking turns on the device.
struct Turns<'a> {
    setting: &'a Setting<'a>,
    settings: Option<Settings>,
    control: &'a Control,
    progress: &'a dyn Fn(&str),
}

impl Turns<'_> {
    /// Every program in turn, depth after depth; every second round in the opposite order. The finished runs, and the
    /// failure that ended them.
    fn all(&mut self, programs: &[Program], depths: &[u32], rounds: u32) -> (Vec<Runs>, Option<Failure>) {
        let mut all = Vec::new();
        let mut failure = None;
        for depth in depths {
            let of = |program: &Program| Runs { program: program.clone(), depth: *depth, figures: Vec::new() };
            let mut runs: Vec<Runs> = programs.iter().map(of).collect();
            failure = self.depth(&mut runs, *depth, rounds).err();
            all.extend(runs.into_iter().filter(|r| !r.figures.is_empty()));
            if failure.is_some() || self.control.cancelled() {
                break;
            }
        }
        (all, failure)
    }

    fn depth(&mut self, runs: &mut [Runs], depth: u32, rounds: u32) -> Result<()> {
        for round in 0..rounds {
            if self.control.cancelled() {
                return Ok(());
            }
            (self.progress)(&format!("depth {depth}, round {} of {rounds}", round + 1));
            let mut order: Vec<usize> = (0..runs.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for i in order {
                if self.control.cancelled() {
                    return Ok(());
                }
                match one(self.setting, &runs[i].program, depth, round, self.settings.as_mut(), self.progress) {
                    Ok(figure) => runs[i].figures.push(figure),
                    // fio receives Ctrl-C too.
                    Err(_) if self.control.cancelled() => return Ok(()),
                    Err(failure) => return Err(failure.of(runs[i].program.name())),
                }
            }
        }
        Ok(())
    }
}

fn one(
    s: &Setting<'_>,
    program: &Program,
    depth: u32,
    round: u32,
    settings: Option<&mut Settings>,
    progress: &dyn Fn(&str),
) -> Result<Figure> {
    // The engine's schedulers and the bare ring have nothing of the kernel's below them.
    let below = match program {
        Program::Fio { scheduler, .. } => scheduler,
        Program::Engine(_) | Program::Bare => "none",
    };
    if let Some(settings) = settings {
        settings.set("scheduler", below).map_err(linux)?;
    }
    match program {
        Program::Bare => {
            let target = Target::open(s.path, &s.options).map_err(disk)?;
            let bare = bare::read_at_random(&target, depth, BLOCK, s.time, u64::from(round) + 1).map_err(disk)?;
            Ok(Figure { iops: bare.iops, us_cpu_per_io: bare.us_cpu_per_io })
        }
        Program::Engine(scheduler) => {
            let scenario = load(s, scheduler, depth, round)?;
            let target = Target::open(s.path, &s.options).map_err(disk)?;
            let prepared = Prepared::new(&scenario)?;
            let control = Control::default();
            let choice = Choice::parse(scheduler).map_err(Failure::refused)?;
            let cell =
                dumbwaiter_realworld::drive::run(&prepared, &target, &choice, Completion::Interrupt, 0, &control)
                    .map_err(disk)?;
            if let Some(failure) = cell.failure {
                return Err(Failure::device(failure));
            }
            Ok(Figure { iops: cell.result.iops, us_cpu_per_io: cell.result.cpu.us_per_io })
        }
        Program::Fio { tuned, .. } => fio(s, depth, *tuned, true, progress),
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
    let mut scenario = Scenario::from_toml(&text, "bench").map_err(Failure::refused)?;
    scenario.schedulers = SchedulerSpec::parse_list(scheduler).map_err(Failure::refused)?;
    Ok(scenario)
}

fn rows(all: &[Runs], op: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for ours in all {
        let Program::Engine(name) = &ours.program else { continue };
        let bare = all.iter().find(|r| r.depth == ours.depth && r.program == Program::Bare);
        for tuned in [false, true] {
            let theirs = Program::Fio { tuned, scheduler: name.clone() };
            let Some(theirs) = all.iter().find(|r| r.depth == ours.depth && r.program == theirs) else { continue };
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

/// The figures as tables.
pub fn text(measured: &Measured, style: Style) -> String {
    let (all, rows) = (&measured.runs, &measured.rows);
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
        let of = |program: &Program| {
            all.iter().find(|r| r.depth == runs.depth && r.program == *program).map(|r| r.median(|f| f.iops))
        };
        let without = match &runs.program {
            Program::Engine(name) if name != "none" => of(&Program::Engine("none".into())),
            Program::Fio { tuned, scheduler } if scheduler != "none" => {
                of(&Program::Fio { tuned: *tuned, scheduler: "none".into() })
            }
            _ => None,
        };
        lines.push(vec![
            runs.depth.to_string(),
            runs.program.name(),
            grouped(iops as u64),
            format!("{:.2}", runs.median(|f| f.us_cpu_per_io)),
            of(&Program::Bare).map_or("–".to_owned(), |bare| format!("{:.2}", iops / bare)),
            without.map_or("–".to_owned(), |none| format!("{:.0} %", (1.0 - iops / none) * 100.0)),
        ]);
    }
    let mut text = table(&header, &lines, style);
    if rows.is_empty() {
        return text;
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
    text += &format!("\n{}", table(&header, &lines, style));
    text += &format!(
        "\nmedians; the engine runs our schedulers on a device set to none, {} the kernel's scheduler of the same name\n",
        measured.fio.as_deref().unwrap_or("fio")
    );
    text
}

fn fio_version() -> Option<String> {
    let out = Command::new("fio").arg("--version").output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// The system's number for too little memory, here: too little that may be locked.
const ENOMEM: i64 = 12;

/// Runs it; where `fixed` buffers cannot be had, once more without them, as the engine does.
fn fio(s: &Setting<'_>, depth: u32, tuned: bool, fixed: bool, progress: &dyn Fn(&str)) -> Result<Figure> {
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
    dumbwaiter_linux::process::end_with_us(&mut command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let out = command
        .spawn()
        .and_then(|child| child.wait_with_output())
        .map_err(|e| Failure::device(format!("fio cannot be started: {e}")))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let complaint = || {
        let errors = String::from_utf8_lossy(&out.stderr);
        // Errors of a job go to stdout.
        let of_job = text.lines().find(|line| line.starts_with("fio:")).unwrap_or_default();
        Failure::device(format!("fio failed: {}", format!("{} {of_job}", errors.trim()).trim()))
    };
    // Warnings may come before the document.
    let json: serde_json::Value =
        serde_json::from_str(text.get(text.find('{').ok_or_else(complaint)?..).unwrap_or_default())
            .map_err(|_| complaint())?;
    let job = &json["jobs"][0];
    if tuned && fixed && job["error"].as_i64() == Some(ENOMEM) {
        progress("fio-tuned runs without fixed buffers; `ulimit -l` raises the limit of locked memory");
        return fio(s, depth, tuned, false, progress);
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
    let Some(queue) = Queue::of(path).map_err(linux)?.filter(|queue| queue.name().starts_with("loop")) else {
        return Ok(None);
    };
    let mut settings = Settings::new(&queue).map_err(linux)?;
    // Can it be written? To the one that it has.
    let (now, _) = queue.schedulers().map_err(linux)?;
    let tried = settings.set("scheduler", &now).and_then(|_| settings.load_schedulers(|_| true));
    Ok(tried.is_ok().then_some(settings))
}

/// A loop device over a file in memory with random content.
fn own_loop(bytes: u64) -> std::result::Result<OwnLoop, dumbwaiter_linux::Error> {
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
