"""`plot`: the results of a sweep as lines or heat maps."""

from __future__ import annotations

import os
from typing import Any, Iterable, List, Optional, Tuple, Union

from ._native import InputError, axis_label, in_order, sweep_points, sweep_points_of_parts
from ._store import place_of, stored_parts

__all__ = ["plot"]

_Path = Union[str, "os.PathLike[str]"]
#: Facet, line, place, mean, the ends of its confidence interval, runs.
_Point = Tuple[str, str, str, float, Optional[Tuple[float, float]], int]


def plot(
    out: _Path,
    *,
    x: str,
    y: str,
    by: Optional[str] = None,
    facet: Optional[str] = None,
    kind: str = "line",
    title: Optional[str] = None,
) -> Any:
    """Plots a column of a sweep's results: the means over the replicates, with their 95 % confidence. Needs matplotlib.

    Parameters
    ----------
    out
        The folder or address of the results.
    x, y
        Columns: an axis of the grid, and a figure of the runs such as ``"p99_us"``.
    by
        A column: a line for each of its values.
    facet
        A column: a plot for each of its values.
    kind
        ``"line"``, or ``"heat"`` for a map with ``by`` on the vertical axis.
    title
        Above the plots; ``y`` and ``x`` where it is ``None``.

    Returns
    -------
    matplotlib.figure.Figure
        A notebook shows it by itself; ``.savefig(path)`` writes it.

    Raises
    ------
    InputError
        A column that the results lack, one of text as ``y``, a folder without results.
    """
    if kind not in ("line", "heat"):
        raise InputError(f"kind: {kind!r} was found; expected 'line' or 'heat'")
    if kind == "heat" and by is None:
        raise InputError("kind = 'heat': expected `by`, the column of the vertical axis")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("a plot needs the package matplotlib: pip install matplotlib") from None

    place, columns = place_of(out), (x, y, by, facet)
    points = sweep_points_of_parts(place, stored_parts(place), columns) if "://" in place else sweep_points(place, columns)
    if not points:
        raise InputError(f"{place}: no run has a value of {y!r}: all failed; their rows have an `error`")
    facets = in_order([point[0] for point in points])
    across = min(len(facets), _FACETS_ACROSS)
    down = -(-len(facets) // across)
    figure = Figure(figsize=(6 * across, 4.5 * down), layout="constrained")
    figure.suptitle(title if title is not None else f"{y} by {x}")
    grid = figure.subplots(down, across, squeeze=False).flatten()
    for axes in grid[len(facets) :]:
        axes.set_axis_off()
    for axes, name in zip(grid, facets):
        part = [point for point in points if point[0] == name]
        places = in_order([point[2] for point in part])
        if facet is not None:
            axes.set_title(f"{facet} = {name}")
        axes.set_xlabel(axis_label(x))
        _ticks(axes, places)
        if kind == "heat":
            _heat_map(figure, axes, part, places, (axis_label(y), axis_label(by or "")))
        else:
            _lines(axes, part, places, (axis_label(y), by))
    return figure


#: Plots side by side before the next row begins.
_FACETS_ACROSS = 3
#: Of Okabe and Ito: distinct for colour-blind readers, and the same as on the pages.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a")


def _ticks(axes: Any, places: List[str]) -> None:
    """A tick for each place; words that would touch each other are slanted."""
    slanted = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if sum(map(len, places)) > 45 else {}
    axes.set_xticks(range(len(places)), places, **slanted)


def _is_wide(values: Iterable[float]) -> bool:
    """Are they so different that the small ones would look alike? The pages have the same rule."""
    known = [value for value in values if value == value]
    return bool(known) and min(known) > 0 and max(known) >= 100 * min(known)


def _lines(axes: Any, points: List[_Point], places: List[str], labels: Tuple[str, Optional[str]]) -> None:
    y, by = labels
    for number, line in enumerate(in_order([point[1] for point in points])):
        own = [point for point in points if point[1] == line]
        low = [point[3] - point[4][0] if point[4] else 0.0 for point in own]
        high = [point[4][1] - point[3] if point[4] else 0.0 for point in own]
        at = [places.index(point[2]) for point in own]
        look = {"marker": "osD^Pv"[number % 6], "color": _COLOURS[number % len(_COLOURS)], "capsize": 3}
        axes.errorbar(at, [point[3] for point in own], yerr=[low, high], label=line or None, **look)
    is_wide = _is_wide([point[3] for point in points])
    axes.set_ylabel(f"{y} (logarithmic)" if is_wide else y)
    if is_wide:
        axes.set_yscale("log")
    elif all(point[3] >= 0 for point in points):
        axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    if by is not None:
        axes.legend(title=axis_label(by), frameon=False)


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _heat_map(figure: Any, axes: Any, points: List[_Point], places: List[str], labels: Tuple[str, str]) -> None:
    lines = in_order([point[1] for point in points])
    means = {(point[1], point[2]): point[3] for point in points}
    values = [[means.get((line, at), float("nan")) for at in places] for line in lines]
    image = axes.imshow(values, aspect="auto", cmap="Blues", norm="log" if _is_wide(means.values()) else None)
    figure.colorbar(image, ax=axes, label=labels[0])
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            if value == value:
                axes.text(column, row, _number(value), ha="center", va="center", color="white" if image.norm(value) > 0.5 else "black")
    axes.set_yticks(range(len(lines)), lines)
    axes.set_ylabel(labels[1])
