"""Tables of other libraries as traces."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Tuple

from ._native import InputError, TraceTable

__all__ = ["is_table", "trace_table"]


def is_table(what: object) -> bool:
    """Is this a table: does it offer the Arrow C stream interface, or is it a pandas frame?"""
    return hasattr(what, "__arrow_c_stream__") or _is_pandas(what)


def _is_pandas(what: object) -> bool:
    return type(what).__module__.partition(".")[0] == "pandas" and hasattr(what, "columns")


def trace_table(table: Any, *, times: bool = True) -> TraceTable:
    """The columns of a table that belong to a trace; numbers are not copied."""
    if isinstance(table, TraceTable):
        return table
    if _is_pandas(table):
        return TraceTable.from_buffers(_pandas_columns(table), times=times)
    return TraceTable.from_arrow(table, times=times)


_KINDS = ("time", "gap", "latency", "wait", "offset", "size", "op", "device", "host", "major", "minor", "task", "sync")


def _refused(name: str, why: str) -> InputError:
    error = InputError(f'table, column "{name}": {why}')
    error.file, error.line, error.key = None, None, name
    return error


def _pandas_columns(frame: Any) -> List[Tuple[str, object, Optional[List[str]]]]:
    """Through numpy, which pandas has; pyarrow, which it may lack, is not needed."""
    columns: List[Tuple[str, object, Optional[List[str]]]] = []
    for label in frame.columns:
        name = str(label)
        if name.partition("_")[0] not in _KINDS:
            continue
        series = frame[label]
        if getattr(series, "ndim", 1) != 1:
            raise _refused(name, "occurs more than once")
        missing = series.isna()
        if missing.any():
            raise _refused(name, f"row {int(missing.to_numpy().argmax())}: null")
        kind = series.dtype.kind if hasattr(series.dtype, "kind") else "O"
        if kind in "iuf":
            values = series.to_numpy(dtype=f"{kind}{series.dtype.itemsize}")
            columns.append((name, values if values.flags.c_contiguous else values.copy(), None))
            continue
        if kind in "mMb":
            raise _refused(name, f"is of type {series.dtype}; expected numbers or words")
        import pandas

        codes, words = pandas.factorize(series)
        wrong = next((word for word in words if not isinstance(word, str)), None)
        if wrong is not None:
            row = int((codes == list(words).index(wrong)).argmax())
            raise _refused(name, f"row {row}: {wrong!r} is of type {type(wrong).__name__}; expected numbers or words")
        columns.append((name, codes, [str(word) for word in words]))
    if not columns:
        found: Mapping[str, object] = {str(label): None for label in frame.columns}
        raise _refused("time_us", f"is missing; found {', '.join(found)}; expected time_us, op, offset_bytes, size_bytes")
    return columns
