//! io.max, tick by tick: I/Os go in when they reached the limit, and the tick at which each went on is compared.

use std::collections::{BTreeMap, VecDeque};

use dumbwaiter_block::{Dir, Nanos, TickClock};
use dumbwaiter_controllers::io_max::{Bio, Groups, Rates, Release};
use dumbwaiter_controllers::kernel_timer::Jiffies;

use super::{ControllerScore, Event, Events};
use crate::recording::Error;

/// Values of the tick counter that are tried: slices are rounded to 25 ticks and late timers to 8.
const OFFSETS: i64 = 200;
/// An I/O that went on later than this had waited.
const WAITED: Nanos = Nanos::from_ms(2);

/// An I/O that reached the limit.
struct Asked {
    line: u64,
    at: Nanos,
    group: usize,
    dir: Dir,
    bytes: u64,
    /// When it went on, if it did.
    went: Option<Nanos>,
}

/// A change of a group's limits.
struct Change {
    at: Nanos,
    group: usize,
    text: String,
}

/// Replays a recording of io.max. The phase of the ticks is taken from the I/Os that had waited, and the value of the counter, which the
/// recording does not tell, is the one that agrees best: these two are fitted.
///
/// # Errors
///
/// A change of limits that is not readable; with the line.
pub(super) fn score(recording: &Events) -> Result<ControllerScore, Error> {
    let groups = recording.about.get("groups").and_then(|groups| groups.as_array());
    let groups = groups.map_or(&[][..], Vec::as_slice);
    let text_of = |group: &serde_json::Value, key: &str| {
        group.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_string()
    };
    let paths: Vec<String> = groups.iter().map(|group| text_of(group, "path")).collect();
    let limits: Vec<[Rates; 2]> = groups.iter().map(|g| changed(Default::default(), &text_of(g, "io.max"))).collect();
    let mut homes = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        let pids = group.get("pids").and_then(|pids| pids.as_array());
        pids.into_iter().flatten().filter_map(|pid| pid.as_i64()).for_each(|pid| _ = homes.insert(pid as i32, index));
    }
    // Workers submit rests and write-back, and a recording need not name every process: with one limited group it is that one's.
    let mut limited = (0..groups.len()).filter(|group| limits[*group] != [Rates::default(); 2]);
    let only = limited.next().filter(|_| limited.next().is_none());
    let (asked, changes) = inputs(recording, &paths, &homes, only)?;
    let step_at = phase(&asked);
    let clock = TickClock { step_at, ..TickClock::HZ_250 };
    let kernel = recording.about.get("kernel").and_then(|kernel| kernel.as_str()).unwrap_or_default();
    let release = if kernel.starts_with("6.18") { Release::V6_18 } else { Release::V6_12 };
    let replayed = |offset: i64| {
        let jiffies = Jiffies { clock, offset };
        replay(&asked, &changes, &mut Groups::new(release, jiffies, &limits))
    };
    let ticks = |times: &[Option<Nanos>]| -> usize {
        let same = |(asked, ours): (&Asked, &Option<Nanos>)| {
            asked.went.map(|t| clock.ticks(t)) == ours.map(|t| clock.ticks(t))
        };
        asked.iter().zip(times).filter(|pair| same(*pair)).count()
    };
    let best = (0..OFFSETS).map(replayed).max_by_key(|times| ticks(times)).unwrap_or_default();
    let mut score = ControllerScore::of("io.max", &["tick"]);
    for (asked, ours) in asked.iter().zip(&best) {
        // What had not gone on when the recording ended has no verdict.
        if let Some(went) = asked.went {
            score.count("tick", asked.line, &Some(clock.ticks(went)), &ours.map(|at| clock.ticks(at)));
        }
    }
    Ok(score)
}

/// Limits of reads and writes after a text such as `rbps=1048576 riops=max`. Keys that are not there keep their values.
fn changed(before: [Rates; 2], text: &str) -> [Rates; 2] {
    let mut rates = before;
    for (key, value) in text.split_whitespace().filter_map(|part| part.split_once('=')) {
        let value = value.parse().ok();
        match key {
            "rbps" => rates[0].bytes = value,
            "wbps" => rates[1].bytes = value,
            "riops" => rates[0].ios = value,
            "wiops" => rates[1].ios = value,
            _ => {}
        }
    }
    rates
}

fn inputs(
    recording: &Events,
    paths: &[String],
    homes: &BTreeMap<i32, usize>,
    only: Option<usize>,
) -> Result<(Vec<Asked>, Vec<Change>), Error> {
    let (mut asked, mut changes): (Vec<Asked>, Vec<Change>) = Default::default();
    // Those that have not gone on, by place and operation.
    let mut waiting: BTreeMap<(u64, String), VecDeque<usize>> = BTreeMap::new();
    let mut rest_at = None;
    for row in &recording.rows {
        let place = (row.sector, row.op.clone());
        match row.name.as_str() {
            "bio_submit" => {
                // What splitting cut off follows its `split` row; its bytes counted with the whole.
                let rest = std::mem::take(&mut rest_at) == Some(row.pid);
                if let Some(group) = homes.get(&row.pid).copied().or(only) {
                    let dir = if row.op == "R" { Dir::Read } else { Dir::Write };
                    let bytes = if rest { 0 } else { counted(row) };
                    waiting.entry(place).or_default().push_back(asked.len());
                    asked.push(Asked { line: row.line, at: row.at, group, dir, bytes, went: None });
                }
            }
            "bio_queue" | "getrq" | "split" | "bio_backmerge" | "bio_frontmerge" => {
                if row.name == "split" {
                    rest_at = Some(row.pid);
                }
                if let Some(first) = waiting.get_mut(&place).and_then(VecDeque::pop_front) {
                    asked[first].went = Some(row.at);
                }
            }
            "mark" if row.details.starts_with("io.max") => {
                let path = row.text("group").unwrap_or_default();
                let group = paths.iter().position(|known| known == path);
                let fail = || recording.fail(row.line, format!("group `{path}` is not among the `groups` of the JSON"));
                changes.push(Change { at: row.at, group: group.ok_or_else(fail)?, text: row.details.clone() });
            }
            _ => {}
        }
    }
    Ok((asked, changes))
}

/// Bytes that count: a discard counts as 512.
fn counted(row: &Event) -> u64 {
    if row.op == "D" { 512 } else { row.bytes }
}

/// When the ticks step: timers run right after a step, so I/Os that had waited go on in the first part of a tick. It begins behind the
/// largest part of a tick in which none goes on.
fn phase(asked: &[Asked]) -> Nanos {
    let period = TickClock::HZ_250.period.0;
    let late = asked.iter().filter_map(|a| a.went.filter(|went| went.since(a.at) > WAITED));
    let mut parts: Vec<u64> = late.map(|went| went.0 % period).collect();
    parts.sort_unstable();
    let Some((first, last)) = parts.first().copied().zip(parts.last().copied()) else { return Nanos::ZERO };
    let around = (first + period - last, first);
    let gaps = parts.windows(2).map(|pair| (pair[1] - pair[0], pair[1]));
    let (gap, begins) = gaps.chain([around]).max().unwrap_or(around);
    // The step itself is a few microseconds before the first that went.
    Nanos((begins + period - gap.min(20_000)) % period)
}

/// When each I/O goes on by our arithmetic.
fn replay(asked: &[Asked], changes: &[Change], groups: &mut Groups) -> Vec<Option<Nanos>> {
    let mut went = vec![None; asked.len()];
    let mut changes = changes.iter().peekable();
    let mut inputs = asked.iter().enumerate().peekable();
    let last = asked.iter().filter_map(|a| a.went).max().unwrap_or_default();
    loop {
        let timer = groups.timer().filter(|at| *at <= last);
        let change = changes.peek().map_or(Nanos::MAX, |change| change.at);
        let input = inputs.peek().map_or(Nanos::MAX, |(_, asked)| asked.at);
        if let Some(at) = timer.filter(|at| *at <= change && *at <= input) {
            groups.tick(at, &mut |bio| went[bio.token as usize] = Some(at));
        } else if change <= input && change < Nanos::MAX {
            let Some(change) = changes.next() else { break };
            let rates = changed(groups.rates(change.group), &change.text);
            groups.set(change.group, rates, change.at);
        } else if let Some((index, asked)) = inputs.next() {
            let bio = Bio { token: index as u64, bytes: asked.bytes };
            if groups.submit(asked.group, asked.dir, bio, asked.at) {
                went[index] = Some(asked.at);
            }
        } else {
            break;
        }
    }
    went
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_io_goes_on_in_the_tick_of_the_kernel() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/kernel-throttling");
        let Ok(files) = std::fs::read_dir(&folder) else { return eprintln!("skipped: no shared data") };
        let mut names: Vec<_> = files.flatten().map(|file| file.path()).collect();
        names.retain(|path| path.to_string_lossy().ends_with(".csv.zst") && path.to_string_lossy().contains("iomax-"));
        names.sort();
        assert!(!names.is_empty());
        for path in names {
            let found = score(&Events::open(&path).unwrap()).unwrap();
            let agreed: u64 = found.kinds.iter().map(|kind| kind.agreed).sum();
            let name = path.file_name().unwrap().display();
            eprintln!("{name}: {agreed} of {}: {:?}", found.verdicts, found.first_difference);
            // Groups in one another are not followed yet: they stay in the count, and differ.
            if !name.to_string().contains("nested") {
                assert_eq!(agreed, found.verdicts, "{name}");
            }
        }
    }
}
