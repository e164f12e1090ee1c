//! Text scenarios: arrivals, and the dispatch order that they must give. See `README.md` beside the files for the
//! commands.
//!
//! ```text
//! scenario E8, fresh: three kernels, three orders
//! schedulers mq-deadline | mq-deadline:kernel=6.1 | deadline
//! set fifo_batch 2
//! set writes_starved 1
//! batch R200 R100 R300 R400 W10 W20
//! issued W10 W20 R100 R200 R300 R400 | R200 R300 W10 W20 R400 R100 | R200 R300 W10 W20 R100 R400
//! ```

use dumbwaiter_block::{Config, Setup, Stack};

use crate::Harness;

/// Builds a scheduler from its name with settings and the set-up of the device.
pub type Make = dyn Fn(&str, Setup) -> Result<Stack, String>;

/// Runs every scenario of `text`; returns the number of runs (one for each scheduler), or all failures.
pub fn run(text: &str, make: &Make) -> Result<usize, String> {
    let mut ran = 0;
    let mut wrong = Vec::new();
    for case in cases(text) {
        let header = |word: &str| case.lines.iter().find_map(|(_, l)| l.strip_prefix(word));
        let Some(names) = header("schedulers ") else {
            wrong.push(format!("scenario {}: no `schedulers` line", case.name));
            continue;
        };
        for (column, name) in columns(names).enumerate() {
            ran += 1;
            if let Err(why) = run_one(&case, name, column, header("setup ").unwrap_or(""), make) {
                wrong.push(format!("scenario {} with {name}: {why}", case.name));
            }
        }
    }
    if wrong.is_empty() { Ok(ran) } else { Err(wrong.join("\n\n")) }
}

struct Case<'a> {
    name: &'a str,
    /// Lines with their numbers, from 1.
    lines: Vec<(usize, &'a str)>,
}

fn cases(text: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        match (line.strip_prefix("scenario "), cases.last_mut()) {
            (Some(name), _) => cases.push(Case { name, lines: Vec::new() }),
            (None, Some(case)) if !line.is_empty() => case.lines.push((i + 1, line)),
            _ => {}
        }
    }
    cases
}

fn columns(text: &str) -> impl Iterator<Item = &str> {
    text.split('|').map(str::trim)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number in range"))
}

/// Applies `name=value …` to the default set-up.
fn config(text: &str) -> Result<Config, String> {
    let mut config = Config::default();
    for item in text.split_whitespace() {
        let (name, value) = item.split_once('=').ok_or_else(|| format!("`{item}` is not name=value"))?;
        let value: u64 = number(value)?;
        let small = value as u16;
        match name {
            "depth" => config.setup.device_depth = value as u32,
            "nr_requests" => config.setup.nr_requests = value as u32,
            "cpus" => config.setup.cpus = small,
            "hw_queues" => config.setup.hw_queues = small,
            "nomerges" => config.nomerges = value as u8,
            "volatile_cache" => config.volatile_cache = value != 0,
            "fua" => config.fua = value != 0,
            "max_sectors" => config.limits.max_sectors = value as u32,
            "max_segments" => config.limits.max_segments = small,
            "segment_bytes" => config.limits.segment_bytes = value as u32,
            "chunk_sectors" => config.limits.chunk_sectors = value as u32,
            "max_discard_sectors" => config.limits.max_discard_sectors = value as u32,
            "max_discard_segments" => config.limits.max_discard_segments = small,
            _ => return Err(format!("setup `{name}` is not known")),
        }
    }
    Ok(config)
}

fn run_one(case: &Case<'_>, scheduler: &str, column: usize, setup: &str, make: &Make) -> Result<(), String> {
    let settings: Vec<(&str, &str)> = case
        .lines
        .iter()
        .filter_map(|(_, l)| l.strip_prefix("set "))
        .map(|l| l.split_once(' ').ok_or_else(|| format!("`set {l}` lacks a value")))
        .collect::<Result<_, _>>()?;
    let mut name = scheduler.to_owned();
    for (key, value) in settings {
        name += if name.contains(':') { "," } else { ":" };
        name += &format!("{key}={value}");
    }
    let config = config(setup)?;
    let made = make(&name, config.setup)?;
    let mut harness = Harness::new(config, |_| made);
    for (line, text) in &case.lines {
        step(&mut harness, text, column).map_err(|why| format!("line {line}: {text}\n  {why}"))?;
    }
    Ok(())
}

fn step(harness: &mut Harness, line: &str, column: usize) -> Result<(), String> {
    let (word, rest) = line.split_once(' ').map_or((line, ""), |(w, r)| (w, r.trim()));
    let want = columns(rest).nth(column).or(columns(rest).next()).unwrap_or("");
    let equal = |got: String| {
        let want = want.split_whitespace().collect::<Vec<_>>().join(" ");
        if got == want { Ok(()) } else { Err(format!("want {want}\n  got  {got}")) }
    };
    match word {
        "schedulers" | "setup" | "set" => {}
        "plug" => _ = harness.plug(rest),
        "submit" => _ = harness.submit(rest),
        "batch" => _ = harness.batch(rest),
        "fill" => _ = harness.fill(if rest.is_empty() { "R" } else { rest }),
        "hold" => _ = harness.hold(),
        "release" => _ = harness.release(),
        "complete" => _ = harness.complete(number(rest)?),
        "requeue" => _ = harness.requeue(number(rest)?),
        "answers" => _ = harness.answers(rest),
        "cpu" => _ = harness.cpu(number(rest)?),
        "tune" => {
            let (name, value) = rest.split_once(' ').ok_or("expected a name and a value")?;
            harness.tune(name, number(value.trim())?);
        }
        "at" => _ = harness.at(number(rest.trim_end_matches("ms").trim())?),
        "issued" => equal(harness.issued())?,
        "finished" => equal(harness.finished())?,
        "in-device" => equal(harness.in_device().len().to_string())?,
        "queued" => equal(harness.layer().queued().to_string())?,
        "flushes" => equal(harness.layer().ledger().flushes.to_string())?,
        "inserted" => equal(harness.layer().ledger().inserted.to_string())?,
        "state" => {
            let state = harness.describe();
            if !state.contains(want) {
                return Err(format!("want {want}\n  in   {state}"));
            }
        }
        _ => return Err("no such command".into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fifo;

    fn fifo(_: &str, _: Setup) -> Result<Stack, String> {
        Ok(Box::new(Fifo::default()).into())
    }

    #[test]
    fn right_and_wrong_orders_are_distinguished() {
        let text = "scenario one\nschedulers a | b\nplug R8 R800\nissued R8 R800 | R8 R801\nfinished R8 R800 # both\n";
        let why = run(text, &fifo).unwrap_err();
        assert_eq!(why, "scenario one with b: line 4: issued R8 R800 | R8 R801\n  want R8 R801\n  got  R8 R800");
        assert_eq!(run(&text.replace("801", "800"), &fifo), Ok(2));
        assert!(run("scenario x\nplug R8", &fifo).unwrap_err().contains("no `schedulers` line"));
        assert!(run("scenario x\nschedulers a\nplgu R8", &fifo).unwrap_err().contains("no such command"));
        assert!(
            run("scenario x\nschedulers a\nsetup dept=1", &fifo).unwrap_err().contains("setup `dept` is not known")
        );
    }
}
