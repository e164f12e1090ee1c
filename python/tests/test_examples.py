"""Every example in docstrings, in the README and in the pages about Python."""

import doctest
import inspect
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


@pytest.mark.parametrize("name", [name for name in dumbwaiter.__all__ if name not in ("__version__", "trace")])
def test_what_is_public_says_what_it_is(name):
    public = getattr(dumbwaiter, name)
    assert public.__doc__, name
    for member, of in vars(public).items() if isinstance(public, type) else ():
        if not member.startswith("_") and (callable(of) or inspect.isdatadescriptor(of) or isinstance(of, (classmethod, staticmethod))):
            assert of.__doc__, f"{name}.{member}"
    # Those of the native module; the others are tested above.
    for example in doctest.DocTestFinder(recurse=False).find(public, name, module=False, globs={}):
        assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page):
    assert doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
