//! Probes on the functions of the scheduler and of the controllers before it.

use std::path::{Path, PathBuf};

use crate::file::{read_some, write};
use crate::recording::controllers::{Controllers, Source};
use crate::recording::event::Kind;
use crate::recording::tracefs::{ProbeEvent, root};
use crate::undo::{Action, Guard};
use crate::{Error, Roots};

/// Fields that a probe records of the request that a dispatch function returns.
const REQUEST: &str = "rq=$retval sector=$retval->__sector bytes=$retval->__data_len opf=$retval->cmd_flags \
                       jiffies=@jiffies_64:u64";

/// Probes: scheduler, kind, begin of the definition, name, function, what is taken.
type Definition = (&'static str, Kind, &'static str, &'static str, &'static str, &'static str);

/// "dispatch" fires when the function returns, "choice" inside it, under the scheduler's lock: so the order is true even
/// where two CPUs dispatch at once.
const PROBES: [Definition; 7] = [
    ("mq-deadline", Kind::Dispatch, "r64", "dispatch", "dd_dispatch_request", REQUEST),
    ("mq-deadline", Kind::Choice, "r64", "choice", "__dd_dispatch_request", "rq=$retval"),
    ("kyber", Kind::Dispatch, "r64", "dispatch", "kyber_dispatch_request", REQUEST),
    ("kyber", Kind::Choice, "r64", "choice", "kyber_dispatch_cur_domain", "rq=$retval"),
    ("bfq", Kind::Dispatch, "r64", "dispatch", "bfq_dispatch_request", REQUEST),
    ("bfq", Kind::Choice, "p", "choice", "bfq_remove_request", "rq=rq:x64"),
    (
        "bfq",
        Kind::BfqExpire,
        "p",
        "bfq_expire",
        "bfq_bfqq_expire",
        "owner=bfqq->pid reason=reason service=bfqq->entity.service budget=bfqq->entity.budget \
         weight=bfqq->entity.weight wr=bfqq->wr_coeff",
    ),
];

/// Probes that are removed at the end.
pub(crate) struct Probes {
    file: PathBuf,
    group: String,
    made: Vec<Probe>,
    /// Every call of the scheduler's dispatch function is seen.
    pub(crate) see_dispatches: bool,
}

/// A probe that is there.
struct Probe {
    kind: Kind,
    name: &'static str,
    /// The kernel's filter for its events; empty for all.
    filter: String,
    _guard: Guard,
}

impl Probes {
    /// Sets probes on the functions of a scheduler and of controllers, with a note where the kernel has none; a controller of which
    /// nothing is seen without is left out. The scheduler `none` needs no probes.
    pub(crate) fn new(
        scheduler: &str,
        controllers: &mut Controllers,
        roots: &Roots,
        notes: &mut Vec<String>,
    ) -> Result<Probes, Error> {
        let group = format!("dumbwaiter_{}", std::process::id());
        let file = root()?.join("kprobe_events");
        let symbols = read_some(&roots.proc.join("kallsyms")).unwrap_or_default();
        let mut probes = Probes { file, group, made: Vec::new(), see_dispatches: false };
        if !probes.file.exists() {
            let what = "this kernel has no kprobe events (CONFIG_KPROBE_EVENTS): its dispatch function is not seen";
            notes.extend(PROBES.iter().any(|p| p.0 == scheduler).then(|| what.to_owned()));
            controllers.leave_out_without_probes(notes);
            return Ok(probes);
        }
        probes.of_scheduler(scheduler, &symbols, notes);
        probes.of_controllers(controllers, &symbols, notes);
        Ok(probes)
    }

    /// Whether there is a probe of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.made.iter().any(|probe| probe.name == name)
    }

    /// The events of those that are there.
    pub(crate) fn events(&self) -> Vec<ProbeEvent> {
        let event = |probe: &Probe| ProbeEvent {
            kind: probe.kind,
            event: format!("{}/{}", self.group, probe.name),
            filter: probe.filter.clone(),
        };
        self.made.iter().map(event).collect()
    }

    fn of_scheduler(&mut self, scheduler: &str, symbols: &str, notes: &mut Vec<String>) {
        for (_, kind, begin, name, function, takes) in PROBES.iter().filter(|p| p.0 == scheduler) {
            match self.set(begin, (*kind, name), (symbols, function), takes, String::new()) {
                None => self.see_dispatches |= *kind == Kind::Dispatch,
                Some(why) => {
                    notes.push(why);
                    // Without the others, the time of the function's return is used.
                    if *kind == Kind::Dispatch {
                        return;
                    }
                }
            }
        }
    }

    fn of_controllers(&mut self, controllers: &mut Controllers, symbols: &str, notes: &mut Vec<String>) {
        for (place, point) in controllers.points().collect::<Vec<_>>() {
            let (function, spellings) = match point.source {
                Source::Tracepoint(_) => continue,
                Source::Probe(function, takes) => (function, vec![takes.join(" ")]),
                Source::Write(function, takes) => (function, takes.iter().map(|takes| (*takes).to_owned()).collect()),
            };
            let kind = Kind::Controller(place);
            let mut why = None;
            for takes in &spellings {
                why = self.set("p", (kind, point.name), (symbols, function), takes, controllers.filter(point));
                if why.is_none() {
                    break;
                }
            }
            let Some(why) = why else { continue };
            notes.push(why);
            if point.needed {
                notes.push(format!("not recorded: {}", point.of.name()));
                controllers.leave_out(point.of);
                self.made.retain(|probe| !controllers.is_left_out(probe.kind));
            }
        }
    }

    /// Sets a probe; why it could not be set, in one line.
    fn set(
        &mut self,
        begin: &str,
        (kind, name): (Kind, &'static str),
        (symbols, function): (&str, &str),
        takes: &str,
        filter: String,
    ) -> Option<String> {
        let file: &Path = &self.file;
        let event = format!("{}/{name}", self.group);
        let back = Action::remove_probe(file, &event);
        let set = match symbol(symbols, function) {
            Some(symbol) => Guard::new(back, || write(file, &format!("{begin}:{event} {symbol} {takes}"))),
            None => Err(Error::Refused(format!("this kernel has no function {function}"))),
        };
        match set {
            Ok(guard) => {
                self.made.push(Probe { kind, name, filter, _guard: guard });
                None
            }
            Err(e) => Some(format!("no probe on {function}: {e}")),
        }
    }
}

/// A function's symbol; the compiler may have added `.isra.0` and alike.
fn symbol<'a>(symbols: &'a str, function: &str) -> Option<&'a str> {
    symbols.lines().filter_map(|l| l.split_whitespace().nth(2)).find(|name| {
        name.strip_prefix(function).is_some_and(|rest| {
            rest.is_empty() || [".isra.", ".constprop.", ".part."].iter().any(|suffix| rest.starts_with(suffix))
        })
    })
}
