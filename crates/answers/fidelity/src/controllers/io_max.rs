//! io.max, tick by tick: I/Os go in when they reached the limit. Compared are the tick at which each went on, and the order of those
//! that had waited.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dumbwaiter_block::{Dir, Nanos, Op, TickClock};
use dumbwaiter_controllers::io_max::{Bio, DEVICE, Groups, Rates, Release, with_limits};
use dumbwaiter_controllers::kernel_timer::Jiffies;

use super::score::Tally;
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
    bio: Bio,
    /// When it went on, if it did.
    went: Option<Nanos>,
}

/// A change of a group's limits.
struct Change {
    at: Nanos,
    group: usize,
    rates: [Rates; 2],
}

/// The groups of a recording.
#[derive(Default)]
struct Homes {
    /// Group 1, 2, …
    paths: Vec<String>,
    limits: Vec<[Rates; 2]>,
    /// The group around each, [`DEVICE`] if there is none.
    parents: Vec<usize>,
    of_process: BTreeMap<i32, usize>,
    /// The group of other processes, where one group alone has limits: workers submit rests and write-back, and a recording need
    /// not name every process.
    of_others: Option<usize>,
}

/// Replays a recording of io.max. The value of the tick counter modulo 200, which a recording does not tell, is the one that agrees
/// best; where it does not tell either when the ticks step, that is taken from the I/Os that had waited.
///
/// # Errors
///
/// A kernel's release, or limits, that cannot be read; rows that span more than a day.
pub(super) fn score(recording: &Events, explain: Option<u64>) -> Result<ControllerScore, Error> {
    let release = recording.about.get("kernel").and_then(|kernel| kernel.as_str());
    let release = release.and_then(Release::of);
    let expected = || recording.fail_setting("kernel: expected a release such as 6.12.117".to_owned());
    let release = release.ok_or_else(expected)?;
    recording.check_span()?;
    let homes = homes(recording)?;
    let (asked, changes) = inputs(recording, &homes)?;
    let clock = clock_of(recording.clock, &asked);
    let replayed = |offset: i64| {
        let mut groups = Groups::new(release, Jiffies { clock, offset });
        homes.limits.iter().zip(&homes.parents).for_each(|(limits, parent)| _ = groups.add(*parent, *limits));
        replay(&asked, &changes, &mut groups)
    };
    let tick = |at: &Option<Nanos>| at.map(|at| clock.ticks(at));
    let agreed = |ours: &Replayed| asked.iter().zip(&ours.went).filter(|(a, ours)| tick(&a.went) == tick(ours)).count();
    let best = (0..OFFSETS).map(replayed).max_by_key(agreed).unwrap_or_default();
    let mut tally = Tally::of(&["tick", "order"], explain);
    // What had not gone on when the recording ended has no verdict.
    for (asked, ours) in asked.iter().zip(&best.went).filter(|(asked, _)| asked.went.is_some()) {
        tally.count("tick", asked.line, tick(&asked.went), tick(ours), |tick| match tick {
            Some(tick) => format!("tick {tick}"),
            None => "it does not go on".to_owned(),
        });
    }
    compare_order(&asked, best.waited, &mut tally);
    Ok(tally.score("io.max"))
}

/// What went right before each of the I/Os that our timers let go, the kernel's and ours.
fn compare_order(asked: &[Asked], mut waited: Vec<usize>, tally: &mut Tally) {
    waited.retain(|index| asked[*index].went.is_some());
    let before = |order: &[usize]| -> BTreeMap<usize, u64> {
        order.windows(2).map(|pair| (pair[1], asked[pair[0]].line)).collect()
    };
    let ours = before(&waited);
    waited.sort_by_key(|index| asked[*index].went);
    let kernel = before(&waited);
    for index in waited {
        tally.count("order", asked[index].line, kernel.get(&index), ours.get(&index), |before| match before {
            Some(line) => format!("behind that of line {line}"),
            None => "it is the first that waited".to_owned(),
        });
    }
}

impl Homes {
    /// The number of a group.
    fn by_path(&self, path: &str) -> Option<usize> {
        self.paths.iter().position(|known| known == path).map(|index| index + 1)
    }
}

fn homes(recording: &Events) -> Result<Homes, Error> {
    let groups = recording.about.get("groups").and_then(|groups| groups.as_array());
    let mut homes = Homes::default();
    for (index, group) in groups.into_iter().flatten().enumerate() {
        let text = |key: &str| group.get(key).and_then(|value| value.as_str()).unwrap_or_default();
        let path = text("path");
        let limits = with_limits(Default::default(), text("io.max"));
        homes.limits.push(limits.map_err(|why| recording.fail_setting(format!("group `{path}`: io.max: {why}")))?);
        homes.parents.push(parent(&homes.paths, path));
        homes.paths.push(path.to_owned());
        let pids = group.get("pids").and_then(|pids| pids.as_array());
        let pids = pids.into_iter().flatten().filter_map(|pid| i32::try_from(pid.as_i64()?).ok());
        homes.of_process.extend(pids.map(|pid| (pid, index + 1)));
    }
    let mut limited = (0..homes.limits.len()).filter(|group| homes.limits[*group] != [Rates::default(); 2]);
    homes.of_others = limited.next().filter(|_| limited.next().is_none()).map(|index| index + 1);
    Ok(homes)
}

/// The number of the innermost group before this one that is around it.
fn parent(before: &[String], path: &str) -> usize {
    let around =
        |(_, known): &(usize, &String)| path.strip_prefix(known.as_str()).is_some_and(|rest| rest.starts_with('/'));
    let innermost = before.iter().enumerate().filter(around).max_by_key(|(_, known)| known.len());
    innermost.map_or(DEVICE, |(index, _)| index + 1)
}

fn inputs(recording: &Events, homes: &Homes) -> Result<(Vec<Asked>, Vec<Change>), Error> {
    let (mut asked, mut changes): (Vec<Asked>, Vec<Change>) = Default::default();
    let mut limits = homes.limits.clone();
    // Those that have not gone on, by place and operation.
    let mut waiting: BTreeMap<(u64, Op), VecDeque<usize>> = BTreeMap::new();
    // Processes that cut off a rest, which they submit next.
    let mut cut = BTreeSet::new();
    for row in &recording.rows {
        match row.name.as_str() {
            "bio_submit" => {
                // The bytes of a rest counted with the whole.
                let rest = cut.remove(&row.pid);
                // Metadata has an M among its flags.
                let urgent = row.details.contains('M');
                let bytes = if rest { 0 } else { counted(row) };
                let bio = Bio { token: asked.len() as u64, bytes, rest, urgent };
                let by_process = || homes.of_process.get(&row.pid).copied().or(homes.of_others);
                let group = if recording.grouped { homes.by_path(&row.group) } else { by_process() };
                let Some(group) = group else { continue };
                waiting.entry((row.sector, row.op)).or_default().push_back(asked.len());
                asked.push(Asked { line: row.line, at: row.at, group, dir: direction(row.op), bio, went: None });
            }
            "bio_queue" | "getrq" | "split" | "bio_backmerge" | "bio_frontmerge" => {
                if row.name == "split" {
                    cut.insert(row.pid);
                }
                if let Some(first) = waiting.get_mut(&(row.sector, row.op)).and_then(VecDeque::pop_front) {
                    asked[first].went = Some(row.at);
                }
            }
            "mark" => {
                let Some((path, text)) = row.changed_limits() else { continue };
                let fail = |why: String| recording.fail(row.line, why);
                let group = homes.paths.iter().position(|known| known == path);
                let unknown = || fail(format!("group `{path}` is not among the `groups` of the JSON"));
                let group = group.ok_or_else(unknown)?;
                limits[group] = with_limits(limits[group], text).map_err(|why| fail(format!("io.max: {why}")))?;
                changes.push(Change { at: row.at, group: group + 1, rates: limits[group] });
            }
            _ => {}
        }
    }
    Ok((asked, changes))
}

/// Reads are one direction, everything else the other.
fn direction(op: Op) -> Dir {
    if op == Op::Read { Dir::Read } else { Dir::Write }
}

/// Bytes that count: a discard counts as 512.
fn counted(row: &Event) -> u64 {
    if row.op == Op::Discard { 512 } else { row.bytes }
}

/// The kernel's ticks. A recording may tell them less exactly than the I/Os that had waited.
fn clock_of(told: Option<(TickClock, Nanos)>, asked: &[Asked]) -> TickClock {
    let Some((clock, uncertain)) = told else {
        return TickClock { step_at: phase(asked, TickClock::HZ_250.period), ..TickClock::HZ_250 };
    };
    let step_at = phase(asked, clock.period);
    let off = step_at.0.abs_diff(clock.step_at.0);
    let near = off.min(clock.period.0.saturating_sub(off)) <= uncertain.0;
    if near { TickClock { step_at, ..clock } } else { clock }
}

/// When the ticks step: timers run right after a step, so I/Os that had waited go on in the first part of a tick. It begins behind the
/// largest part of a tick in which none goes on.
fn phase(asked: &[Asked], Nanos(period): Nanos) -> Nanos {
    let late = asked.iter().filter_map(|a| a.went.filter(|went| went.since(a.at) > WAITED));
    let mut parts: Vec<u64> = late.map(|went| went.0 % period).collect();
    parts.sort_unstable();
    let Some((first, last)) = parts.first().copied().zip(parts.last().copied()) else { return Nanos::ZERO };
    let around = (first + period - last, first);
    let gaps = parts.windows(2).map(|pair| (pair[1] - pair[0], pair[1]));
    let (gap, begins) = gaps.chain([around]).max().unwrap_or(around);
    // The step itself is a few microseconds before the first that went.
    Nanos((begins + period - gap.min(10_000)) % period)
}

/// What our arithmetic says.
#[derive(Default)]
struct Replayed {
    /// When each I/O goes on.
    went: Vec<Option<Nanos>>,
    /// Those that timers let go, in their order.
    waited: Vec<usize>,
}

fn replay(asked: &[Asked], changes: &[Change], groups: &mut Groups) -> Replayed {
    let (mut went, mut waited) = (vec![None; asked.len()], Vec::new());
    let mut changes = changes.iter().peekable();
    let mut inputs = asked.iter().enumerate().peekable();
    let last = asked.iter().filter_map(|a| a.went).max().unwrap_or_default();
    loop {
        let timer = groups.timer().filter(|at| *at <= last);
        let change = changes.peek().map_or(Nanos::MAX, |change| change.at);
        let input = inputs.peek().map_or(Nanos::MAX, |(_, asked)| asked.at);
        if let Some(at) = timer.filter(|at| *at <= change && *at <= input) {
            groups.tick(at, &mut |bio| {
                went[bio.token as usize] = Some(at);
                waited.push(bio.token as usize);
            });
        } else if change <= input && change < Nanos::MAX {
            let Some(change) = changes.next() else { break };
            groups.set(change.group, change.rates, change.at);
        } else if let Some((index, asked)) = inputs.next() {
            if groups.submit(asked.group, asked.dir, asked.bio, asked.at) {
                went[index] = Some(asked.at);
            }
        } else {
            break;
        }
    }
    Replayed { went, waited }
}
