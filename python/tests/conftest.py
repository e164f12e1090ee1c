import os
import pathlib
import signal
from typing import Iterator

import pytest

# A script's background jobs ignore Ctrl-C, and so do the programs that they start: tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(ROOT)
    yield


@pytest.fixture(scope="session")
def command() -> str:
    """The command that the package is compared with."""
    path = os.environ.get("DUMBWAITER", str(ROOT / "target/release/dumbwaiter"))
    if not os.path.exists(path):
        pytest.skip(f"no command at {path}: build it, or set DUMBWAITER")
    return path
