"""Where the rows of a sweep go: a folder of this machine, or whatever fsspec knows."""

from __future__ import annotations

import uuid
from typing import Any, Iterator, Protocol, Tuple

from ._native import InputError, SweepDone, SweepFolder, SweepPlan

__all__ = ["Store", "open_store"]


class Store(Protocol):
    """A data set that gets parts."""

    def done(self) -> SweepDone:
        """The cells that have their rows."""

    def add(self, name: str, parquet: bytes) -> None:
        """Writes a part, whole or not at all."""


#: Stores in which an object appears when all of it is there.
_ATOMIC = {"memory", "s3", "s3a", "gs", "gcs", "abfs", "az", "adl"}
_MANIFEST = "_sweep.json"


class _Remote:
    def __init__(self, address: str, plan: SweepPlan) -> None:
        try:
            import fsspec
        except ImportError:
            raise InputError(f"{address}: needs the package fsspec; install it, or give a folder") from None
        self.address = address
        self.fs: Any
        self.fs, self.root = fsspec.core.url_to_fs(address)
        names = self._names()
        if _MANIFEST in names:
            plan.check_manifest(address, self.fs.cat_file(f"{self.root}/{_MANIFEST}").decode())
        elif names:
            raise InputError(f"{address}: has files, but no {_MANIFEST}; expected a new place, or that of this sweep")
        self._write(_MANIFEST, plan.manifest().encode())

    def _names(self) -> list[str]:
        self.fs.invalidate_cache()
        if not self.fs.exists(self.root):
            return []
        return [str(path).rstrip("/").rpartition("/")[2] for path in self.fs.ls(self.root, detail=False)]

    def _write(self, name: str, content: bytes) -> None:
        path = f"{self.root}/{name}"
        protocols = {self.fs.protocol} if isinstance(self.fs.protocol, str) else set(self.fs.protocol)
        try:
            if protocols & _ATOMIC:
                self.fs.pipe_file(path, content)
                return
            self.fs.makedirs(self.root, exist_ok=True)
            unfinished = f"{self.root}/.{uuid.uuid4().hex}.part"
            try:
                self.fs.pipe_file(unfinished, content)
                self.fs.mv(unfinished, path)
            except BaseException:
                if self.fs.exists(unfinished):
                    self.fs.rm(unfinished)
                raise
        except Exception as error:
            raise OSError(f"{self.address}/{name}: cannot be written: {error}") from error

    def done(self) -> SweepDone:
        return SweepDone.of_parts(self._parts())

    def _parts(self) -> Iterator[Tuple[str, bytes]]:
        for name in sorted(self._names()):
            if name.startswith("part-") and name.endswith(".parquet"):
                yield f"{self.address}/{name}", self.fs.cat_file(f"{self.root}/{name}")

    def add(self, name: str, parquet: bytes) -> None:
        self._write(name, parquet)


def open_store(out: str, plan: SweepPlan) -> Store:
    """A folder, or an address with ``://``. Refuses one that has something else in it."""
    if out.startswith("file://"):
        out = out[len("file://") :]
    if "://" in out:
        return _Remote(out.rstrip("/"), plan)
    folder = SweepFolder.open(out, plan)
    return folder
