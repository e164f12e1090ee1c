"""A scheduler in Python beside the built-in ones."""

from __future__ import annotations

from typing import List, Optional

import dumbwaiter as dw


class Lifo(dw.Scheduler):
    """Newest first."""

    def __init__(self, setup: dw.Setup) -> None:
        self.queue: List[dw.Request] = []

    def insert(self, request: dw.Request, now: int) -> None:
        self.queue.append(request)

    def next(self, hw_queue: int, now: int) -> Optional[dw.Request]:
        return self.queue.pop() if self.queue else None


if __name__ == "__main__":
    dw.check(Lifo)
    result = dw.compare("nvme-random", schedulers=["none", "mq-deadline", Lifo], duration="100ms")
    print(result.to_text())
