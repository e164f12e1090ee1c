"""Sweeps: grids of experiments, here or on a cluster that is running.

No scheduler, retry queue or protocol of our own: batches of cells go to the engine, their rows come back as Parquet, and this
process writes them.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import pathlib
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ._compare import from_one, jobs_of, json_of
from ._engine import Engine, engine_of, forked_engine, interrupts_wait, stop_of, task_id
from ._native import InputError, Interrupted, SweepPlan, own_scheduler
from ._progress import Progress, progress_of
from ._scheduler import Scheduler
from ._store import Store, open_store, place_of

__all__ = ["Sweep", "SweepResult", "sweep"]

_Path = Union[str, "os.PathLike[str]"]
#: Name of the part, the part, cells, failed cells, the first failure, seconds.
_Outcome = Tuple[str, bytes, int, int, Optional[str], float]
#: Makes schedulers: a class, or a function of a setup.
_Own = Callable[..., Any]


class Sweep:
    """A grid of experiments: a scenario and its axes.

    Parameters
    ----------
    base
        A dict with the keys of a scenario's file, or the path of a scenario, a fio job file or a trace.
    axes
        For each name its values: ``device``, ``scheduler``, ``completion``, or a key of the scenario by its path, such as
        ``"queue_depth"`` or ``"task.reader.bs"``. ``replicates`` is a number. Schedulers are names, and classes as
        :class:`Scheduler` says.
    leave_out
        Cells that fit one of these dicts are left out; ``*`` stands for any text.

    >>> import dumbwaiter as dw
    >>> grid = dw.Sweep("nvme-random", {"scheduler": ["none", "noop"], "queue_depth": [1, 2], "replicates": 3})
    >>> grid
    <Sweep: 24 cells: 2 queue_depth x 2 scheduler x 2 device x 1 completion x 3 replicates>
    >>> len(grid)
    24
    """

    def __init__(
        self,
        base: Union[Mapping[str, Any], _Path],
        axes: Mapping[str, Any],
        *,
        replicates: Optional[int] = None,
        leave_out: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        if isinstance(base, Mapping):
            base = json_of("base", base)
        elif isinstance(base, (str, os.PathLike)):
            base = pathlib.Path(base)
        else:
            raise InputError(f"base: {base!r} was found; expected a dict with the keys of a scenario, or a path")
        if not isinstance(axes, Mapping):
            raise InputError(f"axes: {axes!r} was found; expected a dict of names and lists of values")
        if isinstance(leave_out, (str, Mapping)):
            raise InputError(f"leave_out: {leave_out!r} was found; expected a list of dicts")
        if replicates is not None:
            replicates = from_one("replicates", replicates)
        axes, self.own = _own_schedulers(axes)
        versions = {name: _version_of(name, own) for name, own in self.own.items()}
        rules = json_of("leave_out", list(leave_out))
        self.plan = SweepPlan.new(base, json_of("axes", axes), replicates, rules, versions)
        self.plan.check_own(list(self.own.values()))

    def __len__(self) -> int:
        return self.plan.cells

    def __repr__(self) -> str:
        return f"<Sweep: {self.plan.extent()}>"


def _own_schedulers(axes: Mapping[str, Any]) -> Tuple[Mapping[str, Any], Dict[str, _Own]]:
    """The axes with names alone, and what makes the schedulers that are written in Python, by name."""
    own: Dict[str, _Own] = {}
    named = dict(axes)
    for key in ("scheduler", "schedulers"):
        values = axes.get(key)
        listed = list(values) if isinstance(values, (list, tuple)) else [values]
        if not any(callable(value) for value in listed):
            continue
        for at, value in enumerate(listed):
            if callable(value):
                listed[at] = name = own_scheduler(value)
                if own.setdefault(name, value) is not value:
                    raise InputError(f"axes.{key}: two classes are called {name}; give one another `name`")
        named[key] = listed
    return named, own


def _version_of(name: str, own: _Own) -> str:
    """What tells a scheduler from an older one of its name: its ``version``, or a hash of its source."""
    version = getattr(own, "version", None)
    if version is not None:
        return f"version {version}"
    bases = inspect.getmro(own) if inspect.isclass(own) else (own,)
    try:
        sources = [inspect.getsource(base) for base in bases if base is not object and base is not Scheduler]
    except (OSError, TypeError):
        raise InputError(
            f"scheduler {name}: its source cannot be read, which tells its rows from those of an older one; give it a `version`, "
            "another one whenever it changes"
        ) from None
    return hashlib.sha256("\n".join(sources).encode()).hexdigest()[:32]


class SweepResult(NamedTuple):
    """What a call of :func:`sweep` did."""

    #: Where the results are: ``pandas.read_parquet(out)`` reads them.
    out: str
    #: Cells of the grid.
    cells: int
    #: Cells whose rows were there.
    found: int
    #: Cells that were run.
    ran: int
    #: Cells of those that failed; their rows have an ``error``.
    failed: int


def sweep(
    what: Union[Sweep, _Path],
    out: _Path,
    *,
    on: Any = None,
    jobs: Optional[int] = None,
    fail_fast: bool = False,
    progress: Union[str, None, Progress] = "auto",
) -> SweepResult:
    """Runs the cells of a grid that ``out`` lacks and writes their rows there: the command ``dumbwaiter sweep``.

    Start it again to go on: after a kill at most the batches under way run again, and no row is there twice.

    Parameters
    ----------
    what
        The path of a sweep's file, or a :class:`Sweep`.
    out
        A folder, or an address that fsspec knows (``"s3://bucket/name"``, ``"memory://name"``). It gets a Parquet data set.
    on
        ``None``: this machine. A ``dask.distributed.Client``, a ``concurrent.futures.Executor`` or ``"ray"``: there. Rows are the
        same wherever they are made.
    jobs
        Cells at a time on this machine; all CPUs where it is ``None``.
    fail_fast
        Whether the first cell that fails ends the sweep with :class:`InputError`; else its row says why.
    progress
        ``"auto"``, ``None``, or a callable ``(done, total, eta_s)``.

    Raises
    ------
    InputError
        Bad input, named in the text: an axis, a value, the folder of another sweep, a part that is cut off.
    OSError
        A folder or store that cannot be read or written.
    Interrupted
        Ctrl-C; ``.result`` is the :class:`SweepResult` so far. All rows that were finished are in ``out``.
    """
    own: Tuple[_Own, ...] = ()
    if isinstance(what, Sweep):
        plan, own = what.plan, tuple(what.own.values())
    elif isinstance(what, (str, os.PathLike)):
        plan = SweepPlan.read(what)
    else:
        raise InputError(f"{what!r} was found; expected the path of a sweep's file, or a Sweep")
    shown = progress_of(progress)
    text = place_of(out)
    jobs = jobs_of(jobs)
    if on is None and "://" not in text and not own:
        try:
            return SweepResult(text, *plan.run_local(text, jobs, fail_fast, shown))
        except Interrupted as error:
            error.result = SweepResult(text, *error.result)
            raise
    # Threads would only wait for each other's turn with the interpreter.
    engine = forked_engine(jobs) if on is None and own else engine_of(on, jobs)
    store = open_store(text, plan)
    with engine:
        _INHERITED[engine.call] = own
        try:
            return _drive(plan, store, engine, fail_fast, shown, text, None if engine.inherits else own)
        finally:
            del _INHERITED[engine.call]


@functools.lru_cache(maxsize=4)
def _plan(text: str) -> SweepPlan:
    return SweepPlan.from_json(text)


#: The schedulers of a call that are written in Python, for processes that are forked from this one: they need no pickling.
_INHERITED: Dict[str, Tuple[_Own, ...]] = {}


def run_batch(text: str, cells: List[int], call: str, own: Optional[Tuple[_Own, ...]]) -> _Outcome:
    """What a worker does: runs cells and returns their part."""
    return _plan(text).run_batch(cells, stop_of(call), _INHERITED[call] if own is None else own)


#: A batch should take about so long.
_BATCH_S = 2.0


def _size(cells: int, took_s: float, left: int, workers: int) -> int:
    if cells == 0:
        return 1
    fitting = int(_BATCH_S / max(took_s / cells, 1e-7))
    return max(1, min(fitting, -(-left // (2 * workers)), 1 << 16))


def _drive(
    plan: SweepPlan,
    store: Store,
    engine: Engine,
    fail_fast: bool,
    progress: Optional[Progress],
    out: str,
    own: Optional[Tuple[_Own, ...]],
) -> SweepResult:
    done = store.done()
    found, total, text = len(done), plan.cells, engine.share(plan.to_json())
    ran, failed, took_s, started = 0, 0, 0.0, time.monotonic()
    position = 0
    returned: List[int] = []
    tasks: Dict[Any, Tuple[Any, List[int]]] = {}

    def more_cells() -> List[int]:
        """The cells of the next batch: those that a batch had no time for, then further ones of the grid."""
        nonlocal position, returned
        under_way = sum(len(cells) for _, cells in tasks.values())
        n = _size(ran, took_s, total - found - ran - under_way, engine.workers())
        cells, returned = returned[:n], returned[n:]
        if not cells:
            cells, position = plan.next_cells(done, position, n)
        return cells

    def keep(task: Any, cells: List[int]) -> Optional[str]:
        """Stores the rows of a batch; the first failure among them."""
        nonlocal ran, failed, took_s
        outcome: _Outcome = engine.outcome(task)
        name, parquet, cells_ran, cells_failed, first, seconds = outcome
        with interrupts_wait():  # What is stored is counted.
            if cells_ran > 0:
                store.add(name, parquet)
            returned.extend(cells[cells_ran:])
            ran, failed, took_s = ran + cells_ran, failed + cells_failed, took_s + seconds
        return first

    try:
        while True:
            while len(tasks) < 2 * engine.workers() and (cells := more_cells()):
                name = f"dumbwaiter-sweep-{engine.call}-{cells[0]}"
                task = engine.submit(run_batch, text, cells, engine.call, own, name=name)
                tasks[task_id(task)] = (task, cells)
            if not tasks:
                break
            for task in engine.wait([task for task, _ in tasks.values()]):
                first = keep(*tasks.pop(task_id(task)))
                if first is not None and fail_fast:
                    raise InputError(first)
                if progress is not None:
                    left = total - found - ran
                    progress(found + ran, total, (time.monotonic() - started) / ran * left if ran else None)
    except KeyboardInterrupt:
        ended = engine.cancel([task for task, _ in tasks.values()])
        for task in ended:
            keep(*tasks[task_id(task)])
        tasks.clear()
        interrupted = Interrupted("interrupted; what was finished is in the folder: start the sweep again to go on")
        interrupted.result = SweepResult(out, total, found, ran, failed)
        raise interrupted from None
    finally:
        if tasks:
            engine.cancel([task for task, _ in tasks.values()])
    return SweepResult(out, total, found, ran, failed)
