"""Processes that run schedulers written in Python, several at a time.

They are forked, so that they have classes that no other process could import: those of a notebook.
"""

from __future__ import annotations

import multiprocessing
import pickle
import queue
import signal
import warnings
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]
from typing import Any, Callable, List, Optional, Tuple

from ._native import SchedulerError

__all__ = ["Workers"]


class Workers:
    """So many processes that call ``run``."""

    def __init__(self, count: int, run: Callable[..., str]) -> None:
        context = multiprocessing.get_context("fork")
        self.processes: List[Any] = []
        self.ended = False
        self.free: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        with warnings.catch_warnings():
            # That a process with threads forks: the child uses nothing that they may have locked.
            warnings.simplefilter("ignore", DeprecationWarning)
            for _ in range(count):
                here, there = context.Pipe()
                process = context.Process(target=_serve, args=(there, run), daemon=True)
                process.start()
                there.close()
                self.processes.append(process)
                self.free.put(here)

    def run(self, *cell: Any) -> Optional[str]:
        """What ``run`` gives for a cell; raises what it raises. ``None`` where :meth:`kill` ended it."""
        worker = self.free.get()
        try:
            worker.send(cell)
            fine, answer = worker.recv()
        except (EOFError, OSError):
            if self.ended:
                return None
            raise RuntimeError(
                f"the process that ran {cell[1]} on {cell[0]} was killed, perhaps for want of memory; expected fewer jobs"
            ) from None
        finally:
            self.free.put(worker)
        if fine:
            return str(answer)
        raise answer

    def kill(self) -> None:
        """Ends all of them."""
        self.ended = True
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()


def _serve(calls: Any, run: Callable[..., str]) -> None:
    # Ctrl-C reaches the whole group; the process that started this one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            cell = calls.recv()
        except EOFError:
            return
        calls.send(_answer(run, cell))


def _answer(run: Callable[..., str], cell: Tuple[Any, ...]) -> Tuple[bool, Any]:
    try:
        return True, run(*cell)
    except BaseException as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            # With the traceback of what cannot be sent.
            error = SchedulerError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
        return False, ExceptionWithTraceback(error, error.__traceback__)
