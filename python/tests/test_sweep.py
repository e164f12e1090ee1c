"""Sweeps: the same rows wherever they are made, resumed after kills, folders of others refused."""

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

SWEEP = """
base = "{base}"
[axes]
device = ["null:0us", "ssd:850pro-256"]
scheduler = ["none", "mq-deadline"]
queue_depth = [1, 2, 8]
duration = "{duration}"
warmup = "5ms"
replicates = 2
[where]
not = [{{ device = "ssd:*", queue_depth = 8 }}]
"""


@pytest.fixture
def sweep(tmp_path):
    return write(tmp_path, "20ms")


def write(folder, duration):
    path = folder / "sweep.toml"
    base = pathlib.Path("scenarios/nvme-random.toml").resolve()
    path.write_text(SWEEP.format(base=base, duration=duration))
    return path


def rows(folder):
    table = pandas.read_parquet(folder)
    assert table.key.is_unique
    return table.sort_values("key").reset_index(drop=True)


def same(first, second):
    pandas.testing.assert_frame_equal(rows(first), rows(second), check_exact=True)


def test_the_command_and_the_package_give_the_same_rows(sweep, tmp_path, command):
    subprocess.run([command, "sweep", sweep, "--out", tmp_path / "a", "--jobs", "2"], check=True, capture_output=True)
    assert dw.sweep(sweep, tmp_path / "b", progress=None) == (str(tmp_path / "b"), 20, 0, 20, 0)
    same(tmp_path / "a", tmp_path / "b")
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        dw.sweep(sweep, tmp_path / "c", on=pool, progress=None)
    same(tmp_path / "a", tmp_path / "c")
    assert dw.sweep(sweep, tmp_path / "a", progress=None)[2:] == (20, 0, 0)


def test_a_folder_may_grow_but_not_change(sweep, tmp_path):
    base = dw.Scenario.load("scenarios/nvme-random.toml")
    axes = {"device": ["null:0us"], "scheduler": ["none"], "queue_depth": [1, 2], "duration": "5ms", "warmup": 0, "replicates": 1}
    out = tmp_path / "out"
    dw.sweep(dw.Sweep(base, axes), out, progress=None)
    assert dw.sweep(dw.Sweep(base, {**axes, "queue_depth": [1, 2, 4]}), out, progress=None)[2:] == (2, 1, 0)
    for other in [{**axes, "queue_depth": [1]}, {**axes, "nr_requests": [64]}]:
        with pytest.raises(dw.InputError, match="another sweep"):
            dw.sweep(dw.Sweep(base, other), out, progress=None)
    with pytest.raises(dw.InputError, match="another sweep: the base"):
        dw.sweep(dw.Sweep({**base, "seed": 5}, axes), out, progress=None)
    part = next(out.glob("part-*"))
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(dw.InputError, match=f"{part.name}.*truncated"):
        dw.sweep(dw.Sweep(base, {**axes, "queue_depth": [1, 2, 4]}), out, progress=None)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("")
    with pytest.raises(dw.InputError, match="has files"):
        dw.sweep(dw.Sweep(base, axes), tmp_path / "mine", progress=None)


def test_an_axis_of_seeds_has_one_column(tmp_path):
    axes = {"device": ["null:0us"], "scheduler": ["none"], "seed": [3, 9], "duration": "5ms", "warmup": 0, "replicates": 2}
    dw.sweep(dw.Sweep("scenarios/nvme-random.toml", axes), tmp_path / "out", progress=None)
    assert sorted(rows(tmp_path / "out").seed) == [3, 4, 9, 10]


def test_a_cell_that_fails_is_a_row_with_its_error(tmp_path):
    axes = {"device": ["null:0us"], "scheduler": ["none", "frob"], "duration": "5ms", "warmup": 0, "replicates": 1}
    grid = dw.Sweep("scenarios/nvme-random.toml", axes)
    assert dw.sweep(grid, tmp_path / "out", progress=None)[1:] == (2, 0, 2, 1)
    table = rows(tmp_path / "out").set_index("scheduler")
    assert "frob" in table.error["frob"] and table.iops["none"] > 0 and pandas.isna(table.iops["frob"])
    with pytest.raises(dw.InputError, match="frob"):
        dw.sweep(grid, tmp_path / "fast", fail_fast=True, progress=None)


@pytest.mark.parametrize(
    "axes, said",
    [
        ({"frob": [1]}, "frob"),
        ({"task.nobody.bs": ["4k"]}, "nobody"),
        ({"queue_depth": []}, "empty"),
        ({"replicates": 0}, "at least 1"),
        ({"queue_depth": [1, 1]}, "twice"),
        ({"duration": ["1s", "1000ms"]}, "mean the same"),
        ({"seed": [1, 2], "replicates": 2}, "seed: 1 and 2 have the same runs"),
        ({"queue_depth": [object()]}, "axes.*object"),
        (["queue_depth"], "axes.*expected a dict"),
    ],
)
def test_bad_axes_are_refused(axes, said):
    with pytest.raises(dw.InputError, match=said):
        dw.Sweep("scenarios/nvme-random.toml", axes)


def test_bases_are_files_of_any_kind_dicts_or_refused(tmp_path):
    (tmp_path / "job.fio").write_text("[reader]\nrw=randread\nbs=4k\nruntime=5ms\ntime_based\niodepth=4\nioengine=libaio\ndirect=1\nsize=1g\n")
    axes = {"device": ["null:0us"], "scheduler": ["none"], "replicates": 1}
    assert len(dw.Sweep(tmp_path / "job.fio", axes)) == 1
    numpy = pytest.importorskip("numpy")
    assert len(dw.Sweep("scenarios/nvme-random.toml", {**axes, "queue_depth": numpy.array([1, 2])})) == 2
    for wrong, said in [(7, "base: 7"), (tmp_path / "missing.toml", "missing.toml"), ({"task": 7}, "task")]:
        with pytest.raises(dw.InputError, match=said):
            dw.Sweep(wrong, axes)
    for more, said in [(dict(replicates="x"), "replicates"), (dict(leave_out=[7]), "leave_out"), (dict(leave_out={"a": 1}), "leave_out")]:
        with pytest.raises(dw.InputError, match=said):
            dw.Sweep("scenarios/nvme-random.toml", {"scheduler": ["none"]}, **more)
    for out, more, said in [(tmp_path / "o", dict(jobs=0), "jobs"), (tmp_path / "o", dict(on=7), "on: 7"), ("frob://x", {}, "frob")]:
        with pytest.raises(dw.InputError, match=said):
            dw.sweep(dw.Sweep("scenarios/nvme-random.toml", axes), out, progress=None, **more)
    with pytest.raises(dw.InputError, match="expected the path"):
        dw.sweep(7, tmp_path / "o")


#: Repetitions of each kill, each at another moment.
KILLS = range(int(os.environ.get("DUMBWAITER_KILLS", "1")))


def wait_for_parts(folder, child=None, count=3):
    """Until some rows are there."""
    while len(list(folder.glob("part-*"))) < count:
        assert child is None or child.poll() is None, "it ended before it was killed"
        time.sleep(0.005)


def kill_in_the_middle(pid, folder, kill):
    """A thread that kills a process when some rows are there."""

    def kill_it():
        wait_for_parts(folder, count=2 + kill % 5)
        counts.append(len(pandas.concat(pandas.read_parquet(part, columns=["key"]) for part in folder.glob("part-*"))))
        os.kill(pid, signal.SIGKILL)

    counts = []
    thread = threading.Thread(target=kill_it, daemon=True)
    thread.start()
    return thread, counts


def killed_in_the_middle(code, folder, kill):
    """Runs a client in a process group of its own, and kills it, but not its children, when some rows are there. Returns the group."""
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    wait_for_parts(folder, child, count=2 + kill % 5)
    time.sleep(0.02 * kill)
    assert child.poll() is None, "it ended before it was killed"
    child.send_signal(signal.SIGKILL)
    child.wait()
    return child.pid


def resumed(path, tmp_path, **engine):
    """Goes on with what was killed: every row once, and those of a run that nothing disturbed."""
    ran = dw.sweep(path, tmp_path / "a", progress=None, **engine)
    assert 0 < ran.found < 20 and ran.found + ran.ran == 20
    undisturbed(path, tmp_path)


def undisturbed(path, tmp_path):
    assert len(rows(tmp_path / "a")) == 20
    dw.sweep(path, tmp_path / "b", progress=None)
    same(tmp_path / "a", tmp_path / "b")


def local_cluster():
    distributed = pytest.importorskip("distributed")
    return distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50)


@pytest.mark.parametrize("kill", KILLS)
def test_killed_and_started_again(kill, tmp_path):
    path = write(tmp_path, "400ms")
    killed_in_the_middle(
        f"import dumbwaiter as dw; dw.sweep({str(path)!r}, {str(tmp_path / 'a')!r}, jobs=2)", tmp_path / "a", kill
    )
    resumed(path, tmp_path)


@pytest.mark.parametrize("kill", KILLS)
def test_a_pool_whose_client_is_killed(kill, tmp_path):
    """Its workers were forked and live on; they hold nothing that the next client needs."""
    path = write(tmp_path, "400ms")
    pool = "concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('fork'))"
    code = f"import concurrent.futures, multiprocessing, os, dumbwaiter as dw; dw.sweep({str(path)!r}, {str(tmp_path / 'a')!r}, on={pool})"
    group = killed_in_the_middle(code, tmp_path / "a", kill)
    try:
        resumed(path, tmp_path)
    finally:
        os.killpg(group, signal.SIGKILL)


@pytest.mark.parametrize("kill", KILLS)
def test_dask_with_a_worker_killed(kill, tmp_path):
    path = write(tmp_path, "400ms")
    with local_cluster() as cluster:
        import distributed

        with distributed.Client(cluster) as client:
            pid = list(client.run(os.getpid).values())[kill % 2]
            killer, counts = kill_in_the_middle(pid, tmp_path / "a", kill)
            assert dw.sweep(path, tmp_path / "a", on=client, progress=None)[2:] == (0, 20, 0)
            killer.join()
    assert counts[0] < 20, "it ended before the worker was killed"
    undisturbed(path, tmp_path)


@pytest.mark.parametrize("kill", KILLS)
def test_dask_with_the_client_killed(kill, tmp_path):
    path = write(tmp_path, "400ms")
    with local_cluster() as cluster:
        import distributed

        code = f"import distributed, dumbwaiter as dw; dw.sweep({str(path)!r}, {str(tmp_path / 'a')!r}, on=distributed.Client({cluster.scheduler_address!r}))"
        killed_in_the_middle(code, tmp_path / "a", kill)
        with distributed.Client(cluster) as client:
            resumed(path, tmp_path, on=client)


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.parametrize("kill", KILLS)
def test_ray_with_a_worker_killed(ray, kill, tmp_path):
    path = write(tmp_path, "400ms")
    pid = ray.get(ray.remote(lambda: os.getpid()).remote())
    killer, counts = kill_in_the_middle(pid, tmp_path / "a", kill)
    assert dw.sweep(path, tmp_path / "a", on="ray", progress=None)[2:] == (0, 20, 0)
    killer.join()
    assert counts[0] < 20, "it ended before the worker was killed"
    undisturbed(path, tmp_path)


@pytest.mark.parametrize("kill", KILLS)
def test_ray_with_the_client_killed(ray, kill, tmp_path):
    path = write(tmp_path, "400ms")
    address = ray.get_runtime_context().gcs_address
    code = f"import ray, dumbwaiter as dw; ray.init({address!r}, log_to_driver=False); dw.sweep({str(path)!r}, {str(tmp_path / 'a')!r}, on='ray')"
    killed_in_the_middle(code, tmp_path / "a", kill)
    resumed(path, tmp_path, on="ray")


def test_two_processes_do_not_write_into_one_folder(tmp_path):
    path = write(tmp_path, "10s")
    child = subprocess.Popen([sys.executable, "-c", f"import dumbwaiter as dw; dw.sweep({str(path)!r}, {str(tmp_path / 'a')!r})"])
    try:
        wait_for_parts(tmp_path / "a", child, count=1)
        with pytest.raises(dw.InputError, match="another process is running a sweep into it"):
            dw.sweep(path, tmp_path / "a", progress=None)
    finally:
        child.kill()
        child.wait()
    grid = dw.Sweep("scenarios/nvme-random.toml", {"replicates": 1, "duration": "5ms", "warmup": 0})
    for _ in range(2):
        dw.sweep(grid, tmp_path / "b", progress=None)


def test_stores_of_fsspec(sweep, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    assert dw.sweep(sweep, "memory://bucket/sweep", jobs=2, progress=None)[2:] == (0, 20, 0)
    assert dw.sweep(sweep, "memory://bucket/sweep", jobs=2, progress=None)[2:] == (20, 0, 0)
    fsspec.filesystem("memory").get("/bucket/sweep", str(tmp_path / "copy"), recursive=True)
    dw.sweep(sweep, f"file://{tmp_path}/local", progress=None)
    same(tmp_path / "copy", tmp_path / "local")


def test_a_store_that_refuses_writes_is_named(sweep):
    with pytest.raises(OSError, match="/proc"):
        dw.sweep(sweep, "/proc/sweep", progress=None)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 60 kB, and how to change it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("skipped: a file system cannot be mounted here")
    yield disk, lambda how: subprocess.run(["mount", "-o", f"remount,{how}", disk], check=True)
    subprocess.run(["umount", disk], check=True)


def test_a_disk_that_is_full_or_read_only_is_named_and_nothing_is_half_written(sweep, tmp_path, small_disk):
    disk, remount = small_disk
    with pytest.raises(OSError, match="disk/out.*No space left"):
        dw.sweep(sweep, disk / "out", progress=None)
    left = [path.name for path in (disk / "out").iterdir() if not path.name.startswith(("part-", "_sweep"))]
    assert not left and sum(len(pandas.read_parquet(part)) for part in (disk / "out").glob("part-*")) < 20
    result = dw.compare("nvme-random", duration="20ms", progress=None)
    for write in (lambda: result.to_json(disk / "r.json"), lambda: result.to_html(disk / "r.html"), lambda: result.to_parquet(disk / "r")):
        with pytest.raises(OSError, match="disk/r.*No space left"):
            write()
    assert not list(disk.glob("r.*")) and not list(disk.glob(".*"))
    remount("size=4m,ro")
    with pytest.raises(OSError, match="Read-only file system"):
        dw.sweep(sweep, disk / "out", progress=None)
    remount("rw")
    dw.sweep(sweep, disk / "out", progress=None)
    dw.sweep(sweep, tmp_path / "b", progress=None)
    same(disk / "out", tmp_path / "b")


@pytest.mark.parametrize("engine", ["here", "threads"])
def test_interrupted_at_every_stage(sweep, tmp_path, engine):
    """An alarm stands for Ctrl-C; it comes a little later each time, until the sweep has time to end."""

    def alarm(*_):
        raise KeyboardInterrupt

    def run():
        if engine == "here":
            return dw.sweep(sweep, tmp_path / "a", progress=None)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return dw.sweep(sweep, tmp_path / "a", on=pool, progress=None)

    before, interrupts, after_s = signal.signal(signal.SIGALRM, alarm), 0, 0.001
    try:
        while True:
            signal.setitimer(signal.ITIMER_REAL, after_s)
            try:
                ran = run()
                signal.setitimer(signal.ITIMER_REAL, 0)
                break
            except KeyboardInterrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
                interrupts, after_s = interrupts + 1, after_s * 1.3
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts > 3 and ran.found + ran.ran == 20
    undisturbed(sweep, tmp_path)


@pytest.mark.parametrize("again", [False, True])
def test_what_is_stored_is_counted_though_ctrl_c_comes_as_it_is_written(sweep, monkeypatch, again):
    memory = pytest.importorskip("fsspec.implementations.memory")
    write = memory.MemoryFileSystem.pipe_file

    def interrupted(self, path, *arguments, **keywords):
        write(self, path, *arguments, **keywords)
        if "part-" in path:
            signal.raise_signal(signal.SIGINT)
            if again:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(memory.MemoryFileSystem, "pipe_file", interrupted)
    address = f"memory://interrupted-{again}/sweep"
    with concurrent.futures.ThreadPoolExecutor(1) as pool, pytest.raises(dw.Interrupted) as raised:
        dw.sweep(sweep, address, on=pool, progress=None)
    monkeypatch.undo()
    left = dw.sweep(sweep, address, progress=None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    # A second Ctrl-C does not wait.
    assert left.found >= 1 and left.found + left.ran == 20 and (again or raised.value.result.ran == left.found)


def test_a_store_that_fails_in_the_middle_is_named_and_resumed(sweep, monkeypatch):
    memory = pytest.importorskip("fsspec.implementations.memory")
    written, write = [], memory.MemoryFileSystem.pipe_file

    def refusing(self, path, *arguments, **keywords):
        written.append(path)
        if len(written) > 3:
            raise PermissionError("quota exceeded")
        return write(self, path, *arguments, **keywords)

    monkeypatch.setattr(memory.MemoryFileSystem, "pipe_file", refusing)
    with pytest.raises(OSError, match="memory://full/sweep/part-.*cannot be written: quota exceeded"):
        dw.sweep(sweep, "memory://full/sweep", jobs=2, progress=None)
    monkeypatch.undo()
    again = dw.sweep(sweep, "memory://full/sweep", jobs=2, progress=None)
    assert 0 < again.found < 20 and again.found + again.ran == 20
    cut = next(path for path in written if "part-" in path)
    files = memory.MemoryFileSystem()
    files.pipe_file(cut, files.cat_file(cut)[:-50])
    with pytest.raises(dw.InputError, match="part-.*truncated"):
        dw.sweep(sweep, "memory://full/sweep", jobs=2, progress=None)


def test_never_more_than_two_batches_a_worker(sweep, tmp_path):
    class Counting(concurrent.futures.ThreadPoolExecutor):
        under_way = most = 0
        lock = threading.Lock()

        def submit(self, *arguments):
            with self.lock:
                self.under_way += 1
                self.most = max(self.most, self.under_way)
            task = super().submit(*arguments)
            task.add_done_callback(self.ended)
            return task

        def ended(self, _):
            with self.lock:
                self.under_way -= 1

    with Counting(2) as pool:
        dw.sweep(sweep, tmp_path / "out", on=pool, progress=None)
    assert pool.most <= 4


def test_plots(sweep, tmp_path):
    pytest.importorskip("matplotlib")
    dw.sweep(sweep, tmp_path / "out", progress=None)
    for kind in ["line", "heat"]:
        figure = dw.plot(tmp_path / "out", x="queue_depth", y="iops", by="scheduler", facet="device", kind=kind)
        figure.savefig(tmp_path / "plot.png")
    with pytest.raises(dw.InputError, match="is not a column"):
        dw.plot(tmp_path / "out", x="queue_depth", y="frob")
    with pytest.raises(dw.InputError, match="is text"):
        dw.plot(tmp_path / "out", x="queue_depth", y="scheduler")
    with pytest.raises(dw.InputError, match="no results"):
        dw.plot("memory://nothing", x="queue_depth", y="iops")


def test_the_page_of_a_sweep_has_lines_and_a_heat_map(sweep, tmp_path, command):
    dw.sweep(sweep, tmp_path / "out", progress=None)
    words = ["--x", "queue_depth", "--y", "iops", "--by", "scheduler", "--facet", "device", "--html", tmp_path / "page.html"]
    subprocess.run([command, "sweep", "report", tmp_path / "out", *words], check=True, capture_output=True)
    page = (tmp_path / "page.html").read_text()
    for part in ["plot-0-0", "map-0-0", "plot-1-0", "map-1-0", '"arrayminus"', '"type":"heatmap"']:
        assert part in page, part


def test_an_s3_store(sweep, tmp_path, monkeypatch):
    server = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]:
        monkeypatch.setenv(name, "test")
    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    moto.start()
    try:
        host, port = moto.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        s3fs.S3FileSystem.clear_instance_cache()
        store = s3fs.S3FileSystem()
        store.mkdir("results")
        assert dw.sweep(sweep, "s3://results/depths", jobs=2, progress=None)[2:] == (0, 20, 0)
        assert dw.sweep(sweep, "s3://results/depths", jobs=2, progress=None)[2:] == (20, 0, 0)
        store.get("results/depths", str(tmp_path / "copy"), recursive=True)
    finally:
        moto.stop()
    dw.sweep(sweep, tmp_path / "local", progress=None)
    same(tmp_path / "copy", tmp_path / "local")
