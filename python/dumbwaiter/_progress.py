"""Progress of long calls: a bar in a terminal, an updating line in a notebook."""

from __future__ import annotations

import sys
import time
from typing import Callable, Optional, Union

from ._native import InputError

__all__ = ["Progress", "progress_of"]

#: Called with the number of runs done, the number of all, and the seconds left, if known.
Progress = Callable[[int, int, Optional[float]], object]

_PATIENCE_S = 0.7


def progress_of(progress: Union[str, None, Progress]) -> Optional[Progress]:
    """What ``progress`` asks for: ``"auto"``, ``None`` or a callable."""
    if progress is None or callable(progress):
        return progress
    if progress != "auto":
        raise InputError(f"progress: {progress!r} was found; expected 'auto', None or a callable (done, total, eta_s)")
    notebook = "ipykernel" in sys.modules
    if notebook or sys.stderr.isatty():
        return _Line(sys.stdout if notebook else sys.stderr)
    return None


class _Line:
    def __init__(self, out: object) -> None:
        self.out = out
        self.started = time.monotonic()
        self.last = 0.0

    def __call__(self, done: int, total: int, eta_s: Optional[float]) -> None:
        now = time.monotonic()
        shown = self.last > 0.0
        finished = done == total
        if now - self.started < _PATIENCE_S or (now - self.last < 0.1 and not finished):
            return
        if finished and not shown:
            return
        self.last = now
        filled = 30 * done // max(total, 1)
        left = "" if eta_s is None or finished else f"  {eta_s:.0f} s left"
        end = "\n" if finished else ""
        print(f"\r[{'=' * filled}{' ' * (30 - filled)}] {done}/{total} runs{left}   ", end=end, file=self.out, flush=True)  # type: ignore[call-overload]
