"""Measures what the package costs beside bare runs, and prints one line for each figure.

    python python/bench/reach.py             all
    python python/bench/reach.py lifo plan   only these

Of each ratio there are two: by the clock, which is what a user sees on an idle machine, and by CPU time, which other programs
disturb less. Needs the package, pandas, gymnasium and distributed; what is missing is said and left out. Nothing is asserted.
"""

from __future__ import annotations

import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

import dumbwaiter as dw

JOBS = 2
LOAD: Dict[str, Any] = {
    "devices": ["ssd:850pro-256"],
    "schedulers": ["none"],
    "replicates": 1,
    "warmup": 0,
    "task": [{"name": "reader", "rw": "randread", "bs": "4k", "iodepth": 32}],
}


def cpu_s() -> float:
    """CPU time of this process and of those that it waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in both)


def timed(work: Callable[[], Any]) -> Tuple[float, float]:
    """Seconds by the clock, and of CPU time."""
    clock, cpu = time.perf_counter(), cpu_s()
    work()
    return time.perf_counter() - clock, cpu_s() - cpu


def show(what: str, found: str, target: str) -> None:
    print(f"{what:<44} {found:<44} {target}", flush=True)


def load_of(cell_s: float) -> Tuple[Dict[str, Any], float]:
    """A load whose run takes about so much CPU time, and the virtual seconds of it."""
    length = 0.05
    while True:
        took = timed(lambda: dw.compare({**LOAD, "duration": f"{length:.6f}s"}, jobs=1, progress=None))[1]
        if took > cell_s / 3:
            length *= cell_s / took
            return {**LOAD, "duration": f"{length:.6f}s"}, length
        length *= 3


def sweeps() -> Iterator[Tuple[float, int, Dict[str, Any]]]:
    for cell_s, cells in ((1.0, 8), (0.02, 300)):
        yield cell_s, cells, load_of(cell_s)[0]


def bare(load: Dict[str, Any], cells: int) -> float:
    """CPU time of the runs alone, one after the other: replicates, so that there is one document for all of them."""
    return timed(lambda: dw.compare({**load, "replicates": cells, "seed": 0}, jobs=1, progress=None))[1]


def sweep() -> None:
    for cell_s, cells, load in sweeps():
        alone = bare(load, cells)
        with tempfile.TemporaryDirectory() as out:
            grid = dw.Sweep(load, {"seed": list(range(cells)), "replicates": 1})
            clock, cpu = timed(lambda: dw.sweep(grid, f"{out}/rows", jobs=JOBS, progress=None))
        found = f"{100 * (clock * JOBS / alone - 1):+.1f} % by the clock, {100 * (cpu / alone - 1):+.1f} % of CPU time"
        show(f"sweep here, {cells} cells of {alone / cells:.3f} s", found, f"at most {5 if cell_s == 1.0 else 25} %")


def dask() -> None:
    import distributed
    import psutil

    with distributed.LocalCluster(
        n_workers=JOBS, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster, distributed.Client(cluster) as client:
        workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()]

        def used() -> float:
            return float(sum(sum(worker.cpu_times()[:2]) for worker in workers))

        for cell_s, cells, load in sweeps():
            alone = bare(load, cells)
            with tempfile.TemporaryDirectory() as out:
                axes = {"seed": list(range(cells)), "replicates": 1}
                dw.sweep(dw.Sweep(load, {**axes, "seed": [10**6, 10**6 + 1]}), f"{out}/warm", on=client, progress=None)
                before = used()
                clock, cpu = timed(lambda: dw.sweep(dw.Sweep(load, axes), f"{out}/rows", on=client, progress=None))
                cpu += used() - before
            found = f"{100 * (clock * JOBS / alone - 1):+.1f} % by the clock, {100 * (cpu / alone - 1):+.1f} % of CPU time"
            show(f"sweep on Dask, {cells} cells of {alone / cells:.3f} s", found, f"at most {10 if cell_s == 1.0 else 40} %")


def switch() -> None:
    from dumbwaiter.gym import SwitchEnv

    periods = 300
    env = SwitchEnv({**LOAD, "duration": "30s"}, ["none", "mq-deadline"], period=1000, periods=periods)
    env.reset(seed=1)
    best = env.schedulers.index(env.reset(seed=1)[1]["best_fixed"])

    def steps() -> None:
        env.reset(seed=1)
        for _ in range(periods):
            env.step(best)

    # The runs that `reset` makes for the reward are known by then.
    env.step(best)
    clock, cpu = min(timed(steps) for _ in range(5))
    requests = periods * 1000
    whole = {**LOAD, "schedulers": [env.schedulers[best]], "seed": 1, "duration": "3600s"}
    alone_clock, alone = min(timed(lambda: dw.compare(whole, limit=requests, jobs=1, progress=None)) for _ in range(5))
    found = f"{clock / alone_clock:.2f} by the clock, {cpu / alone:.2f} of CPU time; {periods / clock:,.0f} steps/s"
    show("SwitchEnv, a period of 1,000 requests", found, "at most 1.3 of its bare simulation")


class Lifo(dw.Scheduler):
    "newest first"

    def __init__(self, setup: dw.Setup) -> None:
        self.queue: List[dw.Request] = []

    def insert(self, request: dw.Request, now: int) -> None:
        self.queue.append(request)

    def next(self, hw_queue: int, now: int) -> Any:
        return self.queue.pop() if self.queue else None


def lifo() -> None:
    load = {**LOAD, "devices": ["null:0us"], "duration": "3600s"}
    done = 500_000

    def run(limit: int) -> None:
        result = dw.compare(load, schedulers=[Lifo], progress=None, jobs=1, limit=limit)
        assert result.runs["requests"] == [limit]

    run(1000)
    clock, cpu = min(timed(lambda: run(done)) for _ in range(3))
    show("Lifo in Python, depth 32, null device", f"{done / clock:,.0f} requests/s; {done / cpu:,.0f} a second of CPU time", "at least 300,000")


TABLE = """
import numpy, pandas, resource, dumbwaiter as dw
n = 1_000_000
rng = numpy.random.default_rng(1)
frame = pandas.DataFrame({"time_us": numpy.arange(n) * 2, "op": rng.choice(numpy.array(["read", "write"], dtype=object), n),
                          "offset_bytes": rng.integers(0, 1 << 20, n) * 4096, "size_bytes": 4096})
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
table, before = frame.memory_usage().sum() / 1e6, peak()
result = dw.compare(frame, devices=["null:0us"], schedulers=["none", "mq-deadline"], progress=None)
for name in ["runs", "tenants", "tasks", "series", "latency", "latency_cdf", "ranking"]:
    getattr(result, name).to_pandas()
print(f"the table has {table:.0f} MB, the rest took {peak() - before:.0f} MB more")
"""

PLAN = """
import resource, sys, tempfile, time, dumbwaiter as dw
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
base = {"devices": ["null:0us"], "schedulers": ["none"], "duration": "1ms", "replicates": 1, "queue_depth": 1,
        "task": [{"name": "r", "rw": "randread", "bs": "4k", "iodepth": 1}]}
axes = {"seed": list(range(1_000_000))} if sys.argv[1] == "one axis" else {
    "seed": list(range(0, 10_000, 10)), "queue_depth": list(range(1, 11)), "task.r.iodepth": list(range(1, 11)), "replicates": 10}
started, before = time.perf_counter(), time.process_time()
plan = dw.Sweep(base, axes).plan
from dumbwaiter._native import SweepDone
none, position, cells = SweepDone.of_parts([]), 0, 0
while True:
    some, position = plan.next_cells(none, position, 1000)
    if not some:
        break
    cells += len(some)
print(f"{cells:,} cells in {time.perf_counter() - started:.1f} s ({time.process_time() - before:.1f} s of CPU time), {peak():.0f} MB in all")
"""


def child(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2]


def table() -> None:
    show("a table of 10^6 rows, and all results of it", child(TABLE), "at most 50 MB more than the table")


def plan() -> None:
    for shape in ("one axis", "three axes"):
        show(f"a grid of 10^6 cells, {shape}", child(PLAN, shape), "under 30 s and 500 MB")


ALL = {work.__name__: work for work in (sweep, dask, switch, lifo, table, plan)}


def main(names: List[str]) -> None:
    unknown = [name for name in names if name not in ALL]
    if unknown:
        sys.exit(f"{unknown[0]!r} is not known; expected some of {', '.join(ALL)}")
    os.chdir(pathlib.Path(__file__).resolve().parents[2])
    for name in names or ALL:
        try:
            ALL[name]()
        except ImportError as error:
            show(name, f"left out: {error}", "")


if __name__ == "__main__":
    main(sys.argv[1:])
