"""`compare`: the same bytes as the command, tables in and out, errors, Ctrl-C."""

import os
import pathlib
import pickle
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import dumbwaiter as dw
from dumbwaiter import _native

SCENARIOS = sorted(pathlib.Path(__file__).resolve().parents[2].glob("scenarios/*.toml"))
NVME = "scenarios/nvme-random.toml"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_json_is_the_command_s_byte_for_byte(scenario, command, tmp_path):
    settings = ["--duration", "50ms", "--warmup", "0", "--replicates", "1", "--seed", "7", "--limit", "3000"]
    run = subprocess.run([command, "compare", scenario, *settings, "--json", tmp_path / "b.json"], capture_output=True, text=True)
    keywords = dict(duration="50ms", warmup=0, replicates=1, seed=7, limit=3000, progress=None)
    if run.returncode:
        with pytest.raises(Exception) as failed:
            dw.compare(scenario, **keywords)
        assert str(failed.value) in run.stderr
        return
    dw.compare(scenario, **keywords).to_json(tmp_path / "a.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_the_module_is_the_command(command):
    ours = subprocess.run([sys.executable, "-m", "dumbwaiter", "schedulers"], capture_output=True, text=True)
    theirs = subprocess.run([command, "schedulers"], capture_output=True, text=True)
    assert (ours.stdout, ours.returncode) == (theirs.stdout, 0)


def test_a_result_pickles_and_is_saved_and_loaded(tmp_path):
    result = dw.compare(NVME, duration="10ms", replicates=1, progress=None)
    assert pickle.loads(pickle.dumps(result)) == result
    result.to_json(tmp_path / "r.json")
    assert dw.Result.load(tmp_path / "r.json") == result
    result.to_html(tmp_path / "r.html")
    result.to_parquet(tmp_path / "tables")
    assert (tmp_path / "r.html").stat().st_size > 10_000 and (tmp_path / "tables/runs.parquet").exists()
    assert set(result.compare_with(result)["ratio"]) <= {1.0, None}
    assert "<table>" in result._repr_html_()
    with pytest.raises(OSError, match="no/such"):
        result.to_json(tmp_path / "no/such/r.json")


def test_via_serve_puts_the_load_on_a_served_disk():
    task = {"name": "reader", "rw": "randread", "bs": "4k", "iodepth": 4}
    scenario = dw.Scenario(schedulers=["none"], duration="50ms", warmup=0, replicates=1, task=[task])
    result = dw.compare(scenario, via="serve", on="null", progress=None)
    assert result.runs["via"] == ["serve"] and result.runs["device"] == ["null"]
    for keywords, said in [({"via": "engine"}, "via"), ({"on": "null"}, "on"), ({"via": "serve", "on": "nul"}, "nul")]:
        with pytest.raises(dw.InputError, match=said):
            dw.compare(scenario, progress=None, **keywords)


def test_a_dict_is_checked_by_the_same_code():
    task = {"name": "reader", "rw": "randread", "bs": "4k", "iodepth": 4}
    scenario = dw.Scenario(devices=["null:0us"], schedulers=["noop"], duration="5ms", replicates=1, task=[task])
    assert dw.compare(scenario, progress=None).runs["scheduler"] == ["noop"]
    with pytest.raises(dw.InputError, match="tenan"):
        dw.compare({**scenario, "tenan": 1})
    with pytest.raises(dw.InputError, match="bs") as error:
        dw.compare({**scenario, "task": [task, {**task, "name": "other", "bs": "many"}]})
    assert error.value.key == "task[1].bs"
    with pytest.raises(dw.InputError) as error:
        dw.compare({**scenario, "queue_depth": 0})
    assert error.value.key == "queue_depth"


def test_errors_have_their_place(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("name = 'x'\nschedulers = 3\n")
    with pytest.raises(dw.InputError) as error:
        dw.compare(path)
    assert (error.value.file, error.value.line) == (str(path), 2)
    with pytest.raises(dw.InputError, match="nome.*none"):
        dw.compare(NVME, schedulers=["nome"])
    with pytest.raises(TypeError, match="frob"):
        dw.compare(NVME, frob=1)
    with pytest.raises(dw.InputError, match="no such file|No such file"):
        dw.compare(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    "settings, said",
    [
        (dict(jobs=0), "jobs = 0"),
        (dict(jobs=-1), "jobs = -1"),
        (dict(jobs="two"), "jobs = 'two'"),
        (dict(duration=[1]), "duration.*expected a time"),
        (dict(duration=-1), "duration"),
        (dict(replicates="many"), "replicates"),
        (dict(seed=-1), "seed"),
        (dict(goal="fame"), "goal"),
        (dict(devices=["ssd:frob"]), "frob"),
        (dict(progress="loud"), "progress"),
        (dict(devices=7), "devices"),
    ],
)
def test_a_bad_setting_is_named(settings, said):
    with pytest.raises(dw.InputError, match=said) as error:
        dw.compare(NVME, **settings)
    assert hasattr(error.value, "file") and hasattr(error.value, "key")


def test_scenarios_at_random_run_or_are_refused():
    hypothesis = pytest.importorskip("hypothesis")
    from hypothesis import strategies as st

    anything = st.one_of(st.none(), st.booleans(), st.integers(-10, 10), st.floats(), st.text(max_size=4), st.lists(st.integers(), max_size=2))
    sizes = st.sampled_from(["512", "4k", "64k", "1m", "0", "-1", "5k"])
    task = st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b", ""]), "rw": st.sampled_from(["read", "randread", "write", "randrw", "frob"])},
        optional={"bs": sizes, "iodepth": st.integers(-1, 40), "rate": anything, "size": sizes, "prio": anything, "weight": anything},
    )
    scenario = st.fixed_dictionaries(
        {
            "devices": st.lists(st.sampled_from(["null:0us", "ssd:850pro-256", "frob"]), min_size=1, max_size=2),
            "schedulers": st.lists(st.sampled_from(["none", "noop", "kyber", "bfq:slice_idle=0", "frob"]), min_size=1, max_size=2),
            "duration": st.sampled_from(["1ms", "3ms"]),
            "task": st.lists(task, max_size=3),
        },
        optional={"queue_depth": st.integers(-1, 64), "seed": st.integers(-1, 1 << 65), "replicates": st.integers(0, 2), "frob": anything, "warmup": anything},
    )

    # A loaded machine is slow.
    @hypothesis.settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    @hypothesis.given(scenario)
    def runs_or_is_refused(scenario):
        try:
            assert dw.compare(scenario, limit=500, jobs=1, progress=None).runs["run"]
        except dw.InputError as error:
            assert str(error)

    runs_or_is_refused()


def test_a_panic_is_an_internal_error():
    with pytest.raises(dw.InternalError, match="report it"):
        _native._panic()


def test_progress_may_be_a_callable():
    seen = []
    dw.compare(NVME, duration="200ms", progress=lambda *told: seen.append(told))
    assert seen[-1][0] == seen[-1][1] > 0


def test_ctrl_c_ends_it_with_what_was_finished():
    code = textwrap.dedent(
        """
        import time, dumbwaiter as dw
        finished = []
        def told(done, total, eta):
            if done >= 1 and not finished:
                finished.append(True); print("running", flush=True)
        try:
            dw.compare("scenarios/nvme-random.toml", duration="20s", jobs=1, schedulers=["none"], replicates=50, limit=40000, progress=told)
        except dw.Interrupted as error:
            assert isinstance(error, KeyboardInterrupt)
            print(len(error.result.runs["run"]) >= 1)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert child.stdout.readline() == "running\n"
    started = time.monotonic()
    child.send_signal(signal.SIGINT)
    assert child.communicate()[0] == "True\n"
    # Generous: other programs may have the CPUs.
    assert time.monotonic() - started < 5
