//! `recommend`: a short look at a drive, which only reads, and what to set.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use dumbwaiter_block::Nanos;
use dumbwaiter_engine::{Completion, Control, Options, Sleep, Target};
use dumbwaiter_kernel::queue::Settings;
use dumbwaiter_kernel::undo;
use dumbwaiter_load::Prepared;
use dumbwaiter_measure::{Metric, Ranking, RunResult, rank, welch};
use dumbwaiter_report::{Align, Document, table};
use dumbwaiter_scenario::{Scenario, SchedulerSpec};
use serde::Serialize;

use super::{Bench, cancel_with, kernel};
use crate::args::{Recommend, Via};
use crate::progress::Bar;
use crate::{Ended, compare, output};

/// Rounds that there is to be time for; the length of a run follows.
const ROUNDS: u32 = 5;
/// Fewest rounds: with less, chance cannot be judged.
const ROUNDS_MIN: u32 = 3;
const RUN_MIN: Nanos = Nanos::from_ms(250);
const RUN_MAX: Nanos = Nanos::from_secs(2);
/// So many times the time given may pass for the fewest rounds.
const OVERTIME: u32 = 2;
/// Part of a run that is warm-up, in percent.
const WARMUP_PERCENT: u64 = 20;
/// The probe that decides: it has somebody who waits and somebody who has much to do.
const SHARED: &str = "shared";

struct Probe {
    name: &'static str,
    about: &'static str,
    scenario: Scenario,
}

fn probes() -> Result<Vec<Probe>> {
    let one = |task: &str| {
        let text =
            format!("schedulers = [\"none\"]\n[[tenant]]\nname = \"reader\"\n[[tenant.task]]\nname = \"read\"\n{task}");
        Scenario::from_toml(&text, "built-in probe")
    };
    Ok(vec![
        Probe {
            name: "alone",
            about: "4 KiB reads, one at a time",
            scenario: one("rw = \"randread\"\nbs = \"4k\"\nioengine = \"psync\"")?,
        },
        Probe {
            name: "deep",
            about: "4 KiB reads, 32 at a time",
            scenario: one("rw = \"randread\"\nbs = \"4k\"\niodepth = 32")?,
        },
        Probe {
            name: "stream",
            about: "128 KiB reads in a row, 4 at a time",
            scenario: one("rw = \"read\"\nbs = \"128k\"\niodepth = 4")?,
        },
        Probe {
            name: SHARED,
            about: "one who waits, a database and a backup together",
            scenario: Scenario::builtin_real(),
        },
    ])
}

/// What to set, for machines.
#[derive(Serialize)]
struct Advice {
    device: String,
    /// What is set now.
    current: String,
    recommended: String,
    /// `true` where nothing is to be changed.
    keep: bool,
    /// The recommendation in a sentence.
    sentence: String,
    /// The figure that decided, of what is set now and of what is recommended.
    metric: String,
    now: f64,
    then: f64,
    /// p value of that difference; `null` where nothing changes.
    p: Option<f64>,
    commands: Vec<String>,
    udev_rule: String,
    polling: String,
    seconds: f64,
    survey: Document,
}

/// Looks, and says what to set.
pub(crate) fn run(args: &Recommend) -> Result<Ended> {
    let path = args.device.as_path();
    let budget = compare::time("--for", &args.length)?;
    let facts = dumbwaiter_kernel::target::Target::of(path)?;
    let Some(queue) = facts.queue() else {
        bail!("{} is a file: a scheduler is set for a block device; give the device that it is on", path.display())
    };
    if !queue.schedules() {
        bail!(
            "{} hands its I/O on to the devices below it: a scheduler is set for each of those; give one of them",
            path.display()
        );
    }
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    let options = Options::default();
    // Says what cannot be before anything is changed.
    Target::open(path, &options)?;
    let stop = Arc::new(AtomicBool::new(false));
    undo::on_signals(Some(Arc::clone(&stop)))?;
    let control = Arc::new(Control::default());
    cancel_with(&stop, &control);
    let mut settings = Settings::new(&queue)?;
    let (current, _) = queue.schedulers()?;
    settings
        .set("scheduler", &current)
        .context("the kernel's scheduler cannot be set; run as root to try the others")?;
    settings.load_schedulers(|_| true)?;
    let (_, all) = queue.schedulers()?;
    let ways: Vec<SchedulerSpec> = all.iter().map(|name| SchedulerSpec::named(name)).collect();
    let probes = probes()?;
    let runs = (probes.len() * ways.len()) as u64;
    let each = Nanos(budget.0 / runs.max(1) / u64::from(ROUNDS)).clamp(RUN_MIN, RUN_MAX);
    let scenarios: Vec<Scenario> = probes
        .iter()
        .map(|probe| {
            let warmup = Nanos(each.0 * WARMUP_PERCENT / 100);
            Scenario { warmup, duration: Some(Nanos(each.0 - warmup.0)), ..probe.scenario.clone() }
        })
        .collect();
    let mut notes = Vec::new();
    kernel::schedulers(&queue, &scenarios[0], Via::Kernel, &mut notes)?;
    notes.clear();

    eprintln!("{}: up to {budget}, only reading", path.display());
    let began = Instant::now();
    let bar = Bar::new(runs * u64::from(ROUNDS), Duration::from_nanos(each.0));
    let mut results: Vec<RunResult> = Vec::new();
    for round in 0.. {
        let spent = began.elapsed();
        let per_round = if round > 0 { spent / round } else { Duration::ZERO };
        // On a slow machine starting the runs takes more than they do: then with fewer rounds, rather than without end.
        let most = Duration::from_nanos(budget.0) * if round >= ROUNDS_MIN { 1 } else { OVERTIME };
        if stop.load(Ordering::Relaxed) || round > 0 && spent + per_round > most {
            break;
        }
        for (probe, scenario) in probes.iter().zip(&scenarios) {
            let prepared = Prepared::new(scenario)?;
            let bench = Bench { path, prepared: &prepared, options: &options, control: &control };
            for i in 0..ways.len() {
                let spec = &ways[(i + round as usize) % ways.len()];
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                bar.begin(&format!("{}, {spec}", probe.about));
                kernel::set(&mut settings, spec, scenario)?;
                let cell = kernel::run(&bench, spec, Completion::Interrupt, false, round)?;
                bar.done();
                if let Some(failure) = cell.failure {
                    bar.finish();
                    settings.restore();
                    eprintln!("dumbwaiter: {failure}");
                    return Ok(Ended::DeviceFailed);
                }
                if !cell.cancelled {
                    results.push(RunResult { variant: probe.name.to_owned(), ..cell.result });
                }
            }
        }
    }
    bar.finish();
    notes.extend(settings.restore());
    let polling = polling(path, &scenarios[0], &options, &facts, &control)?;
    let interrupted = stop.load(Ordering::Relaxed);
    let rankings = rank(&results, dumbwaiter_measure::Goal::Balanced);
    let Some(shared) = rankings.iter().find(|r| r.variant == SHARED) else {
        eprintln!("dumbwaiter: interrupted before anything could be said");
        return Ok(Ended::Interrupted);
    };
    let device = queue.name().to_owned();
    let advice = advice(path, &device, &current, shared, &results, polling, began.elapsed(), notes)?;
    if let Some(file) = &args.json {
        output::write_json(file, &advice)?;
    }
    if !args.json.as_deref().is_some_and(output::is_stdout) {
        tell(&advice, &probes, &rankings, &ways)?;
    }
    Ok(if interrupted { Ended::Interrupted } else { Ended::Done })
}

#[allow(clippy::too_many_arguments)]
fn advice(
    path: &Path,
    device: &str,
    current: &str,
    shared: &Ranking,
    results: &[RunResult],
    polling: String,
    took: Duration,
    notes: Vec<String>,
) -> Result<Advice> {
    let winner = &shared.rows[0];
    // What is set now stays where nothing is better by more than chance.
    let own = shared.rows.iter().find(|r| r.scheduler == current);
    let own = own.ok_or_else(|| anyhow!("`{current}`, which is set now, was not measured"))?;
    let samples = |name: &str| -> Vec<f64> {
        let runs = results.iter().filter(|r| r.variant == SHARED && r.scheduler == name);
        runs.map(|r| shared.metric.of(r, &shared.focus)).filter(|v| !v.is_nan()).collect()
    };
    let keep = winner.scheduler == current || own.keeps_throughput && own.verdict == dumbwaiter_measure::Verdict::Tie;
    let recommended = if keep { current } else { winner.scheduler.as_str() };
    let p = (!keep).then(|| welch(&samples(recommended), &samples(current))).filter(|p| !p.is_nan());
    let (now, then) = (own.mean(shared.metric), if keep { own } else { winner }.mean(shared.metric));
    let sentence = if keep {
        let tie =
            if winner.scheduler == current { "it is the best here" } else { "nothing is better by more than chance" };
        format!("Keep {current}: {tie}.")
    } else {
        shared.recommendation.sentence.clone()
    };
    let file = format!("/sys/block/{device}/queue/scheduler");
    let udev_rule = format!("ACTION==\"add|change\", KERNEL==\"{device}\", ATTR{{queue/scheduler}}=\"{recommended}\"");
    let rules = "/etc/udev/rules.d/60-io-scheduler.rules";
    let commands = vec![
        format!("echo {recommended} > {file}"),
        format!("echo '{udev_rule}' > {rules} && udevadm control --reload"),
    ];
    let versions = BTreeMap::from([("dumbwaiter".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let mut survey = Document::new(
        &format!("survey of {}", path.display()),
        serde_json::Value::Null,
        versions,
        results.to_vec(),
        dumbwaiter_measure::Goal::Balanced,
    );
    survey.notes = notes;
    Ok(Advice {
        device: path.display().to_string(),
        current: current.to_owned(),
        recommended: recommended.to_owned(),
        keep,
        sentence,
        metric: shared.metric.key().to_owned(),
        now,
        then,
        p,
        commands,
        udev_rule,
        polling,
        seconds: took.as_secs_f64(),
        survey,
    })
}

/// What polling would give to one who reads alone, in a sentence.
fn polling(
    path: &Path,
    scenario: &Scenario,
    options: &Options,
    facts: &dumbwaiter_kernel::target::Target,
    control: &Control,
) -> Result<String> {
    if !facts.polling.available {
        return Ok(format!("polling is not possible here: {}", facts.polling.about));
    }
    let prepared = Prepared::new(scenario)?;
    let none = dumbwaiter_schedulers::Choice::parse("none")?;
    let mut told = Vec::new();
    for completion in [Completion::Interrupt, Completion::Poll, Completion::Hybrid(Sleep::Auto)] {
        let target = Target::open(path, options)?;
        match dumbwaiter_engine::run(&prepared, &target, &none, completion, 0, control) {
            Ok(cell) => told.push(format!(
                "{completion} {:.1} us and {:.1} us of CPU",
                cell.result.latency_us.p50, cell.result.cpu.us_per_io
            )),
            Err(e) => told.push(format!("{completion}: {e}")),
        }
    }
    Ok(format!("4 KiB reads one at a time, median and CPU of each: {}", told.join("; ")))
}

fn tell(advice: &Advice, probes: &[Probe], rankings: &[Ranking], ways: &[SchedulerSpec]) -> Result<()> {
    let shown = [
        ("alone", Metric::P99, "alone p99 us"),
        ("deep", Metric::Iops, "deep IOPS"),
        ("stream", Metric::MbPerS, "stream MB/s"),
        (SHARED, Metric::FocusP99, "shared: waiting p99 us"),
        (SHARED, Metric::MbPerS, "shared: MB/s"),
    ];
    let mut header = vec![("", Align::Left), ("scheduler", Align::Left)];
    header.extend(shown.iter().map(|(_, _, title)| (*title, Align::Right)));
    let lines: Vec<Vec<String>> = ways
        .iter()
        .map(|way| {
            let mark = if way.name == advice.recommended { "▸" } else { "" };
            let mut line = vec![mark.to_owned(), way.name.clone()];
            for (probe, metric, _) in &shown {
                let row = rankings
                    .iter()
                    .find(|r| r.variant == *probe)
                    .and_then(|r| r.rows.iter().find(|row| row.scheduler == way.name));
                line.push(row.map_or(String::new(), |r| format!("{:.0}", r.mean(*metric))));
            }
            line
        })
        .collect();
    let mut text = format!("{} · {} is set · {:.0} s of reading\n\n", advice.device, advice.current, advice.seconds);
    text += &table(&header, &lines, output::style());
    for probe in probes {
        text += &format!("\n{}: {}", probe.name, probe.about);
    }
    text += &format!("\n\n{}\n", advice.sentence);
    if !advice.keep {
        let change = (advice.then / advice.now - 1.0) * 100.0;
        let p = advice.p.map_or(String::new(), |p| format!(", p = {p:.3}"));
        text += &format!(
            "Against {}: {} {:.0} in place of {:.0} ({change:+.0} %{p}).\n\nNow, and at every start:\n",
            advice.current, advice.metric, advice.then, advice.now
        );
        for command in &advice.commands {
            text += &format!("  {command}\n");
        }
    }
    text += &format!("\n{}\n", advice.polling);
    output::print(&text)
}
