"""`compare`: the same bytes as the command, tables in and out, errors, Ctrl-C."""

import asyncio
import multiprocessing
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

FILES = pathlib.Path(__file__).resolve().parents[2] / "scenarios"
SCENARIOS = [*FILES.glob("*.toml"), *FILES.glob("suites/*/*.toml")]
NVME = "scenarios/nvme-random.toml"


def same_bytes(command, folder, what, words, **keywords):
    """The command and the package write the same JSON, or refuse with the same text."""
    given = [str(what)] if isinstance(what, (str, pathlib.Path)) else what
    run = subprocess.run([command, "compare", *given, *words, "--json", folder / "b.json"], capture_output=True, text=True)
    if run.returncode:
        with pytest.raises(Exception) as failed:
            dw.compare(what, progress=None, **keywords)
        assert str(failed.value) in run.stderr
        return
    dw.compare(what, progress=None, **keywords).to_json(folder / "a.json")
    assert (folder / "a.json").read_bytes() == (folder / "b.json").read_bytes()


@pytest.mark.parametrize("scenario", sorted(SCENARIOS), ids=lambda path: path.stem)
def test_json_is_the_command_s_byte_for_byte(scenario, command, tmp_path):
    for seed in (7, 4711):
        words = ["--duration", "50ms", "--warmup", "0", "--replicates", "1", "--seed", str(seed), "--limit", "3000"]
        same_bytes(command, tmp_path, scenario, words, duration="50ms", warmup=0, replicates=1, seed=seed, limit=3000)


@pytest.mark.parametrize(
    "what, words, keywords",
    [
        ("nvme-random", ["--replicates", "2"], dict(replicates=2)),
        (["nvme-random", "database"], [], {}),
        ("suite:kv-store", ["--schedulers", "none", "--replicates", "1"], dict(schedulers="none", replicates=1)),
        ("suite:nothing", [], {}),
        ("nvme-random", ["--until", "80%", "--schedulers", "none,kyber"], dict(until="80%", schedulers=["none", "kyber"])),
    ],
    ids=["name", "names", "suite", "unknown suite", "until"],
)
def test_names_suites_and_until_are_the_command_s(what, words, keywords, command, tmp_path):
    words = [*words, "--duration", "20ms", "--warmup", "0", "--limit", "500"]
    same_bytes(command, tmp_path, what, words, duration="20ms", warmup=0, limit=500, **keywords)


def test_a_result_is_gone_on_with(tmp_path):
    settings = dict(duration="10ms", warmup=0, progress=None)
    few = dw.compare(NVME, replicates=1, **settings)
    few.to_json(tmp_path / "few.json")
    whole = dw.compare(NVME, replicates=2, **settings)
    for resume in (few, tmp_path / "few.json"):
        seen = []
        found = dw.compare(NVME, replicates=2, resume=resume, **{**settings, "progress": lambda *told: seen.append(told)})
        assert found.runs.to_pydict() == whole.runs.to_pydict() and seen[-1][:2] == (6, 6)
    for wrong, said in [(dict(resume=few, seed=9), "another scenario"), (dict(resume=7), "expected a Result"), (dict(until_time="1s"), "until")]:
        with pytest.raises(dw.InputError, match=said):
            dw.compare(NVME, **settings, **wrong)


def test_the_module_is_the_command(command):
    ours = subprocess.run([sys.executable, "-m", "dumbwaiter", "schedulers"], capture_output=True, text=True)
    theirs = subprocess.run([command, "schedulers"], capture_output=True, text=True)
    assert (ours.stdout, ours.returncode) == (theirs.stdout, 0)


def test_a_result_pickles_and_is_saved_and_loaded(tmp_path):
    result = dw.compare(NVME, duration="10ms", warmup=0, replicates=1, progress=None)
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


def test_numbers_of_numpy_paths_and_a_class_alone_are_taken():
    numpy = pytest.importorskip("numpy")

    class Lifo(dw.Scheduler):
        def __init__(self, setup):
            self.queue = []

        def insert(self, request, now):
            self.queue.append(request)

        def next(self, hw_queue, now):
            return self.queue.pop() if self.queue else None

    found = dw.compare(
        pathlib.Path(NVME), devices=dw.Device.load("null:0us"), schedulers=Lifo, replicates=numpy.int64(2), seed=numpy.uint8(3),
        duration=numpy.float64(0.01), jobs=numpy.int32(1), progress=None,
    )
    assert found.runs["scheduler"] == ["Lifo", "Lifo"] and found.runs["seed"] == [3, 4]


def test_devices_sweeps_and_errors_pickle(tmp_path):
    device = dw.Device.load("ssd:850pro-256").replace(ncq_depth=8)
    assert pickle.loads(pickle.dumps(device)).name == device.name
    assert len(pickle.loads(pickle.dumps(dw.Sweep(NVME, {"queue_depth": [1, 2], "replicates": 1})))) == 12
    with pytest.raises(dw.InputError) as error:
        dw.compare({"task": [{"name": "r", "rw": "frob", "bs": "4k"}]})
    assert pickle.loads(pickle.dumps(error.value)).key == error.value.key is not None


def test_a_scenario_that_cannot_be_loaded_is_named(tmp_path):
    (tmp_path / "cut.toml").write_text("[[task")
    for name in ["missing.toml", "cut.toml"]:
        with pytest.raises(dw.InputError, match=name) as error:
            dw.Scenario.load(tmp_path / name)
        assert error.value.file == str(tmp_path / name)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_may_compare_after_its_parent_did(method):
    dw.compare(NVME, duration="5ms", warmup=0, progress=None)
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(compared).best == compared().best


def compared():
    return dw.compare(NVME, duration="5ms", warmup=0, replicates=1, progress=None)


def test_threads_and_an_event_loop_may_compare_at_once():
    async def both():
        return await asyncio.gather(*(asyncio.to_thread(compared) for _ in range(3)))

    assert len({result.to_json() for result in asyncio.run(both())}) == 1


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
        (dict(until="soon"), "until: `soon`.*percentage"),
        (dict(until=object()), "until.*expected a part"),
        (dict(depth=4), "depth.*traces"),
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
