"""Where the rows of a sweep go: a folder of this machine, or whatever fsspec knows."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from typing import Any, Iterator, Protocol, Tuple, Union

from ._native import InputError, SweepDone, SweepFolder, SweepPlan

__all__ = ["Store", "open_store", "place_of", "stored_parts"]


class Store(Protocol):
    """A data set that gets parts."""

    def done(self) -> SweepDone:
        """The cells that have their rows."""

    def add(self, name: str, parquet: bytes) -> None:
        """Writes a part, whole or not at all."""


#: Stores in which an object appears when all of it is there.
_ATOMIC = {"memory", "s3", "s3a", "gs", "gcs", "abfs", "az", "adl"}
_MANIFEST = "_sweep.json"


class _Files:
    """The files at an address."""

    def __init__(self, address: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise InputError(f"{address}: needs the package fsspec; install it, or give a folder") from None
        self.address = address
        self.fs: Any
        try:
            self.fs, self.root = fsspec.core.url_to_fs(address)
        except (ImportError, ValueError) as error:
            raise InputError(f"{address}: {error}") from None

    @contextlib.contextmanager
    def _named(self, name: str, what: str) -> Iterator[None]:
        """Errors of a store name neither it nor the file."""
        try:
            yield
        except Exception as error:
            raise OSError(f"{self.address}{name}: cannot be {what}: {error}") from error

    def names(self) -> list[str]:
        with self._named("", "listed"):
            self.fs.invalidate_cache()
            if not self.fs.exists(self.root):
                return []
            return [str(path).rstrip("/").rpartition("/")[2] for path in self.fs.ls(self.root, detail=False)]

    def read(self, name: str) -> bytes:
        with self._named(f"/{name}", "read"):
            return bytes(self.fs.cat_file(f"{self.root}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        """Writes a file, whole or not at all. What a killed process left behind has a name that readers skip."""
        path = f"{self.root}/{name}"
        protocols = {self.fs.protocol} if isinstance(self.fs.protocol, str) else set(self.fs.protocol)
        with self._named(f"/{name}", "written"):
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

    def parts(self) -> Iterator[Tuple[str, bytes]]:
        for name in sorted(self.names()):
            if name.startswith("part-") and name.endswith(".parquet"):
                yield f"{self.address}/{name}", self.read(name)


class _Remote:
    def __init__(self, address: str, plan: SweepPlan) -> None:
        self.files = _Files(address)
        names, manifest = self.files.names(), plan.manifest().encode()
        if _MANIFEST in names:
            found = self.files.read(_MANIFEST)
            plan.check_manifest(address, found.decode(errors="replace"))
            if found == manifest:
                return
        elif any(not name.startswith(".") for name in names):
            raise InputError(f"{address}: has files, but no {_MANIFEST}; expected a new place, or that of this sweep")
        self.files.write(_MANIFEST, manifest)

    def done(self) -> SweepDone:
        return SweepDone.of_parts(self.files.parts())

    def add(self, name: str, parquet: bytes) -> None:
        self.files.write(name, parquet)


def stored_parts(address: str) -> Iterator[Tuple[str, bytes]]:
    """The parts of a data set at an address that fsspec knows."""
    return _Files(address.rstrip("/")).parts()


def place_of(out: Union[str, "os.PathLike[str]"]) -> str:
    """The text of a folder, or of an address with ``://``."""
    text = os.fspath(out)
    if not isinstance(text, str) or not text:
        raise InputError(f"out: {out!r} was found; expected a folder, or an address such as s3://bucket/name")
    if isinstance(out, os.PathLike) and re.match(r"[a-z][a-z0-9+.-]+:/[^/]", text):
        raise InputError(f"out: {text}: a Path has one slash where an address has two; give the address as a text")
    return text[len("file://") :] if text.startswith("file://") else text


def open_store(out: str, plan: SweepPlan) -> Store:
    """A folder, or an address with ``://``. Refuses one that has something else in it."""
    return _Remote(out.rstrip("/"), plan) if "://" in out else SweepFolder.open(out, plan)
