"""Engines that run batches of work: executors, Dask, Ray. No scheduler, retry queue or protocol of our own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import uuid
import warnings
import weakref
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, Dict, Iterator, List, Optional

from ._native import InputError, Stop

__all__ = ["Engine", "engine_of", "forked_engine", "interrupts_wait", "stop_of", "task_id"]


#: Characters of an argument that is sent once, not with each task.
_LONG = 100_000

#: How long Ctrl-C waits for batches that threads of this process run.
_GRACE_S = 0.1

#: What ends the batches of a call, by the call's name, in the process that made the call.
_STOPS: "weakref.WeakValueDictionary[str, Stop]" = weakref.WeakValueDictionary()


def stop_of(call: str) -> Stop:
    """What ends a batch of this call: in the process that made the call, that of the call."""
    return _STOPS.get(call) or Stop()


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Ctrl-C waits for the end of the block; a second one does not."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # Only the main thread is interrupted.
        return
    seen: List[Any] = []

    def later(*interrupt: Any) -> None:
        if seen:
            signal.signal(signal.SIGINT, handler)
            handler(*interrupt)
        seen.append(interrupt)

    signal.signal(signal.SIGINT, later)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if seen:
        handler(*seen[0])


class Engine:
    """Somewhere batches run. A task is whatever the engine gives for one."""

    #: Whether its processes have what this one had when the first batch was submitted.
    inherits = False

    def __init__(self) -> None:
        #: The name of the call whose batches it runs.
        self.call = uuid.uuid4().hex[:12]
        self.stop = _STOPS[self.call] = Stop()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def workers(self) -> int:
        raise NotImplementedError

    def submit(self, work: Callable[..., Any], *arguments: Any, name: str) -> Any:
        raise NotImplementedError

    def share(self, text: str) -> Any:
        """What tasks take for an argument that many of them have."""
        return text

    def wait(self, tasks: List[Any]) -> List[Any]:
        """Those that are finished; waits for one."""
        raise NotImplementedError

    def outcome(self, task: Any) -> Any:
        raise NotImplementedError

    def cancel(self, tasks: List[Any]) -> List[Any]:
        """Ends tasks without waiting for what runs elsewhere. Returns those that ended with what they had finished."""
        raise NotImplementedError


class _Executor(Engine):
    def __init__(self, executor: futures.Executor, own: bool) -> None:
        super().__init__()
        self.executor, self.own = executor, own

    def __exit__(self, *_: object) -> None:
        if self.own:
            self.executor.shutdown(wait=False, cancel_futures=True)

    def workers(self) -> int:
        return int(getattr(self.executor, "_max_workers", None) or os.cpu_count() or 1)

    def submit(self, work: Callable[..., Any], *arguments: Any, name: str) -> Any:
        return self.executor.submit(work, *arguments)

    def wait(self, tasks: List[Any]) -> List[Any]:
        # A limit, so that Ctrl-C is seen in time.
        while True:
            done = futures.wait(tasks, timeout=0.1, return_when=futures.FIRST_COMPLETED).done
            if done:
                return list(done)

    def outcome(self, task: Any) -> Any:
        return task.result()

    def cancel(self, tasks: List[Any]) -> List[Any]:
        self.stop.set()
        running = [task for task in tasks if not task.cancel()]
        # Threads of this process end theirs in some milliseconds; other processes end theirs by themselves.
        is_here = isinstance(self.executor, futures.ThreadPoolExecutor)
        ended = futures.wait(running, timeout=_GRACE_S if is_here else 0.0).done
        return [task for task in ended if task.exception() is None]


class _Forked(_Executor):
    """Processes of this machine, forked from this one, so that they have classes that no other process could import."""

    inherits = True

    def __init__(self, jobs: int) -> None:
        context = multiprocessing.get_context("fork")
        super().__init__(futures.ProcessPoolExecutor(jobs, context, initializer=_ignore_interrupts), own=True)

    def submit(self, work: Callable[..., Any], *arguments: Any, name: str) -> Any:
        with warnings.catch_warnings(), _killed_is_named():
            # That a process with threads forks: the child uses nothing that they may have locked.
            warnings.simplefilter("ignore", DeprecationWarning)
            return super().submit(work, *arguments, name=name)

    def outcome(self, task: Any) -> Any:
        with _killed_is_named():
            return super().outcome(task)

    def cancel(self, tasks: List[Any]) -> List[Any]:
        # A hook may never return by itself.
        ended = super().cancel(tasks)
        for process in list((self.executor._processes or {}).values()):  # type: ignore[attr-defined]
            process.kill()
        return ended


@contextlib.contextmanager
def _killed_is_named() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool:
        raise RuntimeError(
            "a process that ran cells was killed, perhaps for want of memory; start the sweep again with fewer jobs to go on"
        ) from None


def _ignore_interrupts() -> None:
    # Ctrl-C reaches the whole group; the process that started this one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def forked_engine(jobs: Optional[int]) -> Engine:
    """Processes of this machine that inherit what this one has."""
    return _Forked(jobs or os.cpu_count() or 1)


class _Dask(Engine):
    def __init__(self, client: Any) -> None:
        super().__init__()
        self.client = client
        self.counted = (0.0, 1)

    def workers(self) -> int:
        # Workers come and go; asking costs a round trip.
        at, count = self.counted
        if time.monotonic() - at > 2.0:
            count = sum(self.client.nthreads().values()) or 1
            self.counted = (time.monotonic(), count)
        return count

    def share(self, text: str) -> Any:
        # On each worker, so that one that is lost takes nothing with it. What is short goes along with the tasks.
        return self.client.scatter(text, broadcast=True) if len(text) > _LONG else text

    def submit(self, work: Callable[..., Any], *arguments: Any, name: str) -> Any:
        return self.client.submit(work, *arguments, key=name, pure=False, retries=3)

    def wait(self, tasks: List[Any]) -> List[Any]:
        import distributed

        while True:
            try:
                return list(distributed.wait(tasks, timeout=1.0, return_when="FIRST_COMPLETED").done)
            except (TimeoutError, futures.TimeoutError):
                continue

    def outcome(self, task: Any) -> Any:
        return task.result()

    def cancel(self, tasks: List[Any]) -> List[Any]:
        # The scheduler drops what is not wanted any more. To ask it to cancel, and wait for its answer, takes a round trip each.
        for task in tasks:
            task.release()
        return []


class _Ray(Engine):
    def __init__(self) -> None:
        super().__init__()
        try:
            import ray
        except ImportError:
            raise InputError("on: 'ray' needs the package ray: pip install ray") from None
        self.ray = ray
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        self.functions: Dict[Any, Any] = {}

    def share(self, text: str) -> Any:
        return self.ray.put(text) if len(text) > _LONG else text

    def workers(self) -> int:
        return int(self.ray.cluster_resources().get("CPU", 1)) or 1

    def submit(self, work: Callable[..., Any], *arguments: Any, name: str) -> Any:
        # Exported once, not with each batch.
        function = self.functions.get(work)
        if function is None:
            function = self.functions[work] = self.ray.remote(max_retries=-1, num_cpus=1)(work)
        return function.options(name=name).remote(*arguments)

    def wait(self, tasks: List[Any]) -> List[Any]:
        # A limit, so that Ctrl-C is seen in time: without one Ray looks for it once a second.
        while True:
            done = self.ray.wait(tasks, num_returns=1, timeout=0.1)[0]
            if done:
                return list(done)

    def outcome(self, task: Any) -> Any:
        return self.ray.get(task)

    def cancel(self, tasks: List[Any]) -> List[Any]:
        for task in tasks:
            self.ray.cancel(task)
        return []


def _is_dask_client(on: Any) -> bool:
    # Without an import of Dask, which takes a second.
    names = ((base.__module__.partition(".")[0], base.__name__) for base in type(on).__mro__)
    return ("distributed", "Client") in names


def engine_of(on: Any, jobs: Optional[int]) -> Engine:
    if on is None:
        return _Executor(futures.ThreadPoolExecutor(jobs or os.cpu_count() or 1), own=True)
    if isinstance(on, futures.Executor):
        return _Executor(on, own=False)
    if isinstance(on, str) and on == "ray":
        return _Ray()
    if _is_dask_client(on):
        if on.asynchronous:
            raise InputError("on: the Client is asynchronous; expected one that is not: Client(address)")
        return _Dask(on)
    raise InputError(f"on: {on!r} was found; expected a dask.distributed.Client, a concurrent.futures.Executor or 'ray'")


def task_id(task: Any) -> Any:
    """What tells a task from others: futures of Dask are equal by key, those of others by identity."""
    return getattr(task, "key", task)
