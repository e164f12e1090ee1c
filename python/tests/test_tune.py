"""`tune`: the same result wherever its runs were made, and the command's; Ctrl-C; bad input."""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import dumbwaiter as dw

NVME = "scenarios/nvme-random.toml"
SMALL = dict(schedulers="kyber", devices=["ull:optane-p4801x"], duration="20ms", warmup="10ms", budget="2500ms", progress=None)


def test_an_executor_gives_the_result_of_this_machine():
    here = dw.tune(NVME, **SMALL)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert dw.tune(NVME, on=pool, **SMALL) == here
    (found,) = here.devices
    assert here.best == {"ull:optane-p4801x": found["recommended"]}
    assert found["sentence"] in str(here)


def test_dask_gives_the_result_of_this_machine():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster, distributed.Client(cluster) as client:
        assert dw.tune(NVME, on=client, **SMALL) == dw.tune(NVME, **SMALL)


def test_the_command_gives_the_same(command, tmp_path):
    words = ["--scheduler", "kyber", "--device", "ull:optane-p4801x", "--duration", "20ms", "--warmup", "10ms", "--budget", "2500ms"]
    run = subprocess.run([command, "tune", NVME, *words, "--json", "-"], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == dw.tune(NVME, **SMALL).document


@pytest.mark.parametrize(
    "wrong, said",
    [
        (dict(schedulers="bfg"), "did you mean `bfq`"),
        (dict(budget="1ms"), "the smallest search covers"),
        (dict(budget="soon"), "budget"),
        (dict(on=7), "expected a dask"),
        (dict(schedulers=[object()]), "expected names"),
    ],
)
def test_bad_input_is_named(wrong, said):
    with pytest.raises(dw.InputError, match=said):
        dw.tune(NVME, **{**SMALL, **wrong})


def test_a_limit_on_the_clock_gives_the_best_so_far():
    whole = {**SMALL, "budget": "60s", "duration": "1s"}
    try:
        found = dw.tune(NVME, limit="1500ms", **whole)
    except dw.Interrupted:
        return  # Not even the defaults had run.
    assert found.document["ended_early"] == "time is over"
    assert found.devices[0]["keep"] and not found.devices[0]["apply"]


def test_ctrl_c_gives_the_best_so_far():
    code = textwrap.dedent(
        """
        import dumbwaiter as dw
        seen = []
        def told(done, total, eta):
            if done >= 30 and not seen:
                seen.append(done); print("running", flush=True)
        try:
            dw.tune("scenarios/nvme-random.toml", schedulers="kyber", devices=["ull:optane-p4801x"], duration="40ms", budget="60s", jobs=1, progress=told)
        except dw.Interrupted as error:
            print(error.result is None or error.result.document["ended_early"])
        """
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert child.stdout.readline() == "running\n"
    started = time.monotonic()
    child.send_signal(signal.SIGINT)
    assert child.communicate()[0] in ("interrupted\n", "True\n")
    # Generous: other programs may have the CPUs.
    assert time.monotonic() - started < 5
