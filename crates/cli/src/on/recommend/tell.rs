//! The advice, for people and for machines.

use std::collections::BTreeMap;
use std::path::Path;

use dumbwaiter_advise::Document;
use dumbwaiter_advise::{Metric, rank};
use dumbwaiter_measure::{RunResult, latency_text, rate_text};
use dumbwaiter_report::{Align, table};
use dumbwaiter_scenario::SchedulerSpec;
use serde::Serialize;

use super::completion::Methods;
use super::plan::Plan;
use super::race::{Decision, Gain, Loss, Race};
use crate::output;

/// What to set, for machines.
#[derive(Serialize)]
pub(super) struct Advice {
    device: String,
    goal: String,
    /// What decides, in a sentence.
    criterion: String,
    /// What is set now.
    current: String,
    recommended: String,
    /// `true` where nothing is to be changed.
    keep: bool,
    /// The recommendation in a sentence.
    sentence: String,
    /// What changes, and with which confidence; `null` where nothing does.
    gain: Option<Gain>,
    /// Schedulers that cannot be told from the recommended one.
    ties: Vec<String>,
    /// Schedulers that are out because they lose throughput.
    losses: Vec<Loss>,
    commands: Vec<String>,
    udev_rule: String,
    completion: Methods,
    interrupted: bool,
    seconds: f64,
    pub(super) survey: Document,
}

/// All that the survey found.
pub(super) struct Found<'a> {
    pub(super) path: &'a Path,
    /// Name of the disk.
    pub(super) device: &'a str,
    pub(super) current: &'a str,
    /// The pick.
    pub(super) spec: Option<&'a SchedulerSpec>,
    pub(super) not_loaded: Vec<&'static str>,
    /// Of the machine, before it began.
    pub(super) load: f64,
    pub(super) cpus: f64,
    pub(super) interrupted: bool,
    pub(super) seconds: f64,
    pub(super) plan: &'a Plan,
    pub(super) race: &'a Race,
    pub(super) decision: Decision,
    pub(super) methods: Methods,
    pub(super) notes: Vec<String>,
}

/// Puts it together.
pub(super) fn advice(found: Found<'_>, results: Vec<RunResult>) -> Advice {
    let Found { path, device, current, plan, race, decision, methods, .. } = found;
    let (commands, udev_rule) = found.spec.map(|spec| settings(device, &disk(device), spec)).unwrap_or_default();
    let sentence = sentence(&decision, current, race.ways.len());
    let mut notes = vec![sentence.clone()];
    notes.extend(found.notes);
    if found.interrupted {
        notes.push("interrupted: this rests on less than was planned".into());
    }
    if !found.not_loaded.is_empty() {
        let names = found.not_loaded.join(", ");
        notes.push(format!(
            "not tried, since this kernel does not offer it for {device}: {names} (perhaps a module that is not loaded)"
        ));
    }
    if found.load > found.cpus {
        notes.push(format!(
            "the machine was busy with other things (load {:.1} on {:.0} CPUs): differences drown in that; try again when it is quiet",
            found.load, found.cpus
        ));
    }
    let deciding = results.iter().filter(|r| r.variant == race.points[0]).count();
    notes.push(format!("{} runs, {deciding} of them at the point that decides", results.len()));
    let versions = BTreeMap::from([("dumbwaiter".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let scenarios: serde_json::Map<String, serde_json::Value> =
        plan.points.iter().filter_map(|p| Some((p.name.to_owned(), serde_json::to_value(&p.scenario).ok()?))).collect();
    let title = format!("survey of {}", path.display());
    let mut survey = Document::new(&title, scenarios.into(), versions, results, race.goal);
    survey.notes = notes;
    // What each point by itself would say is not the advice.
    for told in &mut survey.recommendation {
        if told.variant == race.points[0] {
            (told.scheduler, told.sentence) = (decision.pick.clone(), sentence.clone());
        } else if race.points.contains(&told.variant.as_str()) {
            told.sentence = format!("A guard, which decides nothing by itself. {}", told.sentence);
        }
    }
    Advice {
        device: path.display().to_string(),
        goal: race.goal.name().to_owned(),
        criterion: criterion(race, &decision),
        current: current.to_owned(),
        recommended: decision.pick,
        keep: decision.keep,
        sentence,
        gain: decision.gain,
        ties: decision.ties,
        losses: decision.losses,
        commands,
        udev_rule,
        completion: methods,
        interrupted: found.interrupted,
        seconds: found.seconds,
        survey,
    }
}

/// How a udev rule knows the disk whose folder in sysfs this is. Names as `sda` change hands from one start to the next; where
/// the drive says who it is, that is what counts.
fn disk(device: &str) -> String {
    identified(&Path::new("/sys/block").join(device)).unwrap_or_else(|| format!("KERNEL==\"{device}\""))
}

fn identified(disk: &Path) -> Option<String> {
    // NVMe, SCSI and SATA, virtio-blk. A pattern's special characters would match more than they say.
    let named = |attribute: &str, key: &str| {
        let id = std::fs::read_to_string(disk.join(attribute)).ok()?.trim_end().to_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || " .:_-+/=".contains(c);
        (!id.trim().is_empty() && id.chars().all(plain)).then(|| format!("{key}==\"{id}\""))
    };
    let id = named("wwid", "ATTR{wwid}")
        .or_else(|| named("device/wwid", "ATTRS{wwid}"))
        .or_else(|| named("serial", "ATTR{serial}"))?;
    Some(format!("SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {id}"))
}

/// The commands that set a scheduler now and at every start, and the udev rule by itself. Each disk has a file of its own for
/// it: that of another disk stays.
fn settings(device: &str, matching: &str, spec: &SchedulerSpec) -> (Vec<String>, String) {
    let queue = format!("/sys/block/{device}/queue");
    let mut commands = vec![format!("echo {} > {queue}/scheduler", spec.name)];
    let mut rule = format!("ACTION==\"add|change\", {matching}, ATTR{{queue/scheduler}}=\"{}\"", spec.name);
    for (name, value) in &spec.tunables {
        commands.push(format!("echo {value} > {queue}/iosched/{name}"));
        rule += &format!(", ATTR{{queue/iosched/{name}}}=\"{value}\"");
    }
    let file = format!("/etc/udev/rules.d/60-io-scheduler-{device}.rules");
    commands.push(format!("echo '{rule}' > {file} && udevadm control --reload"));
    (commands, rule)
}

fn named(metric: Metric, focus: &str) -> String {
    match metric {
        Metric::MbPerS => "throughput".to_owned(),
        Metric::Pv => "deviation from the weights (PV)".to_owned(),
        _ => format!("p99 latency of {focus}"),
    }
}

fn criterion(race: &Race, decision: &Decision) -> String {
    let ranking = &decision.ranking;
    let better = if ranking.metric.higher_is_better() { "the highest" } else { "the lowest" };
    let kept = race.floor() * 100.0;
    let others = if race.points.len() > 1 { " and at every other point" } else { "" };
    format!(
        "goal {}: {better} {} where `{}` runs, keeping {kept:.0} % of the best throughput there{others}; what is set stays unless \
         another is better by 2 % and more than chance (p <= 0.05)",
        race.goal.name(),
        named(ranking.metric, &ranking.focus.name()),
        race.points[0],
    )
}

/// The figure with its confidence: `3.03 ms in place of 4.10 ms (-26 %, -38 to -11 %, p = 0.003)`.
fn shown(gain: &Gain, whose: &str) -> String {
    let value = |v: f64| match gain.metric.as_str() {
        "mb_per_s" => rate_text(v),
        "pv" => format!("{v:.3}"),
        _ => latency_text(v),
    };
    let [low, high] = gain.ci95.map(|c| c * 100.0);
    let ci = match (low.is_finite() && high.is_finite(), high) {
        (false, _) => String::new(),
        // Of few runs that differ much, the logarithm's interval says next to nothing, in many digits.
        (_, 1000.0..) => ", by how much is open".to_owned(),
        _ => format!(", with 95 % confidence {low:+.0} to {high:+.0} %"),
    };
    let p = match gain.p {
        p if p.is_nan() => "chance not ruled out".to_owned(),
        p if p < 0.001 => "p < 0.001".to_owned(),
        p => format!("p = {p:.3}"),
    };
    format!("{} in place of {whose}{} ({:+.0} %{ci}, {p})", value(gain.then), value(gain.now), gain.change * 100.0)
}

fn sentence(decision: &Decision, current: &str, ways: usize) -> String {
    let Decision { pick, ranking, ties, unproven, gain, .. } = decision;
    let focus = ranking.focus.name();
    let figure = named(ranking.metric, &focus);
    if ways < 2 {
        return format!("Keep {current}: there is no other scheduler to choose.");
    }
    if let Some(gain) = gain {
        let what = if gain.point == "shared" && gain.metric == ranking.metric.key() {
            figure
        } else {
            format!("{} at {}", if gain.metric == "mb_per_s" { "throughput" } else { &figure }, gain.point)
        };
        let also = if ties.is_empty() { String::new() } else { format!("; {} would do as well", ties.join(", ")) };
        return format!("Set {pick}: {what} {}{also}.", shown(gain, &format!("{current}'s ")));
    }
    match unproven {
        Some((name, gain)) if gain.p > 0.05 || gain.p.is_nan() => {
            format!(
                "Keep {current}: nothing is better by more than chance (nearest is {name}: {figure} {}).",
                shown(gain, "")
            )
        }
        Some((name, gain)) => {
            format!(
                "Keep {current}: nothing is better by an amount that can be noticed ({name}: {figure} {}).",
                shown(gain, "")
            )
        }
        None if ties.is_empty() => format!("Keep {current}: it is the best here."),
        None => format!("Keep {current}: nothing is better ({} cannot be told from it by {figure}).", ties.join(", ")),
    }
}

/// All of it for a terminal.
pub(super) fn text(advice: &Advice, plan: &Plan) -> String {
    let style = output::style();
    let rankings = rank(&advice.survey.runs, advice.survey.goal);
    let mut columns = vec![
        ("shared", Metric::FocusP99, "waiting p99 us".to_owned()),
        ("shared", Metric::MbPerS, "shared MB/s".to_owned()),
    ];
    for point in &plan.points[1..] {
        let unit = if point.metric == Metric::Iops { "IOPS" } else { "MB/s" };
        columns.push((point.name, point.metric, format!("{} {unit}", point.name)));
    }
    let mut header = vec![("", Align::Left), ("scheduler", Align::Left)];
    header.extend(columns.iter().map(|(.., title)| (title.as_str(), Align::Right)));
    let Some(shared) = rankings.iter().find(|r| r.variant == "shared") else { return String::new() };
    let mut lines = Vec::new();
    for scheduler in shared.rows.iter().map(|row| &row.scheduler) {
        let mark = if *scheduler == advice.recommended { "▸" } else { "" };
        let mut line = vec![mark.to_owned(), scheduler.clone()];
        for (point, metric, _) in &columns {
            let row = rankings.iter().find(|r| r.variant == *point);
            let row = row.and_then(|r| r.rows.iter().find(|row| row.scheduler == *scheduler));
            line.push(row.map_or(String::new(), |r| format!("{:.0}", r.mean(*metric))));
        }
        lines.push(line);
    }
    let mut text = format!("{} · {} is set · {:.0} s of reading\n\n", advice.device, advice.current, advice.seconds);
    text += &table(&header, &lines, style);
    for point in &plan.points {
        text += &format!("\n{}: {}", point.name, point.about);
    }
    text += &format!("\n\n{}\n", advice.sentence);
    for loss in &advice.losses {
        text += &format!(
            "{} {}: {:.0} % of the best throughput at {} (p = {:.3}).\n",
            loss.scheduler,
            if loss.scheduler == advice.recommended { "loses" } else { "is out" },
            loss.share * 100.0,
            loss.point,
            loss.p
        );
    }
    text += &format!("By {}.\n", advice.criterion);
    if !advice.keep {
        text += "\nNow, and at every start:\n";
        for command in &advice.commands {
            text += &format!("  {command}\n");
        }
    }
    text += "\n";
    if !advice.completion.measured.is_empty() {
        text += &completion_table(&advice.completion, style);
        text += "\n";
    }
    text += &format!("{}\n", advice.completion.sentence);
    for how in &advice.completion.how {
        text += &format!("  {how}\n");
    }
    for note in &advice.survey.notes[1..] {
        text += &format!("note: {note}\n");
    }
    text
}

fn completion_table(methods: &Methods, style: dumbwaiter_report::Style) -> String {
    let header = [
        ("4 KiB at a time", Align::Right),
        ("completion", Align::Left),
        ("p50 us", Align::Right),
        ("p99 us", Align::Right),
        ("IOPS", Align::Right),
        ("CPU/IO us", Align::Right),
        ("median", Align::Left),
    ];
    let lines: Vec<Vec<String>> = methods
        .measured
        .iter()
        .map(|m| {
            let median =
                m.median.as_ref().map_or(String::new(), |g| format!("{:+.0} %, p = {:.3}", g.change * 100.0, g.p));
            vec![
                m.depth.to_string(),
                m.completion.clone(),
                format!("{:.1}", m.p50_us),
                format!("{:.1}", m.p99_us),
                format!("{:.0}", m.iops),
                format!("{:.1}", m.cpu_us_per_io),
                median,
            ]
        })
        .collect();
    table(&header, &lines, style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_rule_set_the_scheduler_and_its_settings() {
        let spec = SchedulerSpec::parse("mq-deadline:fifo_batch=1").unwrap();
        let (commands, rule) = settings("sda", "KERNEL==\"sda\"", &spec);
        assert_eq!(commands[0], "echo mq-deadline > /sys/block/sda/queue/scheduler");
        assert_eq!(commands[1], "echo 1 > /sys/block/sda/queue/iosched/fifo_batch");
        let expected = "ACTION==\"add|change\", KERNEL==\"sda\", ATTR{queue/scheduler}=\"mq-deadline\", ATTR{queue/iosched/fifo_batch}=\"1\"";
        assert_eq!(rule, expected);
        assert!(commands[2].contains(&rule) && commands[2].contains("/etc/udev/rules.d/"));
        let (other, _) = settings("sdb", "KERNEL==\"sdb\"", &spec);
        let file =
            |commands: &[String]| commands[2].split_whitespace().find(|w| w.ends_with(".rules")).map(str::to_owned);
        assert_ne!(file(&commands), file(&other), "one disk's rule would be written over another's");
    }

    #[test]
    fn a_rule_knows_a_disk_by_what_it_says_of_itself() {
        let folder = tempfile::tempdir().unwrap();
        let told = |attribute: &str, id: &str| {
            let disk = tempfile::tempdir_in(folder.path()).unwrap();
            std::fs::create_dir(disk.path().join("device")).unwrap();
            std::fs::write(disk.path().join(attribute), id).unwrap();
            identified(disk.path())
        };
        let disk = "SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\"";
        assert_eq!(
            told("wwid", "eui.0025385b71b00b2f\n"),
            Some(format!("{disk}, ATTR{{wwid}}==\"eui.0025385b71b00b2f\""))
        );
        let ata = "t10.ATA     ST1000DM003-1CH162       Z1D5ABCD";
        assert_eq!(told("device/wwid", &format!("{ata}   \n")), Some(format!("{disk}, ATTRS{{wwid}}==\"{ata}\"")));
        assert_eq!(told("serial", "vol-1\n"), Some(format!("{disk}, ATTR{{serial}}==\"vol-1\"")));
        for useless in ["", "\n", "any*\n", "a\"b\n", "it's\n"] {
            assert_eq!(told("wwid", useless), None, "{useless:?}");
        }
    }

    #[test]
    fn a_difference_is_told_with_its_confidence() {
        let gain = Gain {
            point: "shared".into(),
            metric: "focus_p99_us".into(),
            now: 4000.0,
            then: 3000.0,
            change: -0.25,
            ci95: [-0.38, -0.11],
            p: 0.003,
        };
        let told = shown(&gain, "bfq's ");
        assert_eq!(told, "3.00 ms in place of bfq's 4.00 ms (-25 %, with 95 % confidence -38 to -11 %, p = 0.003)");
        let told = shown(&Gain { ci95: [-0.99, 1063.0], p: 0.7, ..gain }, "");
        assert_eq!(told, "3.00 ms in place of 4.00 ms (-25 %, by how much is open, p = 0.700)");
    }
}
