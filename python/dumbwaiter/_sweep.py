"""Sweeps: grids of experiments, here or on an engine that somebody runs already.

No scheduler, retry queue or protocol of our own: batches of cells go to the engine, their rows come back as Parquet, and this
process writes them.
"""

from __future__ import annotations

import functools
import json
import os
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

from ._compare import scenario_json
from ._engine import Engine, engine_of, task_id
from ._native import InputError, Interrupted, SweepDone, SweepFolder, SweepPlan, sweep_points
from ._progress import Progress, progress_of
from ._store import Store, open_store

__all__ = ["Sweep", "SweepResult", "plot", "sweep"]

_Path = Union[str, "os.PathLike[str]"]
#: Name of the part, the part, cells, failed cells, the first failure, seconds.
_Outcome = Tuple[str, bytes, int, int, Optional[str], float]


class Sweep:
    """A grid of experiments: a scenario and its axes.

    Parameters
    ----------
    base
        A dict with the keys of a scenario's file, or the path of one.
    axes
        For each name its values: ``device``, ``scheduler``, ``completion``, or a key of the scenario by its path, such as
        ``"queue_depth"`` or ``"task.reader.bs"``. ``replicates`` is a number.
    leave_out
        Cells that fit one of these dicts are left out; ``*`` stands for any text.

    >>> import dumbwaiter as dw
    >>> grid = dw.Sweep("scenarios/nvme-random.toml", {"scheduler": ["none", "noop"], "queue_depth": [1, 2], "replicates": 3})
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
        if not isinstance(base, Mapping):
            import tomllib

            with open(base, "rb") as file:
                try:
                    base = tomllib.load(file)
                except tomllib.TOMLDecodeError as error:
                    raise InputError(f"{file.name}: {error}") from None
        plain = {name: list(values) if isinstance(values, (tuple, range)) else values for name, values in axes.items()}
        self.plan = SweepPlan.new(scenario_json(base), scenario_json(plain), replicates, json.dumps(list(leave_out)))

    def __len__(self) -> int:
        return self.plan.cells


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
    """
    plan = what.plan if isinstance(what, Sweep) else SweepPlan.read(what)
    shown = progress_of(progress)
    text = os.fspath(out)
    if on is None and "://" not in text:
        if jobs is not None and jobs < 1:
            raise InputError(f"jobs = {jobs}: expected at least 1")
        return SweepResult(text, *plan.run_local(out, jobs, fail_fast, shown))
    store = open_store(text, plan)
    with engine_of(on, jobs) as engine:
        return _drive(plan, store, engine, fail_fast, shown, text)


@functools.lru_cache(maxsize=4)
def _plan(text: str) -> SweepPlan:
    return SweepPlan.from_json(text)


def run_batch(text: str, cells: List[int]) -> _Outcome:
    """What a worker does: runs cells and returns their part."""
    return _plan(text).run_batch(cells)


#: A batch should take about so long.
_BATCH_S = 2.0


def _size(cells: int, took_s: float, left: int, workers: int) -> int:
    if cells == 0:
        return 1
    fitting = int(_BATCH_S / max(took_s / cells, 1e-7))
    return max(1, min(fitting, -(-left // (2 * workers)), 1 << 16))


def _drive(
    plan: SweepPlan, store: Store, engine: Engine, fail_fast: bool, progress: Optional[Progress], out: str
) -> SweepResult:
    done = store.done()
    found, total, text = len(done), plan.cells, plan.to_json()
    position, ran, failed, took_s = 0, 0, 0, 0.0
    run_id = f"{time.time_ns():x}"
    tasks: Dict[Any, Tuple[Any, int]] = {}
    submitted, exhausted, started = 0, False, time.monotonic()
    try:
        while True:
            while not exhausted and len(tasks) < 2 * engine.workers():
                n = _size(ran, took_s, total - found - submitted, engine.workers())
                cells, position = plan.next_cells(done, position, n)
                if not cells:
                    exhausted = True
                    break
                task = engine.submit(run_batch, text, cells, name=f"dumbwaiter-sweep-{run_id}-{cells[0]}")
                tasks[task_id(task)] = (task, len(cells))
                submitted += len(cells)
            if not tasks:
                break
            for task in engine.wait([task for task, _ in tasks.values()]):
                del tasks[task_id(task)]
                outcome: _Outcome = engine.outcome(task)
                name, parquet, cells_ran, cells_failed, first, seconds = outcome
                store.add(name, parquet)
                ran, failed, took_s = ran + cells_ran, failed + cells_failed, took_s + seconds
                if first is not None and fail_fast:
                    raise InputError(first)
                if progress is not None:
                    left = total - found - ran
                    progress(found + ran, total, (time.monotonic() - started) / ran * left if ran else None)
    except KeyboardInterrupt:
        raise Interrupted("interrupted; what was finished is in the folder: start the sweep again to go on") from None
    finally:
        if tasks:
            engine.cancel([task for task, _ in tasks.values()])
    return SweepResult(out, total, found, ran, failed)


def plot(
    out: _Path, *, x: str, y: str, by: Optional[str] = None, facet: Optional[str] = None, kind: str = "line"
) -> Any:
    """Plots a column of a sweep's results: the means over the replicates, with their 95 % confidence. Needs matplotlib.

    ``x``, ``y``: columns; ``by``: a line for each value; ``facet``: a plot for each value; ``kind``: ``"line"``, or ``"heat"`` for a
    map with ``by`` on the vertical axis. Returns a matplotlib figure.
    """
    if kind not in ("line", "heat"):
        raise InputError(f"kind: {kind!r} was found; expected 'line' or 'heat'")
    from matplotlib.figure import Figure

    points = sweep_points(out, x, y, by, facet)
    facets = list(dict.fromkeys(point[0] for point in points))
    figure = Figure(figsize=(6 * len(facets), 4.5), layout="constrained")
    all_axes = figure.subplots(1, len(facets), squeeze=False)[0]
    for axes, name in zip(all_axes, facets):
        part = [point for point in points if point[0] == name]
        places = list(dict.fromkeys(point[2] for point in sorted(part, key=lambda p: _place(p[2]))))
        lines = list(dict.fromkeys(point[1] for point in part))
        axes.set_title(name)
        axes.set_xlabel(x)
        axes.set_xticks(range(len(places)), places)
        if kind == "heat":
            means = {(point[1], point[2]): point[3] for point in part}
            image = axes.imshow([[means.get((line, at), float("nan")) for at in places] for line in lines], aspect="auto")
            axes.set_yticks(range(len(lines)), lines)
            axes.set_ylabel(by or "")
            figure.colorbar(image, ax=axes, label=y)
            continue
        for line in lines:
            own = [point for point in part if point[1] == line]
            low = [point[3] - point[4][0] if point[4] else 0.0 for point in own]
            high = [point[4][1] - point[3] if point[4] else 0.0 for point in own]
            at = [places.index(point[2]) for point in own]
            axes.errorbar(at, [point[3] for point in own], yerr=[low, high], label=line or None, marker="o", capsize=3)
        axes.set_ylabel(y)
        axes.set_ylim(bottom=0)
        if by is not None:
            axes.legend(title=by)
    return figure


def _place(text: str) -> Tuple[float, str]:
    digits = text.rstrip("kKmMgGiB")
    factor = {"k": 1024.0, "m": 1024.0**2, "g": 1024.0**3}.get(text[len(digits) :][:1].lower(), 1.0)
    try:
        return float(digits) * factor, text
    except ValueError:
        return float("inf"), text
