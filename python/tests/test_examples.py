"""Every example in docstrings, in the README and in the pages about Python."""

import doctest
import pathlib
import pkgutil

import pytest

import dumbwaiter

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "python/README.md", *sorted((ROOT / "docs").glob("python*.md"))]


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(dumbwaiter.__path__) if module.name[:2] != "__"])
def test_docstrings(name):
    if name == "gym":
        pytest.importorskip("gymnasium")
    module = __import__(f"dumbwaiter.{name}", fromlist=["_"])
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page):
    assert doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
