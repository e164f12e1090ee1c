"""Dumbwaiter: which block I/O scheduler serves a workload best, and how sure that is.

>>> import dumbwaiter as dw
>>> result = dw.compare("nvme-random", duration="20ms", progress=None)
>>> sorted(result.best)
['ssd:850pro-256', 'ull:optane-p4801x']

:func:`compare` runs a workload under several schedulers; :class:`Scheduler` is the base of schedulers written in Python;
:func:`sweep` runs a grid of experiments and :func:`tune` searches better settings, here, on Dask or on Ray; ``dumbwaiter.gym`` has an environment for learning.
"""

from __future__ import annotations

from . import trace
from ._compare import Scenario, compare
from ._measured import fit_device, fit_host, measured
from ._native import (
    Device,
    DeviceError,
    Histogram,
    InputError,
    InternalError,
    Interrupted,
    Request,
    Result,
    SchedulerError,
    Setup,
    Stream,
    Table,
    WaitUntil,
    __version__,
    devices,
    fidelity,
    hosts,
    schedulers,
    wait_until,
)
from ._plot import plot
from ._scheduler import Scheduler, check
from ._sweep import Sweep, SweepResult, sweep
from ._tune import Tuning, tune

__all__ = [
    "Device",
    "DeviceError",
    "Histogram",
    "InputError",
    "InternalError",
    "Interrupted",
    "Request",
    "Result",
    "Scenario",
    "Scheduler",
    "SchedulerError",
    "Setup",
    "Stream",
    "Sweep",
    "SweepResult",
    "Table",
    "Tuning",
    "WaitUntil",
    "__version__",
    "check",
    "compare",
    "devices",
    "fidelity",
    "fit_device",
    "fit_host",
    "hosts",
    "measured",
    "plot",
    "schedulers",
    "sweep",
    "trace",
    "tune",
    "wait_until",
]
