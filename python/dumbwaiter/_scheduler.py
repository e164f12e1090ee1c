"""The base class of schedulers that are written in Python."""

from __future__ import annotations

import operator
from typing import Any, Dict, Optional, Tuple, Type, Union

from . import _native
from ._native import InputError, Request, Setup, WaitUntil

__all__ = ["Scheduler", "check"]


class Scheduler:
    """A policy: which queued request goes to the device next.

    A subclass needs ``insert`` and ``next``; the other hooks are optional. Times are nanoseconds of the run's clock, positions
    and lengths are sectors of 512 bytes.

    >>> import dumbwaiter as dw
    >>> class Lifo(dw.Scheduler):
    ...     "newest first"
    ...     def __init__(self, setup): self.queue = []
    ...     def insert(self, request, now): self.queue.append(request)
    ...     def next(self, hw_queue, now): return self.queue.pop() if self.queue else None
    >>> result = dw.compare("nvme-random", schedulers=["noop", Lifo], incumbent="noop", duration="20ms", progress=None)
    >>> sorted(set(result.runs["scheduler"]))
    ['Lifo', 'noop']

    Class attributes:

    ``name``
        The name in results; the class's own name where there is none.
    ``cpu_cost_of``
        The scheduler whose CPU time per request a simulation charges: ``"noop"``.
    ``merging``
        Whether arrivals may join queued requests: ``True``.
    ``single_queue``
        Whether the block layer behaves as that of Linux up to 4.20: ``False``.
    ``tunables``
        Settings, whole numbers: for each name the default, or ``(default, least, greatest)``. The scheduler reads them as attributes
        of itself. A class ``Batches`` with ``tunables = {"batch": 4}`` in the list of schedulers may be there again as
        ``"Batches:batch=8"``.
    """

    cpu_cost_of: str = "noop"
    merging: bool = True
    single_queue: bool = False
    tunables: Dict[str, Union[int, Tuple[int, int, int]]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        declared = cls.tunables if isinstance(cls.tunables, dict) else {}
        for name, value in declared.items():
            if isinstance(name, str) and not hasattr(cls, name):
                setattr(cls, name, value[0] if isinstance(value, tuple) and value else value)

    def __init__(self, setup: Setup) -> None:
        """``setup``: the device and the limits that the scheduler is built for."""

    def insert(self, request: Request, now: int) -> None:
        """A request enters."""
        raise NotImplementedError

    def next(self, hw_queue: int, now: int) -> Optional[Union[Request, WaitUntil]]:
        """Returns the request to send, ``None`` where nothing can be sent now, or :func:`wait_until`.

        It is called only while the scheduler holds a request.
        """
        raise NotImplementedError

    def complete(self, request: Request, now: int) -> Optional[bool]:
        """The device finished a request. ``True`` asks the block layer to call ``next`` again."""

    def requeue(self, request: Request, now: int) -> None:
        """A request returns before all others, since the device refused it. Without this hook it is inserted again."""

    def merge(
        self, arrival: Request, queued: Optional[Request], now: int
    ) -> Optional[Union[bool, Request]]:
        """May ``arrival`` join a queued request? ``queued`` ends where it begins, if there is one.

        ``None`` or ``True`` joins ``queued``, ``False`` refuses, another request that touches the arrival gets it.
        """

    def absorbed(self, request: Request, into: Optional[Request], now: int) -> None:
        """A queued request became part of another. It need not leave the queue: ``next`` may return it, without effect."""

    def event(self, what: str, number: int, now: int) -> None:
        """``timer``, ``task-added``, ``task-changed``, ``task-exited``, ``tenant-added``, ``tenant-changed``,
        ``tenant-retired``, ``depth-changed`` or ``rotational-changed``; ``number`` is the task, tenant, depth or 0 or 1."""

    def limit(self, op: str, sync: bool, nr_requests: int) -> int:
        """How many of the ``nr_requests`` slots I/O of this kind may use: from 1 to ``nr_requests``."""
        return nr_requests

    def timer(self) -> Optional[int]:
        """The time at which it needs the event ``timer``."""

    def former(self, request: Request) -> Optional[Request]:
        """The queued request before this one in the policy's order: a candidate for a merge."""

    def latter(self, request: Request) -> Optional[Request]:
        """The queued request after this one in the policy's order: a candidate for a merge."""


def check(scheduler: Type[Scheduler], *, cases: int = 200, seed: int = 1) -> None:
    """Runs the project's conformance storms on a scheduler: random workloads with merges, plugs, flushes, refusals and requeues.

    Raises :class:`SchedulerError` where a request is lost, sent twice or mixed up, or a hook raises. The text has the seed and the
    shortest failing case; what a hook raised is its cause. Now and then a copy (``copy.deepcopy``) of the scheduler goes on in its
    place, and must decide the same.

    >>> import dumbwaiter as dw
    >>> class Fifo(dw.Scheduler):
    ...     def __init__(self, setup): self.queue = []
    ...     def insert(self, request, now): self.queue.append(request)
    ...     def next(self, hw_queue, now): return self.queue.pop(0) if self.queue else None
    >>> dw.check(Fifo, cases=20)
    """
    for name, value, least in (("cases", cases, 1), ("seed", seed, 0)):
        try:
            if not least <= operator.index(value) < 1 << (32 if name == "cases" else 64):
                raise TypeError
        except TypeError:
            raise InputError(f"{name} = {value!r}: expected a whole number from {least}") from None
    _native.check(scheduler, cases=cases, seed=seed)
