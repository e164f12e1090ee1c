"""`tune`: the search for better settings, here or on a cluster that is running."""

from __future__ import annotations

import json
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._compare import _inputs, _list, jobs_of
from ._engine import Engine, engine_of, stop_of, task_id
from ._native import Device, InputError, Interrupted, TunePlan, tune_trial
from ._progress import Progress, progress_of

__all__ = ["Tuning", "run_trials", "tune"]

#: A batch of trials should take about so long.
_BATCH_S = 2.0


class Tuning(NamedTuple):
    """What :func:`tune` found."""

    #: The document that ``dumbwaiter tune --json`` writes, as a dict.
    document: Dict[str, Any]

    @property
    def devices(self) -> List[Dict[str, Any]]:
        """What was found on each device: ``recommended``, ``settings``, ``keep``, ``claim``, ``apply`` and more."""
        found: List[Dict[str, Any]] = self.document["devices"]
        return found

    @property
    def best(self) -> Dict[str, str]:
        """What to set, by device: a scheduler with its settings, as ``compare`` takes it."""
        return {found["device"]: found["recommended"] for found in self.devices}

    def __str__(self) -> str:
        return "\n".join(f"{found['device']}: {found['sentence']}" for found in self.devices)


def tune(
    what: Any = None,
    *,
    schedulers: Union[str, Sequence[str], None] = None,
    devices: Optional[Sequence[Union[str, Device]]] = None,
    duration: Union[str, float, None] = None,
    seed: Optional[int] = None,
    goal: Optional[str] = None,
    budget: Union[str, float, None] = None,
    limit: Union[str, float, None] = None,
    on: Any = None,
    jobs: Optional[int] = None,
    progress: Union[str, None, Progress] = "auto",
    **settings: object,
) -> Tuning:
    """Searches better settings of schedulers for a workload: the command ``dumbwaiter tune``.

    Parameters
    ----------
    what
        What :func:`compare` takes: a path, a dict with the keys of a scenario, a table, or ``None`` for the built-in scenario.
    schedulers
        The schedulers to search, such as ``"bfq"`` or ``["bfq", "kyber:write_lat_nsec=5000000"]``; settings given here stay as
        they are. ``None``: those of the scenario that a kernel offers.
    devices, duration, seed, goal
        As in :func:`compare`. A seed gives one result, wherever the runs are made.
    budget
        Virtual time that all runs cover together, such as ``"10m"``; it sets how many candidates are tried.
    limit
        Time on the clock after which the search ends with the best so far.
    on
        ``None``: this machine. A ``dask.distributed.Client``, a ``concurrent.futures.Executor`` or ``"ray"``: there.
    jobs
        Runs at a time on this machine; all CPUs where it is ``None``.
    progress
        ``"auto"``, ``None``, or a callable ``(done, total, eta_s)``.

    Raises
    ------
    InputError
        Bad input, named in the text.
    Interrupted
        Ctrl-C; ``.result`` has the best so far, which is not confirmed, or ``None``.

    Examples
    --------
    >>> import dumbwaiter as dw
    >>> found = dw.tune("nvme-random", schedulers="mq-deadline", devices=["ull:optane-p4801x"], duration="20ms",
    ...                 warmup="10ms", budget="2s", progress=None)
    >>> found.devices[0]["scheduler"]
    'mq-deadline'
    """
    paths, scenario, tables = _inputs(what, settings)
    names = _list("schedulers", schedulers or [])
    if not all(isinstance(name, str) for name in names):
        raise InputError("schedulers: expected names; the settings of a scheduler in Python are not searched")
    keywords = {
        "devices": None if devices is None else [str(device) for device in _list("devices", devices)],
        "duration": duration,
        "seed": seed,
        "goal": goal,
        **settings,
    }
    plan = TunePlan(paths, scenario, tables, keywords, names, (budget, limit))
    shown = progress_of(progress)
    if on is None:
        text, interrupted = plan.run_local(jobs_of(jobs), shown)
        return _ended(text, interrupted)
    if tables:
        raise InputError("on: a table stays on this machine; write it to a file that the workers can read")
    with engine_of(on, jobs_of(jobs)) as engine:
        return _drive(plan, engine, shown)


def run_trials(texts: List[str], call: str) -> Tuple[List[Optional[str]], float]:
    """What a worker does: runs trials, and says how long that took. ``None`` for a trial that was ended."""
    started, stop = time.monotonic(), stop_of(call)
    return [tune_trial(text, stop) for text in texts], time.monotonic() - started


def _ended(text: str, interrupted: bool) -> Tuning:
    tuning = Tuning(json.loads(text))
    if interrupted:
        error = Interrupted("interrupted; .result has the best so far, which is not confirmed")
        error.result = tuning
        raise error
    return tuning


def _drive(plan: TunePlan, engine: Engine, progress: Optional[Progress]) -> Tuning:
    limit_s, started, each_s, batch = plan.limit_s, time.monotonic(), 0.0, 0
    tasks: Dict[Any, Tuple[Any, List[int]]] = {}
    early = None

    def record(task: Any, places: List[int]) -> float:
        """Stores the results of a batch; the seconds that one of them took."""
        runs, took_s = engine.outcome(task)
        for place, run in zip(places, runs):
            if run is not None:
                plan.record(place, run)
        return float(took_s) / len(places)

    try:
        while early is None and (texts := plan.next()):
            waiting = list(range(len(texts)))
            while (waiting or tasks) and early is None:
                while waiting and len(tasks) < 2 * engine.workers():
                    # Enough for all workers, and not so much that one is late.
                    n = int(_BATCH_S / each_s) if each_s else 1
                    n = max(1, min(n, -(-len(waiting) // (2 * engine.workers()))))
                    places, waiting = waiting[:n], waiting[n:]
                    batch += 1
                    name = f"dumbwaiter-tune-{engine.call}-{batch}"
                    task = engine.submit(run_trials, [texts[place] for place in places], engine.call, name=name)
                    tasks[task_id(task)] = (task, places)
                for task in engine.wait([task for task, _ in tasks.values()]):
                    each_s = record(*tasks.pop(task_id(task)))
                    if progress is not None:
                        done, total = plan.progress()
                        left = (time.monotonic() - started) / done * (total - done) if done else None
                        progress(done, total, left)
                if limit_s is not None and time.monotonic() - started > limit_s:
                    early = "time is over"
    except KeyboardInterrupt:
        ended = engine.cancel([task for task, _ in tasks.values()])
        for task in ended:
            record(*tasks[task_id(task)])
        tasks.clear()
        try:
            text = plan.finish("interrupted")
        except BaseException:
            raise Interrupted("interrupted before the defaults had run") from None
        return _ended(text, True)
    finally:
        if tasks:
            engine.cancel([task for task, _ in tasks.values()])
    return _ended(plan.finish(early), False)
