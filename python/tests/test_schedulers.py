"""Schedulers in Python: the same run as in Rust, exceptions, requests lost, doubled and used too late."""

import bisect
import json
import multiprocessing
import os
import signal

import pytest

import dumbwaiter as dw

NVME = "scenarios/nvme-random.toml"
SHORT = dict(duration="20ms", warmup="5ms", replicates=1, progress=None)


class Lifo(dw.Scheduler):
    "newest first"

    def __init__(self, setup):
        self.queue = []

    def insert(self, request, now):
        self.queue.append(request)

    def next(self, hw_queue, now):
        return self.queue.pop() if self.queue else None


class Noop(dw.Scheduler):
    """`noop`, as in Rust."""

    name = "noop-in-python"
    single_queue = True

    def __init__(self, setup):
        self.queue = []

    def insert(self, request, now):
        self.queue.append(request)

    def requeue(self, request, now):
        self.queue.insert(0, request)

    def next(self, hw_queue, now):
        return self.queue.pop(0) if self.queue else None

    def absorbed(self, request, into, now):
        self.queue.remove(request)

    def former(self, request):
        at = self.queue.index(request) if request in self.queue else 0
        return self.queue[at - 1] if at else None

    def latter(self, request):
        at = self.queue.index(request) if request in self.queue else len(self.queue)
        return self.queue[at + 1] if at + 1 < len(self.queue) else None


def sector(request):
    return request.sector


class CLook(dw.Scheduler):
    """`c-look`, as in Rust."""

    name = "c-look-in-python"
    cpu_cost_of = "c-look"

    def __init__(self, setup):
        self.head, self.queue, self.position = [], [], 0

    def insert(self, request, now):
        bisect.insort(self.sorted(), request, key=sector)

    def requeue(self, request, now):
        self.head.insert(0, request)

    def sorted(self):
        # A merge at the front moves a request.
        self.queue.sort(key=sector)
        return self.queue

    def next(self, hw_queue, now):
        if self.head:
            request = self.head.pop(0)
        else:
            at = bisect.bisect_left(self.sorted(), self.position, key=sector)
            request = self.queue.pop(at if at < len(self.queue) else 0)
        self.position = request.sector + request.sectors
        return request

    def merge(self, arrival, queued, now):
        end = arrival.sector + arrival.sectors
        return next((other for other in self.sorted() if other.sector == end), None) if queued is None else None

    def absorbed(self, request, into, now):
        self.queue.remove(request)

    def former(self, request):
        at = self.sorted().index(request) if request in self.queue else 0
        return self.queue[at - 1] if at else None

    def latter(self, request):
        at = self.sorted().index(request) if request in self.queue else len(self.queue)
        return self.queue[at + 1] if at + 1 < len(self.queue) else None


def of(result, scheduler):
    run = next(run for run in json.loads(result.to_json())["runs"] if run["scheduler"] == scheduler)
    for name in ["scheduler", "scheduler_counters"]:
        run.pop(name)
    return run


@pytest.mark.parametrize("scenario", [NVME, "scenarios/shared-disk.toml"])
@pytest.mark.parametrize("rust, python", [("noop", Noop), ("c-look", CLook)])
def test_the_same_policy_in_python_is_the_same_run(scenario, rust, python):
    settings = dict(SHORT, devices=["hdd:st1000dm003"], duration="2s", warmup=0)
    result = dw.compare(scenario, schedulers=[rust, python], **settings)
    assert of(result, rust) == of(result, python.name)


def test_the_storms_pass_both():
    for scheduler in (Noop, CLook):
        dw.check(scheduler, cases=50)


def test_runs_repeat_themselves():
    first, second = (dw.compare(NVME, schedulers=["none", Lifo], seed=3, jobs=jobs, **SHORT) for jobs in (1, 2))
    assert first.to_json() == second.to_json()


def test_several_jobs_are_processes():
    class Where(Lifo):
        def __init__(self, setup):
            super().__init__(setup)
            raise RuntimeError(f"in {os.getpid()}")

    with pytest.raises(RuntimeError) as error:
        dw.compare(NVME, schedulers=[Where], jobs=2, **SHORT)
    assert str(error.value) != f"in {os.getpid()}" and "__init__" in str(error.value.__cause__)
    assert not multiprocessing.active_children()
    with pytest.raises(KeyError, match="in insert"):
        dw.compare(NVME, schedulers=[raising("insert"), Lifo], jobs=2, **SHORT)


def raising(hook):
    def body(self, *arguments):
        raise KeyError(f"in {hook}")

    # Neighbours of this one merge; the event is its timer.
    timer = {"timer": lambda self: 1000} if hook == "event" else {}
    return type("Raising", (CLook,), {"name": "raising", hook: body, **timer})


#: Of so few positions that neighbours merge.
DENSE = {"task": [{"name": "writer", "rw": "randwrite", "bs": "4k", "size": "1m", "iodepth": 64}]}


@pytest.mark.parametrize("hook", ["__init__", "insert", "next", "complete", "absorbed", "event", "limit", "timer", "merge"])
def test_what_a_hook_raises_ends_the_run(hook):
    scenario = DENSE if hook == "absorbed" else "scenarios/shared-disk.toml"
    with pytest.raises(KeyError, match=f"in {hook}") as error:
        dw.compare(scenario, schedulers=[raising(hook)], devices=["hdd:st1000dm003"], **dict(SHORT, duration="1s"))
    assert any(entry.name == "body" for entry in error.traceback)


@pytest.mark.parametrize("hook", ["__init__", "insert", "next", "complete", "requeue", "merge", "former", "latter", "limit", "timer"])
def test_what_a_hook_raises_is_what_storms_find(hook):
    with pytest.raises(dw.SchedulerError, match=f"in {hook}") as error:
        dw.check(raising(hook))
    assert isinstance(error.value.__cause__, KeyError)


@pytest.mark.parametrize(
    "answer, error, said",
    [
        (lambda self: 17, TypeError, "17.*expected a request, None or wait_until"),
        (lambda self: self.queue[0], dw.SchedulerError, "request 1 .*twice"),
        (lambda self: dw.wait_until(0), dw.SchedulerError, "expected a later time"),
        (lambda self: self.queue.pop() and None, dw.SchedulerError, "request 1 "),
    ],
)
def test_nonsense_from_next_is_named(answer, error, said):
    broken = type("Broken", (Lifo,), {"next": lambda self, hw_queue, now: answer(self) if self.queue else None})
    with pytest.raises(error, match=said):
        dw.compare(NVME, schedulers=[broken], devices=["ull:optane-p4801x"], **SHORT)


@pytest.mark.parametrize(
    "hook, answer, said",
    [
        ("limit", "many", "limit returned 'many'; expected a whole number"),
        ("limit", 0, "limit returned 0; expected a whole number from 1"),
        ("timer", "soon", "timer returned 'soon'; expected a time in ns"),
        ("merge", 17, "merge returned 17; expected"),
        ("latter", "x", "latter returned 'x'; expected a request"),
    ],
)
def test_nonsense_from_a_hook_is_named(hook, answer, said):
    broken = type("Broken", (Noop,), {"name": "broken", hook: lambda self, *arguments: answer})
    settings = dict(SHORT, duration="2s", warmup=0, devices=["hdd:st1000dm003"])
    with pytest.raises(TypeError, match=said):
        dw.compare("scenarios/shared-disk.toml", schedulers=[broken], **settings)


@pytest.mark.parametrize("hook", ["merge", "former", "latter"])
def test_a_request_that_is_not_queued_here_joins_nothing(hook):
    """The arrival itself, one of an earlier run, one that was sent."""
    for pick in [lambda self, first: first, lambda self, first: OLD[0] if OLD else None, lambda self, first: self.sent]:

        class Odd(Noop):
            name = "odd"
            sent = None

            def insert(self, request, now):
                OLD.append(request)
                super().insert(request, now)

            def next(self, hw_queue, now):
                self.sent = super().next(hw_queue, now)
                return self.sent

        setattr(Odd, hook, lambda self, first, *others: pick(self, first))
        result = dw.compare(DENSE, schedulers=[Odd], devices=["hdd:st1000dm003"], **dict(SHORT, duration="200ms"))
        assert result.runs["completed"][0] > 0


#: Requests of earlier runs.
OLD = []


def test_a_merge_far_away_is_named():
    class Far(Noop):
        name = "far"

        def merge(self, arrival, queued, now):
            return next((other for other in self.queue if abs(other.sector - arrival.sector) > 8000), None)

    scenario = {"task": [{**DENSE["task"][0], "size": "64m"}]}
    with pytest.raises(TypeError, match="merge returned .*expected a request that touches the arrival"):
        dw.compare(scenario, schedulers=[Far], devices=["hdd:st1000dm003"], **SHORT)


def test_a_request_that_joined_another_leaves_the_queue():
    class Forgetful(Noop):
        """Without `absorbed`, it returns one that joined another: once that is no error."""

        name = "forgetful"

        def absorbed(self, request, into, now):
            pass

    settings = dict(SHORT, devices=["hdd:st1000dm003"], duration="1s")
    assert dw.compare(DENSE, schedulers=[Forgetful], **settings).runs["completed"][0] > 0

    class Stuck(Forgetful):
        def next(self, hw_queue, now):
            request = self.queue[0]
            if request not in self.gone:
                self.queue.pop(0)
            return request

        gone = ()

        def absorbed(self, request, into, now):
            self.gone = (*self.gone, request)

    with pytest.raises(dw.SchedulerError, match="twice, which joined another request"):
        dw.compare(DENSE, schedulers=[Stuck], **settings)


def test_a_function_must_return_a_scheduler():
    def scheduler(setup):
        return object()

    with pytest.raises(TypeError, match="is no scheduler: it has no method `insert`"):
        dw.compare(NVME, schedulers=[scheduler], **SHORT)
    with pytest.raises(dw.SchedulerError, match="is no scheduler"):
        dw.check(scheduler)
    for wrong in [dict(cases=0), dict(cases="many"), dict(seed=-1), dict(cases=1 << 40)]:
        with pytest.raises(dw.InputError, match=next(iter(wrong))):
            dw.check(Lifo, **wrong)


def test_a_process_that_is_killed_is_no_ctrl_c():
    class Killed(Lifo):
        def next(self, hw_queue, now):
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RuntimeError, match="the process that ran Killed on .* was killed"):
        dw.compare(NVME, schedulers=[Killed], jobs=2, **SHORT)


class Batches(dw.Scheduler):
    "requests in groups of `batch` by sector"

    tunables = {"batch": 4, "backwards": (0, 0, 1)}

    def __init__(self, setup):
        self.queue = []

    def insert(self, request, now):
        self.queue.append(request)
        if self.backwards or len(self.queue) % self.batch == 0:
            self.queue.sort(key=lambda request: request.sector, reverse=bool(self.backwards))

    def next(self, hw_queue, now):
        return self.queue.pop(0) if self.queue else None


def test_settings_of_a_class_are_set_by_name():
    named = ["Batches", "Batches:batch=1", "Batches:backwards=1,batch=1", "none"]
    result = dw.compare(NVME, schedulers=[Batches, *named[1:]], devices=["hdd:st1000dm003"], incumbent="none", queue_depth=1, **dict(SHORT, duration="2s"))
    found = dict(zip(result.runs["scheduler"], zip(result.runs["p99_us"], result.runs["device_mean_us"], result.runs["iops"])))
    assert set(found) == set(named) and len(set(found.values())) == 4
    for wrong, said in [("frob=1", "frob: is no setting"), ("backwards=2", "from 0 to 1"), ("batch=x", "whole number")]:
        with pytest.raises(dw.InputError, match=said):
            dw.compare(NVME, schedulers=[Batches, f"Batches:{wrong}"], **SHORT)
    with pytest.raises(dw.InputError, match="tunables"):
        dw.compare(NVME, schedulers=[type("Odd", (Lifo,), {"tunables": {"batch": "four"}})], **SHORT)


def test_a_request_is_not_used_after_its_completion():
    class Late(Lifo):
        old = None

        def complete(self, request, now):
            if self.old is not None:
                self.old.sector
            self.old = request

    with pytest.raises(dw.SchedulerError, match="after its completion"):
        dw.compare(NVME, schedulers=[Late], **SHORT)


def test_classes_are_refused_by_name():
    with pytest.raises(dw.InputError, match="no method `next`"):
        dw.compare(NVME, schedulers=[type("Half", (dw.Scheduler,), {"insert": lambda self, request, now: None})])
    for wrong, said in [([7], "expected names and classes"), (7, "expected a list"), ([Lifo, Lifo], "two classes"), ([], "empty")]:
        with pytest.raises(dw.InputError, match=said):
            dw.compare(NVME, schedulers=wrong)
    with pytest.raises(dw.InputError, match="bfq.*taken"):
        dw.compare(NVME, schedulers=[type("bfq", (Lifo,), {})])


def test_a_request_has_what_the_page_says():
    seen = []

    class Look(Lifo):
        def insert(self, request, now):
            request.deadline = now + 5
            seen.append((request.op, request.sectors, request.priority, request.arrived == now, request.deadline == now + 5))
            super().insert(request, now)

        def next(self, hw_queue, now):
            if now < 100_000:
                return dw.wait_until(100_000)
            return super().next(hw_queue, now)

    result = dw.compare(NVME, schedulers=[Look], devices=["null:0us"], **SHORT)
    assert result.runs["completed"][0] > 0 and set(seen) <= {(op, 8, "be/4", True, True) for op in ("read", "write")}


def test_storms_pass_what_is_sound_and_name_what_is_not():
    dw.check(Lifo, cases=30)

    class Picky(Lifo):
        def complete(self, request, now):
            if request.op == "discard":
                raise ValueError("no discards")

    with pytest.raises(dw.SchedulerError, match="no discards(.|\n)*seed 1, shortest case") as error:
        dw.check(Picky)
    assert isinstance(error.value.__cause__, ValueError)
