//! The requests that a Python scheduler gets.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use dumbwaiter_block::{Flags, Io, Nanos, Request as Block, RequestId};
use pyo3::prelude::*;

use crate::errors::SchedulerError;

/// Where a request of a Python scheduler is.
pub(crate) mod place {
    /// The scheduler holds it.
    pub(crate) const QUEUED: u8 = 0;
    /// On its way to the device, or in it.
    pub(crate) const SENT: u8 = 1;
    /// The device finished it.
    pub(crate) const DONE: u8 = 2;
    /// It became part of another request.
    pub(crate) const MERGED: u8 = 3;
    /// As `MERGED`, and the scheduler returned it once since.
    pub(crate) const DROPPED: u8 = 4;
}

/// A request that a scheduler holds or has sent. Compares by its id; reading one after its completion raises an error.
#[pyclass(frozen, module = "dumbwaiter")]
pub(crate) struct Request {
    io: Io,
    pub(crate) number: u32,
    pub(crate) serial: u64,
    arrived_ns: u64,
    sector: AtomicU64,
    sectors: AtomicU32,
    place: AtomicU8,
    /// For the policy: 0 is none.
    deadline: AtomicU64,
}

impl Request {
    pub(crate) fn new(id: RequestId, request: &Block, serial: u64, now: Nanos) -> Request {
        Request {
            io: request.io,
            number: id.0,
            serial,
            arrived_ns: now.0,
            sector: AtomicU64::new(request.sector),
            sectors: AtomicU32::new(request.sectors),
            place: AtomicU8::new(place::QUEUED),
            deadline: AtomicU64::new(0),
        }
    }

    pub(crate) fn grow(&self, request: &Block) {
        self.sector.store(request.sector, Ordering::Relaxed);
        self.sectors.store(request.sectors, Ordering::Relaxed);
    }

    pub(crate) fn put(&self, place: u8) {
        self.place.store(place, Ordering::Relaxed);
    }

    /// Where it is, one of [`place`].
    pub(crate) fn place(&self) -> u8 {
        self.place.load(Ordering::Relaxed)
    }

    fn live(&self) -> PyResult<()> {
        if self.place() == place::DONE {
            return Err(SchedulerError::new_err(format!("{} was used after its completion", self.told())));
        }
        Ok(())
    }

    pub(crate) fn told(&self) -> String {
        format!("request {} ({} of {} sectors at sector {})", self.serial, self.io.op, self.io.sectors, self.io.sector)
    }
}

#[pymethods]
impl Request {
    /// A number of its own in this run, in order of arrival.
    #[getter]
    fn id(&self) -> u64 {
        self.serial
    }

    /// `read`, `write`, `flush`, `discard`, `secure-erase` or `write-zeroes`.
    #[getter]
    fn op(&self) -> PyResult<&'static str> {
        self.live().map(|()| self.io.op.name())
    }

    /// First sector now, in units of 512 bytes.
    #[getter]
    fn sector(&self) -> PyResult<u64> {
        self.live().map(|()| self.sector.load(Ordering::Relaxed))
    }

    /// Length now, in sectors of 512 bytes: it grows when others merge into it.
    #[getter]
    fn sectors(&self) -> PyResult<u32> {
        self.live().map(|()| self.sectors.load(Ordering::Relaxed))
    }

    /// Number of the task that submitted it.
    #[getter]
    fn task(&self) -> PyResult<u32> {
        self.live().map(|()| self.io.task.0)
    }

    /// Number of the tenant that is charged.
    #[getter]
    fn tenant(&self) -> PyResult<u32> {
        self.live().map(|()| self.io.tenant.0)
    }

    /// Priority as `ionice` names it: `be/4`.
    #[getter]
    fn priority(&self) -> PyResult<String> {
        self.live().map(|()| self.io.ioprio.to_string())
    }

    /// When it entered the scheduler, in ns.
    #[getter]
    fn arrived(&self) -> PyResult<u64> {
        self.live().map(|()| self.arrived_ns)
    }

    /// For the policy's own use: a time in ns, None until it is set.
    #[getter]
    fn deadline(&self) -> PyResult<Option<u64>> {
        self.live().map(|()| Some(self.deadline.load(Ordering::Relaxed)).filter(|ns| *ns > 0))
    }

    #[setter]
    fn set_deadline(&self, ns: Option<u64>) -> PyResult<()> {
        self.live().map(|()| self.deadline.store(ns.unwrap_or(0), Ordering::Relaxed))
    }

    /// Its marks: `sync`, `meta`, `prio`, `readahead`, `fua`, `idle`, `background`.
    #[getter]
    fn flags(&self) -> PyResult<Vec<&'static str>> {
        let all = [
            (Flags::SYNC, "sync"),
            (Flags::META, "meta"),
            (Flags::PRIO, "prio"),
            (Flags::RAHEAD, "readahead"),
            (Flags::FUA, "fua"),
            (Flags::IDLE, "idle"),
            (Flags::BACKGROUND, "background"),
        ];
        self.live().map(|()| all.iter().filter(|(flag, _)| self.io.flags.has(*flag)).map(|(_, name)| *name).collect())
    }

    /// Does its submitter wait for it? True for reads and synchronous writes.
    #[getter]
    fn sync(&self) -> PyResult<bool> {
        self.live().map(|()| self.io.op == dumbwaiter_block::Op::Read || self.io.flags.has(Flags::SYNC))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Request>().is_ok_and(|other| other.get().serial == self.serial)
    }

    fn __hash__(&self) -> u64 {
        self.serial
    }

    /// Orders by id, so that requests may be the last element of tuples in a heap.
    fn __lt__(&self, other: &Bound<'_, Request>) -> bool {
        self.serial < other.get().serial
    }

    fn __repr__(&self) -> String {
        format!("<{}>", self.told())
    }

    /// A copied scheduler holds the same requests.
    fn __deepcopy__(slf: Py<Request>, memo: &Bound<'_, PyAny>) -> Py<Request> {
        let _ = memo;
        slf
    }
}
