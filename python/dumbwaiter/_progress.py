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
    if "ipykernel" in sys.modules:
        return _Line(_in_notebook())
    return _Line(_in_terminal) if sys.stderr.isatty() else None


def _in_terminal(line: str, finished: bool) -> None:
    print(f"\r{line}   ", end="\n" if finished else "", file=sys.stderr, flush=True)


def _in_notebook() -> Callable[[str, bool], None]:
    """A line of the cell's output that is replaced: a saved notebook has the last one only."""
    from IPython.display import display

    handle = None

    def show(line: str, finished: bool) -> None:
        nonlocal handle
        text = {"text/plain": line}
        if handle is None:
            handle = display(text, raw=True, display_id=True)
        else:
            handle.update(text, raw=True)

    return show


class _Line:
    def __init__(self, show: Callable[[str, bool], None]) -> None:
        self.show = show
        self.started = time.monotonic()
        self.last = 0.0
        self.finished_at = -1

    def __call__(self, done: int, total: int, eta_s: Optional[float]) -> None:
        now = time.monotonic()
        shown = self.last > 0.0
        finished = done == total
        if now - self.started < _PATIENCE_S or (now - self.last < 0.1 and not finished):
            return
        # Runs may be added to those that are done.
        if finished and (not shown or self.finished_at == done):
            return
        self.last, self.finished_at = now, done if finished else -1
        filled = 30 * done // max(total, 1)
        left = "" if eta_s is None or finished else f"  {eta_s:.0f} s left"
        self.show(f"[{'=' * filled}{' ' * (30 - filled)}] {done}/{total} runs{left}", finished)
