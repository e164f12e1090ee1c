"""Block traces: statistics, reading and writing."""

from __future__ import annotations

from os import PathLike
from typing import Any, Dict, Optional, Union

from ._native import Stream, trace_read, trace_stat, trace_write
from ._tables import trace_table

__all__ = ["read", "stat", "write"]

_Path = Union[str, "PathLike[str]"]


def stat(path: _Path, *, format: Optional[str] = None, columns: Optional[str] = None) -> Dict[str, Any]:
    """Statistics of a trace: the keys that ``dumbwaiter trace stat --json`` writes. The format is found by content."""
    return trace_stat(path, format=format, columns=columns)


def read(path: _Path, *, format: Optional[str] = None, columns: Optional[str] = None) -> Stream:
    """The records of a trace as an Arrow stream of batches, so that a trace larger than memory works.

    Columns: ``time_us`` since the first record, ``op``, ``offset_bytes``, ``size_bytes``, ``device``, ``task``, and
    ``latency_us`` where the trace has it. Read it with ``pyarrow.RecordBatchReader.from_stream``, ``polars.DataFrame``, duckdb,
    or batch by batch: ``for table in dw.trace.read(path)``.
    """
    return trace_read(path, format=format, columns=columns)


def write(table: Any, path: _Path, format: str = "columns", *, columns: Optional[str] = None) -> int:
    """Writes a table as a trace and returns the number of records.

    ``format`` is one of ``dumbwaiter trace formats``; ``columns`` says which ones delimited text gets.
    """
    return trace_write(trace_table(table), path, format, columns=columns)
