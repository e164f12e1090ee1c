"""An environment for learning which scheduler should run next. Needs Gymnasium: the extra ``gym``."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import gymnasium
import numpy

from ._compare import _inputs, _list, from_one
from ._native import Device, InputError, SwitchEpisode, SwitchLoad

__all__ = ["FEATURES", "SwitchEnv"]

#: What each place of an observation is about. All are from 0 to 1, of the requests that completed in the last period.
FEATURES = (
    "read_share",
    "share_up_to_4k",
    "share_up_to_64k",
    "share_above_64k",
    "sequential_share",
    "in_scheduler",
    "in_device",
    "mean_latency",
    "p99_latency",
    "iops",
    "throughput",
)


class SwitchEnv(gymnasium.Env):  # type: ignore[misc]
    """Chooses a scheduler for each period of a simulated run.

    Parameters
    ----------
    what
        A load, as :func:`dumbwaiter.compare` takes it.
    schedulers
        Names with settings: the actions.
    device
        A device model; the first of the load's where it is ``None``.
    period
        A number of requests, or a time such as ``"100ms"``.
    periods
        The length of an episode. It ends earlier where the load does.
    goal
        ``"throughput"``: bytes per second. ``"latency"``: the mean latency. ``"p99"``: the 99th percentile.
    **settings
        Other settings of :func:`dumbwaiter.compare`, such as ``duration`` and ``seed``.

    An observation is a float32 array of ``len(FEATURES)`` numbers from 0 to 1 about the period before: nothing of the future.
    Depths are log2(1 + n) / 16, latencies log10(1 + us) / 9, IOPS log10(1 + n) / 9, throughput log10(1 + MB/s) / 6.

    The reward of a period is what it gained on the same period under the one scheduler that is best for the whole episode with the
    same seed, divided by that scheduler's mean: 0 throughout is as good as the best fixed choice in hindsight.

    ``reset(seed=n)`` is exact: the same seed and actions give the same run. ``info`` has the figures of the period by name.
    """

    metadata: Dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        what: Any = None,
        schedulers: Sequence[str] = ("none", "mq-deadline", "bfq", "kyber"),
        *,
        device: Union[str, Device, None] = None,
        period: Union[int, str] = 1000,
        periods: int = 100,
        goal: str = "throughput",
        **settings: object,
    ) -> None:
        if goal not in ("throughput", "latency", "p99"):
            raise InputError(f"goal: {goal!r} was found; expected throughput, latency or p99")
        periods = from_one("periods", periods)
        names = _list("schedulers", schedulers)
        if not all(isinstance(name, str) for name in names):
            raise InputError("schedulers: expected names; one that is written in Python cannot take over a run")
        paths, scenario, tables = _inputs(what, settings)
        devices = None if device is None else [str(device)]
        keywords = {"schedulers": names, "devices": devices, **settings}
        self.load = SwitchLoad.read(paths, scenario, tables, keywords, period)
        self.schedulers: List[str] = self.load.schedulers
        self.periods, self.goal = periods, goal
        self.action_space = gymnasium.spaces.Discrete(len(self.schedulers))
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (len(FEATURES),), numpy.float32)
        self._episode: Optional[SwitchEpisode] = None
        self._fixed: Dict[int, Tuple[int, List[float], float]] = {}
        self._replicate, self._step = 0, 0

    def reset(self, *, seed: Optional[int] = None, options: Optional[Dict[str, Any]] = None) -> Tuple[Any, Dict[str, Any]]:
        """Begins an episode. Without a seed its own random numbers choose one."""
        super().reset(seed=seed)
        self._replicate = seed % 2**32 if seed is not None else int(self.np_random.integers(2**32))
        self._episode, self._step = None, 0
        best, _, _ = self.best_fixed()
        info = {"seed": self._replicate, "best_fixed": self.schedulers[best]}
        return numpy.zeros(len(FEATURES), numpy.float32), info

    def step(self, action: Any) -> Tuple[Any, float, bool, bool, Dict[str, Any]]:
        """Runs one period under a scheduler."""
        number = int(action)
        if not 0 <= number < len(self.schedulers):
            raise InputError(f"action {number}: expected 0 to {len(self.schedulers) - 1}")
        if self._episode is None:
            # The first action's scheduler runs from the start, as a fixed one does.
            self._episode = self.load.start(self._replicate, number)
        figures = self._episode.step(number)
        _, fixed, scale = self.best_fixed()
        reward = (self._figure(figures) - fixed[min(self._step, len(fixed) - 1)]) / scale
        self._step += 1
        terminated, truncated = not figures[-1], self._step >= self.periods
        return _observation(figures), reward, terminated, truncated and not terminated, _info(figures)

    def best_fixed(self) -> Tuple[int, List[float], float]:
        """The best single scheduler for the episode's seed in hindsight: its number, its figure in each period, and their mean."""
        known = self._fixed.get(self._replicate)
        if known is None:
            runs = [self._run(number) for number in range(len(self.schedulers))]
            best = max(range(len(runs)), key=lambda number: sum(runs[number]) / len(runs[number]))
            scale = abs(sum(runs[best]) / len(runs[best])) or 1.0
            known = best, runs[best], scale
            if len(self._fixed) >= 1024:
                self._fixed.clear()
            self._fixed[self._replicate] = known
        return known

    def _run(self, number: int) -> List[float]:
        episode = self.load.start(self._replicate, number)
        figures = []
        for _ in range(self.periods):
            period = episode.step(number)
            figures.append(self._figure(period))
            if not period[-1]:
                break
        return figures

    def _figure(self, figures: Any) -> float:
        requests, moved, seconds = figures[0], figures[2], float(figures[9])
        mean_us, p99_us = figures[5], figures[6]
        if self.goal == "throughput":
            return float(moved / seconds) if seconds > 0 else 0.0
        if requests == 0:
            return -seconds * 1e6
        return float(-(mean_us if self.goal == "latency" else p99_us))


def _observation(figures: Any) -> Any:
    requests, reads, moved, sizes, sequential, mean_us, p99_us, queued, in_device, seconds, _ = figures
    n = max(requests, 1)
    rate = 1.0 / seconds if seconds > 0 else 0.0
    values = [
        reads / n,
        *(size / n for size in sizes),
        sequential / n,
        math.log2(1 + queued) / 16,
        math.log2(1 + in_device) / 16,
        math.log10(1 + mean_us) / 9,
        math.log10(1 + p99_us) / 9,
        math.log10(1 + requests * rate) / 9,
        math.log10(1 + moved * rate / 1e6) / 6,
    ]
    return numpy.clip(numpy.array(values, numpy.float32), 0.0, 1.0)


def _info(figures: Any) -> Dict[str, Any]:
    requests, reads, moved, _, _, mean_us, p99_us, queued, in_device, seconds, _ = figures
    return {
        "requests": requests,
        "reads": reads,
        "bytes": moved,
        "mean_us": mean_us,
        "p99_us": p99_us,
        "in_scheduler": queued,
        "in_device": in_device,
        "seconds": seconds,
    }
