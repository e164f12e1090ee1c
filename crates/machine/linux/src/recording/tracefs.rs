//! A trace instance of our own.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::file::{names, read, read_some, write};
use crate::recording::about::About;
use crate::recording::controllers::{Controllers, Source};
use crate::recording::event::{Format, Kind};
use crate::recording::pages::Pages;
use crate::undo::{Action, Guard};

/// Where tracefs is mounted.
pub(crate) fn root() -> Result<PathBuf, Error> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    if let Some(found) = places.iter().map(Path::new).find(|p| p.join("instances").is_dir()) {
        return Ok(found.into());
    }
    let hint = "mount it with: mount -t tracefs nodev /sys/kernel/tracing";
    Err(Error::Refused(format!("tracefs is not mounted at {}, or root is needed; {hint}", places[0])))
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

/// The event of a probe.
pub(crate) struct ProbeEvent {
    pub(crate) kind: Kind,
    /// Its folder below `events`.
    pub(crate) event: String,
    /// The kernel's filter for it; empty for all.
    pub(crate) filter: String,
}

/// Switches an event on, with a filter where one is given.
fn switch_on(event: &Path, filter: &str) -> Result<(), Error> {
    if !filter.is_empty() {
        write(&event.join("filter"), filter)?;
    }
    write(&event.join("enable"), "1")
}

/// An instance: buffers and switches that are ours alone.
pub(crate) struct Instance {
    dir: PathBuf,
    page: usize,
    /// What is recorded beside the block layer's tracepoints.
    seen: Vec<(Kind, PathBuf)>,
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
    pub(crate) fn new(
        buffer_kb: u64,
        probes: &[ProbeEvent],
        controllers: &Controllers,
        about: &About,
    ) -> Result<Instance, Error> {
        let (dir, guard) = make_instance(&format!("dumbwaiter-{}", std::process::id()), buffer_kb)?;
        let file = |name: &str| dir.join(name);
        let of_device = about.filter();
        for (kind, system, name, _) in Kind::POINTS {
            let event = dir.join("events").join(system).join(name);
            // Those of kyber exist where kyber is loaded; those that an older kernel lacks are left out.
            if !event.is_dir() || (system == "kyber" && about.scheduler != "kyber") {
                continue;
            }
            switch_on(&event, if kind.has_device() { &of_device } else { "" })?;
        }
        let mut seen = Vec::new();
        for (place, point) in controllers.points() {
            let Source::Tracepoint(system) = point.source else { continue };
            let event = dir.join("events").join(system).join(point.name);
            if event.is_dir() {
                switch_on(&event, &controllers.filter(point))?;
                seen.push((Kind::Controller(place), event));
            }
        }
        for ProbeEvent { kind, event, filter } in probes {
            let event = dir.join("events").join(event);
            switch_on(&event, filter)?;
            seen.push((*kind, event));
        }
        let page = page_bytes(&read_some(&file("events/header_page")).unwrap_or_default());
        Ok(Instance { dir, page, seen, _guard: guard })
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
    pub(crate) fn formats(&self) -> Result<Vec<Format>, Error> {
        let points =
            Kind::POINTS.iter().map(|(kind, system, name, _)| (*kind, self.dir.join("events").join(system).join(name)));
        let mut all = Vec::new();
        for (kind, event) in points.chain(self.seen.iter().cloned()) {
            let path = event.join("format");
            let Some(text) = read_some(&path) else { continue };
            let format = Format::parse(kind, &text);
            all.push(format.ok_or_else(|| Error::Refused(format!("{} is not as expected", path.display())))?);
        }
        Ok(all)
    }
}
