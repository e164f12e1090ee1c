//! A trace instance of our own that is read while it runs.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::Error;
use crate::file::{names, read, read_some, write};
use crate::undo::Guard;

use crate::recording::event::{Format, Kind};
use crate::recording::pages::records;
use crate::recording::tracefs;

/// An instance, paused at first. The guard removes it at the end, on a signal or after a crash.
pub(crate) struct LiveInstance {
    dir: PathBuf,
    /// `trace_pipe_raw` of each CPU.
    pipes: Vec<PathBuf>,
    page: Vec<u8>,
    lost_before: u64,
    _guard: Guard,
}

impl LiveInstance {
    /// `buffer_kb` is the size of the kernel's buffer for each CPU.
    pub(crate) fn new(name: &str, buffer_kb: u64) -> Result<LiveInstance, Error> {
        let (dir, guard) = tracefs::make_instance(&format!("dumbwaiter-{}-{name}", std::process::id()), buffer_kb)?;
        let cpus = names(&dir.join("per_cpu"))?;
        let pipes = cpus.iter().map(|cpu| dir.join("per_cpu").join(cpu).join("trace_pipe_raw")).collect();
        let page = tracefs::page_bytes(&read_some(&dir.join("events/header_page")).unwrap_or_default());
        Ok(LiveInstance { dir, pipes, page: vec![0; page], lost_before: 0, _guard: guard })
    }

    /// Adds a tracepoint, `block/block_rq_issue`, for one device. `layout` says where its fields are, if the kernel's are as expected.
    pub(crate) fn add<T>(
        &self,
        (kind, point): (Kind, &str),
        (major, minor): (u32, u32),
        layout: impl FnOnce(&Format) -> Option<T>,
    ) -> Result<T, Error> {
        let event = self.dir.join("events").join(point);
        let path = event.join("format");
        let found = Format::parse(kind, &read(&path)?).and_then(|format| layout(&format));
        let found = found.ok_or_else(|| Error::Refused(format!("{} is not as expected", path.display())))?;
        write(&event.join("filter"), &format!("dev == {}", major << 20 | minor))?;
        write(&event.join("enable"), "1")?;
        Ok(found)
    }

    /// Resumes or pauses.
    pub(crate) fn watch(&self, on: bool) -> Result<(), Error> {
        write(&self.dir.join("tracing_on"), if on { "1" } else { "0" })
    }

    /// Hands out the records since the last call with their times, CPU by CPU, and returns how many were lost.
    pub(crate) fn take(&mut self, each: &mut dyn FnMut(u64, &[u8])) -> Result<u64, Error> {
        for path in &self.pipes {
            let fail = |e| Error::file("read", path, e);
            // Open only during the call: an instance with open files cannot be removed.
            let mut file =
                std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(fail)?;
            loop {
                let count = match file.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(e) => return Err(fail(e)),
                };
                records(&self.page[..count], each).ok_or_else(|| {
                    Error::Refused(format!("{}: a page of the trace buffer is not as expected", path.display()))
                })?;
            }
        }
        let lost = tracefs::lost(&self.dir)?;
        let more = lost.saturating_sub(self.lost_before);
        self.lost_before = lost;
        Ok(more)
    }
}

/// The number of a record's tracepoint.
pub(crate) fn id_of(data: &[u8]) -> u16 {
    data.get(..2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}
