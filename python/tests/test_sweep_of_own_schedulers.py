"""Sweeps over schedulers that are written in Python: wherever they run, told from older ones, and what becomes of their errors."""

import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

import dumbwaiter as dw

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


class Queue(dw.Scheduler):
    """Oldest first, up to ``batch`` at a time the newest."""

    tunables = {"batch": (0, 0, 64)}
    batch: int

    def __init__(self, setup):
        self.queue, self.given = [], 0

    def insert(self, request, now):
        self.queue.append(request)

    def next(self, hw_queue, now):
        if not self.queue:
            return None
        self.given += 1
        return self.queue.pop(-1 if self.given % (self.batch + 1) else 0)


class Newest(Queue):
    version = 1

    def next(self, hw_queue, now):
        return self.queue.pop() if self.queue else None


class Raises(Queue):
    def next(self, hw_queue, now):
        raise ValueError("no such request")


def grid(schedulers, **more):
    axes = {"device": ["null:0us", "ssd:850pro-256"], "scheduler": schedulers, "duration": ["5ms"], "warmup": ["1ms"]}
    return dw.Sweep("nvme-random", {**axes, "replicates": 2, **more})


def rows(folder):
    table = pandas.read_parquet(folder)
    assert table.key.is_unique
    return table.sort_values("key").reset_index(drop=True)


def test_rows_are_those_of_compare(tmp_path):
    sweep = grid(["none", Queue, "Queue:batch=4", Newest])
    assert len(sweep) == 16
    assert dw.sweep(sweep, tmp_path / "a", progress=None)[1:] == (16, 0, 16, 0)
    found = rows(tmp_path / "a")
    assert sorted(set(found.scheduler)) == ["Newest", "Queue", "Queue:batch=4", "none"]
    document = dw.compare(
        "nvme-random",
        devices=["ssd:850pro-256"],
        schedulers=["none", Queue, "Queue:batch=4", Newest],
        duration="5ms",
        warmup="1ms",
        replicates=2,
        progress=None,
    )
    runs = document.runs.to_pandas()
    on_flash = found[found.device == "ssd:850pro-256"]
    for name in ["none", "Queue", "Queue:batch=4", "Newest"]:
        of = [sorted(table[table.scheduler == name].p99_us) for table in (on_flash, runs)]
        assert of[0] == of[1] and len(of[0]) == 2, name
    assert dw.sweep(sweep, tmp_path / "a", progress=None)[2:] == (16, 0, 0)


@pytest.mark.parametrize("pool", ["processes", "threads", "one"])
def test_wherever_they_run_rows_are_the_same(pool, tmp_path):
    sweep = grid([Queue, "none"])
    dw.sweep(sweep, tmp_path / "a", progress=None)
    if pool == "one":
        dw.sweep(sweep, tmp_path / "b", jobs=1, progress=None)
    else:
        name = "ProcessPoolExecutor" if pool == "processes" else "ThreadPoolExecutor"
        with getattr(concurrent.futures, name)(2) as executor:
            dw.sweep(sweep, tmp_path / "b", on=executor, progress=None)
    pandas.testing.assert_frame_equal(rows(tmp_path / "a"), rows(tmp_path / "b"), check_exact=True)


def test_dask_gets_a_class_that_it_cannot_import(tmp_path):
    distributed = pytest.importorskip("distributed")

    class Local(Queue):
        version = "here"

    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            assert dw.sweep(grid([Local]), tmp_path / "a", on=client, progress=None)[1:] == (4, 0, 4, 0)
    assert dw.sweep(grid([Local]), tmp_path / "a", progress=None)[2:] == (4, 0, 0)


def test_another_version_is_another_scheduler(tmp_path):
    def with_version(number):
        return grid([type("Newest", (Newest,), {"version": number})])

    dw.sweep(with_version(1), tmp_path / "a", progress=None)
    assert dw.sweep(grid([Newest, Queue]), tmp_path / "a", progress=None)[2:] == (4, 4, 0)
    with pytest.raises(dw.InputError, match="another version of the scheduler Newest; expected a new folder"):
        dw.sweep(with_version(2), tmp_path / "a", progress=None)


def test_a_changed_class_is_another_scheduler(tmp_path):
    module = tmp_path / "mine.py"
    script = """
import dumbwaiter as dw, mine
grid = dw.Sweep("nvme-random", {"device": "null:0us", "scheduler": [mine.Mine], "duration": "2ms", "replicates": 1})
print(dw.sweep(grid, "out", progress=None)[2:])
"""
    source = """
import dumbwaiter as dw
class Mine(dw.Scheduler):
    def __init__(self, setup): self.queue = []
    def insert(self, request, now): self.queue.append(request)
    def next(self, hw_queue, now): return self.queue.pop(0) if self.queue else None
"""
    run = [sys.executable, "-c", script]

    def ran():
        return subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})

    module.write_text(source)
    assert ran().stdout == "(0, 1, 0)\n"
    assert ran().stdout == "(1, 0, 0)\n"
    module.write_text(source.replace("pop(0)", "pop()"))
    assert "another version of the scheduler Mine" in ran().stderr


def test_a_class_without_a_source_needs_a_version():
    space = {"dw": dw}
    exec("class Typed(dw.Scheduler):\n  insert = next = lambda *_: None", space)
    with pytest.raises(dw.InputError, match="scheduler Typed: its source cannot be read.*`version`"):
        grid([space["Typed"]])
    space["Typed"].version = 3
    assert len(grid([space["Typed"]])) == 4


def test_bad_classes_are_refused():
    with pytest.raises(dw.InputError, match="two classes are called Queue"):
        grid([Queue, type("Queue", (Newest,), {})])
    with pytest.raises(dw.InputError, match="has no method `insert`"):
        grid([dw.Scheduler])
    with pytest.raises(dw.InputError, match="Queue is given twice"):
        grid([Queue, Queue])
    with pytest.raises(dw.InputError, match='Queue: batch: "999" was found; expected a whole number from 0 to 64'):
        grid([Queue, "Queue:batch=999"])
    assert len(grid(Queue)) == 4


def test_what_a_hook_raises_is_in_the_rows_of_its_cells(tmp_path):
    sweep = grid(["none", Raises])
    assert dw.sweep(sweep, tmp_path / "a", progress=None)[1:] == (8, 0, 8, 4)
    found = rows(tmp_path / "a")
    assert set(found[found.scheduler == "Raises"].error) == {"scheduler Raises raised ValueError: no such request"}
    assert found[found.scheduler == "none"].error.isna().all()
    with pytest.raises(dw.InputError, match="scheduler Raises raised ValueError"):
        dw.sweep(sweep, tmp_path / "b", fail_fast=True, progress=None)


def test_ctrl_c_ends_a_hook_that_never_returns(tmp_path):
    class Hangs(Queue):
        version = 1

        def next(self, hw_queue, now):
            while True:
                time.sleep(0.01)

    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(dw.Interrupted):
        dw.sweep(grid([Hangs]), tmp_path / "a", progress=None)
    assert time.monotonic() - started < 5
    assert pathlib.Path(tmp_path / "a").is_dir()


def test_a_worker_that_is_killed_is_named_and_what_was_finished_stays(tmp_path):
    class Dies(Queue):
        version = 1

        def next(self, hw_queue, now):
            os.kill(os.getpid(), signal.SIGKILL)

    dw.sweep(grid([Newest]), tmp_path / "a", progress=None)
    with pytest.raises(RuntimeError, match="was killed, perhaps for want of memory; start the sweep again with fewer jobs"):
        dw.sweep(grid([Newest, Dies]), tmp_path / "a", progress=None)
    assert len(rows(tmp_path / "a")) >= 4


def test_a_grid_says_how_many_cells_it_has_and_why():
    text = "<Sweep: 8 cells: 1 duration x 1 warmup x 2 device x 2 scheduler x 1 completion x 2 replicates>"
    assert repr(grid(["none", Queue])) == text
