"""`compare`: sorts out what was given, and calls the library."""

from __future__ import annotations

import json
import operator
import os
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Type, Union

from . import _native
from ._native import Device, InputError, Result, TraceTable
from ._progress import Progress, progress_of
from ._scheduler import Scheduler
from ._tables import is_table, trace_table

__all__ = ["Scenario", "compare"]

_Path = Union[str, "os.PathLike[str]"]


class Scenario(dict):  # type: ignore[type-arg]
    """A scenario as a dict with the keys of the TOML file.

    >>> import dumbwaiter as dw
    >>> s = dw.Scenario(devices=["null:0us"], schedulers=["none", "noop"], replicates=1, duration="10ms",
    ...                 task=[{"name": "reader", "rw": "randread", "bs": "4k", "iodepth": 8}])
    >>> dw.compare(s, progress=None).best["null:0us"] in ("none", "noop")
    True
    """

    @classmethod
    def load(cls, path: _Path) -> "Scenario":
        """Reads a TOML file. A fio file that it names is looked for in the current folder, not beside it."""
        import tomllib

        try:
            with open(path, "rb") as file:
                return cls(tomllib.load(file))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            refused = InputError(f"{os.fspath(path)}: {why}")
            refused.file = os.fspath(path)
            raise refused from None


def compare(
    what: Any = None,
    *,
    devices: Optional[Sequence[Union[str, Device]]] = None,
    schedulers: Union[str, Type[Scheduler], Sequence[Union[str, Type[Scheduler]]], None] = None,
    completion: Optional[Sequence[str]] = None,
    replicates: Optional[int] = None,
    seed: Optional[int] = None,
    duration: Union[str, float, None] = None,
    goal: Optional[str] = None,
    until: Union[str, float, None] = None,
    until_time: Union[str, float, None] = None,
    resume: Union[Result, _Path, None] = None,
    jobs: Optional[int] = None,
    progress: Union[str, None, Progress] = "auto",
    via: Optional[str] = None,
    on: Optional[str] = None,
    **settings: object,
) -> Result:
    """Runs a workload under several schedulers and recommends one: the command ``dumbwaiter compare``.

    Parameters
    ----------
    what
        A path of a scenario, a fio job file or a trace, or the name of a scenario such as ``"database"``; a list of traces, of
        scenarios or of job files; a suite, such as ``"suite:desktop"``; a dict or :class:`Scenario` with the keys of the TOML file;
        a table (pandas, polars, pyarrow, anything with ``__arrow_c_stream__``, a dict of arrays or lists) with the columns
        ``time_us``, ``op``, ``offset_bytes``, ``size_bytes`` or others that ``--columns`` knows, which is a trace; a list of tables;
        ``None`` for the built-in scenario.
    devices
        Device models: ``"ssd:850pro-256"``, the path of a parameter file, a :class:`Device`.
    schedulers
        Names with settings (``"bfq:slice_idle=0"``), and subclasses of :class:`Scheduler`.
    completion
        How completions are found: ``"interrupt"``, ``"poll"``, ``"hybrid"``, ...
    replicates, seed
        Runs of each combination, and the seed of the first.
    duration
        Measured time of each run, such as ``"200ms"``; a number is in seconds.
    goal
        ``"balanced"``, ``"latency"``, ``"throughput"`` or ``"fairness"``.
    until, until_time
        Add replicates until the decision is sure within this part, such as ``"5%"``; begin none that would end after
        ``until_time`` on the clock (``"10m"``).
    resume
        A result that ended early (``Interrupted.result``), or the path of its JSON: its runs are not made again.
    jobs
        Runs simulated in parallel; it does not change the result. All CPUs where it is ``None``; with a scheduler that is written in
        Python one, since its runs share the interpreter. Where more are asked for, they run in so many processes; of several
        scenarios one after the other.
    progress
        ``"auto"``, ``None``, or a callable ``(done, total, eta_s)``.
    via, on
        ``via="serve"``: not a simulation; a disk server in this process, with the load as its NBD clients, in real time. ``on`` names what
        it serves (``"emulate:hdd:st1000dm003"``, ``"null"``); without it the device models. ``jobs`` has no effect then.
    **settings
        The command's other options with ``_`` for ``-``: ``incumbent``, ``rate``, ``queue_depth``, ``nr_requests``, ``deadline``, ``warmup``, ``limit``, and for traces
        ``depth``, ``speed``, ``closed_per_task``, ``fit``, ``format``, ``columns``, ``arrival``, ``assume_bytes``.

    Returns
    -------
    Result
        Tables, the recommendation, and files of them.

    Raises
    ------
    InputError
        Bad input, named in the text. ``.file``, ``.line`` and ``.key`` where they are known.
    Interrupted
        Ctrl-C; ``.result`` has the runs that were finished.
    SchedulerError
        A scheduler lost a request, or returned one twice. What a hook raises is raised as it is.

    Examples
    --------
    >>> import dumbwaiter as dw
    >>> r = dw.compare("nvme-random", duration="20ms", seed=7, progress=None)
    >>> sorted(r.best)
    ['ssd:850pro-256', 'ull:optane-p4801x']
    """
    paths, scenario, tables = _inputs(what, settings)
    keywords = {
        "devices": None if devices is None else [str(device) for device in _list("devices", devices)],
        "schedulers": [schedulers] if isinstance(schedulers, type) else schedulers,
        "completion": None if completion is None else _list("completion", completion),
        "replicates": replicates,
        "seed": seed,
        "duration": duration,
        "goal": goal,
        "until": until,
        "until_time": until_time,
        "resume": Result.load(resume) if isinstance(resume, (str, os.PathLike)) else resume,
        "via": via,
        "on": on,
        **settings,
    }
    return _native.compare(paths, scenario, tables, keywords, jobs_of(jobs), progress_of(progress))


def jobs_of(jobs: Optional[int]) -> Optional[int]:
    """A number of jobs, checked."""
    return None if jobs is None else from_one("jobs", jobs)


def from_one(name: str, value: Any) -> int:
    """A whole number from 1, also one of numpy."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise InputError(f"{name} = {value!r}: expected a whole number from 1")
    return number


def _list(name: str, value: Sequence[Any]) -> List[Any]:
    if isinstance(value, (str, bytes, os.PathLike, Device)):
        return [value]
    try:
        return list(value)
    except TypeError:
        raise InputError(f"{name}: {value!r} was found; expected a list of names") from None


_Inputs = Tuple[List[_Path], Optional[str], List[Tuple[str, TraceTable]]]


def _inputs(what: Any, settings: Mapping[str, object]) -> _Inputs:
    if what is None:
        return [], None, []
    if isinstance(what, (str, os.PathLike)):
        return [what], None, []
    times = not (settings.get("depth") or settings.get("closed_per_task"))
    if is_table(what) or isinstance(what, TraceTable):
        return [], None, [("table", trace_table(what, times=times))]
    if isinstance(what, Mapping):
        return [], json_of("scenario", what), []
    if isinstance(what, Sequence) and what and all(isinstance(part, (str, os.PathLike)) for part in what):
        return list(what), None, []
    if isinstance(what, Sequence) and what and all(is_table(part) for part in what):
        tables = [(f"table {i + 1}", trace_table(part, times=times)) for i, part in enumerate(what)]
        if len({table.columns for _, table in tables}) > 1:
            raise InputError("tables with different columns; expected the same columns in the same order")
        return [], None, tables
    raise InputError(
        f"{type(what).__name__} was found; expected a path, a list of traces, a dict with the keys of a scenario, or a table"
    )


def json_of(name: str, value: Any) -> str:
    """Texts, numbers, lists and dicts as the library reads them."""

    def plain(other: Any) -> Any:
        # Numbers and arrays of numpy, and columns of tables.
        for method in ("tolist", "to_list"):
            if hasattr(other, method):
                return getattr(other, method)()
        if isinstance(other, (tuple, range, os.PathLike)):
            return os.fspath(other) if isinstance(other, os.PathLike) else list(other)
        raise TypeError(f"{other!r} was found")

    try:
        return json.dumps(value, allow_nan=False, default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{name}: {error}; expected texts, numbers, lists and dicts") from None
