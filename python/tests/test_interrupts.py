"""Ctrl-C in a notebook: every long call ends at once, with what was finished."""

import textwrap
import time

import pytest

BEFORE = """
import concurrent.futures, sys, tempfile, time
import dumbwaiter as dw
from dumbwaiter._native import SweepFolder

class Lifo(dw.Scheduler):
    def __init__(self, setup): self.queue = []
    def insert(self, request, now): self.queue.append(request)
    def next(self, hw_queue, now): return self.queue.pop() if self.queue else None

class Endless(Lifo):
    def next(self, hw_queue, now):
        while True:
            pass

NVME = "scenarios/nvme-random.toml"
RUNS = dict(duration="20s", replicates=5000, limit=20000, progress=None)
grid = dw.Sweep({"devices": ["null:0us"], "schedulers": ["none"], "duration": "20ms", "warmup": 0, "replicates": 1,
                 "task": [{"name": "r", "rw": "randread", "bs": "4k", "iodepth": 8}]}, {"seed": list(range(100_000))})
out = tempfile.mkdtemp()
found = lambda: len(SweepFolder.open(out, grid.plan).done())
"""

DASK = """
import distributed
client = distributed.Client(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50)
"""

#: What runs, and what its exception must hold.
CASES = {
    "compare": ("dw.compare(NVME, schedulers=['none'], jobs=1, **RUNS)", "len(result.runs) > 0"),
    "compare with a class": ("dw.compare(NVME, schedulers=[Lifo], jobs=1, **RUNS)", "len(result.runs) > 0"),
    "compare with a hook that never returns": ("dw.compare(NVME, schedulers=['none', Endless], jobs=1, **RUNS)", "len(result.runs) > 0"),
    "compare with a class in processes": ("dw.compare(NVME, schedulers=[Lifo], jobs=2, **RUNS)", "len(result.runs) > 0"),
    "check": ("dw.check(Lifo, cases=10**7)", "result is None"),
    "sweep": ("dw.sweep(grid, out, progress=None)", "0 < result.ran <= found()"),
    "sweep on threads": (
        "with concurrent.futures.ThreadPoolExecutor(2) as pool: dw.sweep(grid, out, on=pool, progress=None)",
        "result.ran > 0 and result.found + result.ran == found()",
    ),
    "sweep in processes": (
        "with concurrent.futures.ProcessPoolExecutor(2) as pool: dw.sweep(grid, out, on=pool, progress=None)",
        "result.found + result.ran == found()",
    ),
    "sweep on Dask": ("dw.sweep(grid, out, on=client, progress=None)", "result.found + result.ran == found()"),
    "tune": (
        "dw.tune(NVME, schedulers='kyber', devices=['ull:optane-p4801x'], duration='40ms', budget='600s', progress=None)",
        "result is None or result.document['ended_early'] == 'interrupted'",
    ),
    "SwitchEnv": (
        "SwitchEnv(NVME, ['none', 'kyber'], period='10000s', periods=2, duration='10000s').reset(seed=1)",
        "result is None",
    ),
}


def cell(call, check):
    return textwrap.dedent(
        f"""
        print("running", flush=True)
        try:
            {call}
        except dw.Interrupted as error:
            at, result = time.monotonic(), error.result
            print("ended", at, bool({check}), flush=True)
        """
    )


class Kernel:
    """A Jupyter kernel, and what it prints."""

    def __init__(self):
        jupyter_client = pytest.importorskip("jupyter_client")
        pytest.importorskip("ipykernel")
        self.manager, self.client = jupyter_client.manager.start_new_kernel(startup_timeout=120)

    def start(self, code):
        self.client.execute(code)

    def line(self, timeout=60):
        """The next line that is printed; an error of the kernel fails the test."""
        while True:
            message = self.client.get_iopub_msg(timeout=timeout)
            if message["msg_type"] == "error":
                pytest.fail("\n".join(message["content"]["traceback"]))
            if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                return message["content"]["text"].strip()

    def idle(self):
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["msg_type"] == "error":
                pytest.fail("\n".join(message["content"]["traceback"]))
            if message["content"].get("execution_state") == "idle":
                return

    def run(self, code):
        self.start(code)
        self.idle()


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel()
    kernel.run(BEFORE)
    yield kernel
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("case", CASES)
def test_a_kernel_is_back_at_once(kernel, case):
    call, check = CASES[case]
    if case == "SwitchEnv":
        pytest.importorskip("gymnasium")
        kernel.run("from dumbwaiter.gym import SwitchEnv")
    if case == "sweep on Dask":
        pytest.importorskip("distributed")
        kernel.run(DASK)
    kernel.start(cell(call, check))
    assert kernel.line() == "running"
    time.sleep(1.5)
    interrupted = time.monotonic()
    kernel.manager.interrupt_kernel()
    said, at, holds = kernel.line().split()
    kernel.idle()
    print(f"{case}: back after {float(at) - interrupted:.3f} s")
    assert (said, holds) == ("ended", "True")
    # A fifth of a second is the aim. Generous: other programs may have the CPUs.
    assert float(at) - interrupted < 3
