"""Tables of other libraries as traces."""

from __future__ import annotations

from array import array
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ._native import InputError, TraceTable

__all__ = ["is_table", "trace_table"]


def is_table(what: object) -> bool:
    """Is this a table: does it offer the Arrow C stream interface, or is it a pandas frame or a dict of columns?"""
    return hasattr(what, "__arrow_c_stream__") or _is_pandas(what) or _is_dict_of_columns(what)


def _is_dict_of_columns(what: object) -> bool:
    """A dict with the keys of a scenario has none of these."""

    def is_column(name: object, values: object) -> bool:
        kind = str(name).partition("_")[0]
        return kind in ("time", "op", "offset", "size") and hasattr(values, "__len__") and not isinstance(values, (str, Mapping))

    return isinstance(what, Mapping) and any(is_column(name, values) for name, values in what.items())


def _is_pandas(what: object) -> bool:
    return type(what).__module__.partition(".")[0] == "pandas" and hasattr(what, "columns")


def trace_table(table: Any, *, times: bool = True) -> TraceTable:
    """The columns of a table that belong to a trace; numbers are not copied."""
    if isinstance(table, TraceTable):
        return table
    if _is_pandas(table):
        return TraceTable.from_buffers(_pandas_columns(table), times=times)
    if isinstance(table, Mapping):
        return TraceTable.from_buffers(_dict_columns(table), times=times)
    if not hasattr(table, "__arrow_c_stream__"):
        raise InputError(f"{type(table).__name__} was found; expected a table of pandas, polars or pyarrow, or a dict of columns")
    return TraceTable.from_arrow(table, times=times)


_KINDS = ("time", "gap", "latency", "wait", "offset", "size", "op", "device", "host", "major", "minor", "task", "sync")


def _refused(name: str, why: str) -> InputError:
    error = InputError(f'table, column "{name}": {why}')
    error.file, error.line, error.key = None, None, name
    return error


#: Its name, a buffer of numbers, and the words that they stand for.
_Column = Tuple[str, object, Optional[List[str]]]


def _pandas_columns(frame: Any) -> List[_Column]:
    """Through numpy, which pandas has; pyarrow, which it may lack, is not needed."""
    named = ((str(label), label) for label in frame.columns)
    columns = [_pandas_column(name, frame[label]) for name, label in named if name.partition("_")[0] in _KINDS]
    return _some(columns, frame.columns)


def _pandas_column(name: str, series: Any) -> _Column:
    if getattr(series, "ndim", 1) != 1:
        raise _refused(name, "occurs more than once")
    missing = series.isna()
    if missing.any():
        raise _refused(name, f"row {int(missing.to_numpy().argmax())}: null")
    kind = series.dtype.kind if hasattr(series.dtype, "kind") else "O"
    if kind in "iuf":
        return _numbers(name, series.to_numpy(dtype=f"{kind}{_bytes(series.dtype)}"))
    if kind in "mMb":
        raise _refused(name, _unfit(series.dtype))
    import pandas

    codes, words = pandas.factorize(series)
    if not all(isinstance(word, str) for word in words):
        # Objects or categories that are numbers; what is neither is refused by its row.
        return _plain_column(name, series.tolist())
    return name, codes, [str(word) for word in words]


def _bytes(dtype: Any) -> int:
    """Of a number in a pandas column; sparse ones have the type of their values apart."""
    return int(getattr(dtype, "subtype", dtype).itemsize)


def _numbers(name: str, values: Any) -> _Column:
    """An array of numpy as it is, or, where its numbers have a form that few use, in the nearest common one."""
    if values.dtype.kind == "f" and values.dtype.itemsize not in (4, 8):
        values = values.astype("f8")
    values = values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))
    return name, values if values.flags.c_contiguous else values.copy(), None


def _unfit(dtype: Any) -> str:
    """Why times of day, lengths of time and truth values are not taken."""
    say = f"is of type {dtype}; expected numbers or words"
    if getattr(dtype, "kind", "") in "mM":
        say += ', such as microseconds: (frame["time"] - frame["time"].min()) / pandas.Timedelta("1us")'
    return say


def _some(columns: List[_Column], labels: Any) -> List[_Column]:
    if not columns:
        found = ", ".join(dict.fromkeys(map(str, labels)))
        raise _refused("time_us", f"is missing; found {found}; expected time_us, op, offset_bytes, size_bytes")
    return columns


def _dict_columns(table: Mapping[Any, Any]) -> List[_Column]:
    """Arrays of numpy as they are, lists and texts as numbers."""
    named = ((str(label), values) for label, values in table.items())
    return [_plain_column(name, values) for name, values in named if name.partition("_")[0] in _KINDS]


def _plain_column(name: str, values: Any) -> _Column:
    if type(values).__module__.partition(".")[0] == "pandas" and hasattr(values, "factorize"):
        import pandas

        # An index and an array of pandas too.
        return _pandas_column(name, pandas.Series(values))
    if hasattr(values, "to_pylist"):
        values = values.to_pylist()
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if getattr(values, "ndim", 1) != 1:
        raise _refused(name, f"has {values.ndim} dimensions; expected an array of one")
    masked = getattr(values, "mask", None)
    if masked is not None and getattr(masked, "any", lambda: False)():
        raise _refused(name, f"row {int(masked.argmax())}: null")
    if kind is not None and kind in "iuf":
        return _numbers(name, values)
    if kind is not None and kind in "mMb":
        raise _refused(name, _unfit(values.dtype))
    if isinstance(values, array):
        return name, values, None
    try:
        plain = [value.item() if hasattr(value, "item") else value for value in values]
    except TypeError:
        raise _refused(name, f"{values!r} was found; expected a list or an array") from None
    kinds = {type(value) for value in plain}
    if kinds <= {str}:
        words: Dict[str, int] = {}
        return name, array("q", [words.setdefault(word, len(words)) for word in plain]), list(words)
    if kinds <= {int}:
        try:
            return name, array("q", plain), None
        except OverflowError:
            row = next(row for row, value in enumerate(plain) if not -(1 << 63) <= value < 1 << 63)
            raise _refused(name, f"row {row}: {plain[row]} has more than 64 bits") from None
    if kinds <= {int, float}:
        return name, array("d", plain), None
    fitting = {str} if str in kinds else {int, float}
    row = next(row for row, value in enumerate(plain) if type(value) not in fitting)
    what = "null" if plain[row] is None else f"{plain[row]!r} is of type {type(plain[row]).__name__}; expected numbers or words"
    raise _refused(name, f"row {row}: {what}")
