//! A trace instance of our own, and probes on the schedulers' dispatch functions.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::file::{names, read, read_some, write};
use crate::recording::about::About;
use crate::recording::event::{Format, Kind};
use crate::recording::pages::Pages;
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

/// Where tracefs is mounted.
pub(crate) fn root() -> Result<PathBuf, Error> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    if let Some(found) = places.iter().map(Path::new).find(|p| p.join("instances").is_dir()) {
        return Ok(found.into());
    }
    let hint = "mount it with: mount -t tracefs nodev /sys/kernel/tracing";
    Err(Error::Refused(format!("tracefs is not mounted at {}, or root is needed; {hint}", places[0])))
}

/// Probes that are removed at the end.
pub(crate) struct Probes {
    group: String,
    made: Vec<(Kind, &'static str)>,
    _guards: Vec<Guard>,
}

impl Probes {
    /// Sets probes on a scheduler's functions. `None`, with a note of the reason, where the kernel has no probes; the
    /// scheduler `none` needs no probes.
    pub(crate) fn new(scheduler: &str, roots: &Roots, notes: &mut Vec<String>) -> Result<Option<Probes>, Error> {
        let wanted: Vec<&Definition> = PROBES.iter().filter(|p| p.0 == scheduler).collect();
        if wanted.is_empty() {
            return Ok(None);
        }
        let file = root()?.join("kprobe_events");
        if !file.exists() {
            notes.push(
                "this kernel has no kprobe events (CONFIG_KPROBE_EVENTS): its dispatch function is not seen".into(),
            );
            return Ok(None);
        }
        let symbols = read_some(&roots.proc.join("kallsyms")).unwrap_or_default();
        let group = format!("dumbwaiter_{}", std::process::id());
        let mut probes = Probes { group, made: Vec::new(), _guards: Vec::new() };
        for (_, kind, begin, name, function, takes) in wanted {
            let set = match symbol(&symbols, function) {
                Some(symbol) => probes.set(&file, begin, name, symbol, takes),
                None => Err(Error::Refused(format!("this kernel has no function {function}"))),
            };
            match set {
                Ok(guard) => {
                    probes._guards.push(guard);
                    probes.made.push((*kind, name));
                }
                Err(e) if *kind == Kind::Dispatch => {
                    notes.push(format!("no probe on {function}: {e}"));
                    return Ok(None);
                }
                // Without it, the time of the function's return is used.
                Err(e) => notes.push(format!("no probe on {function}: {e}")),
            }
        }
        Ok(Some(probes))
    }

    fn set(&self, file: &Path, begin: &str, name: &str, symbol: &str, takes: &str) -> Result<Guard, Error> {
        let event = format!("{}/{name}", self.group);
        let back = Action::write_text(file, &format!("-:{event}"));
        Guard::new(back, || write(file, &format!("{begin}:{event} {symbol} {takes}")))
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

/// Bytes of a page of the buffer, as its header describes it.
pub(crate) fn page_bytes(header: &str) -> usize {
    let page = header.lines().find(|l| l.contains(" data;")).and_then(|l| {
        let number = |label: &str| l.split_once(label)?.1.split(';').next()?.parse::<usize>().ok();
        Some(number("offset:")? + number("size:")?)
    });
    page.unwrap_or(4096)
}

/// Events for which the buffers of an instance had no room since it was made.
pub(crate) fn lost(instance: &Path) -> Result<u64, Error> {
    let mut lost = 0;
    for cpu in names(&instance.join("per_cpu"))? {
        let stats = read(&instance.join("per_cpu").join(cpu).join("stats"))?;
        for line in stats.lines() {
            if let Some((name, count)) = line.split_once(": ")
                && matches!(name, "overrun" | "commit overrun" | "dropped events")
            {
                lost += count.trim().parse::<u64>().unwrap_or(0);
            }
        }
    }
    Ok(lost)
}

/// An instance: buffers and switches that are ours alone.
pub(crate) struct Instance {
    dir: PathBuf,
    page: usize,
    _guard: Guard,
}

/// Makes a trace instance of this name, off, with monotonic times and a buffer of `buffer_kb` KiB per CPU; the guard removes it.
pub(crate) fn make_instance(name: &str, buffer_kb: u64) -> Result<(PathBuf, Guard), Error> {
    let dir = root()?.join("instances").join(name);
    let make = || std::fs::create_dir(&dir).map_err(|e| Error::file("make the trace instance", &dir, e));
    let guard = Guard::new(Action::remove_instance(&dir), make)?;
    write(&dir.join("tracing_on"), "0")?;
    write(&dir.join("trace_clock"), "mono")?;
    write(&dir.join("buffer_size_kb"), &buffer_kb.to_string())?;
    Ok((dir, guard))
}

impl Instance {
    pub(crate) fn new(buffer_kb: u64, probes: Option<&Probes>, about: &About) -> Result<Instance, Error> {
        let (dir, guard) = make_instance(&format!("dumbwaiter-{}", std::process::id()), buffer_kb)?;
        let file = |name: &str| dir.join(name);
        for (kind, system, name, _) in Kind::POINTS {
            let event = dir.join("events").join(system).join(name);
            // Those of kyber exist where kyber is loaded; those that an older kernel lacks are left out.
            if !event.is_dir() || (system == "kyber" && about.scheduler != "kyber") {
                continue;
            }
            if kind.has_device() {
                write(&event.join("filter"), &about.filter())?;
            }
            write(&event.join("enable"), "1")?;
        }
        if let Some(probes) = probes {
            write(&dir.join("events").join(&probes.group).join("enable"), "1")?;
        }
        let page = page_bytes(&read_some(&file("events/header_page")).unwrap_or_default());
        Ok(Instance { dir, page, _guard: guard })
    }

    pub(crate) fn start(&self) -> Result<(), Error> {
        write(&self.dir.join("tracing_on"), "1")
    }

    pub(crate) fn stop(&self) -> Result<(), Error> {
        write(&self.dir.join("tracing_on"), "0")
    }

    pub(crate) fn cpus(&self) -> Result<Vec<u16>, Error> {
        let all = names(&self.dir.join("per_cpu"))?;
        Ok(all.iter().filter_map(|n| n.strip_prefix("cpu")?.parse().ok()).collect())
    }

    /// Takes the content of the buffers. The files are open only during the call: an instance with open files cannot be removed.
    pub(crate) fn take(&self, pages: &mut Pages) -> Result<(), Error> {
        pages.each(|cpu| {
            let path = self.dir.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            let fail = |e| Error::file("read", &path, e);
            let mut file =
                std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).map_err(fail)?;
            let mut taken = Vec::new();
            loop {
                let mut page = vec![0; self.page];
                match file.read(&mut page) {
                    Ok(0) => return Ok(taken),
                    Ok(n) => {
                        page.truncate(n);
                        taken.push(page);
                    }
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return Ok(taken),
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(fail(e)),
                }
            }
        })
    }

    /// Events for which the buffers had no room.
    pub(crate) fn lost(&self) -> Result<u64, Error> {
        lost(&self.dir)
    }

    /// The layouts of all events that are recorded.
    pub(crate) fn formats(&self, probes: Option<&Probes>) -> Result<Vec<Format>, Error> {
        let points = Kind::POINTS.iter().map(|(kind, system, name, _)| (*kind, *system, *name));
        let probes =
            probes.into_iter().flat_map(|p| p.made.iter().map(|(kind, name)| (*kind, p.group.as_str(), *name)));
        let mut all = Vec::new();
        for (kind, system, name) in points.chain(probes) {
            let path = self.dir.join("events").join(system).join(name).join("format");
            let Some(text) = read_some(&path) else { continue };
            let format = Format::parse(kind, &text);
            all.push(format.ok_or_else(|| Error::Refused(format!("{} is not as expected", path.display())))?);
        }
        Ok(all)
    }
}
