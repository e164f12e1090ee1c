//! Schedulers written in Python, as the block layer knows schedulers.

use dumbwaiter_block::{
    Context, Event, Flags, Io, Join, MergeIndex, Merging, Nanos, Next, Place, Request as Block, RequestId, Scheduler,
    Setup, Side, Traits, Tunable,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::errors::SchedulerError;
use crate::failed::Failed;
use crate::request::{Request, place};

/// An answer of `next`: send nothing before this time.
#[pyclass(frozen, module = "dumbwaiter")]
pub(crate) struct WaitUntil {
    /// The time in ns.
    #[pyo3(get)]
    ns: u64,
}

/// Answer of `Scheduler.next`: send nothing before the time `ns` of the run's clock, although requests are queued.
#[pyfunction]
pub(crate) fn wait_until(ns: u64) -> WaitUntil {
    WaitUntil { ns }
}

/// The device and the limits that a scheduler is built for.
#[pyclass(frozen, get_all, name = "Setup", module = "dumbwaiter")]
pub(crate) struct PySetup {
    /// CPUs; each has a software queue.
    cpus: u16,
    /// Hardware queues.
    hw_queues: u16,
    /// Requests that the scheduler may hold, including those in the device.
    nr_requests: u32,
    /// Requests that the device may hold.
    device_depth: u32,
    /// The device is a disk with a moving arm.
    rotational: bool,
}

/// Hooks of a class that are not the base class's.
#[derive(Default)]
struct Hooks {
    insert: Option<Py<PyAny>>,
    next: Option<Py<PyAny>>,
    complete: Option<Py<PyAny>>,
    merge: Option<Py<PyAny>>,
    event: Option<Py<PyAny>>,
    limit: Option<Py<PyAny>>,
    timer: Option<Py<PyAny>>,
    former: Option<Py<PyAny>>,
    latter: Option<Py<PyAny>>,
    requeue: Option<Py<PyAny>>,
    absorbed: Option<Py<PyAny>>,
}

impl Hooks {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Hooks> {
        let py = object.py();
        let base = py.import("dumbwaiter._scheduler")?.getattr("Scheduler")?;
        let class = object.get_type();
        let hook = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let own = class.getattr_opt(name)?;
            let inherited = base.getattr_opt(name)?;
            let is_own = match (&own, &inherited) {
                (Some(own), Some(inherited)) => !own.is(inherited),
                (own, _) => own.is_some(),
            };
            Ok(if is_own { Some(object.getattr(name)?.unbind()) } else { None })
        };
        Ok(Hooks {
            insert: hook("insert")?,
            next: hook("next")?,
            complete: hook("complete")?,
            merge: hook("merge")?,
            event: hook("event")?,
            limit: hook("limit")?,
            timer: hook("timer")?,
            former: hook("former")?,
            latter: hook("latter")?,
            requeue: hook("requeue")?,
            absorbed: hook("absorbed")?,
        })
    }
}

/// A scheduler whose decisions are a Python object's.
pub(crate) struct Policy {
    object: Option<Py<PyAny>>,
    hooks: Hooks,
    traits: Traits,
    tunables: &'static [Tunable],
    /// Requests by their id in the block layer.
    requests: Vec<Option<Py<Request>>>,
    queued: usize,
    serial: u64,
    failed: Failed,
}

/// The value that a hook returned, for an error.
fn shown(answer: &Bound<'_, PyAny>) -> String {
    answer.repr().map_or_else(|_| answer.get_type().to_string(), |text| text.to_string())
}

/// A hook returned something that it must not.
fn nonsense(hook: &str, answer: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    PyTypeError::new_err(format!("{hook} returned {}; expected {expected}", shown(answer)))
}

impl Policy {
    pub(crate) fn new(
        class: &Bound<'_, PyAny>,
        tunables: &'static [Tunable],
        setup: Setup,
        failed: &Failed,
    ) -> PyResult<Policy> {
        let given = PySetup {
            cpus: setup.cpus,
            hw_queues: setup.hw_queues,
            nr_requests: setup.nr_requests,
            device_depth: setup.device_depth,
            rotational: setup.rotational,
        };
        let object = class.call1((given,))?;
        let hooks = Hooks::of(&object)?;
        // Of a class that is known before; a function may return anything.
        for (name, hook) in [("insert", &hooks.insert), ("next", &hooks.next)] {
            if hook.is_none() {
                let what = shown(&object);
                return Err(PyTypeError::new_err(format!("{what} is no scheduler: it has no method `{name}`")));
            }
        }
        let flag = |name: &str, default: bool| -> PyResult<bool> {
            object.getattr_opt(name)?.map_or(Ok(default), |value| value.extract())
        };
        let merging = if flag("merging", true)? { Merging::Index } else { Merging::None };
        let traits = Traits { single_queue: flag("single_queue", false)?, merging, ..Traits::default() };
        let object = Some(object.unbind());
        let failed = failed.clone();
        Ok(Policy { object, hooks, traits, tunables, requests: Vec::new(), queued: 0, serial: 0, failed })
    }

    /// One that holds what it gets: its class could not be made, and the run ends.
    pub(crate) fn dead(failed: &Failed) -> Policy {
        Policy {
            object: None,
            hooks: Hooks::default(),
            traits: Traits::default(),
            tunables: &[],
            requests: Vec::new(),
            queued: 0,
            serial: 0,
            failed: failed.clone(),
        }
    }

    fn request(&self, id: RequestId) -> Option<&Py<Request>> {
        self.requests.get(id.index())?.as_ref()
    }

    /// Is this very object in the scheduler's queue? Those of other runs may have its number.
    fn holds(&self, request: &Bound<'_, Request>) -> bool {
        let held = self.request(RequestId(request.get().number));
        held.is_some_and(|held| held.is(request)) && request.get().place() == place::QUEUED
    }

    /// Calls a hook unless an earlier one failed.
    fn call<T>(
        &self,
        hook: &Option<Py<PyAny>>,
        body: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let hook = hook.as_ref().filter(|_| !self.failed.is())?;
        Python::attach(|py| match body(py, hook.bind(py)) {
            Ok(value) => Some(value),
            Err(error) => {
                self.failed.set(error);
                None
            }
        })
    }

    /// Reads the answer of `next`.
    fn answer(&mut self, answer: &Bound<'_, PyAny>, now: Nanos) -> PyResult<Option<Next>> {
        if answer.is_none() {
            return Ok(Some(Next::Empty));
        }
        if let Ok(request) = answer.cast::<Request>() {
            let is_held = self.holds(request);
            let request = request.get();
            match request.place() {
                place::QUEUED if is_held => {
                    request.put(place::SENT);
                    self.queued -= 1;
                    return Ok(Some(Next::Dispatch(RequestId(request.number))));
                }
                // Its I/O goes with the request that it joined. Whoever returns it again has it in the queue for ever.
                place::MERGED => {
                    request.put(place::DROPPED);
                    return Ok(None);
                }
                place::DROPPED => {
                    return Err(SchedulerError::new_err(format!(
                        "next returned {} twice, which joined another request",
                        request.told()
                    )));
                }
                place::DONE => {
                    return Err(SchedulerError::new_err(format!(
                        "next returned {}, which is complete",
                        request.told()
                    )));
                }
                place::SENT => {
                    return Err(SchedulerError::new_err(format!(
                        "next returned {} twice: it was sent before",
                        request.told()
                    )));
                }
                _ => {
                    return Err(SchedulerError::new_err(format!(
                        "next returned {}, which another scheduler holds",
                        request.told()
                    )));
                }
            }
        }
        if let Ok(wait) = answer.cast::<WaitUntil>() {
            let ns = wait.get().ns;
            if ns <= now.0 {
                return Err(SchedulerError::new_err(format!(
                    "next returned wait_until({ns}) at {}; expected a later time",
                    now.0
                )));
            }
            return Ok(Some(Next::WaitUntil(Nanos(ns))));
        }
        Err(nonsense("next", answer, "a request, None or wait_until(ns)"))
    }

    fn neighbour(&self, name: &str, hook: &Option<Py<PyAny>>, id: RequestId) -> Option<RequestId> {
        let request = self.request(id)?;
        self.call(hook, |py, hook| {
            let answer = hook.call1((request.bind(py),))?;
            if answer.is_none() {
                return Ok(None);
            }
            let other = answer.cast::<Request>().map_err(|_| nonsense(name, &answer, "a request or None"))?;
            Ok(self.holds(other).then_some(RequestId(other.get().number)))
        })?
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        let queued = self.requests.iter().flatten().map(Py::get);
        let queued = queued.filter(|r| r.place() == place::QUEUED);
        let oldest = queued.min_by_key(|r| r.serial).map(Request::told);
        self.failed.set_held(oldest);
    }
}

impl Scheduler for Policy {
    fn traits(&self) -> Traits {
        self.traits
    }

    fn insert(&mut self, id: RequestId, place: Place, ctx: &Context<'_>) {
        if self.failed.is() {
            return;
        }
        Python::attach(|py| {
            if self.requests.len() <= id.index() {
                self.requests.resize_with(id.index() + 1, || None);
            }
            let again = self.requests[id.index()].as_ref();
            let returned = again.filter(|held| held.get().place() == place::SENT);
            let (hook, request) = match returned {
                Some(held) => {
                    held.get().put(place::QUEUED);
                    (self.hooks.requeue.as_ref().or(self.hooks.insert.as_ref()), held.clone_ref(py))
                }
                None => {
                    self.serial += 1;
                    match Py::new(py, Request::new(id, &ctx.requests[id], self.serial, ctx.now)) {
                        Ok(request) => {
                            let at_head = place == Place::Head && self.hooks.requeue.is_some();
                            let hook = if at_head { &self.hooks.requeue } else { &self.hooks.insert };
                            (hook.as_ref(), request)
                        }
                        Err(error) => return self.failed.set(error),
                    }
                }
            };
            self.queued += 1;
            let called = hook.map(|hook| hook.call1(py, (&request, ctx.now.0)));
            self.requests[id.index()] = Some(request);
            if let Some(Err(error)) = called {
                self.failed.set(error);
            }
        });
    }

    fn has_work(&self, _hw_queue: usize) -> bool {
        self.queued > 0 && !self.failed.is()
    }

    fn next(&mut self, hw_queue: usize, ctx: &Context<'_>) -> Next {
        if self.failed.is() {
            return Next::Empty;
        }
        Python::attach(|py| {
            loop {
                let Some(hook) = &self.hooks.next else { return Next::Empty };
                let answer = hook.bind(py).call1((hw_queue, ctx.now.0));
                match answer.and_then(|answer| self.answer(&answer, ctx.now)) {
                    Ok(Some(next)) => return next,
                    Ok(None) => {}
                    Err(error) => {
                        self.failed.set(error);
                        return Next::Empty;
                    }
                }
            }
        })
    }

    fn complete(&mut self, id: RequestId, ctx: &Context<'_>) -> bool {
        let Some(request) = self.requests.get_mut(id.index()).and_then(Option::take) else { return false };
        let again = self.call(&self.hooks.complete, |_, hook| {
            let answer = hook.call1((&request, ctx.now.0))?;
            Ok(!answer.is_none() && answer.is_truthy()?)
        });
        request.get().put(place::DONE);
        Python::attach(|py| request.drop_ref(py));
        again.unwrap_or(false)
    }

    fn merge(&mut self, io: &Io, index: &MergeIndex, ctx: &Context<'_>) -> Option<Join> {
        let shared = index.lookup(io, ctx);
        if self.hooks.merge.is_none() {
            return shared;
        }
        let queued = shared.and_then(|join| self.request(join.into));
        let own = self.call(&self.hooks.merge, |py, hook| {
            let arrival = Py::new(py, Request::new(RequestId::NIL, &Block::new(*io, ctx.now), 0, ctx.now))?;
            let answer = hook.call1((arrival, queued.map(|q| q.clone_ref(py)), ctx.now.0))?;
            if answer.is_none() {
                return Ok(shared);
            }
            if let Ok(joins) = answer.cast::<pyo3::types::PyBool>() {
                return Ok(shared.filter(|_| joins.is_true()));
            }
            let expected = "None, True, False or a request";
            let into = answer.cast::<Request>().map_err(|_| nonsense("merge", &answer, expected))?;
            if !self.holds(into) {
                return Ok(None);
            }
            let into = RequestId(into.get().number);
            if shared.is_some_and(|shared| shared.into == into) {
                return Ok(shared);
            }
            let side = match &ctx.requests[into] {
                request if io.sector.checked_add(u64::from(io.sectors)) == Some(request.sector) => Side::Front,
                request if request.end() == io.sector => Side::Back,
                _ => return Err(nonsense("merge", &answer, "a request that touches the arrival")),
            };
            Ok(Some(Join { into, side }))
        })?;
        own.filter(|join| dumbwaiter_block::merge::compatible(&ctx.requests[join.into], io))
    }

    fn merged(&mut self, join: Join, ctx: &Context<'_>) {
        if let Some(request) = self.request(join.into) {
            request.get().grow(&ctx.requests[join.into]);
        }
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, ctx: &Context<'_>) {
        if let Some(request) = self.request(survivor) {
            request.get().grow(&ctx.requests[survivor]);
        }
        let Some(gone) = self.requests.get_mut(absorbed.index()).and_then(Option::take) else { return };
        gone.get().put(place::MERGED);
        self.queued -= 1;
        let survivor = self.request(survivor);
        self.call(&self.hooks.absorbed, |py, hook| {
            hook.call1((&gone, survivor.map(|s| s.clone_ref(py)), ctx.now.0)).map(drop)
        });
    }

    fn former(&self, id: RequestId) -> Option<RequestId> {
        self.neighbour("former", &self.hooks.former, id)
    }

    fn latter(&self, id: RequestId) -> Option<RequestId> {
        self.neighbour("latter", &self.hooks.latter, id)
    }

    fn limit(&self, io: &Io, nr_requests: u32) -> u32 {
        let limit = self.call(&self.hooks.limit, |_, hook| {
            let op = io.op.name();
            let answer =
                hook.call1((op, io.op == dumbwaiter_block::Op::Read || io.flags.has(Flags::SYNC), nr_requests))?;
            let limit = answer.extract::<u32>().ok().filter(|limit| (1..=nr_requests).contains(limit));
            limit.ok_or_else(|| nonsense("limit", &answer, &format!("a whole number from 1 to {nr_requests}")))
        });
        limit.unwrap_or(nr_requests)
    }

    fn event(&mut self, event: Event, ctx: &Context<'_>) {
        self.call(&self.hooks.event, |_, hook| {
            let (what, number) = match event {
                Event::Timer => ("timer", 0),
                Event::TaskAdded(task) => ("task-added", task.0),
                Event::TaskChanged(task) => ("task-changed", task.0),
                Event::TaskExited(task) => ("task-exited", task.0),
                Event::TenantAdded(tenant) => ("tenant-added", tenant.0),
                Event::TenantChanged(tenant) => ("tenant-changed", tenant.0),
                Event::TenantRetired(tenant) => ("tenant-retired", tenant.0),
                Event::DepthChanged { nr_requests, .. } => ("depth-changed", nr_requests),
                Event::RotationalChanged(rotational) => ("rotational-changed", u32::from(rotational)),
                Event::WriterPaused => ("writer-paused", 0),
            };
            hook.call1((what, number, ctx.now.0)).map(drop)
        });
    }

    fn timer(&self) -> Option<Nanos> {
        let at = self.call(&self.hooks.timer, |_, hook| {
            let answer = hook.call0()?;
            answer.extract::<Option<u64>>().map_err(|_| nonsense("timer", &answer, "a time in ns from 0, or None"))
        });
        at?.map(Nanos)
    }

    fn tunables(&self) -> &'static [Tunable] {
        self.tunables
    }

    fn get(&self, name: &str) -> Option<i128> {
        self.call(&self.object, |_, object| object.getattr(name)?.extract::<i64>()).map(i128::from)
    }

    fn set(&mut self, name: &str, value: i128) {
        self.call(&self.object, |_, object| object.setattr(name, value as i64));
    }

    fn clone_box(&self) -> Box<dyn Scheduler> {
        Python::attach(|py| {
            let copy = || -> PyResult<Policy> {
                let Some(object) = &self.object else { return Ok(Policy::dead(&self.failed)) };
                let object = py.import("copy")?.call_method1("deepcopy", (object,))?;
                Ok(Policy {
                    hooks: Hooks::of(&object)?,
                    object: Some(object.unbind()),
                    traits: self.traits,
                    tunables: self.tunables,
                    requests: self.requests.iter().map(|r| r.as_ref().map(|r| r.clone_ref(py))).collect(),
                    queued: self.queued,
                    serial: self.serial,
                    failed: self.failed.clone(),
                })
            };
            match copy() {
                Ok(policy) => Box::new(policy),
                Err(error) => {
                    self.failed.set(error);
                    Box::new(Policy::dead(&self.failed))
                }
            }
        })
    }
}
