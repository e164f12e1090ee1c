"""Sweeps: grids of experiments, here or on a cluster that is running.

No scheduler, retry queue or protocol of our own: batches of cells go to the engine, their rows come back as Parquet, and this
process writes them.
"""

from __future__ import annotations

import functools
import os
import pathlib
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ._compare import jobs_of, json_of
from ._engine import Engine, engine_of, stop_of, task_id
from ._native import InputError, Interrupted, SweepPlan, axis_label, in_order, sweep_points, sweep_points_of_parts
from ._progress import Progress, progress_of
from ._store import Store, open_store, stored_parts

__all__ = ["Sweep", "SweepResult", "plot", "sweep"]

_Path = Union[str, "os.PathLike[str]"]
#: Name of the part, the part, cells, failed cells, the first failure, seconds.
_Outcome = Tuple[str, bytes, int, int, Optional[str], float]


class Sweep:
    """A grid of experiments: a scenario and its axes.

    Parameters
    ----------
    base
        A dict with the keys of a scenario's file, or the path of a scenario, a fio job file or a trace.
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
        if replicates is not None and (not isinstance(replicates, int) or replicates < 1):
            raise InputError(f"replicates = {replicates!r}: expected a whole number from 1")
        self.plan = SweepPlan.new(base, json_of("axes", axes), replicates, json_of("leave_out", list(leave_out)))

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

    Raises
    ------
    InputError
        Bad input, named in the text: an axis, a value, the folder of another sweep, a part that is cut off.
    OSError
        A folder or store that cannot be read or written.
    Interrupted
        Ctrl-C; ``.result`` is the :class:`SweepResult` so far. All rows that were finished are in ``out``.
    """
    if isinstance(what, Sweep):
        plan = what.plan
    elif isinstance(what, (str, os.PathLike)):
        plan = SweepPlan.read(what)
    else:
        raise InputError(f"{what!r} was found; expected the path of a sweep's file, or a Sweep")
    shown = progress_of(progress)
    text = os.fspath(out)
    jobs = jobs_of(jobs)
    if on is None and "://" not in text:
        try:
            return SweepResult(text, *plan.run_local(out, jobs, fail_fast, shown))
        except Interrupted as error:
            error.result = SweepResult(text, *error.result)
            raise
    engine = engine_of(on, jobs)
    store = open_store(text, plan)
    with engine:
        return _drive(plan, store, engine, fail_fast, shown, text)


@functools.lru_cache(maxsize=4)
def _plan(text: str) -> SweepPlan:
    return SweepPlan.from_json(text)


def run_batch(text: str, cells: List[int], call: str) -> _Outcome:
    """What a worker does: runs cells and returns their part."""
    return _plan(text).run_batch(cells, stop_of(call))


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
        if cells_ran > 0:
            store.add(name, parquet)
        returned.extend(cells[cells_ran:])
        ran, failed, took_s = ran + cells_ran, failed + cells_failed, took_s + seconds
        return first

    try:
        while True:
            while len(tasks) < 2 * engine.workers() and (cells := more_cells()):
                name = f"dumbwaiter-sweep-{engine.call}-{cells[0]}"
                task = engine.submit(run_batch, text, cells, engine.call, name=name)
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


def plot(
    out: _Path,
    *,
    x: str,
    y: str,
    by: Optional[str] = None,
    facet: Optional[str] = None,
    kind: str = "line",
    title: Optional[str] = None,
) -> Any:
    """Plots a column of a sweep's results: the means over the replicates, with their 95 % confidence. Needs matplotlib.

    Parameters
    ----------
    out
        The folder or address of the results.
    x, y
        Columns: an axis of the grid, and a figure of the runs such as ``"p99_us"``.
    by
        A column: a line for each of its values.
    facet
        A column: a plot for each of its values.
    kind
        ``"line"``, or ``"heat"`` for a map with ``by`` on the vertical axis.
    title
        Above the plots; ``y`` and ``x`` where it is ``None``.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it by itself; ``.savefig(path)`` writes it.

    Raises
    ------
    InputError
        A column that the results lack, one of text as ``y``, a folder without results.
    """
    if kind not in ("line", "heat"):
        raise InputError(f"kind: {kind!r} was found; expected 'line' or 'heat'")
    from matplotlib.figure import Figure

    place = os.fspath(out)
    if "://" in place:
        points = sweep_points_of_parts(place, stored_parts(place), (x, y, by, facet))
    else:
        points = sweep_points(out, (x, y, by, facet))
    facets = in_order([point[0] for point in points])
    figure = Figure(figsize=(6 * len(facets), 4.5), layout="constrained")
    figure.suptitle(title if title is not None else f"{axis_label(y)} by {axis_label(x)}")
    for axes, name in zip(figure.subplots(1, len(facets), squeeze=False)[0], facets):
        part = [point for point in points if point[0] == name]
        places = in_order([point[2] for point in part])
        lines = in_order([point[1] for point in part])
        if facet is not None:
            axes.set_title(f"{facet} = {name}")
        axes.set_xlabel(axis_label(x))
        axes.set_xticks(range(len(places)), places)
        if kind == "heat":
            means = {(point[1], point[2]): point[3] for point in part}
            rows = [[means.get((line, at), float("nan")) for at in places] for line in lines]
            _heat_map(figure, axes, rows, axis_label(y))
            axes.set_yticks(range(len(lines)), lines)
            axes.set_ylabel(axis_label(by or ""))
            continue
        for number, line in enumerate(lines):
            own = [point for point in part if point[1] == line]
            low = [point[3] - point[4][0] if point[4] else 0.0 for point in own]
            high = [point[4][1] - point[3] if point[4] else 0.0 for point in own]
            at = [places.index(point[2]) for point in own]
            look = {"marker": "osD^Pv"[number % 6], "color": _COLOURS[number % len(_COLOURS)], "capsize": 3}
            axes.errorbar(at, [point[3] for point in own], yerr=[low, high], label=line or None, **look)
        axes.set_ylabel(axis_label(y))
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        if by is not None:
            axes.legend(title=axis_label(by), frameon=False)
    return figure


#: Of Okabe and Ito: distinct for colour-blind readers, and the same as on the pages.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a")


def _heat_map(figure: Any, axes: Any, values: List[List[float]], title: str) -> None:
    image = axes.imshow(values, aspect="auto", cmap="Blues")
    figure.colorbar(image, ax=axes, label=title)
    known = [value for row in values for value in row if value == value]
    middle = (min(known) + max(known)) / 2 if known else 0.0
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            if value == value:
                axes.text(column, row, f"{value:.4g}", ha="center", va="center", color="white" if value > middle else "black")
