//! A recording from its start to its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::target::PathFacts;
use crate::{Error, Roots};

use crate::recording::about::About;
use crate::recording::controllers::{Controllers, Seen, name_charged, rows_of};
use crate::recording::event::{Event, Kind};
use crate::recording::groups::{Groups, ProbedChanges};
use crate::recording::options::{Method, Options, Summary};
use crate::recording::pages::Pages;
use crate::recording::probes::Probes;
use crate::recording::tracefs::Instance;
use crate::recording::{dispatch_file, infer, rows, text};

/// How often the kernel's buffers are emptied.
const EMPTYING_INTERVAL: Duration = Duration::from_millis(25);

/// Records what happens on a device until `stop` is set, the time is over, or the memory is full. For a partition, only
/// its own sectors are kept (in sectors of the whole disk). `began` is called once events are recorded: a load that is
/// to be followed from its first request starts then.
pub fn record(
    target: &PathFacts,
    options: &Options,
    stop: &AtomicBool,
    began: impl FnOnce(),
) -> Result<Summary, Error> {
    let Some(disk) = &target.disk else {
        let path = target.path.display();
        return Err(Error::Refused(format!("{path} is a file: only a block device can be recorded")));
    };
    let roots = Roots::default();
    let about = About::of(target, disk, &roots)?;
    if options.dispatch {
        dispatch_file::check_name(&options.output)?;
    }
    let mut notes = Vec::new();
    let (mut groups, mut probes, mut controllers) = (None, None, Controllers::default());
    if options.dispatch {
        groups = Groups::begin(&about, &roots);
        controllers = Controllers::of(&about, groups.as_ref(), &roots, &mut notes);
        probes = Some(Probes::new(&about.scheduler, &mut controllers, &roots, &mut notes)?);
    }
    let events = probes.as_ref().map(Probes::events).unwrap_or_default();
    let instance = Instance::new(options.buffer_kb, &events, &controllers, &about)?;
    let mut pages = Pages::new(instance.cpus()?);
    instance.start()?;
    let start = Instant::now();
    began();
    notes.extend(gather(&instance, &mut pages, groups.as_mut(), options, start, stop)?);
    instance.stop()?;
    let seconds = start.elapsed().as_secs_f64();
    instance.take(&mut pages)?;
    let lost = instance.lost()?;
    let (events, seen) = pages.events(instance.formats()?, &about)?;
    drop(instance);
    let sees = probes.as_ref().is_some_and(|probes| probes.see_dispatches);
    let method = if sees { Method::Probes } else { Method::Issues };
    let probed = ProbedChanges {
        weights: probes.as_ref().is_some_and(|probes| probes.has("weight")),
        limits: probes.as_ref().is_some_and(|probes| probes.has("limit")),
    };
    drop(probes);
    let mut summary = Summary {
        seconds,
        events: events.len() as u64,
        lost,
        method: options.dispatch.then_some(method),
        controllers: controllers.names(),
        ..Summary::default()
    };
    notes.extend((lost > 0).then(|| {
        let kb = options.buffer_kb;
        format!("{lost} events were lost: more than {kb} KiB of buffer for each CPU are needed")
    }));
    if options.dispatch {
        if let Some(groups) = &mut groups {
            groups.leave_to_probes(probed);
        }
        dispatch_recording((&events, seen), (&about, &controllers), groups.as_ref(), options, &mut summary)?;
    } else {
        let written = text::write(&events, &about, options).map_err(|e| Error::Refused(e.to_string()))?;
        summary.requests = events.iter().filter(|e| e.kind == Kind::Issue).count() as u64;
        if let Some(written) = written {
            summary.records = written.records;
            summary.files = vec![options.output.clone()];
            notes.extend(written.left_out.iter().map(|s| format!("left out: {} ({})", s.reason, s.count)));
        }
    }
    notes.append(&mut summary.notes);
    summary.notes = notes;
    Ok(summary)
}

/// Empties the kernel's buffers until the recording is to end; a note where it ends early.
fn gather(
    instance: &Instance,
    pages: &mut Pages,
    mut groups: Option<&mut Groups>,
    options: &Options,
    start: Instant,
    stop: &AtomicBool,
) -> Result<Option<String>, Error> {
    loop {
        std::thread::sleep(EMPTYING_INTERVAL);
        instance.take(pages)?;
        if let Some(groups) = &mut groups {
            groups.follow();
        }
        if stop.load(Ordering::Relaxed) || options.length.is_some_and(|l| start.elapsed() >= l) {
            return Ok(None);
        }
        if pages.bytes() >= options.most_bytes {
            let (seconds, mib) = (start.elapsed().as_secs_f64(), options.most_bytes >> 20);
            return Ok(Some(format!("ended after {seconds:.1} s: {mib} MiB of events are in memory")));
        }
    }
}

fn dispatch_recording(
    (events, seen): (&[Event], Vec<Seen>),
    (about, controllers): (&About, &Controllers),
    groups: Option<&Groups>,
    options: &Options,
    summary: &mut Summary,
) -> Result<(), Error> {
    let mut built = rows::rows(events);
    if summary.method == Some(Method::Issues) && about.scheduler != "none" {
        built.rows = infer::with_dispatches(built.rows, about.hw_queues);
        summary.notes.push(
            "dispatches are inferred from the order in which the driver took the requests; calls that returned \
             nothing are unknown"
                .into(),
        );
    }
    let first = events.first().map_or(0, |e| e.at);
    built.jiffies = seen.iter().map(|event| (event.at, event.jiffies)).collect();
    let paths = groups.map(Groups::paths).unwrap_or_default();
    built.rows.extend(rows_of(seen, first, controllers.number(), &paths));
    built.rows.sort_by_key(|row| row.at);
    name_charged(&mut built.rows);
    if let Some(groups) = groups {
        let submitted = events.iter().filter(|e| matches!(e.kind, Kind::Allocated | Kind::Bio));
        let pids = submitted.map(|e| e.pid).collect();
        let named = built.rows.iter().map(|row| row.group.clone()).collect();
        built.groups = groups.describe(&pids, &named);
        groups.add_rows(&mut built.rows, (&pids, &named), first);
    }
    summary.records = built.rows.len() as u64;
    summary.requests = built.rows.iter().filter(|r| r.event == "rq_issue").count() as u64;
    summary.unmatched = built.unmatched;
    summary.unfinished = built.unfinished;
    if built.unmatched > 0 {
        summary.notes.push(format!(
            "{} events of requests that were there before the recording, or of flushes: start it before the load",
            built.unmatched
        ));
    }
    summary.files = dispatch_file::write(events, &built, about, controllers, options, summary)?;
    Ok(())
}
